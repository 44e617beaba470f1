"""Checks a submission line by line, in constant memory, and names everything that is wrong with it at once."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtasks.errors import BenchmarkFileError, clear_error
from ragtasks.files import bounded_lines
from ragtasks.ids import normalise_task_id
from ragtasks.submissions._tasks import SubmissionTask
from ragtasks.submissions.mtrageval._documents import Documents
from ragtasks.submissions.mtrageval._findings import Finding, Report, Words
from ragtasks.submissions.mtrageval._inputs import Inputs
from ragtasks.submissions.mtrageval._line_rules import LINE_RULES, Line, Violation
from ragtasks.submissions.mtrageval._rules import MAX_BYTES, RULES

_SUFFIX = ".jsonl"


@dataclass(frozen=True, slots=True)
class Against:
    """What a submission is compared with."""

    inputs: Inputs | None = None
    """The tasks that must be answered; None: not compared."""
    documents: Documents | None = None
    """The documents that there are; None: not compared."""
    unchecked: tuple[str, ...] = ()
    """What is not compared, and why."""


def check_file(path: Path, task: SubmissionTask, against: Against) -> Report:
    """Return what is wrong with a submission on disk.

    Raises:
        BenchmarkFileError: it cannot be read.
    """
    try:
        with path.open("rb") as lines:
            return check_lines(bounded_lines(lines), path.name, task, against, n_bytes=path.stat().st_size)
    except (OSError, ValueError) as error:
        message = clear_error(
            "submission",
            where=str(path),
            expected="a readable file of JSON lines",
            found=(error.strerror if isinstance(error, OSError) else "") or str(error),
            next_step="check the path",
        )
        raise BenchmarkFileError(message) from error


def check_lines(lines: Iterable[bytes], name: str, task: SubmissionTask, against: Against, *, n_bytes: int) -> Report:
    """Return what is wrong with a submission.

    Args:
        lines: its lines, as line feeds end them, with their ends.
        name: name of the file.
        task: what it is handed in for.
        against: what it is compared with.
        n_bytes: size of the file.
    """
    checker = _Checker(task, against)
    parts = itertools.chain.from_iterable(map(checker.parts, lines))
    found = [finding for number, line in enumerate(parts, start=1) for finding in checker.line(number, line)]
    whole = [*checker.file(name, n_bytes), *checker.missing()]
    return Report(name, task, checker.n_rows, (*whole, *found), against.unchecked)


class _Checker:
    """What one pass over a file has to remember."""

    def __init__(self, task: SubmissionTask, against: Against) -> None:
        self.n_rows = 0
        self._n_carriage_returns = 0
        self._task = task
        self._against = against
        self._line_of: dict[str, int] = {}

    def file(self, name: str, n_bytes: int) -> Iterator[Finding]:
        """Yield what is wrong with the file as such."""
        if not name.endswith(_SUFFIX):
            yield self._found(0, "", ("file_name", f"a name that ends with {_SUFFIX}", name))
        if n_bytes > MAX_BYTES:
            yield self._found(0, "", ("file_size", f"at most {MAX_BYTES} bytes", n_bytes))
        if not self.n_rows:
            yield self._found(0, "", ("no_tasks", "a line for each task", Words("no task")))
        if n := self._n_carriage_returns:
            found = Words(f"only a carriage return {n} times")
            yield self._found(0, "", ("carriage_returns", "a line feed between lines", found))

    def missing(self) -> Iterator[Finding]:
        """Yield the tasks that no line answers."""
        for key, given in (self._against.inputs or {}).items():
            if key not in self._line_of:
                yield self._found(0, given.task_id, ("missing_task", "a line for this task", Words("no line")))

    def parts(self, raw: bytes) -> list[bytes]:
        """Return the lines in what a line feed ends: those that carriage returns end too, as text mode reads them.

        A carriage return within an object stays where it is, so that the line's violation can be named.
        """
        raw = raw.rstrip(b"\r\n")
        if b"\r" not in raw:
            return [raw]
        groups = itertools.groupby(raw.split(b"\r"), _is_whole)
        lines = [line for whole, group in groups for line in (group if whole else [b"\r".join(group)])]
        self._n_carriage_returns += max(0, sum(bool(line.strip()) for line in lines) - 1)
        return lines

    def line(self, number: int, raw: bytes) -> Iterator[Finding]:
        """Yield what is wrong with a line; blank ones are passed over, as they are officially."""
        row, violations = _parse(raw)
        task_id = row.get("task_id") if row is not None else None
        name = task_id if isinstance(task_id, str) else ""
        yield from (self._found(number, name, violation) for violation in violations)
        if row is None:
            return
        self.n_rows += 1
        key = _key(name)
        if isinstance(task_id, str):
            yield from (self._found(number, name, violation) for violation in self._task_violations(number, name, key))
        inputs = self._against.inputs or {}
        line = Line(self._task, row, inputs.get(key), self._against.documents)
        yield from (self._found(number, name, violation) for rule in LINE_RULES for violation in rule(line))

    def _task_violations(self, number: int, name: str, key: str) -> Iterator[Violation]:
        """Yield what is wrong with a task's being here."""
        first = self._line_of.setdefault(key, number)
        if first != number:
            yield "duplicate_task", "each task once", f"the task of line {first} again"
        inputs = self._against.inputs
        if inputs is None:
            return
        if key not in inputs:
            yield "unknown_task", "a task of the input", name
        elif name != inputs[key].task_id:
            yield "task_spelling", f"the id as the input writes it, {inputs[key].task_id!r}", name

    def _found(self, number: int, task_id: str, violation: Violation) -> Finding:
        rule, expected, found = violation
        return RULES[rule].finding(number, task_id, self._task, expected, found)


def _key(name: str) -> str:
    """Return the id in the one form in use, or as it is where it is none."""
    try:
        return normalise_task_id(name)
    except ValueError:
        return name


def _parse(raw: bytes) -> tuple[dict[str, Any] | None, list[Violation]]:
    """Return the object in a line, None where there is none, and what is wrong with it: nothing with a blank line."""
    if b"\r" in raw:
        return None, [("line_end", "a line without a carriage return in it", raw.decode("utf-8", errors="replace"))]
    try:
        text = raw.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        return None, [("utf8", "UTF-8", str(error))]
    return _object(text) if text else (None, [])


def _object(text: str) -> tuple[dict[str, Any] | None, list[Violation]]:
    """Return the object that a text is, None where it is none, and what is wrong with it.

    NaN is let through: official files have it in fields that nobody reads. In a score it is found there.
    """
    twice: list[str] = []

    def one_of_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            twice.extend(sorted(key for key, n in counts.items() if n > 1))
        return content

    try:
        row = json.loads(text, object_pairs_hook=one_of_each)
    except (RecursionError, ValueError) as error:
        return None, [_json_violation(error)]
    if not isinstance(row, dict):
        return None, [("object", "one JSON object", row)]
    violations: list[Violation] = [("duplicate_key", "each key of an object once", twice)] if twice else []
    if violation := _encoding_violation(row):
        violations.append(("encoding", "texts that UTF-8 can hold", violation))
    return row, violations


def _json_violation(error: RecursionError | ValueError) -> Violation:
    """Return what is wrong with JSON that cannot be read: the official checker notes only what is not JSON at all."""
    if isinstance(error, json.JSONDecodeError):
        return "json", "one JSON object", str(error)
    found = "JSON that is nested too deeply" if isinstance(error, RecursionError) else str(error)
    return "json_limit", "JSON that Python can read", found


def _is_whole(line: bytes) -> bool:
    """Return whether a line is blank or one JSON value."""
    try:
        if text := line.decode("utf-8").strip():
            json.loads(text)
    except (RecursionError, ValueError):
        return False
    return True


def _encoding_violation(row: dict[str, Any]) -> str:
    """Return why a text in an object is none that UTF-8 can hold, "" where all are; however deep it is nested."""
    waiting: list[Any] = [row]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str):
            try:
                value.encode("utf-8")
            except UnicodeEncodeError as error:
                return str(error)
    return ""


__all__ = ["Against", "check_file", "check_lines"]
