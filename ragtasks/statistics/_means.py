"""What scores of a benchmark let one conclude, where its tasks are not independent."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.tables import Difference, Value, grouped

# Means with their standard errors, intervals and tests over clusters, all three by one statistic.
# A mean over tasks is a ratio of two sums over conversations: values over counts. Its 95 % interval holds the means
# that the test does not reject at 5 %, so p is at most 0.05 where the interval leaves a mean out, and nowhere else.
# How far a mean is from another one is the smaller of two distances, both held against Student's quantiles:
# - the distance in standard errors; where scores have two bounds, as nearly all have, with the standard error that the
#   other mean would have, as in Wilson's score interval, whose ends never leave the bounds;
# - where the other mean is on the side of the longer tail, also that distance corrected for skewness by Hall's
#   transformation. Few conversations often miss a long tail: then their mean is off, and their spread too small. They
#   show too little skewness for the same reason, so it is taken for larger than it is.
# The standard error is that of Bell and McCaffrey (CR2), which makes up for large conversations fitting themselves,
# with their degrees of freedom less two, for skewness and spread are known together. `perf/mean_tests.py` and
# `perf/interval_coverage.py` print what this gives beside other methods; docs/statistics.md has the tables.
# Sources: R. M. Bell and D. F. McCaffrey, Bias reduction in standard errors for linear regression with multi-stage
# samples (2002); E. B. Wilson, Probable inference, the law of succession, and statistical inference (1927); P.
# Hall, On the removal of skewness by transformation (1992); W. G. Cochran, Sampling Techniques (3rd ed., 1977),
# section 6.3, for the standard error of a ratio that is reported.

MIN_CLUSTERS = 10
"""Fewest clusters of an interval: with fewer, none of the methods tried covers what it says."""

UNBOUNDED = (-math.inf, math.inf)

NOTHING_SCORED = "nothing is scored"
TOO_FEW_CLUSTERS = f"fewer than {MIN_CLUSTERS} conversations"
NOTHING_VARIES = "all conversations have the same mean"

# Chosen by simulation with 10 to 110 conversations, between errors where a tail is long and power where there is none.
_MISSED_SKEWNESS = 100.0  # the skewness of n conversations counts 1 + this / n² times
_LOST_FREEDOM = 2.0
_STRAIGHT_FROM = 1.25  # skewness times gap; at 3 Hall's cubic is flat, and an interval would reach far beyond all data
_SLOPE = (1 - _STRAIGHT_FROM / 3) ** 2
_NO_SKEWNESS = 1e-6
_MOST_DOUBLINGS, _HALVINGS = 20, 24


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean, and how far it may be trusted."""

    value: float | None
    """Mean over the scored values; None where nothing is scored."""
    low: float | None
    """Lower end of the interval, within the column's bounds; None where there is none."""
    high: float | None
    """Upper end of the interval; None where there is none."""
    standard_error: float | None
    """Standard error over clusters; None for fewer than two clusters."""
    independent_error: float | None
    """Standard error as if all values were independent, as the harness's; None for fewer than two values."""
    n_clusters: int
    """Clusters with a scored value."""
    n_values: int
    """Scored values."""
    n_unscored: int
    """Values left out because they are not scored."""
    reason: str = ""
    """Why there is no interval; empty where there is one."""
    p: float | None = None
    """Two-sided p value of the mean that was asked about: the smallest 1 - level whose interval leaves that mean out.
    None where none was asked about, or the reason forbids it."""

    @property
    def cell(self) -> Value:
        """The mean as a cell of a table, with its interval and what it covers."""
        return Value(self.value, self.n_values, self.n_values + self.n_unscored, self.low, self.high)


def estimate_means(
    columns: Sequence[Clustered], *, level: float = 0.95, tested: float | None = None, is_discrete: bool = False
) -> list[Estimate]:
    """Return each column's mean with its interval, whatever the other columns are; [] for none.

    `level` is the share of benchmarks whose interval should hold the true mean; `tested` a mean to give a p value of,
    such as 0 for differences. `is_discrete` corrects for scores on a grid, such as 0 and 1: half a step of the mean
    for continuity, and degrees of freedom by kurtosis.

    Source: W. W. Hauck and S. Anderson, A comparison of large-sample confidence interval methods for the difference
    of two binomial probabilities (1986).
    """
    if not 0 < level < 1:
        raise ValueError(f"an interval needs a level between 0 and 1, not {level}")
    return [_estimate(column, level, tested, is_discrete=is_discrete) for column in columns]


def estimate_mean(
    values: Sequence[float | None],
    clusters: Sequence[str],
    bounds: tuple[float, float] = UNBOUNDED,
    extra_error: float = 0.0,
) -> Estimate:
    """Return the mean of one score an item, None where it is unscored, with its interval over the items' clusters."""
    return _estimate(cluster(values, clusters, bounds, extra_error), 0.95, None)


def shared_error(moves: Iterable[Sequence[float]], n: int) -> float:
    """Return the standard error that a shared map brings into a mean of n values: a jackknife over what it rests on.

    `moves` has for each value that was mapped how far it moves when one cluster of the map's data is left out.
    """
    columns = list(moves)
    if not columns or not n:
        return 0.0
    return jackknife_error(np.asarray(columns, dtype=np.float64).sum(axis=0) / n)


def jackknife_error(replicates: Floats) -> float:
    """Return the standard error of a value from what it is without each cluster in turn."""
    n = len(replicates)
    return float(np.sqrt((n - 1) / n * ((replicates - replicates.mean()) ** 2).sum()))


def _estimate(column: Clustered, level: float, tested: float | None, *, is_discrete: bool = False) -> Estimate:
    error, n = _standard_error(column), column.n_values
    reason = _reason(column, error)
    low = high = p = None
    if not reason:
        half = column.half_step if is_discrete else 0.0
        pivot = _pivot(column, is_discrete=half > 0)
        low, high = pivot.ends(level)
        # An error from elsewhere shortens every distance from the mean by this factor.
        wider = math.hypot(1.0, column.extra_error / error) if error else 1.0
        if wider > 1 or half:
            low, high = (pivot.mean + wider * (end - pivot.mean) for end in (low - half, high + half))
            low, high = max(low, column.bounds[0]), min(high, column.bounds[1])
        if tested is not None:
            distance = max(0.0, abs(pivot.mean - tested) / wider - half)
            p = pivot.p_value(pivot.mean - math.copysign(distance, pivot.mean - tested))
        error = error and error * wider
    elif reason == NOTHING_VARIES and tested is not None:
        p = _p_value_of_alike(column, tested)
    return Estimate(
        value=column.mean,
        low=low,
        high=high,
        standard_error=error,
        independent_error=math.sqrt(column.spread / (n - 1) / n) if n > 1 else None,
        n_clusters=len(column.ids),
        n_values=n,
        n_unscored=column.n_unscored,
        reason=reason,
        p=p,
    )


def _standard_error(column: Clustered) -> float | None:
    """Return the standard error of the mean as a ratio of sums over clusters; exactly 0 where no cluster stands out."""
    n = len(column.ids)
    if n < 2:
        return None
    gaps = _gaps(column)
    if np.abs(gaps).max() <= ROUNDING * (1 + np.abs(column.sums).max()):
        return 0.0
    return float(np.sqrt(n / (n - 1) * (gaps @ gaps)) / column.counts.sum())


def _gaps(column: Clustered) -> Floats:
    """Return how far each cluster's sum is from what the overall mean would make it; they add up to 0."""
    return column.sums - (column.mean or 0.0) * column.counts


def _reason(column: Clustered, error: float | None) -> str:
    if not column.n_values:
        return NOTHING_SCORED
    if len(column.ids) < MIN_CLUSTERS:
        return TOO_FEW_CLUSTERS
    return NOTHING_VARIES if error == 0 else ""


def p_of_signs(gaps: Estimate) -> float | None:
    """Return the p value of no change; where all conversations moved by the same, that of their signs.

    Of one judge or system, asked twice, the times could be exchanged: each conversation's gap has either sign with the
    same chance, so nothing need be assumed of conversations that are not here.
    """
    if gaps.reason == NOTHING_VARIES and gaps.value:
        return float(2.0 ** (1 - gaps.n_clusters))
    return gaps.p


def _p_value_of_alike(column: Clustered, tested: float) -> float | None:
    """Return the p value where all conversations have one mean: how rarely the others were all missed.

    Of all benchmarks whose true mean is the tested one, those hide the rest best that have it in few conversations, at
    the far bound and as large as the largest one here. None without a far bound, unless the mean is the tested one.
    """
    gap = (column.mean or 0.0) - tested
    if abs(gap) <= ROUNDING:
        return 1.0
    far = abs(tested - column.bounds[0 if gap > 0 else 1])
    if math.isinf(far):
        return None
    weight, largest = abs(gap) * float(column.counts.mean()), far * float(column.counts.max())
    return min(1.0, 2 * (largest / (weight + largest)) ** len(column.ids))


@dataclass(frozen=True, slots=True)
class _Pivot:
    """What decides which means a column rejects."""

    mean: float
    error: float
    freedom: float
    skewness: float
    n: int
    bounds: tuple[float, float]

    def p_value(self, tested: float) -> float:
        """Return the two-sided p value of a mean."""
        from scipy.special import stdtr

        distance = self._plain_distance(tested)
        if (self.mean - tested) * self.skewness < 0:
            distance = min(distance, max(0.0, self._unskewed_distance(tested)))
        return float(2 * stdtr(self.freedom, -distance))

    def ends(self, level: float) -> tuple[float, float]:
        """Return the least and the largest mean, within the bounds, whose p value is above 1 - level."""
        from scipy.special import stdtrit

        reach = float(stdtrit(self.freedom, (1 + level) / 2))
        low, high = (
            self._wilson_ends(reach)
            if self._has_two_bounds
            else (self.mean - reach * self.error, self.mean + reach * self.error)
        )
        if self.skewness < 0:
            low = min(low, self.mean - self._unskewed_reach(reach))
        if self.skewness > 0:
            high = max(high, self.mean + self._unskewed_reach(reach))
        smallest, largest = self.bounds
        # A value beyond its bound is the metric's error: its mean stays within the interval all the same.
        return min(self.mean, max(low, smallest)), max(self.mean, min(high, largest))

    @property
    def _has_two_bounds(self) -> bool:
        lowest, highest = self.bounds
        return math.isfinite(highest - lowest) and lowest < self.mean < highest

    def _plain_distance(self, tested: float) -> float:
        distance = abs(self.mean - tested) / self.error
        if not self._has_two_bounds:
            return distance
        own, other = _variance(self.mean, self.bounds), _variance(tested, self.bounds)
        return distance * math.sqrt(own / other) if other > 0 else math.inf

    def _wilson_ends(self, reach: float) -> tuple[float, float]:
        """Return the means that are `reach` standard errors away, were the errors theirs."""
        lowest, highest = self.bounds
        width = highest - lowest
        share = (self.mean - lowest) / width
        pull = (reach * self.error / width) ** 2 / (share * (1 - share))
        half = math.sqrt(pull * share * (1 - share) + pull**2 / 4)
        low, high = ((share + pull / 2 + side) / (1 + pull) for side in (-half, half))
        return lowest + width * low, lowest + width * high

    def _unskewed_distance(self, tested: float) -> float:
        """Return Hall's statistic of a mean on the side of the longer tail; negative where it is too near."""
        gap = abs(self.mean - tested) / (self.error * math.sqrt(self.n))
        tail = max(_NO_SKEWNESS, abs(self.skewness))
        bend = min(gap, _STRAIGHT_FROM / tail)
        cubic = bend - tail * bend**2 / 3 + tail**2 * bend**3 / 27
        return math.sqrt(self.n) * (cubic + (gap - bend) * _SLOPE - tail / (6 * self.n))

    def _unskewed_reach(self, reach: float) -> float:
        """Return how far the mean is whose `_unskewed_distance` is `reach`."""
        tail = max(_NO_SKEWNESS, abs(self.skewness))
        height = tail * (reach / math.sqrt(self.n) + tail / (6 * self.n))
        bend = 1 - (1 - _STRAIGHT_FROM / 3) ** 3
        scaled = 3 - 3 * math.exp(math.log1p(-min(height, bend)) / 3) + max(0.0, height - bend) / _SLOPE
        return scaled / tail * self.error * math.sqrt(self.n)


def _pivot(column: Clustered, *, is_discrete: bool = False) -> _Pivot:
    counts, n_values, n = column.counts, float(column.counts.sum()), len(column.ids)
    gaps = _gaps(column)
    squares = gaps @ gaps
    own_share = 1 / (1 - counts / n_values)
    freedom = _freedom(counts, own_share)
    if is_discrete:
        # Satterthwaite's for the variance itself: 2 n / (kurtosis - 1). Few failing answers say little of their spread.
        freedom = min(freedom, 2 / max(ROUNDING, float((gaps**4).sum() / squares**2) - 1 / n))
    return _Pivot(
        mean=column.mean or 0.0,
        error=math.sqrt(float(own_share @ gaps**2)) / n_values,
        freedom=max(1.0, freedom - _LOST_FREEDOM),
        skewness=float((1 + _MISSED_SKEWNESS / n**2) * math.sqrt(n) * (gaps**3).sum() / squares**1.5),
        n=n,
        bounds=column.bounds,
    )


def _freedom(counts: Floats, own_share: Floats) -> float:
    """Return Satterthwaite's degrees of freedom of the CR2 variance of a mean, by the sizes of the clusters."""
    n = float(counts.sum())
    weights = own_share * counts**2
    return float(n**2 / (counts @ counts + (weights.sum() ** 2 - weights @ weights) / n**2))


def _variance(mean: float, bounds: tuple[float, float]) -> float:
    """Return the variance of tasks that are all at one of two bounds; 0 for a mean that is not between them."""
    return max(0.0, (mean - bounds[0]) * (bounds[1] - mean))


# Values summed by cluster: all that the statistics here need of a benchmark's scores.
# Tasks of one conversation share their subject, their corpus and half their words, so they are no independent
# items. The conversations are what was drawn, and every interval and test here draws them again: it needs one sum
# and one count a conversation, and none of the single values.

Floats = NDArray[np.float64]

_GRID = 10_080  # has halves to tenths as whole numbers
_FINEST = 0.01
ROUNDING = 1e-12
"""Sums that are no farther from 0 are 0: scores lie about between -1 and 1, and their rounding errors far below."""


@dataclass(frozen=True, slots=True, eq=False)
class Clustered:
    """The scored values of one column, summed by cluster."""

    ids: tuple[str, ...]
    """Clusters with at least one scored value, sorted: so results do not depend on the order of the input."""
    sums: Floats
    """Sum of the values of each cluster; shape (clusters,)."""
    counts: Floats
    """Number of scored values of each cluster, at least 1; shape (clusters,)."""
    n_values: int
    """Scored values of all clusters."""
    n_unscored: int
    """Values that were None: in no sum and no count."""
    spread: float
    """Sum of the squared distances of the values from their mean, clusters ignored."""
    bounds: tuple[float, float] = UNBOUNDED
    """Smallest and largest mean that can be: an interval never reaches beyond."""
    extra_error: float = 0.0
    """Standard error of the mean from elsewhere than these clusters, such as a map of the values that was estimated."""
    half_step: float = 0.0
    """Half of the smallest change of the mean, where the values lie on a grid such as 0 and 1; 0 elsewhere."""

    @property
    def mean(self) -> float | None:
        """The mean over all scored values, each weighing the same; None without any."""
        return float(self.sums.sum() / self.counts.sum()) if self.n_values else None


def cluster(
    values: Sequence[float | None],
    clusters: Sequence[str],
    bounds: tuple[float, float] = UNBOUNDED,
    extra_error: float = 0.0,
) -> Clustered:
    """Return the values (None where unscored) summed by the cluster of each item; NaN and infinity are refused.

    `bounds` are the smallest and largest value that can be, `extra_error` is a standard error of the mean from
    elsewhere.
    """
    if len(values) != len(clusters):
        raise ValueError(f"values and clusters differ in length: {len(values)} and {len(clusters)}")
    members: dict[str, list[float]] = {}
    for value, name in zip(values, clusters, strict=True):
        if value is not None:
            members.setdefault(name, []).append(value)
    scored = [value for found in members.values() for value in found]
    if not all(map(math.isfinite, scored)):
        raise ValueError("a value is NaN or infinite: write None for a value that is not there")
    ids = tuple(sorted(members))
    mean = math.fsum(scored) / len(scored) if scored else 0.0
    return Clustered(
        ids=ids,
        sums=np.array([math.fsum(members[name]) for name in ids], dtype=np.float64),
        counts=np.array([len(members[name]) for name in ids], dtype=np.float64),
        n_values=len(scored),
        n_unscored=len(values) - len(scored),
        spread=math.fsum((value - mean) ** 2 for value in scored),
        bounds=bounds,
        extra_error=extra_error,
        half_step=_step(scored) / (2 * len(scored)) if scored else 0.0,
    )


def _step(values: Iterable[float]) -> float:
    """Return the largest number that all values are multiples of; 0 where they lie on no grid, or a very fine one."""
    step = math.gcd(*(round(value * _GRID) for value in values)) / _GRID
    return step if step >= _FINEST else 0.0


# A quantile, and a ratio of two means, with intervals that hold what the test of a mean does not reject: a quantile is
# where the share of values up to it is that of the quantile, a ratio r where the mean of `value - r * amount` is 0.


def estimate_quantile(values: Sequence[float | None], clusters: Sequence[str], share: float) -> Value:
    """Return the smallest value that this share of the values does not exceed, with its interval over clusters.

    Where all values are below some point, as above the largest, one cluster more could still be above it: as likely as
    not one in `n` where `n` clusters are below. So few clusters give no upper end, and then there is no interval.
    """
    scored = sorted({value for value in values if value is not None})
    n_values = sum(value is not None for value in values)
    if not scored:
        return Value(None, 0, len(values))

    def share_up_to(limit: float) -> tuple[float, float, float] | None:
        found = estimate_mean([None if v is None else float(v <= limit) for v in values], clusters, (0.0, 1.0))
        if found.value is None or found.reason not in {"", NOTHING_VARIES}:
            return None
        if found.low is not None and found.high is not None:
            return found.value, found.low, found.high
        unseen = (LEVEL / 2) ** (1 / found.n_clusters)
        ends = {1.0: (unseen, 1.0), 0.0: (0.0, 1 - unseen)}.get(found.value, (found.value, found.value))
        return found.value, *ends

    order = sorted(value for value in values if value is not None)
    point = order[max(0, math.ceil(share * n_values - ROUNDING) - 1)]
    if share_up_to(scored[-1]) is None:
        return Value(point, n_values, len(values))
    low = _first(scored, lambda limit: (share_up_to(limit) or (0, 0, 0))[2] >= share)
    high = _first(scored, lambda limit: (share_up_to(limit) or (0, 0, 0))[1] >= share)
    return Value(point, n_values, len(values), *((low, high) if low is not None and high is not None else ()))


def _first(ordered: Sequence[float], holds: Callable[[float], bool]) -> float | None:
    """Return the first of ascending numbers for which something holds that then holds for all after it."""
    if not holds(ordered[-1]):
        return None
    left, right = 0, len(ordered) - 1
    while left < right:
        middle = (left + right) // 2
        left, right = (left, middle) if holds(ordered[middle]) else (middle + 1, right)
    return ordered[left]


def estimate_ratio(values: Sequence[float | None], amounts: Sequence[float | None], clusters: Sequence[str]) -> Value:
    """Return the mean value for a mean amount of 1, on what has both, with its interval over clusters."""
    both = [
        (value, amount, name)
        for value, amount, name in zip(values, amounts, clusters, strict=True)
        if value is not None and amount is not None
    ]
    total = math.fsum(amount for _, amount, _ in both)
    if not both or total <= 0:
        return Value(None, 0, len(values))
    ratio = math.fsum(value for value, _, _ in both) / total
    names = [name for _, _, name in both]

    def gap(at: float) -> Estimate:
        return estimate_mean([value - at * amount for value, amount, _ in both], names)

    spread = gap(ratio)
    if spread.low is None or spread.high is None:
        return Value(ratio, len(both), len(values))
    reach = (spread.high - spread.low) * len(both) / total
    low = _root(lambda at: gap(at).low, ratio, -reach)
    high = _root(lambda at: gap(at).high, ratio, reach)
    return Value(ratio, len(both), len(values), *((low, high) if low is not None and high is not None else ()))


def _root(end: Callable[[float], float | None], start: float, reach: float) -> float | None:
    """Return where an end of an interval that falls with its argument is 0, on one side of a start; None if nowhere."""
    inside = start
    outside = start + reach
    for _ in range(_MOST_DOUBLINGS):
        value = end(outside)
        if value is None or (value > 0) == (reach < 0):
            break
        inside, outside = outside, outside + reach
    else:
        return None
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        value = end(middle)
        is_inside = value is not None and (value <= 0 if reach < 0 else value >= 0)
        inside, outside = (middle, outside) if is_inside else (inside, middle)
    return inside


# Columns of scores compared in pairs, on the items that both have and both scored.
# A column is one model in one setting by one metric, or one run by one metric: this module does not care. Columns
# meet only where context, group and metric are the same, so scores of other data or another judge are never set
# against each other. Holm's correction is over everything that one call compares.


TIE = 1e-9  # scores of one item that differ by no more are equal: they come from the same few divisions


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
    higher_is_better: bool | None = True
    """Direction of the metric; None where neither is better."""
    n_offered: int | None = None
    """Items that there are to score; None where that is not known, or all are here."""
    note: str = ""
    """What a reader must know of it, as a sentence without its name; empty for nothing."""
    moves: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Item whose score was mapped -> how far it moves when a cluster of the map's data is left out (`shared_error`)."""

    def map_error(self, values: Mapping[str, float | None]) -> float:
        """Return the standard error that the map of this column's scores brings into the mean of some values."""
        scored = [item for item, value in values.items() if value is not None]
        return shared_error((self.moves[item] for item in scored if item in self.moves), len(scored))

    @property
    def metric_text(self) -> str:
        """The metric, with its direction where that is not the usual one."""
        return f"{self.metric} (lower is better)" if self.higher_is_better is False else self.metric


@dataclass(frozen=True, slots=True)
class Mean:
    """One column's mean over all that it scored."""

    column: Column
    estimate: Estimate

    @property
    def cell(self) -> Value:
        """The mean as a cell of a table, which says where items are missing."""
        return replace(self.estimate.cell, n_tasks=self.column.n_offered)


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
    gaps: Clustered
    """Second minus first, item by item, summed by cluster."""
    difference: Estimate
    """Mean of the gaps, with its p value. Its `n_unscored` are items that one or both did not score."""
    n_unshared: int
    """Items that only one of the two has."""
    adjusted_p: float | None = None
    """The p value by Holm, over all comparisons of the call; None without a p, or for a comparison of its own."""

    @property
    def detectable(self) -> float | None:
        """Smallest true difference that such a benchmark finds four times out of five; None if that is unknown."""
        return detectable_difference(self.difference)

    @property
    def n_one_sided(self) -> int:
        """Items that only one of the two scored, of those that both have."""
        both = ((value, self.second.values[i]) for i, value in self.first.values.items() if i in self.second.values)
        return sum((one is None) != (other is None) for one, other in both)

    @property
    def p(self) -> float | None:
        """Two-sided, of no difference: at most 5 % where the interval leaves 0 out. None as the difference says."""
        return self.difference.p

    @property
    def cell(self) -> Difference:
        """The difference as a cell of a table, which has its sign."""
        found = self.difference
        return Difference(found.value, found.n_values, found.n_values + found.n_unscored, found.low, found.high)

    @property
    def differences(self) -> dict[str, float | None]:
        """Shared item -> second minus first, None if one is unscored."""
        return _gaps_of(self.first, self.second)

    @property
    def signs(self) -> tuple[int, int, int]:
        """Items on which the second is higher, on which it is lower, and on which both are equal."""
        gaps = [gap for gap in self.differences.values() if gap is not None]
        n_higher, n_lower = (sum(sign * gap > TIE for gap in gaps) for sign in (1, -1))
        return n_higher, n_lower, len(gaps) - n_higher - n_lower


@dataclass(frozen=True, slots=True)
class Comparisons:
    """Everything that one call compared."""

    means: tuple[Mean, ...]
    pairs: tuple[Comparison, ...]
    """One a pair of columns that may be compared, in the order of the first and then of the second."""


def compare_columns(columns: Sequence[Column], baseline: str | None = None) -> Comparisons:
    """Return all columns' means, and every pair that shares context, group and metric.

    In a pair, the column that comes earlier is the first; with a baseline, that one is the first of every pair.
    """
    _check(columns, baseline)
    pairs = list(_pairs(columns, baseline))
    if not pairs:
        raise _nothing_to_compare(columns)
    compared = [compare(*pair) for pair in pairs]
    adjusted = zip(compared, holm([found.p for found in compared]), strict=True)
    return Comparisons(mean_columns(columns), tuple(replace(found, adjusted_p=p) for found, p in adjusted))


def compare(
    first: Column, second: Column, *, tested: float | None = 0.0, level: float = 0.95, is_discrete: bool = False
) -> Comparison:
    """Return two columns compared on the items that both scored.

    The p value is of a true difference of `tested`; see `estimate_means` for `level` and `is_discrete`.
    """
    gaps = _gaps_of(first, second)
    (smallest, largest), (lowest, highest) = first.bounds, second.bounds
    # Two sides that were mapped have maps of their own.
    extra = math.hypot(first.map_error(gaps), second.map_error(gaps))
    bounds = (lowest - largest, highest - smallest)
    clustered = cluster(list(gaps.values()), [first.cluster_of[i] for i in gaps], bounds, extra)
    (difference,) = estimate_means([clustered], tested=tested, level=level, is_discrete=is_discrete)
    both = [(a, b) for i, a in first.values.items() if a is not None and (b := second.values.get(i)) is not None]
    return Comparison(
        first=first,
        second=second,
        first_mean=sum(one for one, _ in both) / len(both) if both else None,
        second_mean=sum(other for _, other in both) / len(both) if both else None,
        gaps=clustered,
        difference=difference,
        n_unshared=len(first.values) + len(second.values) - 2 * len(gaps),
    )


def mean_columns(columns: Sequence[Column]) -> tuple[Mean, ...]:
    """Return each column's mean, in order."""
    means = []
    for column in columns:
        labels, values = [column.cluster_of[item] for item in column.values], list(column.values.values())
        means.append(Mean(column, estimate_mean(values, labels, column.bounds, column.map_error(column.values))))
    return tuple(means)


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
    for members in grouped(columns, lambda column: (column.context, column.group, column.metric)).values():
        if baseline is None:
            yield from itertools.combinations(members, 2)
        else:
            firsts = [column for column in members if column.name == baseline]
            yield from ((first, second) for first in firsts for second in members if second is not first)


def _gaps_of(first: Column, second: Column) -> dict[str, float | None]:
    """Return shared item -> second minus first, None where one is unscored."""
    pairs = {item: (value, second.values[item]) for item, value in first.values.items() if item in second.values}
    return {item: None if a is None or b is None else b - a for item, (a, b) in pairs.items()}


def _nothing_to_compare(columns: Sequence[Column]) -> ConfigurationError:
    found = dict.fromkeys(f"{c.name} in {c.group or 'one group'} ({c.context})" for c in columns)
    return ConfigurationError(
        "comparison",
        where=f"{len(columns)} columns of scores",
        expected="at least two that share data, encoder, judges, setting and metric",
        found="; ".join(found) or "none",
        next_step="name results that were scored alike, or score saved answers again: "
        "`ragtasks score RESULTS --output FOLDER`",
    )


# Holm's correction: who looks at many differences finds some by chance.


def holm(p_values: Sequence[float | None], n_more: int = 0) -> list[float | None]:
    """Return the adjusted p values, in their order, each at least the plain one and at most 1; [] for none.

    Calling a difference real where its adjusted p is at most 5 % errs about even one of those that are not real in at
    most 5 % of all such families, whatever the differences have to do with one another.

    Source: S. Holm, A simple sequentially rejective multiple test procedure (1979).

    Args:
        p_values: of everything that was tested together; None where nothing could be tested, which stays None and does
            not count.
        n_more: tests that belong to these and have no p here (`pairs_without_best`).

    Raises:
        ValueError: a p value outside 0 to 1.
    """
    tested = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    if not all(0 <= p <= 1 for p, _ in tested):
        raise ValueError("a p value is not between 0 and 1")
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for place, (p, index) in enumerate(tested):
        largest = max(largest, min(1.0, (len(tested) + n_more - place) * p))
        adjusted[index] = largest
    return adjusted


def pairs_without_best(n_columns: int) -> int:
    """Return how many pairs of columns are tested, though nobody sees it, where all others are held against the best.

    The best is found by the scores that are tested: each pair could have been that of the best and the worst.
    """
    return (n_columns - 1) * (n_columns - 2) // 2 if n_columns else 0


# What difference a benchmark could have shown: no difference found is not the same as no difference.

LEVEL = 0.05
"""Chance of calling two equal models different."""
POWER = 0.8
"""Chance of finding a difference of the detectable size."""
_MORE = 45.0


def detectable_difference(difference: Estimate, level: float = LEVEL) -> float | None:
    """Return the smallest true difference that a two-sided test finds in 80 % of such benchmarks; above 0.

    At 5 % it is (t(97.5 %) + t(80 %)) standard errors, with one degree of freedom less than clusters: about 2.8. So
    much a t-test needs; ours, which holds for skewed differences too, needs 1 + 45 / n² times as much with n clusters,
    by simulation. It says how fine the benchmark is for these two models, from the spread of their differences, and
    nothing about the difference that was found. None where the standard error is missing or 0, or the clusters are
    fewer than an interval needs.

    Source: J. Cohen, Statistical Power Analysis for the Behavioral Sciences (2nd ed., 1988), section 2.4; the standard
    error is that of `Estimate`.
    """
    from scipy.special import stdtrit

    if not difference.standard_error or difference.n_clusters < MIN_CLUSTERS:
        return None
    n = difference.n_clusters
    reach = stdtrit(n - 1, 1 - level / 2) + stdtrit(n - 1, POWER)
    return float(reach * (1 + _MORE / n**2) * difference.standard_error)
