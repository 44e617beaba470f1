"""One table more of a report: how often each model refuses."""

from __future__ import annotations

from collections.abc import Sequence

from ragtasks.results import Evaluation
from ragtasks.tables import Table, Value


def refusals(evaluations: Sequence[Evaluation]) -> Table:
    """Return the share of responses that say that they do not know, a line a model."""
    return Table("Refusals", ("model", "n", "refused"), tuple(map(_line, evaluations)))


def _line(evaluation: Evaluation) -> tuple[str, str, Value]:
    known = [row.idk == "yes" for row in evaluation.rows if row.idk is not None]
    share = sum(known) / len(known) if known else None
    return evaluation.model, str(len(evaluation.rows)), Value(share, len(known), len(evaluation.rows))
