"""`qrels.tsv` and `retrieved.trec`: what is relevant, and what a retriever found, both optional and by ids alone.

Every id must be that of a task or a passage of the folder, and of one domain: an error in an id would else read as a
retriever's miss.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from ragtasks.benchmarks.custom._lines import Violations, shown, text_lines
from ragtasks.benchmarks.custom._rows import Corpus
from ragtasks.errors import close_matches
from ragtasks.ids import normalise_task_id
from ragtasks.records import Qrel, Task

QRELS = "qrels.tsv"
RETRIEVED = "retrieved.trec"

_GRADE = re.compile(r"[0-9]{1,4}")
_HEADER = ["query-id", "corpus-id", "score"]


class _Known:
    """The ids that a line may name; a folder whose tasks or passages have errors is checked against what it has."""

    def __init__(self, file: str, tasks: Mapping[str, Task], corpus: Corpus, violations: Violations) -> None:
        self._file, self._tasks, self._corpus, self._violations = file, tasks, corpus, violations

    def pair(self, line: int, query: str, passage_id: str) -> tuple[str, str] | None:
        """Return (task id, passage id) of a line, None after noting that there is no such pair."""
        task = self._task(query)
        if task is None:
            near = close_matches(query, self._tasks) if self._tasks else ""
            hint = f": {near}" if near.startswith("did") else ""
            self.note(line, f"no task {shown(query)}, which is a conversation id, '<::>' and a turn{hint}")
            return None
        if task.domain and (violation := self._corpus.violation_of(passage_id, task.domain)):
            self.note(line, violation)
            return None
        return task.task_id, passage_id

    def _task(self, query: str) -> Task | None:
        try:
            return self._tasks.get(normalise_task_id(query))
        except ValueError:
            return None

    def note(self, line: int, text: str) -> None:
        """Note an error of the file."""
        self._violations.add(self._file, line, text)


def read_qrels(
    root: Path, tasks: Mapping[str, Task], corpus: Corpus, violations: Violations
) -> tuple[Qrel, ...] | None:
    """Return the judgements of the folder, None where it has no file of them; what is wrong with it is noted.

    A line has three cells as in BEIR (query, passage, grade; its header may stand first), or four as in TREC (query, a
    column that nobody reads, passage, grade).
    """
    if not (root / QRELS).exists():
        return None
    known = _Known(QRELS, tasks, corpus, violations)
    found: dict[tuple[str, str], Qrel] = {}
    for line, cells in _cells(root / QRELS, violations):
        if cells == _HEADER and line == 1:
            continue
        if len(cells) not in {3, 4}:
            known.note(line, f"expected 3 cells (query passage grade) or 4 (query 0 passage grade), found {len(cells)}")
        elif not _GRADE.fullmatch(cells[-1]):
            known.note(line, f"expected a grade that is a whole number from 0, found {shown(cells[-1])}")
        elif pair := known.pair(line, cells[0], cells[-2]):
            if pair in found:
                known.note(line, f"{shown(pair[1])} is judged twice for {pair[0]}")
            found.setdefault(pair, Qrel(*pair, int(cells[-1])))
    return tuple(found.values())


def read_retrieved(
    root: Path, tasks: Mapping[str, Task], corpus: Corpus, violations: Violations
) -> dict[str, tuple[str, ...]] | None:
    """Return task id -> passage ids, best first, None where the folder has no such file; its errors are noted.

    The score decides, not the rank that the file writes, as in trec_eval; a task without a line is left out.
    """
    if not (root / RETRIEVED).exists():
        return None
    known = _Known(RETRIEVED, tasks, corpus, violations)
    scores: dict[str, dict[str, float]] = {}
    for line, cells in _cells(root / RETRIEVED, violations):
        if len(cells) != 6:
            known.note(line, f"expected six cells (query Q0 passage rank score tag), found {len(cells)}")
        elif (score := _score(cells[4])) is None:
            known.note(line, f"expected a score that is a finite number, found {shown(cells[4])}")
        elif pair := known.pair(line, cells[0], cells[2]):
            ranking = scores.setdefault(pair[0], {})
            if pair[1] in ranking:
                known.note(line, f"{shown(pair[1])} stands twice for {pair[0]}")
            ranking.setdefault(pair[1], score)
    return {key: in_rank_order(ranking) for key, ranking in scores.items()}


def in_rank_order(scores: Mapping[str, float]) -> tuple[str, ...]:
    """Return passage ids best first; equal scores (as 32-bit floats) are ordered as in `ragtasks.files`, by id."""
    single = {key: struct.unpack("f", struct.pack("f", score)) for key, score in scores.items()}
    return tuple(sorted(scores, key=lambda key: (single[key], key), reverse=True))


def _score(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _cells(path: Path, violations: Violations) -> Iterator[tuple[int, list[str]]]:
    yield from ((number, text.split()) for number, text, _ in text_lines(path, violations))


__all__ = ["QRELS", "RETRIEVED", "in_rank_order", "read_qrels", "read_retrieved"]
