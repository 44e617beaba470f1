"""Imports point one way, and importing does no work."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted(path for package in ("ragtasks", "retrieval_cache") for path in (ROOT / package).rglob("*.py"))
ONE_SYSTEM_ONLY = {"fcntl", "grp", "msvcrt", "pwd", "resource", "termios", "winreg"}
HEAVY = ("torch", "transformers", "lm_eval", "datasets")

# A part may import from parts with a smaller number, and from itself. DESIGN.md, "Imports point one way".
LAYERS = {
    "ragtasks": 0,
    "ragtasks.records": 0,
    "ragtasks.errors": 0,
    "ragtasks.atomic_files": 0,
    "ragtasks.ids": 0,
    "ragtasks.environment": 0,
    "ragtasks.progress": 0,
    "ragtasks.rewrite_replies": 0,
    "ragtasks.secrets": 0,
    "ragtasks.benchmarks": 1,
    "ragtasks.prompts": 1,
    "ragtasks.statistics": 1,
    "ragtasks.saved_results": 1,
    "ragtasks.runs": 2,
    "ragtasks.clients": 3,
    "ragtasks.config": 4,
    "ragtasks.docs": 4,
    "ragtasks.metrics": 4,
    "ragtasks.templates": 4,
    "ragtasks.judges": 5,
    "ragtasks.logs": 5,
    "ragtasks.saved_answers": 6,
    "ragtasks.suites": 6,
    "ragtasks.harness": 7,
    "ragtasks.reports": 7,
    "ragtasks.submissions": 7,
    "ragtasks.rescoring": 8,
    "ragtasks.calibrating": 8,
    "ragtasks.trec_rag": 8,
    "ragtasks.doctor": 8,
    "ragtasks.cli": 9,
}
READ_BY_RETRIEVAL = {"ragtasks", "ragtasks.records", "ragtasks.errors", "ragtasks.ids"} | {
    "ragtasks.atomic_files",
    "ragtasks.benchmarks",
    "ragtasks.runs",
    "ragtasks.clients",
    "ragtasks.templates",
    "ragtasks.progress",
    "ragtasks.rewrite_replies",
    "ragtasks.statistics",
    "ragtasks.metrics",  # the retrieval metrics that runs are evaluated with
}
# Rewriting is retrieval: a rewritten question's figure is what a retriever finds while the evaluation runs.
MAY_CALL_RETRIEVAL = {"ragtasks.cli", "ragtasks.harness.searching"}
MAY_READ_ENVIRONMENT = {"ragtasks.harness", "ragtasks.doctor", "ragtasks.cli"}


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def part_of(module: str) -> str:
    """Return the part that a module belongs to: the first two names of ours, the first name of others."""
    names = module.split(".")
    return ".".join(names[:2]) if names[0] == "ragtasks" else names[0]


def imported(path: Path) -> Iterator[str]:
    """Yield every module that a file imports anywhere, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                is_module = (ROOT / inner.replace(".", "/")).is_dir() or (
                    ROOT / f"{inner.replace('.', '/')}.py"
                ).exists()
                yield inner if is_module else str(node.module)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_one_way(path: Path) -> None:
    own = part_of(name_of(path))
    for module in imported(path):
        part = part_of(module)
        if own == "retrieval_cache":
            assert not part.startswith("ragtasks") or part in READ_BY_RETRIEVAL, f"imports {module}"
        elif part == "retrieval_cache":
            allowed = {own, name_of(path)} & MAY_CALL_RETRIEVAL
            assert allowed, f"imports {module}: the two packages meet at a file format"
        elif part.startswith("ragtasks") and part != own:
            assert own in LAYERS, f"{own} has no layer: say in this test where it belongs"
            assert LAYERS[part] < LAYERS[own] or LAYERS[own] == LAYERS[part] == 0, f"imports {module}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_only_the_harness_part_imports_lm_eval(path: Path) -> None:
    if part_of(name_of(path)) != "ragtasks.harness":
        assert "lm_eval" not in {part_of(module) for module in imported(path)}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_module_imports_on_every_system(path: Path) -> None:
    """What one system alone has stands behind a test for it, or in the function that uses it."""
    statements = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.Import)]
    assert not {alias.name for node in statements for alias in node.names} & ONE_SYSTEM_ONLY


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_only_outer_parts_read_the_environment(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if name_of(path) != "ragtasks.environment":
        assert "os.environ" not in text
        assert "getenv" not in text
    if "ragtasks.environment" in set(imported(path)):
        assert part_of(name_of(path)) in MAY_READ_ENVIRONMENT


def loaded_after(*modules: str) -> set[str]:
    """Return the heavy libraries that a new process holds after importing some modules, warnings being errors."""
    code = (
        f"import importlib, sys; [importlib.import_module(name) for name in {modules!r}];"
        f"print(*(name for name in {HEAVY!r} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, capture_output=True, text=True)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_importing_the_package_and_the_command_line_loads_nothing_heavy() -> None:
    assert loaded_after("ragtasks", "ragtasks.cli") == set()


def test_importing_every_part_but_the_harness_loads_nothing_heavy() -> None:
    modules = [name_of(path) for path in MODULES if name_of(path).startswith("ragtasks")]
    outside = [name for name in modules if part_of(name) != "ragtasks.harness"]
    assert loaded_after(*outside, "ragtasks.harness.link") == set()
