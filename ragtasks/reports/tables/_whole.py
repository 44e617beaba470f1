"""Which evaluations are over fewer tasks than their setting has.

Leaving tasks out moves a mean: without its unanswerable tasks a model that never refuses leads. Such an evaluation
stands after the whole ones, says at each score how many tasks it has, and what it would be if the missing ones had 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragtasks.logs import Evaluation, Row
from ragtasks.metrics import Metric
from ragtasks.tables import Table, Value

_NOTE = (
    "Some evaluations have fewer tasks than their setting. They stand after the others and are not to be ranked with "
    "them; here each task that is missing counts as 0."
)


def offered_tasks(evaluations: Sequence[Evaluation]) -> dict[tuple[str, str], int]:
    """Return (model, setting) -> tasks that the setting has, as far as it is known.

    What follows from labels says nothing of it itself: it has what the largest of the others has.

    Args:
        evaluations: of one kind, one a model.
    """
    known = {(item.model, setting): n for item in evaluations for setting, n in item.n_tasks.items()}
    largest: dict[str, int] = {}
    for (_, setting), n in known.items():
        largest[setting] = max(n, largest.get(setting, 0))
    return {
        (item.model, setting): known.get((item.model, setting), n)
        for item in evaluations
        for setting, n in largest.items()
    }


def missing_from(rows: Sequence[Row], n_offered: int | None) -> int | None:
    """Return how many tasks the setting has, where the rows are fewer; None where they are all, or nobody knows."""
    return n_offered if n_offered is not None and len(rows) < n_offered else None


def as_zero_table(overview: Table, metrics: Sequence[Metric]) -> list[Table]:
    """Return the scores of the first table that lack tasks, with these as 0; none where none does.

    Args:
        overview: settings side by side, its scores filled in.
        metrics: those of which 0 is the worst are shown.
    """
    shown = {metric.name for metric in metrics if metric.higher_is_better and metric.bounds[0] == 0}
    places = [place for place, name in enumerate(overview.columns) if name in shown]
    rows = []
    for row in overview.rows:
        cells = [cell for place in places if isinstance(cell := row[place], Value)]
        if cells and cells[0].missing:
            worst = [Value(cell.with_missing_as_zero, cell.n_scored, cell.n_scored) for cell in cells]
            rows.append((row[0], row[1], cells[0].missing.removesuffix(" tasks"), *worst))
    if not rows:
        return []
    columns = ("setting", "model", "tasks", *(overview.columns[place] for place in places))
    return [Table("Fewer tasks than the setting has", columns, tuple(rows), _NOTE)]


__all__ = ["as_zero_table", "missing_from", "offered_tasks"]
