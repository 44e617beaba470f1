"""The page on adding to ragtasks shows the example package as it lies there, which its own test installs and uses."""

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
def test_the_page_shows_the_file_as_it_is(path: Path) -> None:
    text = path.read_text(encoding="utf-8").strip()
    if path.name != "__init__.py":
        assert SHOWN[path.relative_to(EXAMPLE).as_posix()] == text, "copy the file into docs/extending.md"


def test_the_page_shows_every_entry_point() -> None:
    assert SHOWN["pyproject.toml"] in (EXAMPLE / "pyproject.toml").read_text(encoding="utf-8")
    assert SHOWN["pyproject.toml"].count("[project.entry-points") == 8
