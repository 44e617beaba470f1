"""Every file, folder and module of this repository that the docs name exists."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_imports import LAYERS

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_TOP = (
    "ragtasks",
    "retrieval_cache",
    "task_yamls",
    "tests",
    "perf",
    "docs",
    "scripts",
    "examples",
    r"\.ci",
    r"\.github",
)
_PATH = re.compile(rf"(?<![\w./-])(?:{'|'.join(_TOP)})/[\w./*-]*")
_MODULE = re.compile(r"(?<![\w./-])(?:ragtasks|retrieval_cache)(?:\.\w+)+")
_GROUP = re.compile(r'"(ragtasks\.\w+)"')
_LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
_FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_PLACEHOLDER = re.compile(r"(?<![a-z])[A-Z]{2,}(?![a-z])(?!\.md)")
"""Placeholders such as NAME in `task_yamls/NAME/`, which match any file."""


def missing_paths(text: str) -> Iterator[str]:
    for path in set(_PATH.findall(text)):
        if not any(ROOT.glob(_PLACEHOLDER.sub("*", path.rstrip("./")))):
            yield path


def missing_modules(text: str) -> Iterator[str]:
    """Yield dotted names that are neither a module, nor a name in a module, nor a group of entry points."""
    sources = [file for package in ("ragtasks", "retrieval_cache") for file in (ROOT / package).rglob("*.py")]
    groups = {group for file in sources for group in _GROUP.findall(file.read_text(encoding="utf-8"))}
    named = {found for found in _MODULE.findall(text) if not re.search(r"\.(md|toml|yaml|json)$", found)}
    for name in named - groups:
        place = ROOT / name.replace(".", "/")
        if not place.is_dir() and not place.with_suffix(".py").exists():
            module, _, attribute = name.rpartition(".")
            found = importlib.import_module(module)
            if not _PLACEHOLDER.fullmatch(attribute) and not hasattr(found, attribute):
                yield name


def missing_links(document: Path, text: str) -> Iterator[str]:
    targets = {target for target in _LINK.findall(_FENCE.sub("", text)) if "://" not in target}
    return (target for target in targets if not (document.parent / target).exists())


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_paths_in_documents_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert sorted([*missing_paths(text), *missing_modules(text), *missing_links(document, text)]) == []


def test_documented_layers_are_those_of_the_import_test() -> None:
    page = (ROOT / "docs" / "background" / "architecture.md").read_text(encoding="utf-8")
    block = page.split("## Layers")[1].split("```")[1]
    written = [set(line.split("   ")[0].split(", ")) for line in block.strip().splitlines()]
    parts = {number: set() for number in sorted(LAYERS.values(), reverse=True)}
    for part, number in LAYERS.items():
        parts[number] |= {part.partition(".")[2]} - {""}
    assert written == list(parts.values())


def test_the_check_sees_what_is_missing() -> None:
    text = "`ragtasks/nothing.py`, task_yamls/NAME/README.md, ragtasks/records.py, ragtasks.records.Task, ragtasks.no"
    assert list(missing_paths(text)) == ["ragtasks/nothing.py"]
    assert list(missing_modules(text)) == ["ragtasks.no"]
    assert list(missing_links(ROOT / "README.md", "[a](docs/scale.md#x) [b](docs/none.md) [c](https://x.example)")) == [
        "docs/none.md"
    ]
