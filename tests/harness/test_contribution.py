"""The folder `task_yamls/mtrag` as a contribution to lm_eval: it works in a copy, by the harness's own conventions."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from lm_eval.tasks import TaskManager
from lm_eval.tasks._yaml_loader import load_yaml

from ragtasks.harness.tasks import task_folder
from tests.harness.conftest import SAMPLE

FOLDER = task_folder() / "mtrag"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the folder alone, as in a checkout of the harness."""
    return shutil.copytree(FOLDER, tmp_path / "mtrag", ignore=shutil.ignore_patterns("__pycache__"))


def test_a_copy_of_the_folder_loads_without_the_other_folders(copy: Path) -> None:
    manager = TaskManager(include_path=copy, include_defaults=False, metadata=SAMPLE)
    assert manager.all_tasks == NAMES
    loaded = manager.load(["mtrag", "mtrag_agentic"])
    assert sorted([*loaded["tasks"], *loaded["groups"]]) == NAMES
    sources = {task.config.metadata["config_source"] for task in loaded["tasks"].values()}
    assert {Path(source).parent for source in sources} == {copy}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_each_yaml_has_a_task_as_the_test_of_changed_files_requires(path: Path) -> None:
    """`new_tasks` in tests/utils.py of lm_eval reads `task` from every changed file that ends with `.yaml`."""
    assert load_yaml(path, resolve_func=False)["task"]


def test_the_yamls_use_exactly_the_names_of_the_folders_module() -> None:
    named = {name for path in FOLDER.glob("*yaml") for name in re.findall(r"!function (.+)", path.read_text("utf-8"))}
    exported = re.search(r"__all__ = (\[.*\])", (FOLDER / "task.py").read_text("utf-8"))
    assert exported
    assert named == {f"task.{name}" for name in yaml.safe_load(exported[1])}


def test_without_ragtasks_the_error_names_the_command_that_installs_it(copy: Path) -> None:
    # -S: without site-packages, so that no package is installed.
    done = subprocess.run([sys.executable, "-I", "-S", copy / "task.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("Next step: pip install ragtasks")


def test_a_missing_dependency_of_ragtasks_keeps_its_own_error(copy: Path) -> None:
    (copy / "ragtasks" / "harness").mkdir(parents=True)
    (copy / "ragtasks" / "harness" / "agentic.py").write_text("import absent_library\n", encoding="utf-8")
    code = f"import sys; sys.path.insert(0, {str(copy)!r}); import task"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'absent_library'"


def test_the_readme_of_a_copy_has_no_dead_link(copy: Path) -> None:
    targets = re.findall(r"\]\(([^)]+)\)", (copy / "README.md").read_text("utf-8"))
    assert [target for target in targets if "://" not in target and not (copy / target).is_file()] == []


@pytest.mark.engine
@pytest.mark.parametrize("alone", [True, False])
def test_the_stock_command_validates_every_name(alone: bool, copy: Path) -> None:
    """It reads the 14,000 YAMLs of lm_eval, and only looks the names up; other tests load the tasks."""
    folder = copy if alone else task_folder()
    names = ",".join(path.stem for path in folder.rglob("*.yaml") if not path.name.startswith("_"))
    command = [sys.executable, "-m", "lm_eval", "validate", "--include_path", str(folder), "--tasks", names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "All tasks found and valid"
