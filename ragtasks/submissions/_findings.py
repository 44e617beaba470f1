"""What a check of a submission finds, for every track: problems graded by what the official side makes of them."""

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

from ragtasks.errors import BenchmarkFileError, excerpt


class SubmissionTask(str, Enum):
    """The tasks of MTRAGEval (SemEval-2026 task 8)."""

    A = "A"
    """Retrieval."""
    B = "B"
    """Answers from the reference passages."""
    C = "C"
    """Retrieval and answers."""


# The official checkers pass much that is wrong. So a problem is what they reject, a warning what they let through
# although it is wrong or costs points, and a note what may be meant so.

_MAX_LINES = 10
_MAX_REFUSED = 20
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
class Diagnostic:
    """One problem in a submission."""

    line: int
    """Line, counted from 1; 0 for the file as a whole."""
    task_id: str
    """Task, as the file or the input writes it; empty where there is none."""
    rule: str
    severity: Severity
    expected: str
    found: str
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
    form: str
    """What it was checked as, such as `task B` or `TREC RAG 2024`."""
    n_rows: int
    """Lines that hold an object, or what else `unit` names."""
    findings: tuple[Diagnostic, ...]
    """Every problem, in the order of the lines; those of the whole file first."""
    unchecked: tuple[str, ...] = ()
    warnings_fail: bool = True
    """Whether a warning fails the file; not where the track repairs what it warns of."""
    unit: str = "lines"

    @property
    def passes(self) -> bool:
        """Whether there is no problem, and no warning that fails the file."""
        return not (self.count(Severity.PROBLEM) or (self.warnings_fail and self.count(Severity.WARNING)))

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
    return excerpt(text, _LONGEST)


def _plain(text: str) -> str:
    """Return a text that keeps to its line and can be printed: as it is, or with escapes."""
    return text if text.isprintable() else json.dumps(text)[1:-1]


def render_text(report: Report, *, every: bool = False) -> Iterator[str]:
    """Yield a report's lines: the counts, problems and warnings, notes, what was not checked."""
    counts = ", ".join(f"{report.count(severity)} {severity.value}s" for severity in Severity)
    yield f"{_plain(report.name)}: {report.form}, {report.n_rows} {report.unit}: {counts}"
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


def _alike(findings: Iterable[Diagnostic]) -> list[list[Diagnostic]]:
    """Return equal findings together, in the order of the first ones; notes are equal if of one rule.

    Whether a field is of the first context or of the tenth makes no difference.
    """
    groups: dict[tuple[str, str, str], list[Diagnostic]] = {}
    for finding in findings:
        expected = "" if finding.severity is Severity.NOTE else _PLACES.sub("[]", finding.expected)
        groups.setdefault((finding.rule, finding.severity.value, expected), []).append(finding)
    return list(groups.values())


def _together(same: Sequence[Diagnostic]) -> str:
    """Return one line on equal findings: how many, their first lines, and the first of them."""
    first = same[0]
    numbers = list(dict.fromkeys(str(finding.line) for finding in same if finding.line))
    lines, more = ", ".join(numbers[:_MAX_LINES]), ", ..." if len(numbers) > _MAX_LINES else ""
    place = f" (line {lines}{more})" if numbers else f" (first {_cut(_plain(first.task_id))})" if first.task_id else ""
    said = f"expected {first.expected}, found {first.found} [{first.consequence}]"
    return f"{first.severity.value} {first.rule}: {len(same):,} times{place}; the first: {said}"


def render_json(report: Report) -> dict[str, Any]:
    """Return a report as one JSON object, for scripts."""
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
    """One thing that a submission must keep to."""

    name: str
    severity: Severity
    consequence: str
    """What the official side makes of it."""
    noted_for: str = ""
    """Letters of the tasks for which it is a note only."""

    def finding(self, line: int, task_id: str, expected: str, found: object, letter: str = "") -> Diagnostic:
        """Return a problem against this rule; the letter is that of MTRAGEval's task."""
        severity = Severity.NOTE if letter and letter in self.noted_for else self.severity
        return Diagnostic(line, task_id, self.name, severity, expected, rendered(found), self.consequence)


def refuse_problems(what: str, path: Path, findings: Iterable[Diagnostic], next_step: str) -> None:
    """Raise one error for what the official side rejects or stops at; warnings and notes pass."""
    problems = [str(finding) for finding in findings if finding.severity is Severity.PROBLEM]
    if problems:
        listed = "\n    ".join(problems[:_MAX_REFUSED])
        raise BenchmarkFileError(
            what,
            where=str(path),
            expected="a file that the track accepts",
            found=f"{len(problems)} problems\n    {listed}",
            next_step=next_step,
        )


@contextmanager
def reading(what: str, path: Path) -> Iterator[BufferedReader]:
    """Open a file that is checked; one that cannot be read is an error of its own, and no finding."""
    try:
        with path.open("rb") as stream:
            yield stream
    except (OSError, ValueError) as error:
        found = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise BenchmarkFileError(
            what, where=str(path), expected="a file that can be read", found=found, next_step="check the path"
        ) from error


def rules(*groups: tuple[Severity, str, str]) -> dict[str, Rule]:
    """Return name -> rule, of groups: severity, what the official side makes of it, and names."""
    return {name: Rule(name, severity, what) for severity, what, names in groups for name in names.split()}


Problem = tuple[str, str, object]
"""Name of the rule, what was expected, what was found."""
