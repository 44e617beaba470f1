"""What can go wrong with a response, as kinds to filter by: the classes of the tables of losses, and gaps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ragtasks.judges import VerdictOutcome
from ragtasks.logs import Row
from ragtasks.reports.tables import ANSWERED, MISSED, NOT_USED, REFUSED, failure_kind

UNSCORED = "unscored"
"""The metric that losses are of has no value."""
NO_VERDICT = "a judge gave no verdict"
"""A judge was asked and gave no value; others may have given theirs."""

_NO_VIOLATION = {VerdictOutcome.GIVEN.value, VerdictOutcome.NO_STATEMENTS.value, VerdictOutcome.NOT_ASKED.value}


@dataclass(frozen=True, slots=True)
class Failure:
    """A kind of failure."""

    name: str
    """For people, few words."""
    meaning: str
    """When a response has it."""


FAILURES = (REFUSED, ANSWERED, MISSED, NOT_USED, UNSCORED, NO_VERDICT)
"""Names of all kinds, in the order in which they are shown; a response has at most one of the first four."""


def explained(metric: str) -> list[Failure]:
    """Return all kinds, in the order of `FAILURES`.

    Args:
        metric: what losses are measured by, in words.
    """
    meanings = (
        "the passages have an answer, at least of a part, and the response wholly refuses",
        "the passages have no answer, and the response does not wholly refuse",
        "answered, and none of the reference passages was shown",
        f"answered, a reference passage was shown, and {metric} is worse than in setting reference",
        f"{metric} has no value: the reason stands beside it",
        "at least one judge was asked and gave none",
    )
    return [Failure(*both) for both in zip(FAILURES, meanings, strict=True)]


def failures_of(row: Row, metric: str, loss: float | None, outcomes: Iterable[str]) -> list[str]:
    """Return the names of the kinds that a response has, in the order of `FAILURES`.

    Args:
        row: its scores and labels.
        metric: name of what losses are of; without its value the response is unscored.
        loss: how much worse it is than the same model's response to the reference passages; None: not known.
        outcomes: what became of each question to a judge, in the words of `VerdictOutcome`.
    """
    found = {failure_kind(row, loss)}
    if row.values.get(metric) is None:
        found.add(UNSCORED)
    if any(outcome not in _NO_VIOLATION for outcome in outcomes):
        found.add(NO_VERDICT)
    return [name for name in FAILURES if name in found]


__all__ = ["FAILURES", "NO_VERDICT", "UNSCORED", "Failure", "explained", "failures_of"]
