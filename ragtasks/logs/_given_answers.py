"""Answers of a system of one's own: records with an id and a text, and with passages where it retrieved for itself.

Files and Python programs bring the same records, so there is one reader. It looks at every record before anything is
said, and says everything at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import Benchmark
from ragtasks.errors import close_matches
from ragtasks.files import Violations, contexts_in, json_lines
from ragtasks.ids import normalise_task_id
from ragtasks.records import Passage

ANSWER_KEYS = {
    "id": ("id", "task_id"),
    "answer": ("answer", "text", "predictions"),
    "contexts": ("contexts", "passages"),
}
"""What a record holds -> the keys under which it may stand; the first that is there counts."""

Note = Callable[[int, str, object, str], None]
"""Takes (number of the record from 1, what was expected, what was found, id of the task)."""

_MOST_HINTS = 20  # comparing an id with all others takes milliseconds, and a file of another benchmark has only such
_NEXT_STEP = (
    'fix these lines; each is {"id": ..., "answer": "text", "contexts": [{"text": ...}]} (docs/score-your-system.md)'
)


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """One answer, as it was given."""

    text: str
    """What the system said."""
    passages: tuple[Passage, ...] | None = None
    """What it answered from; None where these are the passages of the setting."""
    no_answer: str = ""
    """Why there is none, where a request failed."""


class AnswerReader:
    """Reads the records of one system's answers to one benchmark."""

    def __init__(self, benchmark: Benchmark, note: Note, place: str = "line") -> None:
        """Begin.

        Args:
            benchmark: what was answered.
            note: told of every error.
            place: what the numbers of records count.
        """
        self._label, self._note, self._place = benchmark.label, note, place
        self._ids = _spellings(benchmark)
        self._known = [task.task_id for task in benchmark.tasks]
        self._number_of: dict[str, int] = {}
        self._n_hints = 0

    def read(self, number: int, row: object) -> tuple[str, GivenAnswer] | None:
        """Return task id and answer of a record; None where it has an error, which is noted."""
        if not isinstance(row, Mapping):
            self._note(number, "an object with `id` and `answer`", type(row).__name__, "")
            return None
        task_id = self._task_id(number, row)
        name = task_id or ""
        text = self._text(number, row, name)
        passages, is_right = self._passages(number, row, name)
        return (task_id, GivenAnswer(text, passages)) if task_id and text is not None and is_right else None

    def _task_id(self, number: int, row: Mapping[str, Any]) -> str | None:
        written = _first(row, "id")
        if written is None:
            self._note(number, f"`id`: a task of {self._label}", "no `id`", "")
            return None
        task_id = self._ids.get(_normal(written)) if isinstance(written, str) else None
        if task_id is None:
            self._note(number, f"`id`: a task of {self._label}{self._hint(written)}", written, "")
            return None
        first = self._number_of.setdefault(task_id, number)
        if first != number:
            self._note(number, "each task once", f"a task that stands in {self._place} {first} already", task_id)
            return None
        return task_id

    def _hint(self, written: object) -> str:
        self._n_hints += 1
        if not isinstance(written, str) or self._n_hints > _MOST_HINTS:
            return ""
        hint = close_matches(written, self._known)
        return f" ({hint})" if hint.startswith("did") else ""

    def _text(self, number: int, row: Mapping[str, Any], name: str) -> str | None:
        found = _first(row, "answer")
        text = _only_text(found) if isinstance(found, list) else found
        if isinstance(text, str):
            return text
        self._note(number, "`answer`: a text", _missing(row) if found is None else found, name)
        return None

    def _passages(self, number: int, row: Mapping[str, Any], name: str) -> tuple[tuple[Passage, ...] | None, bool]:
        """Return the passages, None where there are none, and whether they are as expected."""
        found = _first(row, "contexts")
        try:
            return (None if found is None else contexts_in(found)), True
        except ValueError as error:
            expected, was = error.args
            self._note(number, f"`contexts`: {expected}", was, name)
            return None, False


def read_answers(file: Path, benchmark: Benchmark) -> dict[str, GivenAnswer]:
    """Return task id -> answer in a file of JSON lines, an object a line.

    Args:
        file: `id` (or `task_id`), `answer` (or `text`, or MTRAGEval's `predictions` [{`text`}]) and, where the system
            retrieved for itself, `contexts` (or `passages`); other keys are left alone.
        benchmark: what was answered.

    Raises:
        BenchmarkFileError: all errors of the file by line, unknown tasks and tasks that stand twice among them.
    """
    violations = Violations(file, "answers", _NEXT_STEP)

    def note(line: int, expected: str, found: object, task_id: str) -> None:
        violations.add(line, expected, found, task_id)

    reader = AnswerReader(benchmark, note)
    given = dict(item for line, row in json_lines(violations) if (item := reader.read(line, row)))
    violations.raise_if_any()
    return given


def _spellings(benchmark: Benchmark) -> dict[str, str]:
    """Return the spellings of ids -> task id: a conversation of one task may be named in its place."""
    of_conversation: dict[str, list[str]] = {}
    for task in benchmark.tasks:
        of_conversation.setdefault(task.conversation_id, []).append(task.task_id)
    alone = {name: ids[0] for name, ids in of_conversation.items() if len(ids) == 1}
    return {**alone, **{task.task_id: task.task_id for task in benchmark.tasks}}


def _normal(written: str) -> str:
    try:
        return normalise_task_id(written)
    except ValueError:
        return written


def _first(row: Mapping[str, Any], what: str) -> Any:
    """Return what stands under the first of the keys that is there; None where none is, or it is null."""
    return next((row[key] for key in ANSWER_KEYS[what] if key in row), None)


def _missing(row: Mapping[str, Any]) -> str:
    named = next((key for key in ANSWER_KEYS["answer"] if key in row), None)
    return "no `answer`" if named is None else f"no text: `{named}` is null"


def _only_text(predictions: list[Any]) -> object:
    """Return the text of MTRAGEval's `predictions`; the list itself where it is not one object with a text."""
    is_one = len(predictions) == 1 and isinstance(predictions[0], Mapping)
    return predictions[0].get("text", predictions) if is_one else predictions


__all__ = ["ANSWER_KEYS", "AnswerReader", "GivenAnswer", "Note", "read_answers"]
