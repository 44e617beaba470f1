"""Puts a submission together: for each task of the input one object, with contexts in rank order and any answer.

What is not official input, a ranking or an answer does not get in: no targets, no labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from ragtasks.records import Passage
from ragtasks.submissions._tasks import SubmissionTask
from ragtasks.submissions.mtrageval._inputs import Inputs, InputTask
from ragtasks.submissions.mtrageval._rules import MAX_CONTEXTS
from ragtasks.submissions.mtrageval._scores import official_scores, rank_scores


@dataclass(frozen=True, slots=True)
class Entry:
    """What a submission says about one task."""

    passages: tuple[Passage, ...]
    """Contexts, best first."""
    scores: tuple[float, ...] | None = None
    """One a context; None where they were not kept: then the rank is the score."""
    answer: str = ""
    """The model's answer; empty where there is none."""


@dataclass(frozen=True, slots=True)
class Built:
    """A submission before it is written."""

    rows: tuple[dict[str, Any], ...]
    """One object a task, in the order of the input."""
    n_rescored: int
    """Tasks whose scores do not rank officially as they stand, and were replaced by scores from the rank."""
    n_by_rank: int
    """Tasks whose contexts came without scores."""
    n_cut: int
    """Tasks with more contexts than are handed in."""

    @property
    def content(self) -> bytes:
        """The file."""
        return b"".join(orjson.dumps(row) + b"\n" for row in self.rows)


def build(task: SubmissionTask, inputs: Inputs, entries: Mapping[str, Entry], limit: int = MAX_CONTEXTS) -> Built:
    """Return the submission that answers every task of the input.

    Args:
        task: what it is handed in for.
        inputs: the tasks; their ids and collections are written as they are there.
        entries: task id in the one form in use -> what to say; at least for every task of the input.
        limit: contexts that a task may have.
    """
    kept = {key: _cut(entries[key], limit) for key in inputs}
    scored = {key: _scores(entry) for key, entry in kept.items()}
    return Built(
        rows=tuple(_row(task, given, kept[key], scored[key]) for key, given in inputs.items()),
        n_rescored=sum(entry.scores is not None and entry.scores != scored[key] for key, entry in kept.items()),
        n_by_rank=sum(entry.scores is None and bool(entry.passages) for entry in kept.values()),
        n_cut=sum(len(entries[key].passages) > limit for key in inputs),
    )


def _cut(entry: Entry, limit: int) -> Entry:
    return Entry(entry.passages[:limit], None if entry.scores is None else entry.scores[:limit], entry.answer)


def _scores(entry: Entry) -> tuple[float, ...]:
    return rank_scores(len(entry.passages)) if entry.scores is None else official_scores(entry.scores)


def _row(task: SubmissionTask, given: InputTask, entry: Entry, scores: tuple[float, ...]) -> dict[str, Any]:
    """Return the object of one task; a ranking needs no texts, and is small without them."""
    answers = task is not SubmissionTask.A
    row: dict[str, Any] = {
        "task_id": given.task_id,
        **given.along,
        "Collection": given.collection,
        "input": [{"speaker": speaker, "text": text} for speaker, text in given.messages],
        "contexts": [_context(item, score, answers) for item, score in zip(entry.passages, scores, strict=True)],
    }
    return {**row, "predictions": [{"text": entry.answer}]} if answers else row


def _context(passage: Passage, score: float, with_text: bool) -> dict[str, Any]:
    context: dict[str, Any] = {"document_id": passage.passage_id, "score": score}
    if with_text:
        context |= {"text": passage.text} | ({"title": passage.title} if passage.title else {})
    return context


__all__ = ["Built", "Entry", "build"]
