"""What documents show of the shell: each command in its order, with the extras that the text before it installed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "task_yamls").glob("*/README.md")),
]
_SHELL = re.compile(
    r"^```(?P<language>\w*)\n(?P<fence>.*?)^```$"
    r"|(?P<indented>(?:^ {4,}\S[^\n]*\n)+)"
    r"|(?<!`)`(?P<inline>(?:ragtasks|lm_eval|pip) [^`]+)`",
    re.DOTALL | re.MULTILINE,
)
_LANGUAGES = {"", "sh", "bash"}
_PROGRAMS = {"ragtasks", "lm_eval", "python", "pip", "export", "mkdir", "cat", "sed", "mv"}
_OTHER = {"&", "&&", "|", ";", ">", "<", "2>&1"}
_EXTRAS = re.compile(r"pip install '[^'\[]*\[([\w,-]+)\]'")


@dataclass(frozen=True)
class Line:
    """A command as a document shows it.

    Attributes:
        text: one command of a shell, its continuation lines joined.
        extras: the extras of ragtasks that install lines before it name.
        is_inline: it stands in a sentence or a table, so it may be the mention of a command and not a whole one.
    """

    text: str
    extras: frozenset[str]
    is_inline: bool


def lines_of(document: Path) -> Iterator[Line]:
    """Yield the commands of a document in their order; install lines only count."""
    extras: frozenset[str] = frozenset()
    for match in _SHELL.finditer(document.read_text(encoding="utf-8")):
        if match["fence"] is not None and match["language"] not in _LANGUAGES:
            continue
        for text in (
            [" ".join(match["inline"].split())] if match["inline"] else _split(match["fence"] or match["indented"])
        ):
            for found in _EXTRAS.finditer(text):
                extras |= set(found[1].split(","))
            if text.split()[0] in _PROGRAMS - {"pip"}:
                yield Line(text, extras, is_inline=match["inline"] is not None)


def _split(block: str) -> Iterator[str]:
    """Yield the commands of a block: joined where a line goes on, with the text that `<<'EOF'` takes."""
    lines = iter(block.replace("\\\n", " ").splitlines())
    for line in lines:
        text = line.strip()
        if text.endswith("<<'EOF'"):
            for more in lines:
                text += f"\n{more}"
                if more == "EOF":
                    break
        if text:
            yield text


def shown(document: Path) -> list[list[str]]:
    """Return the words of each command of ours or of the harness that a document shows."""
    return [words for line in lines_of(document) for words in commands(line.text)]


def commands(line: str) -> Iterator[list[str]]:
    """Yield the words of each command of ours or of the harness in a line of a shell."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return  # no line of a shell
    begin = None
    words = [part for word in words for part in ([word[:-1], ";"] if word.endswith(";") else [word])]
    for place, word in enumerate([*words, ";"]):
        if begin is None and word in {"ragtasks", "lm_eval"} and (place == 0 or words[place - 1] in _OTHER):
            begin = place
        elif begin is not None and word in _OTHER:
            yield words[begin:place]
            begin = None
