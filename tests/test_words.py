"""Words that made pages odd to read stay out of names, messages and help (the glossary is in docs/architecture.md)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted(path for package in ("ragtasks", "retrieval_cache") for path in (ROOT / package).rglob("*.py"))
INSTEAD = {
    "fault": "error, problem or failure",
    "figure": "score or value",
    "heard": "collected",
    "mend": "fix",
    "seat": "judge run",
    "shelf": "text store",
    "slip": "error or problem",
    "torn": "corrupt",
    "violation": "problem",
}
# A figure of a paper has a number; matplotlib calls its canvas one; refusals may name what they lack in these words.
ALLOWED = re.compile(
    r"Figures? \d|matplotlib\.figure|\bFigure\b(?=.*figsize)|Figure as|FigureCanvasAgg|figsize|Figure$"
)
WORDS = re.compile(rf"(?<![a-z])(?:{'|'.join(INSTEAD)})(?:s|ed|ing)?(?![a-z])", re.IGNORECASE)
HOLDS_TEXT_OF_ANSWERS = {"idk_rules", "_idk_rules.py"}


def words_out(line: str) -> list[str]:
    """Return the words of a line that are out; names are taken apart at underscores and capitals."""
    parts = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", ALLOWED.sub("", line))
    return WORDS.findall(parts)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_word_that_is_out(path: Path) -> None:
    if HOLDS_TEXT_OF_ANSWERS & set(path.parts):
        return
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [f"line {number}: {word}" for number, line in enumerate(lines, 1) for word in words_out(line)]
    assert found == [], f"say {INSTEAD} instead"


def test_names_are_taken_apart() -> None:
    assert words_out("def figure_of(text): return TornFile(text)") == ["figure", "Torn"]
    assert words_out("by default, as in Figure 3; amends nothing") == []
