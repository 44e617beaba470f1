"""Imports follow the layers without cycles, private modules are only imported in their room, and imports do no work."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from tests._modules import MODULES, ROOT, each_module, name_of, parsed, part_of

HEAVY = ("torch", "transformers", "lm_eval", "datasets")
LATE = ("ragtasks.judges", "ragtasks.results", "ragtasks.metrics", "ragtasks.suites")
"""Parts required by few commands: importing them would cost every other command a second."""

# A part may import from parts with a smaller number and from itself. DESIGN.md, "Imports point one way".
LAYERS = {
    "ragtasks.errors": 0,
    "ragtasks.records": 0,
    "ragtasks.languages": 1,
    "ragtasks.plugins": 1,
    "ragtasks.progress": 1,
    "ragtasks.requirements": 1,
    "ragtasks.tables": 1,
    "ragtasks.thoughts": 1,
    "ragtasks.files": 2,
    "ragtasks.benchmarks": 3,
    "ragtasks.clients": 3,
    "ragtasks.prompts": 3,
    "ragtasks.statistics": 3,
    "ragtasks.config": 4,
    "ragtasks.metrics": 4,
    "ragtasks.judges": 5,
    "ragtasks.published": 5,
    "ragtasks.suites": 6,
    "ragtasks.results": 7,
    "ragtasks.scoring": 8,
    "ragtasks.harness": 9,
    "ragtasks.reports": 9,
    "ragtasks.submissions": 9,
    "ragtasks.api": 10,
    "ragtasks.cli": 11,
    "ragtasks.__main__": 12,
    "ragtasks.arena": 12,
    "ragtasks.synthesis": 13,
}
READ_BY_RETRIEVAL = {
    "ragtasks.benchmarks",
    "ragtasks.clients",
    "ragtasks.errors",
    "ragtasks.files",
    "ragtasks.records",
    "ragtasks.plugins",
    "ragtasks.metrics",  # the metrics of `evaluate-run`
    "ragtasks.progress",
    "ragtasks.requirements",
    "ragtasks.statistics",
    "ragtasks.tables",
    "ragtasks.prompts",
    "ragtasks.published",
}
# Rewriting is retrieval: the score of a rewritten question is computed by a retriever during the evaluation. The Python
# API and the command line are the outermost layers: they resolve data and runs from the environment. Synthesis segments
# its documents like corpora, and trains models used by the precompute stage.
MAY_CALL_RETRIEVAL = {"ragtasks.api", "ragtasks.arena", "ragtasks.cli", "ragtasks.scoring", "ragtasks.synthesis"}
MAY_READ_ENVIRONMENT = {
    "ragtasks.api",
    "ragtasks.arena",
    "ragtasks.cli",
    "ragtasks.harness",
    "ragtasks.scoring",
    "ragtasks.synthesis",
}
SET_VARIABLES = {"ragtasks.__main__", "retrieval_cache.engines.ray_workers"}
"""Modules that set a variable for a library, but read none."""
OPTIONAL = ("ragtasks.arena", "ragtasks.synthesis", "retrieval_cache.engines")
"""Optional parts, which import other parts and are named only by entry points."""


NAMES = {name_of(path): path for path in MODULES}


@cache
def imported(path: Path) -> list[str]:
    """Return every module that a file imports, including imports in functions."""
    return list(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in NAMES else str(node.module)


def imported_at_run_time(path: Path) -> set[str]:
    """Return the modules that a file imports, except under `if TYPE_CHECKING`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = [ast.Pass()]
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (inner & NAMES.keys()) | ({str(node.module)} if inner - NAMES.keys() else set())
    return found & NAMES.keys()


def circle(arrows: Mapping[str, set[str]]) -> list[str]:
    """Return a cycle of imports, or []."""
    done: set[str] = set()

    def walk(name: str, way: list[str]) -> list[str]:
        if name in way:
            return way[way.index(name) :]
        if name in done:
            return []
        found = next(filter(None, (walk(other, [*way, name]) for other in sorted(arrows[name]))), [])
        done.add(name)
        return found

    return next(filter(None, (walk(name, []) for name in sorted(arrows))), [])


def test_no_circle_between_files() -> None:
    arrows = {name: imported_at_run_time(path) - {name} for name, path in NAMES.items()}
    assert circle(arrows) == []
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"]


@each_module
def test_imports_follow_the_layers(path: Path) -> None:
    own = part_of(name_of(path))
    for module in imported(path):
        part = part_of(module)
        if own == "ragtasks":  # the package's own file re-exports the API lazily
            api = {"ragtasks.api", "ragtasks.errors", "ragtasks.metrics"}
            assert part in api or not part.startswith("ragtasks"), f"imports {module}"
        elif own == "retrieval_cache":
            assert not part.startswith("ragtasks") or part in READ_BY_RETRIEVAL, f"imports {module}"
        elif part == "retrieval_cache":
            assert own in MAY_CALL_RETRIEVAL, f"imports {module}: the two packages meet at a file format"
            assert module == "retrieval_cache", f"imports {module}: `retrieval_cache` has one face"
        elif part.startswith("ragtasks") and part != own:
            assert own in LAYERS, f"{own} has no layer: say in this test where it belongs"
            assert part != "ragtasks", "imports the package's face: importlib.metadata knows the version"
            assert LAYERS[part] < LAYERS[own] or LAYERS[own] == LAYERS[part] == 0, f"imports {module}"


@each_module
def test_the_core_imports_no_optional_part(path: Path) -> None:
    if not name_of(path).startswith(OPTIONAL):
        assert not [module for module in imported(path) if module.startswith(OPTIONAL)]


@each_module
def test_private_modules_are_imported_in_their_own_folder_only(path: Path) -> None:
    own = name_of(path)
    for module in imported(path):
        folder, _, leaf = module.rpartition(".")
        if module in NAMES and leaf.startswith("_"):
            assert own == folder or own.startswith(f"{folder}."), f"{own} imports {module}: import from {folder}"


TESTS = ROOT / "tests"
FACES = {
    (str(node.module), alias.name): name
    for name, path in NAMES.items()
    if path.name == "__init__.py"
    for node in ast.walk(parsed(path))
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}
"""(private module, name) -> public module that exports the name."""


def private_modules(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (private module of a room, name in it, or "") for each private module that a test imports or names in
    text.
    """
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom):
            written = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):  # patched, or used in another process
            written = re.findall(r"\b(?:ragtasks|retrieval_cache)(?:\.\w+)+", node.value)
        else:
            continue
        for name in written:
            parts = name.split(".")
            heads = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
            module = next((head for head in heads if head in NAMES), "")
            if "._" in module.removeprefix(part_of(module)):
                yield module, name.removeprefix(module)[1:] if isinstance(node, ast.ImportFrom) else ""


@pytest.mark.parametrize("folder", sorted({path.relative_to(TESTS).parts[0] for path in TESTS.rglob("*.py")}))
def test_tests_import_public_modules_or_their_own_room(folder: str) -> None:
    for path in [TESTS / folder] if folder.endswith(".py") else (TESTS / folder).rglob("*.py"):
        for module, name in private_modules(path):
            room = part_of(module)
            assert folder == room.removeprefix("ragtasks."), f"{path}: {module} is private, use the face of {room}"
            assert (module, name) not in FACES, f"{path}: import {name} from {FACES[module, name]}"


def test_the_architecture_page_names_the_existing_modules() -> None:
    """Every module is in the row of its room, and no removed private module. Suites and `retrieval_cache` are
    summarized.
    """
    page = (ROOT / "docs" / "background" / "architecture.md").read_text(encoding="utf-8")
    for room, row in re.findall(r"^\| `(ragtasks/\w+)/` \| [^|]* \| (.*) \|$", page, re.MULTILINE):
        named = set(re.findall(r"`(\w+)/?`", row))
        files = {path.relative_to(ROOT / room).with_suffix("").parts[0] for path in (ROOT / room).rglob("*.py")}
        there = files - {"__init__"}
        if room != "ragtasks/suites":
            assert there <= named, f"architecture.md, {room}: {sorted(there - named)} is not named"
        gone = {name for name in named if name.startswith("_")} - there
        assert not gone, f"architecture.md, {room}: {sorted(gone)} is gone"
    stage = page[page.index("## The precompute stage") : page.index("## Layers")]
    for path in (ROOT / "retrieval_cache").iterdir():
        if path.suffix == ".py" or (path / "__init__.py").is_file():
            assert path.name in stage, f"architecture.md, the precompute stage: {path.name} is not named"
    for name in re.findall(r"(?:ragtasks|retrieval_cache)/[\w/]+\.py", page):
        assert (ROOT / name).is_file() or "NAME" in name, f"architecture.md: {name} is gone"


@each_module
def test_only_the_harness_part_imports_lm_eval(path: Path) -> None:
    if part_of(name_of(path)) != "ragtasks.harness":
        assert "lm_eval" not in {part_of(module) for module in imported(path)}


@each_module
def test_only_outer_parts_read_the_environment(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if name_of(path) not in {"ragtasks.config.environment", *SET_VARIABLES}:
        assert "os.environ" not in text
        assert "getenv" not in text
    if "ragtasks.config.environment" in set(imported(path)):
        assert part_of(name_of(path)) in MAY_READ_ENVIRONMENT


def loaded_after(*modules: str, of: tuple[str, ...] = HEAVY) -> set[str]:
    """Return the libraries or parts loaded by a new process after importing modules, with warnings as errors."""
    code = (
        f"import importlib, sys; [importlib.import_module(name) for name in {modules!r}];"
        f"print(*(name for name in {of!r} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, capture_output=True, text=True)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_importing_the_package_and_the_command_line_loads_nothing_heavy() -> None:
    assert loaded_after("ragtasks", "ragtasks.cli", of=(*HEAVY, *LATE, *OPTIONAL)) == set()


def test_the_help_loads_only_the_commands_of_optional_parts() -> None:
    code = "from ragtasks.cli import app; import typer.main; typer.main.get_command(app).list_commands(None)"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"], check=True, capture_output=True, text=True
    )
    loaded = {name for name in done.stdout.split() if name.startswith(OPTIONAL)}
    commands = {"ragtasks.arena.commands", "ragtasks.synthesis.commands", "ragtasks.synthesis.review_commands"}
    assert loaded == {"ragtasks.arena", "ragtasks.arena.votes", "ragtasks.synthesis", *commands}
    assert not set(HEAVY + LATE) & set(done.stdout.split())


def test_importing_every_part_but_the_harness_loads_nothing_heavy() -> None:
    outside = [name for name in NAMES if part_of(name) not in {"ragtasks.harness", "ragtasks"} or name == "ragtasks"]
    ours = [name for name in outside if name.startswith("ragtasks")]
    assert loaded_after(*ours, "ragtasks.harness.link") == set()
