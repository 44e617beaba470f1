"""Columns of scores compared in pairs, on the items that both have and both scored.

A column is one model in one setting by one metric, or one run by one metric: this module does not care. Columns meet
only where context, group and metric are the same, so scores of other data or another judge are never set against each
other. Holm's correction is over everything that one call compares.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragtasks.errors import ConfigurationError, clear_error, close_matches
from ragtasks.statistics._clusters import UNBOUNDED, Clustered, cluster
from ragtasks.statistics._detectable import detectable_difference
from ragtasks.statistics._holm import holm
from ragtasks.statistics._means import Estimate, estimate_means


@dataclass(frozen=True, slots=True)
class Column:
    """The scores of one side of comparisons."""

    context: str
    """What both sides must share to be compared at all, in words for the report: data, encoder, judges."""
    group: str
    """What else they share, such as the setting."""
    metric: str
    """What the scores are."""
    name: str
    """Who they are of, such as the model."""
    values: Mapping[str, float | None]
    """Item, such as a task id -> score, None where unscored."""
    cluster_of: Mapping[str, str]
    """Item -> cluster, such as its conversation id."""
    bounds: tuple[float, float] = UNBOUNDED
    """Smallest and largest score that can be."""
    higher_is_better: bool | None = True
    """Direction of the metric; None where neither is better."""
    n_offered: int | None = None
    """Items that there are to score; None where that is not known, or all are here."""
    note: str = ""
    """What a reader must know of it, as a sentence without its name; empty for nothing."""


@dataclass(frozen=True, slots=True)
class Mean:
    """One column's mean over all that it scored."""

    column: Column
    """The column."""
    estimate: Estimate
    """Mean and interval."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two columns on the items that both scored."""

    first: Column
    """The one compared with."""
    second: Column
    """The one compared."""
    first_mean: float | None
    """Mean of the first over the shared items; None without any."""
    second_mean: float | None
    """Mean of the second over the same."""
    difference: Estimate
    """Mean of second less first, with its p value. Its `n_unscored` are items that one or both did not score."""
    n_unshared: int
    """Items that only one of the two has."""
    adjusted_p: float | None
    """The p value by Holm, over all comparisons of the call; None where there is no p."""
    detectable: float | None
    """Smallest true difference that such a benchmark finds four times out of five; None where that is unknown."""

    @property
    def p(self) -> float | None:
        """Two-sided, of no difference: at most 5 % where the interval leaves 0 out. None as the difference says."""
        return self.difference.p


@dataclass(frozen=True, slots=True)
class Comparisons:
    """Everything that one call compared."""

    means: tuple[Mean, ...]
    """One a column, in their order."""
    pairs: tuple[Comparison, ...]
    """One a pair of columns that may be compared, in the order of the first and then of the second."""


def compare_columns(columns: Sequence[Column], baseline: str | None = None) -> Comparisons:
    """Return all columns' means, and every pair that shares context, group and metric.

    Args:
        columns: what to compare; in a pair, the one that comes earlier is the first.
        baseline: name of the column that is the first of every pair; None: every pair.

    Raises:
        ConfigurationError: an unknown baseline, two columns that nothing tells apart, or no pair at all.
    """
    _check(columns, baseline)
    pairs = list(_pairs(columns, baseline))
    if not pairs:
        raise ConfigurationError(_nothing_to_compare(columns))
    items = [_shared(first, second) for first, second in pairs]
    differences = [_differences(*pair, shared) for pair, shared in zip(pairs, items, strict=True)]
    own = [cluster(list(c.values.values()), [c.cluster_of[item] for item in c.values], c.bounds) for c in columns]
    tested = estimate_means(differences, tested=0.0)
    known = zip(pairs, items, tested, holm([difference.p for difference in tested]), strict=True)
    means = zip(columns, estimate_means(own), strict=True)
    return Comparisons(tuple(Mean(*found) for found in means), tuple(_comparison(*found) for found in known))


def _check(columns: Sequence[Column], baseline: str | None) -> None:
    names = {column.name for column in columns}
    if baseline is not None and baseline not in names:
        raise ConfigurationError(f"unknown baseline {baseline!r}: {close_matches(baseline, names)}")
    seen = set()
    for column in columns:
        key = (column.context, column.group, column.metric, column.name)
        if key in seen:
            raise ConfigurationError(f"two columns to compare are both called {column.name!r} in {column.group}")
        seen.add(key)


def _pairs(columns: Sequence[Column], baseline: str | None) -> Iterator[tuple[Column, Column]]:
    groups: dict[tuple[str, str, str], list[Column]] = {}
    for column in columns:
        groups.setdefault((column.context, column.group, column.metric), []).append(column)
    for members in groups.values():
        if baseline is None:
            yield from itertools.combinations(members, 2)
        else:
            firsts = [column for column in members if column.name == baseline]
            yield from ((first, second) for first in firsts for second in members if second is not first)


def _shared(first: Column, second: Column) -> list[str]:
    return [item for item in first.values if item in second.values]


def _differences(first: Column, second: Column, items: Sequence[str]) -> Clustered:
    pairs = [(first.values[item], second.values[item]) for item in items]
    gaps = [None if one is None or other is None else other - one for one, other in pairs]
    (smallest, largest), (lowest, highest) = first.bounds, second.bounds
    return cluster(gaps, [first.cluster_of[item] for item in items], (lowest - largest, highest - smallest))


def _comparison(
    pair: tuple[Column, Column], items: Sequence[str], difference: Estimate, adjusted_p: float | None
) -> Comparison:
    first, second = pair
    both = [(a, b) for i in items if (a := first.values[i]) is not None and (b := second.values[i]) is not None]
    return Comparison(
        first=first,
        second=second,
        first_mean=sum(one for one, _ in both) / len(both) if both else None,
        second_mean=sum(other for _, other in both) / len(both) if both else None,
        difference=difference,
        n_unshared=len(first.values) + len(second.values) - 2 * len(items),
        adjusted_p=adjusted_p,
        detectable=detectable_difference(difference),
    )


def _nothing_to_compare(columns: Sequence[Column]) -> str:
    found = dict.fromkeys(f"{c.name} in {c.group or 'one group'} ({c.context})" for c in columns)
    return clear_error(
        "comparison",
        where=f"{len(columns)} columns of scores",
        expected="at least two that share data, encoder, judges, setting and metric",
        found="; ".join(found) or "none",
        next_step="name results that were scored alike, or score saved answers again with `ragtasks judge`",
    )


__all__ = ["Column", "Comparison", "Comparisons", "Mean", "compare_columns"]
