"""Who stands where in a table of evaluations that compare, and who cannot be told from the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragtasks.metrics import Metric
from ragtasks.reports.history._entries import Entry
from ragtasks.reports.history._tables import time_text
from ragtasks.reports.tables import is_baseline
from ragtasks.statistics import LEVEL, Comparison, compare_columns


@dataclass(frozen=True, slots=True)
class Standing:
    """An entry with its place in a table."""

    rank: int | None
    """From 1; equal scores share one. None for a baseline beside models, and where what ranks has no value."""
    entry: Entry
    """The evaluation."""
    is_best: bool = False
    """Whether the others are compared with it."""
    difference: float | None = None
    """Its mean less the best's, over the tasks that both scored; None where they were not compared."""
    p: float | None = None
    """That it is as good as the best, by Holm over the table; None where they were not compared or not tested."""
    untested: str = ""
    """Why a difference has no p."""

    @property
    def is_tie(self) -> bool:
        """Whether it cannot be told from the best."""
        return self.p is not None and self.p > LEVEL


def standings(entries: Sequence[Entry], metric: Metric, *, is_partial: bool) -> list[Standing]:
    """Return the entries best first, baselines and those without a score last; ties by model, then time, then file.

    By a metric of which neither direction is better, and where tasks are missing, nobody has a rank. Baselines have
    one only where there is nothing else.

    Args:
        entries: those of one table.
        metric: what ranks.
        is_partial: whether tasks are missing.
    """
    sign = -1 if metric.higher_is_better else 1
    models = [entry for entry in entries if not is_baseline(entry.model)] or list(entries)
    last = {id(entry) for entry in entries} - {id(entry) for entry in models}
    values = {id(entry): None if metric.higher_is_better is None else value_of(entry, metric) for entry in entries}
    signed = [sign * value for key, value in values.items() if value is not None and key not in last]

    def order(entry: Entry) -> tuple[bool, bool, float, str, str, str]:
        value = values[id(entry)]
        own = (value is None, id(entry) in last, sign * (value or 0.0))
        return (*own, entry.model, time_text(entry), str(entry.source))

    def rank(entry: Entry) -> int | None:
        value = None if is_partial or id(entry) in last else values[id(entry)]
        return None if value is None else 1 + sum(other < sign * value for other in signed)

    found = [Standing(rank(entry), entry) for entry in sorted(entries, key=order)]
    return _compared(found, metric)


def value_of(entry: Entry, metric: Metric) -> float | None:
    """Return the mean of an entry by a metric, None where it has none."""
    mean = entry.means.get(metric.name)
    return None if mean is None else mean.value


def _compared(found: Sequence[Standing], metric: Metric) -> list[Standing]:
    """Return the standings with what sets them apart from the first, where they have a rank and scores to compare."""
    columns = {
        str(place): replace(item.entry.ranking, name=str(place))
        for place, item in enumerate(found)
        if item.rank is not None and item.entry.ranking is not None and item.entry.ranking.metric == metric.name
    }
    if len(columns) < 2 or "0" not in columns:
        return list(found)
    pairs = {pair.second.name: pair for pair in compare_columns(list(columns.values()), "0").pairs}
    return [_told_apart(item, str(place), pairs) for place, item in enumerate(found)]


def _told_apart(standing: Standing, name: str, pairs: dict[str, Comparison]) -> Standing:
    if name not in pairs:
        return replace(standing, is_best=name == "0")
    found, p = pairs[name].difference, pairs[name].adjusted_p
    return replace(standing, difference=found.value, p=p, untested=found.reason if p is None else "")


__all__ = ["Standing", "standings", "value_of"]
