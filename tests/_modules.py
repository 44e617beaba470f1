"""The project's own source files, for tests that look at all of them."""

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
    """Return the name that a file is imported by."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def part_of(module: str) -> str:
    """Return the part that a module belongs to: the first two names of ours, the first name of others."""
    names = module.split(".")
    return ".".join(names[:2]) if names[0] == "ragtasks" else names[0]


@cache
def parsed(path: Path) -> ast.Module:
    """Return a file's syntax tree, which nobody changes."""
    return ast.parse(path.read_text(encoding="utf-8"))


def each_module(check: Callable[[Path], None]) -> Callable[[str], None]:
    """Make a test for each part of a check of one module, which is named where it fails."""

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
