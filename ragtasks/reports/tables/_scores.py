"""Means over rows, computed for all tables of a report at once: intervals share their resamples.

While a table is put together a cell holds a `Slot`, the values that its mean is over. `fill` turns every slot of every
table into a `Value` in one pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ragtasks.logs import Row
from ragtasks.metrics import Metric
from ragtasks.statistics import UNBOUNDED, Clustered, Estimate, cluster, estimate_means
from ragtasks.tables import Cell, Table, Value

EMPTY = "empty"
"""The metric that is the share of responses without text."""


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """A cell that waits for its score."""

    column: Clustered
    """The scored values, summed by conversation."""
    n_tasks: int | None = None
    """Tasks that the setting has, where fewer were evaluated."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A table whose scores are not computed yet."""

    table: Table
    """Title, heads and note; its rows are empty."""
    rows: tuple[tuple[Cell | Slot, ...], ...]
    """Cells, one a column."""


def draft(title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell | Slot]], note: str = "") -> Draft:
    """Return a table that waits for its scores."""
    return Draft(Table(title, tuple(columns), (), note), tuple(tuple(row) for row in rows))


def slot(
    rows: Sequence[Row],
    metric: str,
    bounds: tuple[float, float] = UNBOUNDED,
    *,
    n_absent: int = 0,
    n_tasks: int | None = None,
) -> Slot:
    """Return the place of a metric's mean over some rows; no interval reaches beyond the bounds of its values.

    Args:
        rows: responses.
        metric: name.
        bounds: smallest and largest value of the metric.
        n_absent: tasks of the same line of the table without a response here; the score counts them as unscored.
        n_tasks: tasks that the setting has, where these are not all; the score says so.
    """
    values = [row.values.get(metric) for row in rows] + [None] * n_absent
    return Slot(cluster(values, [row.conversation_id for row in rows] + [""] * n_absent, bounds), n_tasks)


def empty_note(metrics: Iterable[Metric]) -> str:
    """Return what a reader must know where some responses are empty; `EMPTY` is among the metrics."""
    described = {metric.name: metric.description for metric in metrics}
    return f"Some responses are empty; `{EMPTY}`: {described[EMPTY]}."


def fill(drafts: Sequence[Draft], *, intervals: bool = True) -> list[Table]:
    """Return the tables with their scores.

    Args:
        drafts: tables, in the order of the report.
        intervals: whether scores come with 95 % intervals over conversations.
    """
    slots = [cell for item in drafts for row in item.rows for cell in row if isinstance(cell, Slot)]
    columns = [item.column for item in slots]
    values = map(_score, estimate_means(columns)) if intervals else map(_mean, columns)
    found = (replace(value, n_tasks=item.n_tasks) for value, item in zip(values, slots, strict=True))
    return [
        replace(
            item.table,
            rows=tuple(tuple(next(found) if isinstance(cell, Slot) else cell for cell in row) for row in item.rows),
        )
        for item in drafts
    ]


def _score(estimate: Estimate) -> Value:
    n_scored = estimate.n_values
    return Value(estimate.value, n_scored, n_scored + estimate.n_unscored, estimate.low, estimate.high)


def _mean(column: Clustered) -> Value:
    return Value(column.mean, column.n_values, column.n_values + column.n_unscored)


__all__ = ["EMPTY", "Draft", "Slot", "draft", "empty_note", "fill", "slot"]
