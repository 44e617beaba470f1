"""What can go wrong with a response, as kinds to filter by: the classes of the tables of losses, and gaps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ragtasks.judges.verdicts import VerdictOutcome
from ragtasks.reports.losses import ANSWERED, MISSED, NO_VERDICT, NOT_USED, REFUSED, UNSCORED, failure_kind
from ragtasks.reports.results import Row

_NO_FAULT = {VerdictOutcome.GIVEN.value, VerdictOutcome.NO_STATEMENTS.value, VerdictOutcome.NOT_ASKED.value}


@dataclass(frozen=True, slots=True)
class Failure:
    """A kind of failure."""

    name: str
    """For people, few words."""
    meaning: str
    """When a response has it."""


FAILURES = (
    Failure(REFUSED, "the passages have an answer, at least of a part, and the response wholly refuses"),
    Failure(ANSWERED, "the passages have no answer, and the response does not wholly refuse"),
    Failure(MISSED, "answered, and none of the reference passages was shown"),
    Failure(
        NOT_USED, "answered, a reference passage was shown, and the first metric fell from that of setting reference"
    ),
    Failure(UNSCORED, "a metric has no value: the reason stands beside it"),
    Failure(NO_VERDICT, "a judge was asked and gave none"),
)
"""All kinds, in the order in which they are shown; a response has at most one of the first four."""


def failures_of(row: Row, loss: float | None, outcomes: Iterable[str]) -> list[str]:
    """Return the names of the kinds that a response has, in the order of `FAILURES`.

    Args:
        row: its figures and labels.
        loss: how much worse it is than the same model's response to the reference passages; None: not known.
        outcomes: what became of each question to a judge, in the words of `VerdictOutcome`.
    """
    found = {failure_kind(row, loss)} - {UNSCORED, NO_VERDICT}  # said there only where nothing worse is known
    if any(value is None for value in row.values.values()):
        found.add(UNSCORED)
    if any(outcome not in _NO_FAULT for outcome in outcomes):
        found.add(NO_VERDICT)
    return [failure.name for failure in FAILURES if failure.name in found]


__all__ = ["FAILURES", "Failure", "failures_of"]
