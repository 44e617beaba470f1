"""The rules of a submission as a table: how grave a problem is, and what the official side makes of it.

Source: format_checker.py and run_retrieval_eval.py of IBM/mt-rag-benchmark at cc5b1d4. The checks themselves are
functions in `line_rules` (one line at a time) and `checking` (the file as a whole).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from ragtasks.submissions._tasks import SubmissionTask

# Findings of a check: one for each problem, graded by what the official checker does with
# it.
# The official checker passes much that is wrong. So a problem is what it rejects, a warning what it lets through
# although it is wrong or costs points, and a note what may be meant so. Problems and warnings fail a file, notes
# do not.

_MAX_LINES = 10
_LONGEST = 120
_PLACES = re.compile(r"\[\d+\]")


class Words(str):
    """What a check says in its own words where a value would stand: shown without quotes."""

    __slots__ = ()


class Severity(str, Enum):
    """What a finding means for the file."""

    PROBLEM = "problem"
    """The official checker rejects it, or stops at it."""
    WARNING = "warning"
    """The official checker passes it; it is wrong or costs points."""
    NOTE = "note"
    """Allowed, and may be meant so."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem in a submission."""

    line: int
    """Line, counted from 1; 0 for the file as a whole."""
    task_id: str
    """Task, as the file or the input writes it; empty where there is none."""
    rule: str
    """Name in `ragtasks.submissions.mtrageval.RULES`."""
    severity: Severity
    """What it means."""
    expected: str
    """What would have been right."""
    found: str
    """What is there."""
    consequence: str
    """What the official side makes of it."""

    def __str__(self) -> str:
        """Return one line."""
        place = f"line {self.line}" if self.line else "file"
        task = f" ({_cut(_plain(self.task_id))})" if self.task_id else ""
        said = f"expected {self.expected}, found {self.found}"
        return f"{place}{task}: {self.severity.value} {self.rule}: {said} [{self.consequence}]"


@dataclass(frozen=True, slots=True)
class Report:
    """What a check found in one file."""

    name: str
    """The file."""
    task: SubmissionTask
    """What it was checked as."""
    n_rows: int
    """Lines that hold an object."""
    findings: tuple[Finding, ...]
    """Every problem, in the order of the lines; those of the whole file first."""
    unchecked: tuple[str, ...]
    """What was not looked at, and why."""

    @property
    def passes(self) -> bool:
        """Whether there is neither a problem nor a warning."""
        return all(finding.severity is Severity.NOTE for finding in self.findings)

    def count(self, severity: Severity) -> int:
        """Return the number of findings of a severity."""
        return sum(finding.severity is severity for finding in self.findings)


def rendered(value: object) -> str:
    """Return a value of a JSON line as messages show it: one short line of ASCII, as JSON writes it."""
    try:
        text = value if isinstance(value, Words) else json.dumps(value, ensure_ascii=True)
    except RecursionError:
        text = "a value that is nested too deeply to be shown"
    return _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _plain(text: str) -> str:
    """Return a text that keeps to its line and can be printed: as it is, or with escapes."""
    return text if text.isprintable() else json.dumps(text)[1:-1]


def render_text(report: Report, *, every: bool = False) -> Iterator[str]:
    """Yield a report's lines: the counts, problems and warnings, notes, what was not checked."""
    counts = ", ".join(f"{report.count(severity)} {severity.value}s" for severity in Severity)
    yield f"{_plain(report.name)}: task {report.task.value}, {report.n_rows} tasks: {counts}"
    notes, others = (
        [one for one in report.findings if (one.severity is Severity.NOTE) == is_note] for is_note in (True, False)
    )
    groups = _alike(others)
    for same in groups:
        yield from (f"  {one}" for one in same) if every or len(same) == 1 else [f"  {_together(same)}"]
    if not every and len(groups) < len(others):
        yield "  equal ones are put together; --all prints each"
    yield from (f"  {_together(same)}" for same in _alike(notes))
    yield from (f"  not checked: {text}" for text in report.unchecked)


def _alike(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Return equal findings together, in the order of the first ones; notes are equal if of one rule.

    Whether a field is of the first context or of the tenth makes no difference.
    """
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        expected = "" if finding.severity is Severity.NOTE else _PLACES.sub("[]", finding.expected)
        groups.setdefault((finding.rule, finding.severity.value, expected), []).append(finding)
    return list(groups.values())


def _together(same: Sequence[Finding]) -> str:
    """Return one line on equal findings: how many, their first lines, and the first of them."""
    first = same[0]
    numbers = list(dict.fromkeys(str(finding.line) for finding in same))
    lines, more = ", ".join(numbers[:_MAX_LINES]), ", ..." if len(numbers) > _MAX_LINES else ""
    said = f"expected {first.expected}, found {first.found} [{first.consequence}]"
    return f"{first.severity.value} {first.rule}: {len(same):,} times (line {lines}{more}); the first: {said}"


def render_json(report: Report) -> dict[str, Any]:
    """Return a report as one JSON object, for scripts."""
    return {
        "file": report.name,
        "task": report.task.value,
        "n_tasks": report.n_rows,
        "passes": report.passes,
        "counts": {severity.value: report.count(severity) for severity in Severity},
        "findings": [{**asdict(finding), "severity": finding.severity.value} for finding in report.findings],
        "unchecked": list(report.unchecked),
    }


MAX_CONTEXTS = 10
"""Contexts that a task may have."""
RECOMMENDED_CONTEXTS = 5
"""Contexts that the organisers recommend for task C."""
MAX_BYTES = 20 * 1024 * 1024
"""Size that a file may have."""

_REJECTS = "the official checker rejects it"
_STOPS = "the official checker stops at it"


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that a submission must keep to."""

    name: str
    """Name in reports."""
    severity: Severity
    """How grave a problem is."""
    consequence: str
    """What the official side makes of it."""
    noted_for: str = ""
    """Letters of the tasks for which it is a note only."""

    def finding(self, line: int, task_id: str, task: SubmissionTask, expected: str, found: object) -> Finding:
        """Return a problem against this rule in a submission for a task."""
        severity = Severity.NOTE if task.value in self.noted_for else self.severity
        return Finding(line, task_id, self.name, severity, expected, rendered(found), self.consequence)


_TABLE = (
    # The file.
    Rule("file_name", Severity.PROBLEM, _REJECTS),
    Rule("file_size", Severity.PROBLEM, _REJECTS),
    Rule("no_tasks", Severity.PROBLEM, "the numbers of tasks differ: " + _REJECTS),
    Rule("missing_task", Severity.PROBLEM, _REJECTS),
    Rule("unknown_task", Severity.PROBLEM, _REJECTS),
    Rule("task_spelling", Severity.PROBLEM, "ids are compared as texts: " + _REJECTS),
    Rule("duplicate_task", Severity.PROBLEM, "the official checker sees only that the numbers of tasks differ"),
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
    Rule("encoding", Severity.WARNING, "half of a surrogate pair: no request to a judge can carry it"),
    # Contexts.
    Rule("too_many_contexts", Severity.PROBLEM, _REJECTS),
    Rule("context_object", Severity.PROBLEM, _REJECTS),
    Rule("document_id", Severity.PROBLEM, _REJECTS),
    Rule("score", Severity.PROBLEM, _REJECTS),
    Rule("score_boolean", Severity.WARNING, "passed as 1 or 0"),
    Rule("score_not_finite", Severity.WARNING, "passed; as a 32-bit number it has no place in a ranking"),
    Rule("scores_unordered", Severity.WARNING, "ranked by score, not by place: others count as the first", "BC"),
    Rule("scores_tied", Severity.WARNING, "equal as 32-bit numbers: ranked by document id, descending", "BC"),
    Rule("duplicate_document", Severity.WARNING, "one place is lost; the last score counts"),
    Rule("blank_document_id", Severity.WARNING, "passed; matches no document"),
    Rule("unknown_document", Severity.WARNING, "passed; never relevant"),
    Rule("context_text", Severity.WARNING, "passed; the generation metrics read the text"),
    Rule("no_contexts", Severity.NOTE, "scores 0 where the task is judged; the official checker warns"),
    Rule("many_contexts", Severity.NOTE, f"{RECOMMENDED_CONTEXTS} are recommended"),
    # Predictions.
    Rule("prediction_object", Severity.PROBLEM, _REJECTS),
    Rule("prediction_text", Severity.PROBLEM, _REJECTS),
    Rule("n_predictions", Severity.WARNING, "passed; the evaluation scores one prediction"),
    Rule("empty_prediction", Severity.WARNING, "passed; scores next to nothing"),
    Rule("thinking_text", Severity.NOTE, "judged as part of the answer"),
    # What goes along.
    Rule("task_id_shape", Severity.WARNING, "passed; names no conversation and turn"),
    Rule("conversation_id", Severity.WARNING, "passed; contradicts the task id"),
    Rule("turn", Severity.WARNING, "passed; contradicts the task id"),
    Rule("collection", Severity.WARNING, "passed; the retrieval evaluation finds no judgements for it"),
    Rule("message", Severity.WARNING, "passed; judges are shown the conversation"),
    Rule("other_input", Severity.WARNING, "passed; judged by another question than was asked"),
    Rule("other_contexts", Severity.WARNING, "passed; task B answers from the passages that it is given"),
    Rule("other_context_text", Severity.WARNING, "passed; judged by another text than was given"),
)

RULES = {rule.name: rule for rule in _TABLE}
"""Rule name -> rule."""
