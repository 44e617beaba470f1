"""`qrels.tsv` and `retrieved.trec`: what is relevant, and what a retriever found, both optional and by ids alone.

Every id must be that of a task or a passage of the folder, and of one domain: an error in an id would else read as a
retriever's miss.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ragtasks.benchmarks.custom._lines import FolderViolations, shown, text_lines
from ragtasks.benchmarks.custom._rows import Corpus
from ragtasks.errors import close_matches
from ragtasks.files import Misfit, Ranked, in_rank_order, qrel_lines, run_line
from ragtasks.ids import normalise_task_id
from ragtasks.records import Qrel, Task

QRELS = "qrels.tsv"
RETRIEVED = "retrieved.trec"


class _Known:
    """The ids that a line may name; a folder whose tasks or passages have errors is checked against what it has."""

    def __init__(self, file: str, tasks: Mapping[str, Task], corpus: Corpus, violations: FolderViolations) -> None:
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

    def expected(self, line: int, misfit: Misfit) -> None:
        """Note what is wrong with a line."""
        self.note(line, f"expected {misfit.expected}, found {shown(misfit.found)}")

    def note(self, line: int, text: str) -> None:
        """Note an error of the file."""
        self._violations.add(self._file, line, text)


def read_qrels(
    root: Path, tasks: Mapping[str, Task], corpus: Corpus, violations: FolderViolations
) -> tuple[Qrel, ...] | None:
    """Return the judgements of the folder, None where it has no file of them; what is wrong with it is noted.

    A line has three cells as in BEIR (query, passage, grade; its header may stand first), or four as in TREC (query, a
    column that nobody reads, passage, grade).
    """
    if not (root / QRELS).exists():
        return None
    known = _Known(QRELS, tasks, corpus, violations)
    found: dict[tuple[str, str], Qrel] = {}
    for line, judged in qrel_lines(_lines(root / QRELS, violations), {3, 4}):
        if isinstance(judged, Misfit):
            known.expected(line, judged)
        elif pair := known.pair(line, judged.query_id, judged.passage_id):
            if pair in found:
                known.note(line, f"{shown(pair[1])} is judged twice for {pair[0]}")
            found.setdefault(pair, Qrel(*pair, judged.relevance))
    return tuple(found.values())


def read_retrieved(
    root: Path, tasks: Mapping[str, Task], corpus: Corpus, violations: FolderViolations
) -> dict[str, tuple[str, ...]] | None:
    """Return task id -> passage ids, best first, None where the folder has no such file; its errors are noted.

    The score decides, not the rank that the file writes, as in trec_eval; a task without a line is left out.
    """
    if not (root / RETRIEVED).exists():
        return None
    known = _Known(RETRIEVED, tasks, corpus, violations)
    scores: dict[str, dict[str, float]] = {}
    for line, text in _lines(root / RETRIEVED, violations):
        found = run_line(text)
        if isinstance(found, Misfit):
            known.expected(line, found)
        elif pair := known.pair(line, found.query_id, found.passage_id):
            ranking = scores.setdefault(pair[0], {})
            if pair[1] in ranking:
                known.note(line, f"{shown(pair[1])} stands twice for {pair[0]}")
            ranking.setdefault(pair[1], found.score)
    return {key: best_first(ranking) for key, ranking in scores.items()}


def best_first(scores: Mapping[str, float]) -> tuple[str, ...]:
    """Return passage ids in the rank order of all runs."""
    return tuple(item.passage_id for item in in_rank_order(Ranked(*item) for item in scores.items()))


def _lines(path: Path, violations: FolderViolations) -> Iterator[tuple[int, str]]:
    yield from ((number, text) for number, text, _ in text_lines(path, violations))


__all__ = ["QRELS", "RETRIEVED", "best_first", "read_qrels", "read_retrieved"]
