"""Linking real installs of lm_eval: from a wheel, editable, and both in sequence in the same environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.harness.test_link import AWKWARD, snapshot, write_tasks

pytestmark = pytest.mark.network
HARNESS = "lm_eval==0.4.13"
NAMES = ["sample", "sample_one", "sample_two"]
LINK = "from ragtasks.harness.link import link, unlink, link_state\nfrom pathlib import Path\n"


@dataclass(frozen=True)
class Environment:
    """A virtual environment with the dependencies of lm_eval, but without the parent's lm_eval."""

    folder: Path
    dependencies: Path

    def run(self, *command: str) -> str:
        """Return the output of a command of this environment on both streams; it must succeed."""
        paths = [self.dependencies, Path(__file__).parents[2]]
        variables = {"PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONDONTWRITEBYTECODE": "1"}
        program = str(self.folder / "bin" / command[0])
        done = subprocess.run(
            [program, *command[1:]],
            env=os.environ | variables,
            cwd=self.folder,
            text=True,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def python(self, code: str) -> str:
        """Return the output of Python code."""
        return self.run("python", "-c", code)

    def install(self, *requirements: str) -> None:
        """Install without dependencies, with the setuptools of the parent environment."""
        pip = ["-m", "pip", "install", "-q", "--no-compile", "--no-deps", "--no-build-isolation"]
        self.run("python", *pip, "--disable-pip-version-check", *requirements)

    def harness_file(self) -> str:
        """Return the file that `import lm_eval` loads; the version shows that it is not an empty namespace."""
        return self.python("import lm_eval; assert lm_eval.__version__; print(lm_eval.__file__)").strip()


@pytest.fixture(scope="module")
def dependencies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dependencies")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith(("lm_eval", "ragtasks", "__")) and path.suffix != ".pth":
            (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture(scope="module")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, and the unpacked source without most of the harness's own task folders."""
    if find_spec("setuptools") is None or os.name != "posix":
        pytest.skip("needs setuptools to build an editable lm_eval, and POSIX paths")
    folder = tmp_path_factory.mktemp("downloads")
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--retries=1", "--timeout=20"]
    for archive_option in ("--only-binary=:all:", "--no-binary=:all:"):
        command = [*pip, "--no-build-isolation", archive_option, f"--dest={folder}", HARNESS]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"the package registry did not deliver {HARNESS}: {done.stderr.strip()[-300:]}")
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        few = [m for m in archive if not re.match(r"[^/]+/lm_eval/tasks/[^a_/][^/]*/", m.name)]
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # 3.11.4
        archive.extractall(folder, members=few, **safely)
    return folder


@pytest.fixture
def environment(tmp_path: Path, dependencies: Path) -> Environment:
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    return Environment(tmp_path / "venv", dependencies)


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    return write_tasks(tmp_path / AWKWARD)


def index(environment: Environment, arguments: str) -> list[str]:
    """Return our names in the order of a TaskManager's list, with duplicates."""
    code = f"from lm_eval.tasks import TaskManager\nprint(*TaskManager({arguments}).all_tasks)"
    return [name for name in environment.python(code).split() if name.startswith("sample")]


def check_link_and_unlink(environment: Environment, tasks: Path, install: Path) -> None:
    """Link and unlink in one install and compare its folder `install` before and after."""
    harness_file = environment.harness_file()
    stubs = Path(harness_file).parent / "tasks" / "ragtasks"
    before = snapshot(install)

    linked = environment.python(f"{LINK}print(*link(tasks=Path({str(tasks)!r})).written, sep='\\n')").splitlines()
    assert [Path(stub).stem for stub in linked] == NAMES
    assert all(Path(stub).is_relative_to(stubs) for stub in linked)
    assert environment.harness_file() == harness_file
    again = environment.python(f"{LINK}print(len(link(tasks=Path({str(tasks)!r})).written))")
    assert again.strip() == "0"

    # The stock command without a flag fails for an unknown name.
    assert "All tasks found and valid" in environment.run("lm_eval", "validate", "--tasks", ",".join(NAMES))
    # The index of both together, without the harness's 14,000 YAMLs.
    assert index(environment, f"include_defaults=False, include_path=[{str(stubs)!r}, {str(tasks)!r}]") == NAMES

    environment.python(f"{LINK}unlink()")
    assert environment.harness_file() == harness_file
    assert snapshot(install) == before


def site_packages(environment: Environment) -> Path:
    return next(environment.folder.glob("lib/python*/site-packages"))


def source_folder(downloads: Path) -> Path:
    return next(path for path in downloads.iterdir() if path.is_dir())


def test_an_editable_install_is_linked_and_unlinked(environment: Environment, tasks: Path, downloads: Path) -> None:
    source = source_folder(downloads)
    environment.install("-e", str(source))
    assert environment.harness_file() == str(source / "lm_eval" / "__init__.py")
    check_link_and_unlink(environment, tasks, source)


def test_a_wheel_install_is_linked_unlinked_and_replaced(
    environment: Environment, tasks: Path, downloads: Path
) -> None:
    environment.install(str(next(downloads.glob("*.whl"))))
    check_link_and_unlink(environment, tasks, site_packages(environment))

    # Linked again, then replaced by an editable install in one step: surviving stubs would leave a folder lm_eval that
    # shadows it.
    environment.python(f"{LINK}link(tasks=Path({str(tasks)!r}))")
    environment.install("-e", str(source_folder(downloads)))
    assert environment.harness_file() == str(source_folder(downloads) / "lm_eval" / "__init__.py")
    assert not (site_packages(environment) / "lm_eval").exists()
    state = environment.python(f"{LINK}print(link_state(tasks=Path({str(tasks)!r})).state.value)")
    assert state.strip() == "not linked"
