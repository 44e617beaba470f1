"""Slow fixtures shared by all test processes, the number of kills, and setup of other environments."""

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
"""Number of kills of a process: few in CI, many in `make long-test`."""

SITE = Path(__file__).parent / "_site"
"""Folder in the PYTHONPATH of every process started by a test."""


def of_all_processes(factory: pytest.TempPathFactory) -> Path:
    """Return the temporary folder shared by the test processes."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder that the first process fills while the others wait.

    Args:
        factory: pytest's own fixture.
        name: name of the folder, equal in every process.
        make: function that fills the empty folder.
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
    """Install into the environment of another Python with the current pip. Modules are compiled at import."""
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile", *what]
    subprocess.run(command, check=True)


def harness_without_tasks(folder: Path) -> str:
    """Return a PYTHONPATH with the harness without its own tasks: indexing 14,000 YAMLs dominates short runs.

    One test, and the check of the wheel, use the complete harness.
    """
    (origin,) = find_spec("lm_eval").submodule_search_locations  # type: ignore[union-attr, misc]
    tasks = Path(origin) / "tasks"
    (folder / "lm_eval" / "tasks").mkdir(parents=True)
    for path in [*Path(origin).iterdir(), *tasks.glob("*.py"), tasks / "__pycache__"]:
        if path != tasks:
            (folder / path.relative_to(tasks.parents[1])).symlink_to(path)
    return os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
