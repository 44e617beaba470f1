"""docs/extending.md shows or links every file of the example package, which its own test installs and uses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "ragtasks_example_plugin"
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
SHOWN = dict(re.findall(r'```\w+ title="([^"]+)"\n(.*?)\n```', PAGE, re.DOTALL))
FILES = [path for path in (EXAMPLE / "ragtasks_example_plugin").rglob("*") if path.suffix in {".py", ".yaml"}]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_page_shows_or_links_every_file_of_the_example(path: Path) -> None:
    name = path.relative_to(EXAMPLE).as_posix()
    if name in SHOWN:
        assert SHOWN[name] == path.read_text(encoding="utf-8").strip(), "copy the file into docs/extending.md"
    elif path.name != "__init__.py":
        assert f"](../examples/ragtasks_example_plugin/{name})" in PAGE


def test_the_page_shows_files_of_the_example_only() -> None:
    assert set(SHOWN) <= {"pyproject.toml", *(path.relative_to(EXAMPLE).as_posix() for path in FILES)}


def test_the_page_shows_every_entry_point() -> None:
    assert SHOWN["pyproject.toml"] in (EXAMPLE / "pyproject.toml").read_text(encoding="utf-8")
    assert SHOWN["pyproject.toml"].count("[project.entry-points") == 8
