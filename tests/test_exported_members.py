"""A folder's `__init__.py` is the only list of its public names, and every module begins with a docstring."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests._modules import each_module, parsed


def statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield a module's statements, including those in a top-level `if` or `try`."""
    for node in body:
        yield node
        if isinstance(node, (ast.If, ast.Try)):
            yield from statements([*node.body, *node.orelse])


def targets(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Assign):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def imported(tree: ast.Module) -> set[str]:
    """Return the names that a package file imports from its own modules."""
    nodes = [node for node in statements(tree.body) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in nodes if str(node.module).split(".")[0] in {"ragtasks", "retrieval_cache"}]
    return {alias.asname or alias.name for node in ours for alias in node.names}


def declared(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        if "__all__" in targets(node):
            assert isinstance(node, ast.Assign)
            return list(ast.literal_eval(node.value))
    return None


def ruff_order(name: str) -> tuple[int, list[tuple[int, int, str]]]:
    """Return the sort key of ruff: CONSTANTS, Classes, others, with numbers by value."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2
    parts = re.findall(r"\d+|\D+", name)
    return kind, [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]


@each_module
def test_packages_export_names_and_modules_do_not(path: Path) -> None:
    exported = declared(parsed(path))
    if path.name != "__init__.py":
        assert exported is None, "`__all__` stands in `__init__.py` only"
    elif exported is not None:
        own = {name for node in parsed(path).body for name in targets(node)} - {"__all__"}
        public = {name for name in imported(parsed(path)) | own if name == "__version__" or name[0] != "_"}
        assert set(exported) == public
        assert len(set(exported)) == len(exported)
        assert exported == sorted(exported, key=ruff_order)


@each_module
def test_every_module_opens_with_its_idea(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not text or ast.get_docstring(parsed(path))


@each_module
def test_a_package_file_contains_only_names(path: Path) -> None:
    if path.name == "__init__.py":
        assert not [node for node in parsed(path).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
