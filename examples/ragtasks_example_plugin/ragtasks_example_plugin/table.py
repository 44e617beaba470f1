"""An additional table of the report: how often each model refuses, and its most frequent wording."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ragtasks.results import Evaluation
from ragtasks.tables import Table, Value


def refusals(evaluations: Sequence[Evaluation]) -> Table:
    """Return the share of refusals, one row per model."""
    return Table("Refusals", ("model", "n", "refused", "most often"), tuple(map(_line, evaluations)))


def _line(evaluation: Evaluation) -> tuple[str, str, Value, str]:
    refused = [row.idk == "yes" for row in evaluation.rows if row.idk is not None]
    share = sum(refused) / len(refused) if refused else None
    texts = Counter(row.response.text for row in evaluation.rows if row.idk == "yes")
    ((text, _),) = texts.most_common(1) or [("-", 0)]
    return evaluation.model, str(len(evaluation.rows)), Value(share, len(refused), len(evaluation.rows)), text
