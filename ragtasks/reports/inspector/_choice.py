"""Which metrics and tasks fit into a file whose viewer wants a value in every cell.

A task must have a result of every model, and every result a value of every metric. What does not fit is left out here,
with a line that says so, instead of by the viewer without a word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragtasks.errors import ConfigurationError

Key = tuple[str, str]
"""Setting and task id."""
Scores = dict[str, dict[str, float]]
"""Metric -> annotator -> value; without the metrics that have no value."""


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """Every score that there is."""

    cells: Mapping[str, Mapping[Key, Scores]]
    """Model -> task -> its scores."""
    metrics: tuple[str, ...]
    """Names of all metrics, in order."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What fits."""

    metrics: Sequence[str]
    """Names, in order."""
    keys: Mapping[Key, None]
    """Tasks in the order of the first model, as a mapping for fast look-ups."""
    left_out: Sequence[str]
    """What does not fit and why, a line each."""


def choose(table: ScoreTable, most_unscored: float) -> Choice:
    """Return the metrics and tasks that make a table without a gap.

    Args:
        table: every score.
        most_unscored: a metric that a larger share of the tasks lacks is left out; else those tasks are.

    Raises:
        ConfigurationError: no task or no metric would be left.
    """
    first, *others = table.cells.values()
    every = {key for cells in table.cells.values() for key in cells}
    shared = [key for key in first if all(key in cells for cells in others)]
    left_out = [f"{len(every) - len(shared)} tasks that not every model answered"] if len(shared) < len(every) else []
    lacking = {name: _lacking(table, name, shared) for name in table.metrics}
    most = min(most_unscored * len(shared), len(shared) - 1)
    metrics = [name for name in table.metrics if len(lacking[name]) <= most]
    left_out += [
        f"metric {name}: no value in {len(lacking[name])} of {len(shared)} tasks"
        for name in table.metrics
        if len(lacking[name]) > most
    ]
    gaps = {key for name in metrics for key in lacking[name]}
    if gaps:
        names = [f"{name} ({len(lacking[name])})" for name in metrics if lacking[name]]
        left_out.append(f"{len(gaps)} tasks without a value of {', '.join(names)}")
    keys = {key: None for key in shared if key not in gaps}
    if not keys or not metrics:
        raise ConfigurationError(
            "nothing that every model answered and every metric scored: " + ("; ".join(left_out) or "no task")
        )
    return Choice(metrics, keys, left_out)


def _lacking(table: ScoreTable, name: str, keys: Sequence[Key]) -> list[Key]:
    """Return the tasks where a model has no value of a metric."""
    return [key for key in keys if any(name not in cells[key] for cells in table.cells.values())]


__all__ = ["Choice", "Key", "ScoreTable", "Scores", "choose"]
