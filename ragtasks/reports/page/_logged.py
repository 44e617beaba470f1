"""The logged samples of an evaluation with their texts, one at a time: all of them together would fill the memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtasks.errors import BenchmarkFileError, clear_error
from ragtasks.logs import Evaluation, Row, samples_of


@dataclass(frozen=True, slots=True)
class Logged:
    """One response with its scores and its texts."""

    row: Row
    """What was scored."""
    doc: Mapping[str, Any]
    """The task as the model saw it, with what the scoring noted."""
    answer: str
    """What the model said, thinking text removed; empty where the log has no text."""


def read_logged(evaluation: Evaluation) -> Iterator[Logged]:
    """Yield the responses of an evaluation, in the order of its rows.

    Raises:
        BenchmarkFileError: a file is broken, or is not the one that the rows were read from.
    """
    rows = iter(evaluation.rows)
    for path in evaluation.samples.values():
        yield from _file(path, rows)
    left = next(rows, None)
    if left is not None:
        raise _changed(
            str(evaluation.source), f"task {left.task_id}, as when the rows were read", "a log that ends before"
        )


def _file(path: Path, rows: Iterator[Row]) -> Iterator[Logged]:
    for line in samples_of(path):
        row = next(rows, None)
        doc = line.sample.get("doc")
        if row is None or not isinstance(doc, dict) or doc.get("task_id") != row.task_id:
            found = doc.get("task_id") if isinstance(doc, dict) else doc
            expected = f"task {row.task_id}, as when the rows were read" if row else "no more line"
            raise _changed(f"{path}: line {line.number}", expected, repr(found))
        yield Logged(row, doc, _text(line.sample.get("filtered_resps")))


def _changed(where: str, expected: str, found: str) -> BenchmarkFileError:
    message = clear_error(
        "logged samples", where=where, expected=expected, found=found, next_step="read the results again"
    )
    return BenchmarkFileError(message)


def _text(replies: object) -> str:
    """Return the answer; what is no text, such as a likelihood, is no answer."""
    return replies[0] if isinstance(replies, list) and replies and isinstance(replies[0], str) else ""


__all__ = ["Logged", "read_logged"]
