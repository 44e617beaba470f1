"""Every module says what is public, in order, and forgets nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests._modules import each_module, parsed


def statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield a module's statements, those under a top-level `if` or `try` included."""
    for node in body:
        yield node
        if isinstance(node, (ast.If, ast.Try)):
            yield from statements([*node.body, *node.orelse])


def targets(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Assign):
        parts = [part for target in node.targets for part in getattr(target, "elts", [target])]
        yield from (part.id for part in parts if isinstance(part, ast.Name))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id


def commands(tree: ast.Module) -> set[str]:
    """Return the functions that typer calls, and its groups of them: their names are commands, no exports."""
    functions = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and any(".command(" in ast.unparse(d) for d in node.decorator_list)
    }
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    groups = {name for node in assigned if "typer.Typer(" in ast.unparse(node.value) for name in targets(node)}
    return functions | groups


def defined(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in statements(tree.body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        names.update(targets(node))
    return names


def imported(tree: ast.Module) -> set[str]:
    nodes = [node for node in statements(tree.body) if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name for node in nodes for alias in node.names}


def declared(tree: ast.Module) -> list[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and "__all__" in targets(node):
            return list(ast.literal_eval(node.value))
    return []


def ruff_order(name: str) -> tuple[int, list[tuple[int, int, str]]]:
    """Return the key of ruff's order: CONSTANTS, Classes, others, numbers in them by value."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2
    parts = re.findall(r"\d+|\D+", name)
    return kind, [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]


@each_module
def test_all_holds_the_public_names(path: Path) -> None:
    tree = parsed(path)
    exported, own = declared(tree), defined(tree) - {"__all__"}
    public = {name for name in own - commands(tree) if not name.startswith("_")}
    assert len(set(exported)) == len(exported)
    if not path.stem.startswith("_") or path.stem == "__init__":
        # A private module's names are its package's business.
        assert public - set(exported) == set(), "public and not in __all__"
    assert set(exported) - own - imported(tree) == set(), "in __all__ and not there"
    assert exported == sorted(exported, key=ruff_order)


@each_module
def test_every_module_opens_with_its_idea(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not text or ast.get_docstring(parsed(path))


@each_module
def test_a_package_file_holds_names_only(path: Path) -> None:
    if path.name == "__init__.py":
        assert not [node for node in parsed(path).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
