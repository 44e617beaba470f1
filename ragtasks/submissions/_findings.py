"""Findings of a submission check in all tracks, graded by their effect in the official evaluation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import Enum
from io import BufferedReader
from pathlib import Path
from typing import Any

from ragtasks.errors import BenchmarkFileError, excerpt, missing_path


class SubmissionTask(str, Enum):
    """The tasks of MTRAGEval (SemEval-2026 task 8)."""

    A = "A"
    """Retrieval."""
    B = "B"
    """Answers from the reference passages."""
    C = "C"
    """Retrieval and answers."""


# The official checkers accept many errors. A problem is an error that they reject. A warning is an error that they
# accept although it costs points. A note may be intended.

_MAX_LINES = 10
_MAX_REFUSED = 20
_LONGEST = 120
_INDEX = re.compile(r"\[\d+\]")


class Words(str):
    """A description in place of a value, printed without quotes."""

    __slots__ = ()


class Severity(str, Enum):
    """The effect of a finding on the file."""

    PROBLEM = "problem"
    """The official checker rejects the file or stops."""
    WARNING = "warning"
    """The official checker accepts it, but it is wrong or costs points."""
    NOTE = "note"
    """Allowed, and possibly intended."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A finding in a submission."""

    line: int
    """Line number from 1; 0 for the complete file."""
    task_id: str
    """Task id as in the file or the input; empty without a task."""
    rule: str
    severity: Severity
    expected: str
    found: str
    consequence: str
    """Effect in the official evaluation."""

    def __str__(self) -> str:
        """Return the finding as a line of text."""
        position = f"line {self.line}" if self.line else "file"
        task = f" ({_excerpt(_printable(self.task_id))})" if self.task_id else ""
        finding = f"expected {self.expected}, found {self.found}"
        return f"{position}{task}: {self.severity.value} {self.rule}: {finding} [{self.consequence}]"


@dataclass(frozen=True, slots=True)
class Report:
    """The findings in a file."""

    name: str
    form: str
    """Checked format, such as `task B` or `TREC RAG 2024`."""
    n_rows: int
    """Number of lines with an object, or of turns (see `unit`)."""
    findings: tuple[Diagnostic, ...]
    """All findings in line order; those of the complete file come first."""
    unchecked: tuple[str, ...] = ()
    warnings_fail: bool = True
    """Whether a warning fails the file; False if the track repairs what it warns about."""
    unit: str = "lines"

    @property
    def passes(self) -> bool:
        """Whether the file has no problem and no warning that fails it."""
        return not (self.count(Severity.PROBLEM) or (self.warnings_fail and self.count(Severity.WARNING)))

    def count(self, severity: Severity) -> int:
        return sum(finding.severity is severity for finding in self.findings)


def rendered(value: object) -> str:
    """Return a value of a JSON line for messages: a short line of JSON in ASCII."""
    try:
        text = value if isinstance(value, Words) else json.dumps(value, ensure_ascii=True)
    except RecursionError:
        text = "a value that is nested too deeply"
    return _excerpt(text)


def _excerpt(text: str) -> str:
    return excerpt(text, _LONGEST)


def _printable(text: str) -> str:
    """Return a text as a printable single line, with escapes if needed."""
    return text if text.isprintable() else json.dumps(text)[1:-1]


def render_text(report: Report, *, every: bool = False) -> Iterator[str]:
    """Yield the lines of a report: counts, problems and warnings, notes, unchecked parts."""
    counts = ", ".join(f"{report.count(severity)} {severity.value}s" for severity in Severity)
    yield f"{_printable(report.name)}: {report.form}, {report.n_rows} {report.unit}: {counts}"
    notes, failures = (
        [finding for finding in report.findings if (finding.severity is Severity.NOTE) == is_note]
        for is_note in (True, False)
    )
    groups = _groups_of(failures)
    for group in groups:
        yield from (f"  {finding}" for finding in group) if every or len(group) == 1 else [f"  {_group_line(group)}"]
    if not every and len(groups) < len(failures):
        yield "  equal findings are combined; --all prints each"
    yield from (f"  {_group_line(group)}" for group in _groups_of(notes))
    yield from (f"  not checked: {text}" for text in report.unchecked)


def _groups_of(findings: Iterable[Diagnostic]) -> list[list[Diagnostic]]:
    """Return groups of equal findings, in the order of their first ones. Notes are equal if they have the same rule.

    The position of a context in its list does not matter.
    """
    groups: dict[tuple[str, str, str], list[Diagnostic]] = {}
    for finding in findings:
        expected = "" if finding.severity is Severity.NOTE else _INDEX.sub("[]", finding.expected)
        groups.setdefault((finding.rule, finding.severity.value, expected), []).append(finding)
    return list(groups.values())


def _group_line(findings: Sequence[Diagnostic]) -> str:
    """Return a line about equal findings: their number, first lines, and the first finding."""
    first = findings[0]
    numbers = list(dict.fromkeys(str(finding.line) for finding in findings if finding.line))
    lines, more = ", ".join(numbers[:_MAX_LINES]), ", ..." if len(numbers) > _MAX_LINES else ""
    position = (
        f" (line {lines}{more})"
        if numbers
        else f" (first {_excerpt(_printable(first.task_id))})"
        if first.task_id
        else ""
    )
    example = f"expected {first.expected}, found {first.found} [{first.consequence}]"
    return f"{first.severity.value} {first.rule}: {len(findings):,} times{position}; the first: {example}"


def render_json(report: Report) -> dict[str, Any]:
    """Return a report as a JSON object for scripts."""
    return {
        "file": report.name,
        "form": report.form,
        "n_lines": report.n_rows,
        "passes": report.passes,
        "counts": {severity.value: report.count(severity) for severity in Severity},
        "findings": [{**asdict(finding), "severity": finding.severity.value} for finding in report.findings],
        "unchecked": list(report.unchecked),
    }


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule for submissions."""

    name: str
    severity: Severity
    consequence: str
    """Effect in the official evaluation."""
    noted_for: str = ""
    """Letters of the tasks for which findings are notes."""

    def finding(self, line: int, task_id: str, expected: str, found: object, letter: str = "") -> Diagnostic:
        """Return a finding for this rule. `letter` is MTRAGEval's task."""
        severity = Severity.NOTE if letter and letter in self.noted_for else self.severity
        return Diagnostic(line, task_id, self.name, severity, expected, rendered(found), self.consequence)


def refuse_problems(title: str, path: Path, findings: Iterable[Diagnostic], next_step: str) -> None:
    """Raise an error that lists the problems. Warnings and notes are accepted."""
    problems = [str(finding) for finding in findings if finding.severity is Severity.PROBLEM]
    if problems:
        listed = "\n    ".join(problems[:_MAX_REFUSED])
        raise BenchmarkFileError(
            title,
            where=str(path),
            expected="a file that the track accepts",
            found=f"{len(problems)} problems\n    {listed}",
            next_step=next_step,
        )


@contextmanager
def reading(title: str, path: Path) -> Iterator[BufferedReader]:
    """Open a file to check. An unreadable file is an error, not a finding."""
    try:
        with path.open("rb") as stream:
            yield stream
    except (OSError, ValueError) as error:
        problem = (error.strerror if isinstance(error, OSError) else "") or str(error)
        next_step = missing_path(path)[1] if not path.exists() else "name a file in it" if path.is_dir() else "check it"
        raise BenchmarkFileError(
            title, where=str(path), expected="a file that can be read", found=problem, next_step=next_step
        ) from error


def rules(*groups: tuple[Severity, str, str]) -> dict[str, Rule]:
    """Return name -> rule from groups of (severity, effect in the official evaluation, names)."""
    return {
        name: Rule(name, severity, consequence) for severity, consequence, names in groups for name in names.split()
    }


Problem = tuple[str, str, object]
"""Name of the rule, expected, found."""
