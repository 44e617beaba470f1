"""Check of a submission, line by line in constant memory.

Source: format_checker.py and run_retrieval_eval.py of IBM/mt-rag-benchmark at cc5b1d4.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtasks.files import bounded_lines
from ragtasks.records import normalise_task_id
from ragtasks.submissions._findings import Diagnostic, Problem, Report, Rule, Severity, SubmissionTask, Words, reading
from ragtasks.submissions.mtrageval._inputs import Documents, Inputs
from ragtasks.submissions.mtrageval._line_rules import LINE_RULES, RECOMMENDED_CONTEXTS, Line

_SUFFIX = ".jsonl"

# The rules, with their severity and their effect in the official evaluation. Source: format_checker.py and
# run_retrieval_eval.py of IBM/mt-rag-benchmark at cc5b1d4.

MAX_BYTES = 20 * 1024 * 1024

_REJECTS = "the official checker rejects it"
_STOPS = "the official checker stops at it"


_TABLE = (
    # The file.
    Rule("file_name", Severity.PROBLEM, _REJECTS),
    Rule("file_size", Severity.PROBLEM, _REJECTS),
    Rule("no_tasks", Severity.PROBLEM, "the numbers of tasks differ: " + _REJECTS),
    Rule("missing_task", Severity.PROBLEM, _REJECTS),
    Rule("unknown_task", Severity.PROBLEM, _REJECTS),
    Rule("task_spelling", Severity.PROBLEM, "ids are compared as texts: " + _REJECTS),
    Rule("duplicate_task", Severity.PROBLEM, "the official checker only reports that the numbers of tasks differ"),
    # A line.
    Rule("line_end", Severity.PROBLEM, "read as the end of the line: " + _REJECTS),
    Rule("carriage_returns", Severity.WARNING, "passed; the official evaluation ends lines at line feeds only"),
    Rule("utf8", Severity.PROBLEM, _STOPS),
    Rule("json", Severity.PROBLEM, _REJECTS),
    Rule("json_limit", Severity.PROBLEM, _STOPS),
    Rule("object", Severity.PROBLEM, _STOPS),
    Rule("required_field", Severity.PROBLEM, _REJECTS),
    Rule("field_type", Severity.PROBLEM, _REJECTS),
    Rule("duplicate_key", Severity.WARNING, "only the last value is read"),
    Rule("encoding", Severity.WARNING, "half of a surrogate pair: no request to a judge can encode it"),
    # Contexts.
    Rule("too_many_contexts", Severity.PROBLEM, _REJECTS),
    Rule("context_object", Severity.PROBLEM, _REJECTS),
    Rule("document_id", Severity.PROBLEM, _REJECTS),
    Rule("score", Severity.PROBLEM, _REJECTS),
    Rule("score_boolean", Severity.WARNING, "passed as 1 or 0"),
    Rule("score_not_finite", Severity.WARNING, "passed; as a 32-bit number it cannot be ranked"),
    Rule(
        "scores_unordered",
        Severity.WARNING,
        "ranked by score, not by position: other contexts count as the first",
        "BC",
    ),
    Rule("scores_tied", Severity.WARNING, "equal as 32-bit numbers: ranked by document id, descending", "BC"),
    Rule("duplicate_document", Severity.WARNING, "one rank is lost; the last score counts"),
    Rule("blank_document_id", Severity.WARNING, "passed; matches no document"),
    Rule("unknown_document", Severity.WARNING, "passed; never relevant"),
    Rule("context_text", Severity.WARNING, "passed; the generation metrics read the text"),
    Rule("no_contexts", Severity.NOTE, "scores 0 where the task is judged; the official checker warns"),
    Rule("many_contexts", Severity.NOTE, f"{RECOMMENDED_CONTEXTS} are recommended"),
    # Predictions.
    Rule("prediction_object", Severity.PROBLEM, _REJECTS),
    Rule("prediction_text", Severity.PROBLEM, _REJECTS),
    Rule("n_predictions", Severity.WARNING, "passed; the evaluation scores one prediction"),
    Rule("empty_prediction", Severity.WARNING, "passed; scores close to 0"),
    Rule("thinking_text", Severity.NOTE, "judged as part of the answer"),
    # Further fields.
    Rule("task_id_shape", Severity.WARNING, "passed; names no conversation and turn"),
    Rule("conversation_id", Severity.WARNING, "passed; contradicts the task id"),
    Rule("turn", Severity.WARNING, "passed; contradicts the task id"),
    Rule("collection", Severity.WARNING, "passed; the retrieval evaluation finds no judgements for it"),
    Rule("message", Severity.WARNING, "passed; judges receive the conversation"),
    Rule("other_input", Severity.WARNING, "passed; judged by a question that differs from the input"),
    Rule("other_contexts", Severity.WARNING, "passed; task B requires answers from the given passages"),
    Rule("other_context_text", Severity.WARNING, "passed; judged by a text that differs from the input"),
)

RULES = {rule.name: rule for rule in _TABLE}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The data that a submission is compared with."""

    inputs: Inputs | None = None
    """The tasks to answer; None: not compared."""
    documents: Documents | None = None
    """The existing documents; None: not compared."""
    unchecked: tuple[str, ...] = ()


def check_file(path: Path, task: SubmissionTask, comparison: Comparison) -> Report:
    """Check a submission on disk."""
    with reading("submission", path) as lines:
        if lines.peek(1).lstrip().startswith(b"["):
            expected = f"one JSON object per line, which `jq -c '.[]' {path}` writes"
            finding = RULES["json"].finding(1, "", expected, Words("one JSON array"), task.value)
            return Report(path.name, f"task {task.value}", 0, (finding,), comparison.unchecked)
        return check_lines(bounded_lines(lines), path.name, task, comparison, n_bytes=path.stat().st_size)


def check_lines(
    lines: Iterable[bytes], name: str, task: SubmissionTask, comparison: Comparison, *, n_bytes: int
) -> Report:
    """Check a submission."""
    checker = _Checker(task, comparison)
    parts = itertools.chain.from_iterable(map(checker.parts, lines))
    line_findings = [finding for number, line in enumerate(parts, start=1) for finding in checker.line(number, line)]
    file_findings = [*checker.file(name, n_bytes), *checker.missing()]
    return Report(name, f"task {task.value}", checker.n_rows, (*file_findings, *line_findings), comparison.unchecked)


class _Checker:
    """The state of a check while it reads a file."""

    def __init__(self, task: SubmissionTask, comparison: Comparison) -> None:
        self.n_rows = 0
        self._n_carriage_returns = 0
        self._task = task
        self._comparison = comparison
        self._line_of: dict[str, int] = {}

    def file(self, name: str, n_bytes: int) -> Iterator[Diagnostic]:
        if not name.endswith(_SUFFIX):
            yield self._finding(0, "", ("file_name", f"a name that ends with {_SUFFIX}", name))
        if n_bytes > MAX_BYTES:
            yield self._finding(0, "", ("file_size", f"at most {MAX_BYTES} bytes", n_bytes))
        if not self.n_rows:
            yield self._finding(0, "", ("no_tasks", "a line for each task", Words("no task")))
        if n := self._n_carriage_returns:
            problem = Words(f"only a carriage return {n} times")
            yield self._finding(0, "", ("carriage_returns", "a line feed between lines", problem))

    def missing(self) -> Iterator[Diagnostic]:
        for key, input_task in (self._comparison.inputs or {}).items():
            if key not in self._line_of:
                yield self._finding(0, input_task.task_id, ("missing_task", "a line for this task", Words("no line")))

    def parts(self, raw: bytes) -> list[bytes]:
        """Return the lines in bytes that end with a line feed, split at carriage returns like Python's text mode.

        A carriage return within an object is kept, so that the problem of its line can be reported.
        """
        raw = raw.rstrip(b"\r\n")
        if b"\r" not in raw:
            return [raw]
        groups = itertools.groupby(raw.split(b"\r"), _is_json)
        lines = [line for is_json, group in groups for line in (group if is_json else [b"\r".join(group)])]
        self._n_carriage_returns += max(0, sum(bool(line.strip()) for line in lines) - 1)
        return lines

    def line(self, number: int, raw: bytes) -> Iterator[Diagnostic]:
        """Yield findings about a line. Blank lines are skipped, as in the official checker."""
        row, problems = _parse(raw)
        task_id = row.get("task_id") if row is not None else None
        name = task_id if isinstance(task_id, str) else ""
        yield from (self._finding(number, name, problem) for problem in problems)
        if row is None:
            return
        self.n_rows += 1
        key = _key(name)
        if isinstance(task_id, str):
            yield from (self._finding(number, name, problem) for problem in self._task_problems(number, name, key))
        inputs = self._comparison.inputs or {}
        line = Line(self._task, row, inputs.get(key), self._comparison.documents)
        yield from (self._finding(number, name, problem) for rule in LINE_RULES for problem in rule(line))

    def _task_problems(self, number: int, name: str, key: str) -> Iterator[Problem]:
        """Yield problems of a task id: repeated, unknown, or spelled differently."""
        first = self._line_of.setdefault(key, number)
        if first != number:
            yield "duplicate_task", "each task once", f"the task of line {first} again"
        inputs = self._comparison.inputs
        if inputs is None:
            return
        if key not in inputs:
            yield "unknown_task", "a task of the input", name
        elif name != inputs[key].task_id:
            yield "task_spelling", f"the id as the input writes it, {inputs[key].task_id!r}", name

    def _finding(self, number: int, task_id: str, problem: Problem) -> Diagnostic:
        rule, expected, found = problem
        return RULES[rule].finding(number, task_id, expected, found, self._task.value)


def _key(name: str) -> str:
    """Return the normalized task id. An invalid id is returned unchanged."""
    try:
        return normalise_task_id(name)
    except ValueError:
        return name


def _parse(raw: bytes) -> tuple[dict[str, Any] | None, list[Problem]]:
    """Return the object in a line and its problems. The object is None for invalid and for blank lines."""
    if b"\r" in raw:
        return None, [("line_end", "a line without a carriage return in it", raw.decode("utf-8", errors="replace"))]
    try:
        text = raw.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        return None, [("utf8", "UTF-8", str(error))]
    return _object(text) if text else (None, [])


def _object(text: str) -> tuple[dict[str, Any] | None, list[Problem]]:
    """Return the object in a text, None if it is invalid, and its problems.

    NaN is accepted, since official files contain it in unused fields. In a score it is reported elsewhere.
    """
    repeated: list[str] = []

    def record_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            repeated.extend(sorted(key for key, n in counts.items() if n > 1))
        return content

    try:
        row = json.loads(text, object_pairs_hook=record_repeated_keys)
    except (RecursionError, ValueError) as error:
        return None, [_json_problem(error)]
    if not isinstance(row, dict):
        return None, [("object", "one JSON object", row)]
    problems: list[Problem] = [("duplicate_key", "each key of an object once", repeated)] if repeated else []
    if problem := _encoding_problem(row):
        problems.append(("encoding", "texts that UTF-8 can encode", problem))
    return row, problems


def _json_problem(error: RecursionError | ValueError) -> Problem:
    """Return the problem of unreadable JSON. The official checker handles invalid JSON and stops at other errors."""
    if isinstance(error, json.JSONDecodeError):
        return "json", "one JSON object", str(error)
    problem = "JSON that is nested too deeply" if isinstance(error, RecursionError) else str(error)
    return "json_limit", "JSON that Python can read", problem


def _is_json(line: bytes) -> bool:
    """Return whether a line is blank or one JSON value."""
    try:
        if text := line.decode("utf-8").strip():
            json.loads(text)
    except (RecursionError, ValueError):
        return False
    return True


def _encoding_problem(row: dict[str, Any]) -> str:
    """Return the error for a text that UTF-8 cannot encode, or "" if all can be encoded, at any depth."""
    pending: list[Any] = [row]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending += [*value, *value.values()]
        elif isinstance(value, list):
            pending += value
        elif isinstance(value, str):
            try:
                value.encode("utf-8")
            except UnicodeEncodeError as error:
                return str(error)
    return ""
