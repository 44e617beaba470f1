"""Rankings and judgements in TREC's formats: what a line of a run or of qrels says, and whole runs.

Every reader of such files takes its lines from here; what else must hold of them (known ids, ranks without a gap), and
how all errors of a file are said, is the reader's own.

Equal scores are ordered as trec_eval orders them (score as a 32-bit float descending, then passage id descending), so
that the order in the file is the order that is evaluated.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ragtasks.errors import CacheError, clear_error
from ragtasks.files._atomic import write_atomically
from ragtasks.records import Qrel

_MOST_SHOWN = 20  # errors of one file
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_NUL = "\0"  # trec_eval is written in C: an id with one ends the process
_GRADE = re.compile(r"-?[0-9]{1,9}")
_HEADER = "query-id"  # first cell of the header that files of BEIR have


@dataclass(frozen=True, slots=True)
class Ranked:
    """One passage of a ranking."""

    passage_id: str
    """Passage."""
    score: float
    """Higher is better; finite."""


Run = Mapping[str, tuple[Ranked, ...]]
"""Query id -> passages, best first. A query without any passage is there with an empty tuple."""


@dataclass(frozen=True, slots=True)
class RunLine:
    """What a line of a run says."""

    query_id: str
    """Query, as written."""
    passage_id: str
    """Passage."""
    rank: str
    """Rank, as written: not every reader asks for one."""
    score: float
    """Finite."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """What is wrong with a line."""

    expected: str
    """In words."""
    found: object
    """What is there instead."""


def run_line(text: str) -> RunLine | Misfit:
    """Return what a line of a TREC run says, or what is wrong with it: other than six cells, or no finite score."""
    cells = text.split()
    if _NUL in text:
        return Misfit("text", "a NUL character")
    if len(cells) != 6:
        return Misfit("6 cells (query Q0 passage rank score tag)", len(cells))
    query_id, _, passage_id, rank, score, _ = cells
    if not _NUMBER.fullmatch(score) or not math.isfinite(float(score)):
        return Misfit("a finite score", score)
    return RunLine(query_id, passage_id, rank, float(score))


def qrel_lines(
    lines: Iterable[tuple[int, str]], n_cells: Collection[int], *, separator: str | None = None, least: int = 0
) -> Iterator[tuple[int, Qrel | Misfit]]:
    """Yield (line number, judgement or what is wrong) of lines of qrels; BEIR's header may be line 1.

    Args:
        lines: (line number from 1, text).
        n_cells: 3 is query, passage, grade, as in BEIR; 4 has a column behind the query, as in TREC, not looked at.
        separator: what stands between cells; None: white space.
        least: the lowest grade.
    """
    for number, text in lines:
        cells = text.split(separator)
        if number == 1 and cells[:1] == [_HEADER]:
            continue
        if _NUL in text:
            yield number, Misfit("text", "a NUL character")
        elif len(cells) not in n_cells:
            kinds = {3: "3 cells (query passage grade)", 4: "4 (query 0 passage grade)"}
            yield number, Misfit(" or ".join(kinds[n] for n in sorted(n_cells)), len(cells))
        elif not _GRADE.fullmatch(cells[-1]) or int(cells[-1]) < least:
            yield number, Misfit(f"a grade that is a whole number from {least}", cells[-1])
        else:
            yield number, Qrel(cells[0], cells[-2], int(cells[-1]))


def in_rank_order(passages: Iterable[Ranked]) -> tuple[Ranked, ...]:
    """Return passages best first by the one rule for ties (see the module)."""
    return tuple(sorted(passages, key=lambda item: (_single(item.score), item.passage_id), reverse=True))


def _single(score: float) -> float:
    """Return the score as trec_eval holds it."""
    (value,) = struct.unpack("f", struct.pack("f", score))
    return float(value)


def write_trec(path: Path, run: Run, tag: str) -> str:
    """Write a run as a TREC file, atomically, and return its sha256; scores read back equal."""
    lines = [
        f"{query_id} Q0 {item.passage_id} {rank} {item.score!r} {tag}\n"
        for query_id, ranking in run.items()
        for rank, item in enumerate(ranking, start=1)
    ]
    return write_atomically(path, "".join(lines).encode())


def read_trec(path: Path) -> dict[str, tuple[Ranked, ...]]:
    """Return the run in a TREC file, queries in the order of the file, passages in rank order by score.

    Raises:
        CacheError: no file, or lines that are no run: wrong number of cells, a score that is no finite number, a
            passage twice for one query; all of them are listed.
    """
    rankings: dict[str, dict[str, float]] = {}
    violations: list[str] = []
    for number, text in enumerate(text_of(path).splitlines(), start=1):
        line = run_line(text)
        if isinstance(line, Misfit):
            violations.append(f"line {number}: expected {line.expected}, found {line.found!r}")
        elif line.passage_id in rankings.setdefault(line.query_id, {}):
            violations.append(f"line {number} ({line.query_id}): passage {line.passage_id!r} stands twice")
        else:
            rankings[line.query_id][line.passage_id] = line.score
    raise_for_run(f"TREC run {path}", violations)
    return {query: in_rank_order(Ranked(*item) for item in ranking.items()) for query, ranking in rankings.items()}


def raise_for_run(what: str, violations: Iterable[str]) -> None:
    """Raise one error that lists what is wrong with a run, if anything is.

    Raises:
        CacheError: there is at least one violation.
    """
    listed = list(violations)
    if listed:
        n_more = len(listed) - _MOST_SHOWN
        shown = [*listed[:_MOST_SHOWN], *([f"and {n_more} more"] if n_more > 0 else [])]
        n_violations = f"{len(listed)} error{'s' if len(listed) > 1 else ''}"
        raise CacheError(f"{what}: {n_violations}\n  " + "\n  ".join(shown))


def text_of(path: Path) -> str:
    """Return the text of a file of a run.

    Raises:
        CacheError: no file, or none of text.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, str(error)) from error


def unreadable(path: Path, found: str) -> CacheError:
    """Return the error for a file of a run that cannot be read."""
    message = clear_error("run", where=str(path), expected="a text file", found=found, next_step="check the path")
    return CacheError(message)


__all__ = [
    "Misfit",
    "Ranked",
    "Run",
    "RunLine",
    "in_rank_order",
    "qrel_lines",
    "raise_for_run",
    "read_trec",
    "run_line",
    "text_of",
    "unreadable",
    "write_trec",
]
