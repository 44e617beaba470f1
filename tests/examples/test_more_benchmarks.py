"""The package with four more benchmarks: built and installed, it passes its own tests, and its names are found."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from importlib import invalidate_caches
from pathlib import Path

import pytest

from ragtasks.benchmarks import added_benchmark_names
from ragtasks.suites import suite_named
from tests._commands import run_command
from tests.examples._installed import EXAMPLES, install

PACKAGE = EXAMPLES / "more_benchmarks"
NAMES = ["coral", "faithdial", "liverag", "topiocqa"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install("more_benchmarks", tmp_path_factory)


@pytest.fixture
def visible(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process find the installed package."""
    monkeypatch.syspath_prepend(installed)
    invalidate_caches()


@pytest.mark.slow
def test_its_own_tests_pass_after_installation(installed: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(PACKAGE / "tests")]
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.usefixtures("visible")
def test_its_benchmarks_and_tasks_are_listed_with_ours() -> None:
    assert added_benchmark_names() == NAMES
    fetched, tasks = run_command("data", "fetch").out, run_command("tasks", "list").out
    for name in NAMES:
        assert re.search(rf"^\| {name} +\| tasks ", fetched, re.MULTILINE)
        assert re.search(rf"^\| {name} +\| {name}_reference ", tasks, re.MULTILINE)


@pytest.mark.usefixtures("visible")
@pytest.mark.parametrize("name", NAMES)
def test_its_benchmarks_are_described_and_have_a_suite_of_their_name(name: str) -> None:
    done = run_command("data", "describe", name, "--data", "sample")
    assert (done.status, done.err) == (0, "")
    assert f"# {name} (sample)" in done.out
    assert {metric.name for metric in suite_named(name).metrics} > {
        metric.name for metric in suite_named("mtrag").metrics
    }


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.name)
def test_it_imports_public_modules_of_ragtasks_only(path: Path) -> None:
    nodes = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.ImportFrom)]
    assert [node.module for node in nodes if "._" in f"{node.module}"] == []
