"""The project's source files, for tests that check all of them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("ragtasks", "retrieval_cache")
MODULES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    """Return the import name of a file."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def part_of(module: str) -> str:
    """Return the part of a module: the first two names of our modules, the first name of others."""
    names = module.split(".")
    return ".".join(names[:2]) if names[0] == "ragtasks" else names[0]


@cache
def tree_of(source: str) -> ast.Module:
    """Return the syntax tree of a text, which must not be modified."""
    return ast.parse(source)


def parsed(path: Path) -> ast.Module:
    """Return a file's syntax tree, which must not be modified."""
    return tree_of(path.read_text(encoding="utf-8"))


def each_module(check: Callable[[Path], None]) -> Callable[[str], None]:
    """Parametrize a test by part; a failure names the module."""

    def test(part: str) -> None:
        for path in parts[part]:
            try:
                check(path)
            except AssertionError as error:
                error.add_note(f"in {name_of(path)}")
                raise

    parts = {part: list(paths) for part, paths in groupby(MODULES, lambda path: part_of(name_of(path)))}
    test.__doc__ = check.__doc__
    marked: Callable[[str], None] = pytest.mark.parametrize("part", parts)(test)
    return marked
