"""The answers of a file with its problems, for every year of the track."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ragtasks.submissions._findings import Diagnostic, Problem, Report, Rule
from ragtasks.submissions.trec_rag._answer import CitedAnswer

REFUSES = "the track refuses the file"
WARNS = "the track warns of it"


@dataclass(slots=True)
class CheckedFile:
    """An answer file and its problems."""

    form: str
    rules: Mapping[str, Rule]
    answers: list[CitedAnswer] = field(default_factory=list)
    """The answers without problems, in the order of the file."""
    findings: list[Diagnostic] = field(default_factory=list)
    repaired: list[dict[str, Any]] = field(default_factory=list)
    """The same answers as the track of 2024 repairs them, as the objects of their lines; empty for 2025."""
    n_rows: int = 0
    """Lines that are not blank."""
    unchecked: tuple[str, ...] = ()

    def add(self, line: int, topic_id: str, problem: Problem) -> None:
        """Note a problem in a line, 0 for the file as a whole."""
        rule, expected, found = problem
        self.findings.append(self.rules[rule].finding(line, topic_id, expected, found))

    def report(self, name: str) -> Report:
        """Return the report of the file; the track repairs or passes what is a warning."""
        return Report(name, self.form, self.n_rows, tuple(self.findings), self.unchecked, warnings_fail=False)


def unchecked_topics(topics: object, what: str, benchmark: str) -> tuple[str, ...]:
    """Return what cannot be told without the topics; () with them."""
    ids = f"whether each {what} is one of the track's, with its text, and none is missing"
    return () if topics is not None else (f"{ids}: no {what}s are here (`ragtasks data fetch {benchmark}`)",)
