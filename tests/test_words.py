"""Unclear words are not used in names, messages and help; docs/background/architecture.md has the glossary."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests._modules import MODULES, ROOT, tree_of

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
NAMES_OUT = {
    "asked": "the request, the question or the reply",
    "kept": "what it is: cached, saved, accepted",
    "said": "the message, the reply or the vote",
    "shown": "what it is: a text, a page, a table",
    "told": "the message or the report",
}
PROSE_INSTEAD = {
    "anew": "again",
    "anybody": "the user or the reader",
    "beside": "next to",
    "hardly": "barely, or a number",
    "lacking": "missing",
    "nobody": "name the person or the program",
    "said": "the message or the reply",
    "says": "reports, prints, states or contains",
    "tell": "report, print or state",
    "tells": "reports, prints or states",
    "told": "is configured with, or receives",
    "whoever": "name the person",
}
# Exceptions: figures of a paper have numbers; matplotlib calls its canvas a figure; refusals may contain "lack".
ALLOWED = re.compile(
    r"Figures? \d|matplotlib\.figure|\bFigure\b(?=.*figsize)|Figure as|FigureCanvasAgg|figsize|Figure$"
)
WORDS = re.compile(rf"(?<![a-z])(?:{'|'.join(INSTEAD)})(?:s|ed|ing)?(?![a-z])", re.IGNORECASE)


def words_out(line: str) -> list[str]:
    """Return the banned words in a line. Names are split at underscores and capitals."""
    parts = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", ALLOWED.sub("", line))
    return WORDS.findall(parts)


def found_in(path: Path) -> list[str]:
    """Return `path: line: word` for the banned words in a file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    name = path.relative_to(ROOT).as_posix()
    return [f"{name}: line {number}: {word}" for number, line in enumerate(lines, 1) for word in words_out(line)]


def test_no_word_is_out() -> None:
    assert [found for path in MODULES for found in found_in(path)] == [], f"write {INSTEAD} instead"


def test_names_are_taken_apart() -> None:
    assert words_out("def figure_of(text): return TornFile(text)") == ["figure", "Torn"]
    assert words_out("by default, as in Figure 3; amends nothing") == []


def names_of(source: str) -> list[str]:
    """Return the names of all functions and classes, and of module-level assignments."""
    tree = tree_of(source)
    defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    names = [node.name for node in ast.walk(tree) if isinstance(node, defined)]
    assigned = (node for line in tree.body if isinstance(line, ast.Assign | ast.AnnAssign) for node in ast.walk(line))
    return names + [node.id for node in assigned if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


def participles(name: str) -> list[str]:
    """Return the participles in a name that describe an event instead of the object."""
    parts = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name).lower().split()
    return [part for part in parts if part in NAMES_OUT]


def test_names_are_nouns() -> None:
    names = [(path.name, name) for path in MODULES for name in names_of(path.read_text(encoding="utf-8"))]
    assert [name for name in names if participles(name[1])] == [], f"name the thing: {NAMES_OUT}"


def test_parts_of_names_are_found() -> None:
    source = (
        "_MOST_SHOWN = 3\nunshown: int = 4\nclass KeptReplies:\n    def tell(self): told = 1\nasync def asked(): pass\n"
    )
    assert [name for name in names_of(source) if participles(name)] == ["KeptReplies", "asked", "_MOST_SHOWN"]


def prose_of(source: str) -> Iterator[str]:
    """Yield the docstrings and comments of a module, without code between backticks."""
    for node in ast.walk(tree_of(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield re.sub(r"`[^`]*`", "", node.value.value)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def prose_words_out(source: str) -> list[str]:
    """Return the words of docstrings and comments that have a plainer substitute."""
    return [word for text in prose_of(source) for word in re.findall(r"[a-z]+", text.lower()) if word in PROSE_INSTEAD]


def test_docstrings_and_comments_use_plain_words() -> None:
    words = {path.name: prose_words_out(path.read_text(encoding="utf-8")) for path in MODULES}
    assert {name: words for name, words in words.items() if words} == {}, f"write {PROSE_INSTEAD} instead"


def test_words_in_code_and_in_backticks_are_no_prose() -> None:
    source = '"""Return `says`.\n\nThe file tells."""\ntold = "nobody"  # whoever reads\n'
    assert prose_words_out(source) == ["tells", "whoever"]
