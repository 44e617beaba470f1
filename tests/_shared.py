"""What is slow to make is made once, however many processes the tests are divided among; how often one is killed; how
another environment is filled.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from filelock import FileLock

KILLS = pytest.mark.parametrize(
    "n_kills", [pytest.param(3, marks=pytest.mark.engine), pytest.param(20, marks=pytest.mark.long)]
)
"""How often a process is killed: a few times beside the engines in CI, many times in `make long-test`."""

SITE = Path(__file__).parent / "_site"
"""Is in the PYTHONPATH of every process that a test starts."""


def of_all_processes(factory: pytest.TempPathFactory) -> Path:
    """Return the temporary folder that the processes share among which the tests are divided."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder that the first process fills, while the others wait for it.

    Args:
        factory: pytest's own fixture.
        name: of the folder, the same in every process.
        make: fills the empty folder.
    """
    base = of_all_processes(factory)
    folder, done = base / name, base / f"{name}.made"
    with FileLock(base / f"{name}.lock"):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


def install(python: Path, *what: str) -> None:
    """Install into the environment of another Python by the pip of this one; modules are compiled when imported."""
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile", *what]
    subprocess.run(command, check=True)


def harness_without_tasks(folder: Path) -> str:
    """Return a PYTHONPATH with the stock harness less its own tasks: indexing 14,000 YAMLs takes most of a short run.

    One test, and the wheel's check, run it whole.
    """
    (origin,) = find_spec("lm_eval").submodule_search_locations  # type: ignore[union-attr, misc]
    tasks = Path(origin) / "tasks"
    (folder / "lm_eval" / "tasks").mkdir(parents=True)
    for path in [*Path(origin).iterdir(), *tasks.glob("*.py"), tasks / "__pycache__"]:
        if path != tasks:
            (folder / path.relative_to(tasks.parents[1])).symlink_to(path)
    return os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
