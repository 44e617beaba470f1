"""Means of scores over clusters, with intervals, tests and comparisons."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.tables import Difference, Value, grouped

# Means with standard errors, intervals and tests over clusters, all from one statistic.
#
# A mean over tasks is a ratio of two sums over conversations: values over counts. Its 95 % interval contains the means
# that the test does not reject at 5 %, so p is at most 0.05 exactly if the interval excludes a mean. The distance
# between the mean and another mean is the smaller of two distances, both compared with Student's quantiles:
# - the distance in standard errors. If scores have two bounds, as nearly all have, the standard error is that of the
#   other mean, as in Wilson's score interval, whose ends never leave the bounds;
# - if the other mean is on the side of the longer tail, also that distance corrected for skewness by Hall's
#   transformation. A sample of few conversations often misses a long tail: its mean is then off, its spread too small,
#   and its skewness too small as well. The skewness is therefore increased.
#
# The standard error is that of Bell and McCaffrey (CR2), which corrects for large conversations that pull the mean
# towards themselves, with their degrees of freedom minus two, since skewness and spread are estimated together.
# `perf/mean_tests.py` and `perf/interval_coverage.py` compare this with other methods: docs/background/simulations.md.
#
# Sources: R. M. Bell and D. F. McCaffrey, Bias reduction in standard errors for linear regression with multi-stage
# samples (2002); E. B. Wilson, Probable inference, the law of succession, and statistical inference (1927); P. Hall, On
# the removal of skewness by transformation (1992); W. G. Cochran, Sampling Techniques (3rd ed., 1977), section 6.3, for
# the reported standard error of a ratio.

MIN_CLUSTERS = 10
"""Minimum number of clusters for an interval: with fewer, no tested method has its nominal coverage."""

UNBOUNDED = (-math.inf, math.inf)

CONVERSATIONS = "conversations"
"""Usual name of the clusters."""

NOTHING_SCORED = "nothing is scored"
TOO_FEW_CLUSTERS = f"fewer than {MIN_CLUSTERS} {CONVERSATIONS}"
NOTHING_VARIES = f"all {CONVERSATIONS} have the same mean"

# Chosen by simulation with 10 to 110 conversations, as a balance between errors with a long tail and power without.
_MISSED_SKEWNESS = 100.0  # the skewness of n conversations is multiplied by 1 + this / n²
_LOST_FREEDOM = 2.0
_STRAIGHT_FROM = 1.25  # skewness times gap; at 3 Hall's cubic is flat, and an interval would reach far beyond all data
_SLOPE = (1 - _STRAIGHT_FROM / 3) ** 2
_NO_SKEWNESS = 1e-6
_MOST_DOUBLINGS, _HALVINGS = 20, 24


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its uncertainty."""

    value: float | None
    """Mean over the scored values; None without any."""
    low: float | None
    """Lower end of the interval, within the column's bounds; None without an interval."""
    high: float | None
    """Upper end of the interval; None without an interval."""
    standard_error: float | None
    """Standard error over clusters; None for fewer than two clusters."""
    independent_error: float | None
    """Standard error that treats all values as independent, like the harness's; None for fewer than two values."""
    n_clusters: int
    """Number of clusters with a scored value."""
    n_values: int
    """Number of scored values."""
    n_unscored: int
    """Number of unscored values, which are left out."""
    reason: str = ""
    """Why there is no interval; empty if there is one."""
    p: float | None = None
    """Two-sided p value of the tested mean: the smallest significance level at which the interval excludes it.

    None if no mean was tested, or for `reason`.
    """

    @property
    def cell(self) -> Value:
        """The mean as a table cell, with its interval and coverage."""
        return Value(self.value, self.n_values, self.n_values + self.n_unscored, self.low, self.high)

    @property
    def difference_cell(self) -> Difference:
        """The mean of differences as a table cell, with its sign."""
        return Difference(self.value, self.n_values, self.n_values + self.n_unscored, self.low, self.high)

    def reason_over(self, units: str) -> str:
        """Return why there is no interval, with another name of the clusters."""
        return self.reason.replace(CONVERSATIONS, units)


def estimate_means(
    columns: Sequence[Clustered], *, level: float = 0.95, tested: float | None = None, is_discrete: bool = False
) -> list[Estimate]:
    """Return each column's mean with its interval, independent of the other columns.

    `level` is the nominal coverage of the interval. `tested` is a mean to compute a p value for, such as 0 for
    differences. `is_discrete` corrects for scores on a grid, such as 0 and 1: half a step of the mean for continuity,
    and degrees of freedom by kurtosis.

    Source: W. W. Hauck and S. Anderson, A comparison of large-sample confidence interval methods for the difference of
    two binomial probabilities (1986).
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
    """Return the mean of one score per item (None if unscored), with its interval over the items' clusters."""
    return _estimate(cluster(values, clusters, bounds, extra_error), 0.95, None)


def shared_error(moves: Iterable[Sequence[float]], n: int) -> float:
    """Return the standard error of a mean of n values that is due to a map with estimated parameters.

    A map converts scores, such as those of a changed judge to its earlier scale. The error is a jackknife over the data
    from which the map is estimated.

    `moves` has one row per mapped value: its change if one cluster of the map's data is left out, for each cluster.
    """
    columns = list(moves)
    if not columns or not n:
        return 0.0
    return jackknife_error(np.asarray(columns, dtype=np.float64).sum(axis=0) / n)


def jackknife_error(replicates: Floats) -> float:
    """Return the standard error of a value from its jackknife replicates, each without one cluster."""
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
        # An error from elsewhere scales every distance from the mean by this factor.
        wider = math.hypot(1.0, column.extra_error / error) if error else 1.0
        if wider > 1 or half:
            low, high = (pivot.mean + wider * (end - pivot.mean) for end in (low - half, high + half))
            low, high = max(low, column.bounds[0]), min(high, column.bounds[1])
        if tested is not None:
            distance = max(0.0, abs(pivot.mean - tested) / wider - half)
            p = pivot.p_value(pivot.mean - math.copysign(distance, pivot.mean - tested))
        error = error and error * wider
    elif reason == NOTHING_VARIES and tested is not None:
        p = _p_value_without_variation(column, tested)
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
    """Return the standard error of a ratio of sums over clusters; exactly 0 if all clusters have the same mean."""
    n = len(column.ids)
    if n < 2:
        return None
    gaps = _gaps(column)
    if np.abs(gaps).max() <= ROUNDING * (1 + np.abs(column.sums).max()):
        return 0.0
    return float(np.sqrt(n / (n - 1) * (gaps @ gaps)) / column.counts.sum())


def _gaps(column: Clustered) -> Floats:
    """Return each cluster's sum minus its expected sum by the overall mean; the differences add up to 0."""
    return column.sums - (column.mean or 0.0) * column.counts


def _reason(column: Clustered, error: float | None) -> str:
    if not column.n_values:
        return column.missing or NOTHING_SCORED
    if len(column.ids) < MIN_CLUSTERS:
        return TOO_FEW_CLUSTERS
    return column.missing or (NOTHING_VARIES if error == 0 else "")


def p_of_signs(gaps: Estimate) -> float | None:
    """Return the p value of no change; if all conversations changed by the same amount, the p value of a sign test.

    The two runs of one judge or system are exchangeable: each conversation's gap has either sign with the same chance.
    No assumption about other conversations is needed.
    """
    if gaps.reason == NOTHING_VARIES and gaps.value:
        return float(2.0 ** (1 - gaps.n_clusters))
    return gaps.p


def _p_value_without_variation(column: Clustered, tested: float) -> float | None:
    """Return the p value if all conversations have the same mean: the chance that a sample misses all other means.

    In the worst case with the tested mean, the other conversations are at the far bound and as large as the largest
    conversation of the sample. None without a far bound, unless the mean equals the tested mean.
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
    """Statistic that determines which means a column rejects."""

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
        """Return the smallest and the largest mean, within the bounds, whose p value exceeds 1 - level."""
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
        # A value beyond its bound is an error of the metric; the interval contains its mean anyway.
        return min(self.mean, max(low, smallest)), max(self.mean, min(high, largest))

    @property
    def _has_two_bounds(self) -> bool:
        lowest, highest = self.bounds
        return math.isfinite(highest - lowest) and lowest < self.mean < highest

    def _plain_distance(self, tested: float) -> float:
        distance = abs(self.mean - tested) / self.error
        if not self._has_two_bounds:
            return distance
        variance, tested_variance = _variance(self.mean, self.bounds), _variance(tested, self.bounds)
        return distance * math.sqrt(variance / tested_variance) if tested_variance > 0 else math.inf

    def _wilson_ends(self, reach: float) -> tuple[float, float]:
        """Return the means at a distance of `reach` standard errors, with their own standard errors."""
        lowest, highest = self.bounds
        width = highest - lowest
        share = (self.mean - lowest) / width
        pull = (reach * self.error / width) ** 2 / (share * (1 - share))
        half = math.sqrt(pull * share * (1 - share) + pull**2 / 4)
        low, high = ((share + pull / 2 + side) / (1 + pull) for side in (-half, half))
        return lowest + width * low, lowest + width * high

    def _unskewed_distance(self, tested: float) -> float:
        """Return Hall's statistic of a mean on the side of the longer tail; negative close to the column's mean."""
        gap = abs(self.mean - tested) / (self.error * math.sqrt(self.n))
        tail = max(_NO_SKEWNESS, abs(self.skewness))
        bend = min(gap, _STRAIGHT_FROM / tail)
        cubic = bend - tail * bend**2 / 3 + tail**2 * bend**3 / 27
        return math.sqrt(self.n) * (cubic + (gap - bend) * _SLOPE - tail / (6 * self.n))

    def _unskewed_reach(self, reach: float) -> float:
        """Return the distance of the mean whose `_unskewed_distance` is `reach`."""
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
        # Satterthwaite's for the variance itself: 2 n / (kurtosis - 1). A few failing answers are weak evidence of the
        # spread.
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
    """Return Satterthwaite's degrees of freedom of the CR2 variance of a mean, from the cluster sizes."""
    n = float(counts.sum())
    weights = own_share * counts**2
    return float(n**2 / (counts @ counts + (weights.sum() ** 2 - weights @ weights) / n**2))


def _variance(mean: float, bounds: tuple[float, float]) -> float:
    """Return the variance of values that are all at one of the two bounds; 0 for a mean outside the bounds."""
    return max(0.0, (mean - bounds[0]) * (bounds[1] - mean))


# Values summed by cluster, the sufficient data of all statistics here. Tasks of one conversation share their subject,
# corpus and half of their words, so they are not independent. The conversations are the sampling units. Every interval
# and test needs one sum and one count per conversation, and no single values.

Floats = NDArray[np.float64]

_GRID = 10_080  # halves to tenths are integers
_FINEST = 0.01
ROUNDING = 1e-12
"""Sums no farther from 0 are treated as 0: scores are between about -1 and 1, with far smaller rounding errors."""


@dataclass(frozen=True, slots=True, eq=False)
class Clustered:
    """The scored values of one column, summed by cluster."""

    ids: tuple[str, ...]
    """Clusters with at least one scored value, sorted, so that results do not depend on the order of the input."""
    sums: Floats
    """Sum of the values of each cluster; shape (clusters,)."""
    counts: Floats
    """Number of scored values of each cluster, at least 1, or the sum of their weights; shape (clusters,)."""
    n_values: int
    """Scored values of all clusters."""
    n_unscored: int
    """Number of None values, which enter no sum and no count."""
    spread: float
    """Sum of squared deviations of the values from their mean, ignoring clusters."""
    bounds: tuple[float, float] = UNBOUNDED
    """Smallest and largest possible mean, which limit the interval."""
    extra_error: float = 0.0
    """Additional standard error of the mean, such as that of an estimated map of the values."""
    half_step: float = 0.0
    """Half of the smallest change of the mean if the values are on a grid such as 0 and 1; else 0."""
    missing: str = ""
    """Why there is no mean, or no interval, although values are scored; empty otherwise."""

    @property
    def mean(self) -> float | None:
        """Mean over all scored values, by their weights; None without any."""
        return float(self.sums.sum() / self.counts.sum()) if self.n_values else None


def cluster(
    values: Sequence[float | None],
    clusters: Sequence[str],
    bounds: tuple[float, float] = UNBOUNDED,
    extra_error: float = 0.0,
) -> Clustered:
    """Return the values (None if unscored) summed by the cluster of each item.

    `bounds` are the smallest and largest possible value, `extra_error` is an additional standard error of the mean.
    Raises ValueError for NaN or infinity.
    """
    if len(values) != len(clusters):
        raise ValueError(f"values and clusters differ in length: {len(values)} and {len(clusters)}")
    members: dict[str, list[float]] = {}
    for value, name in zip(values, clusters, strict=True):
        if value is not None:
            members.setdefault(name, []).append(value)
    scored = [value for cluster_values in members.values() for value in cluster_values]
    if not all(map(math.isfinite, scored)):
        raise ValueError("a value is NaN or infinite: write None for a missing value")
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


# A balanced mean is the mean of the means of several classes, such as answerable and unanswerable tasks. It is a mean
# with weights: n / (k n_c) for an item of a class with n_c of all n items. An item's own class mean is subtracted for
# the spread, since the number of tasks in each class is no property of the system.
#
# Source: W. G. Cochran, Sampling Techniques (3rd ed., 1977), section 5A.9, with the conversations as sampling units.


@dataclass(frozen=True, slots=True)
class Balance:
    """Classes of items with equal weight in a mean."""

    classes: tuple[str, ...]
    """Names of all classes."""
    class_of: Mapping[str, str]
    """Item -> class."""


def _cluster_balanced(
    values: Mapping[str, float | None],
    cluster_of: Mapping[str, str],
    balance: Balance,
    bounds: tuple[float, float],
    extra_error: float,
) -> Clustered:
    """Return the values of items summed by cluster so that their mean is the balanced mean.

    Without a value in some class, there is no mean, and with few clusters in some class, no interval.
    """
    scored = {item: value for item, value in values.items() if value is not None}
    members = grouped(scored, lambda item: balance.class_of[item])
    if absent := [name for name in balance.classes if name not in members]:
        nothing = cluster([None] * len(values), [cluster_of[item] for item in values], bounds)
        return replace(nothing, missing=f"no score on {' and '.join(absent)} tasks")
    means = {name: math.fsum(scored[item] for item in items) / len(items) for name, items in members.items()}
    mean, n = math.fsum(means.values()) / len(means), len(scored)
    weights = {item: n / len(means) / len(items) for items in members.values() for item in items}
    gaps = {item: weights[item] * (value - means[balance.class_of[item]]) for item, value in scored.items()}
    few = [name for name, items in members.items() if len({cluster_of[item] for item in items}) < MIN_CLUSTERS]
    items_of = grouped(scored, lambda item: cluster_of[item])
    ids = tuple(sorted(items_of))
    counts = np.array([math.fsum(weights[item] for item in items_of[name]) for name in ids], dtype=np.float64)
    return Clustered(
        ids=ids,
        sums=mean * counts + np.array([math.fsum(gaps[item] for item in items_of[name]) for name in ids]),
        counts=counts,
        n_values=n,
        n_unscored=len(values) - n,
        spread=math.fsum(gap**2 for gap in gaps.values()),
        bounds=bounds,
        extra_error=extra_error,
        half_step=_step(scored.values()) * min(weights.values()) / (2 * n),
        missing=f"{TOO_FEW_CLUSTERS} with {' and '.join(few)} tasks" if few else "",
    )


def _step(values: Iterable[float]) -> float:
    """Return the largest number that divides all values; 0 if they are on no grid, or on a very fine one."""
    step = math.gcd(*(round(value * _GRID) for value in values)) / _GRID
    return step if step >= _FINEST else 0.0


# A quantile and a ratio of two means, with intervals by the test of a mean. The quantile is the value up to which the
# share of values is the given share. The ratio r has a mean of `value - r * amount` of 0.


def estimate_quantile(values: Sequence[float | None], clusters: Sequence[str], share: float) -> Value:
    """Return the smallest value that a share of the values does not exceed, with its interval over clusters.

    If all of `n` clusters are below a limit, the true share below it may still be as low as 0.025 ** (1 / n). With few
    clusters there is therefore no upper end, and then no interval.
    """
    scored = sorted(value for value in values if value is not None)
    if not scored:
        return Value(None, 0, len(values))
    point = scored[max(0, math.ceil(share * len(scored) - ROUNDING) - 1)]

    def interval_up_to(limit: float) -> tuple[float, float]:
        """Return the ends of the interval of the share of values up to a limit."""
        estimate = estimate_mean([None if v is None else float(v <= limit) for v in values], clusters, (0.0, 1.0))
        if estimate.low is not None and estimate.high is not None:
            return estimate.low, estimate.high
        unseen, value = (LEVEL / 2) ** (1 / estimate.n_clusters), estimate.value or 0.0
        return {1.0: (unseen, 1.0), 0.0: (0.0, 1 - unseen)}.get(value, (value, value))

    limits = sorted({*scored})
    if len({name for value, name in zip(values, clusters, strict=True) if value is not None}) < MIN_CLUSTERS:
        return Value(point, len(scored), len(values))
    low = bisect.bisect_left(limits, True, key=lambda limit: interval_up_to(limit)[1] >= share)
    high = bisect.bisect_left(limits, True, key=lambda limit: interval_up_to(limit)[0] >= share)
    ends = (limits[low], limits[high]) if high < len(limits) else ()
    return Value(point, len(scored), len(values), *ends)


def estimate_ratio(values: Sequence[float | None], amounts: Sequence[float | None], clusters: Sequence[str]) -> Value:
    """Return the ratio of mean value to mean amount, over items with both, with its interval over clusters."""
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
    """Return the zero of a decreasing interval end on one side of a start; None if there is none."""
    inside, outside = start, start + reach
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


# Columns of scores compared in pairs, on the items that both contain and scored. A column is one model in one setting
# by one metric, or one run by one metric. Only columns with equal context, group and metric are compared, so scores on
# other data or by another judge are never compared. Holm's correction covers all comparisons of one call.


TIE = 1e-9  # scores of an item that differ by no more are equal up to rounding


@dataclass(frozen=True, slots=True)
class Column:
    """Scores of one side of a comparison."""

    context: str
    """Properties that both sides must share, as text for the report: data, encoder, judges."""
    group: str
    """Further shared properties, such as the setting."""
    metric: str
    """Name of the metric."""
    name: str
    """Name of the scored system, such as the model."""
    values: Mapping[str, float | None]
    """Item, such as a task id -> score, None if unscored."""
    cluster_of: Mapping[str, str]
    """Item -> cluster, such as its conversation id."""
    bounds: tuple[float, float] = UNBOUNDED
    higher_is_better: bool | None = True
    """Direction of the metric; None if neither is better."""
    n_offered: int | None = None
    """Number of items to score; None if unknown, or if all are in `values`."""
    note: str = ""
    """Remark for the reader, as a sentence without the name; may be empty."""
    moves: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Item with a mapped score -> its changes if a cluster of the map's data is left out (`shared_error`)."""
    balance: Balance | None = None
    """Classes of items with equal weight in the mean; None if all items have equal weight."""

    def clustered(
        self, values: Mapping[str, float | None], bounds: tuple[float, float], extra_error: float
    ) -> Clustered:
        """Return values of this column's items, or differences of its values, summed by cluster."""
        if self.balance is not None:
            return _cluster_balanced(values, self.cluster_of, self.balance, bounds, extra_error)
        return cluster(list(values.values()), [self.cluster_of[item] for item in values], bounds, extra_error)

    def map_error(self, values: Mapping[str, float | None]) -> float:
        """Return the standard error of the mean of some values due to the map of this column's scores."""
        scored = [item for item, value in values.items() if value is not None]
        return shared_error((self.moves[item] for item in scored if item in self.moves), len(scored))

    @property
    def metric_text(self) -> str:
        """The metric, with its direction if lower is better."""
        return f"{self.metric} (lower is better)" if self.higher_is_better is False else self.metric


@dataclass(frozen=True, slots=True)
class Mean:
    """Mean of one column over all its scored items."""

    column: Column
    estimate: Estimate

    @property
    def cell(self) -> Value:
        """The mean as a table cell that shows missing items."""
        return replace(self.estimate.cell, n_tasks=self.column.n_offered)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of two columns on the items that both scored."""

    first: Column
    """The baseline."""
    second: Column
    """The column compared with it."""
    first_mean: float | None
    """Mean of the first over the shared items; None without shared items."""
    second_mean: float | None
    """Mean of the second over the shared items."""
    gaps: Clustered
    """Second minus first for each item, summed by cluster."""
    difference: Estimate
    """Mean of the gaps, with its p value. Its `n_unscored` counts items that one or both did not score."""
    n_unshared: int
    """Items in only one of the two columns."""
    adjusted_p: float | None = None
    """p value after Holm's correction over all comparisons of the call; None without p, or for a single comparison."""

    @property
    def detectable(self) -> float | None:
        """Smallest true difference that such a benchmark detects in 80 % of cases; None if unknown."""
        return detectable_difference(self.difference)

    @property
    def n_one_sided(self) -> int:
        """Items in both columns of which only one has a score."""
        both = ((value, self.second.values[i]) for i, value in self.first.values.items() if i in self.second.values)
        return sum((first_value is None) != (second_value is None) for first_value, second_value in both)

    @property
    def p(self) -> float | None:
        """Two-sided p value of no difference, at most 5 % exactly if the interval excludes 0; may be None."""
        return self.difference.p

    @property
    def cell(self) -> Difference:
        """The difference as a table cell, with its sign."""
        return self.difference.difference_cell

    @property
    def differences(self) -> dict[str, float | None]:
        """Shared item -> second minus first, None if one is unscored."""
        return _gaps_of(self.first, self.second)

    @property
    def signs(self) -> tuple[int, int, int]:
        """Number of items on which the second is higher, lower, and equal."""
        gaps = [gap for gap in self.differences.values() if gap is not None]
        n_higher, n_lower = (sum(sign * gap > TIE for gap in gaps) for sign in (1, -1))
        return n_higher, n_lower, len(gaps) - n_higher - n_lower


@dataclass(frozen=True, slots=True)
class Comparisons:
    """Results of one call of `compare_columns`."""

    means: tuple[Mean, ...]
    pairs: tuple[Comparison, ...]
    """One per comparable pair of columns, in the order of the first and then of the second."""


def compare_columns(columns: Sequence[Column], baseline: str | None = None) -> Comparisons:
    """Return all columns' means, and every pair that shares context, group and metric.

    In a pair, the earlier column is the first; with a baseline, the baseline is the first of every pair.

    Raises:
        ConfigurationError: no pair is comparable, the baseline is unknown, or two columns have the same name.
    """
    _check(columns, baseline)
    pairs = list(_pairs(columns, baseline))
    if not pairs:
        raise _nothing_to_compare(columns)
    compared = [compare(*pair) for pair in pairs]
    adjusted = zip(compared, holm([comparison.p for comparison in compared]), strict=True)
    return Comparisons(mean_columns(columns), tuple(replace(comparison, adjusted_p=p) for comparison, p in adjusted))


def compare(
    first: Column, second: Column, *, tested: float | None = 0.0, level: float = 0.95, is_discrete: bool = False
) -> Comparison:
    """Return the comparison of two columns on the items that both scored.

    The p value tests a true difference of `tested`; see `estimate_means` for `level` and `is_discrete`.
    """
    gaps = _gaps_of(first, second)
    (smallest, largest), (lowest, highest) = first.bounds, second.bounds
    # Both sides may be mapped, each by its own map.
    extra = math.hypot(first.map_error(gaps), second.map_error(gaps))
    bounds = (lowest - largest, highest - smallest)
    clustered = first.clustered(gaps, bounds, extra)
    (difference,) = estimate_means([clustered], tested=tested, level=level, is_discrete=is_discrete)
    both = [item for item, gap in gaps.items() if gap is not None]
    first_mean, second_mean = (_mean_over(both, side) for side in (first, second))
    return Comparison(
        first=first,
        second=second,
        first_mean=first_mean,
        second_mean=second_mean,
        gaps=clustered,
        difference=difference,
        n_unshared=len(first.values) + len(second.values) - 2 * len(gaps),
    )


def mean_columns(columns: Sequence[Column]) -> tuple[Mean, ...]:
    """Return each column's mean, in order."""
    means = []
    for column in columns:
        clustered = column.clustered(column.values, column.bounds, column.map_error(column.values))
        means.append(Mean(column, _estimate(clustered, 0.95, None)))
    return tuple(means)


def _mean_over(items: Sequence[str], column: Column) -> float | None:
    """Return the mean of a column over items that it scored; None without items."""
    if column.balance is not None:
        return column.clustered({item: column.values[item] for item in items}, column.bounds, 0.0).mean
    values = [value for item in items if (value := column.values[item]) is not None]
    return sum(values) / len(values) if values else None


def _check(columns: Sequence[Column], baseline: str | None) -> None:
    names = {column.name for column in columns}
    if baseline is not None and baseline not in names:
        raise ConfigurationError(f"unknown baseline {baseline!r}: {close_matches(baseline, names)}")
    keys = set()
    for column in columns:
        key = (column.context, column.group, column.metric, column.name)
        if key in keys:
            raise ConfigurationError(f"two columns have the same name {column.name!r} in {column.group}")
        keys.add(key)


def _pairs(columns: Sequence[Column], baseline: str | None) -> Iterator[tuple[Column, Column]]:
    for members in grouped(columns, lambda column: (column.context, column.group, column.metric)).values():
        if baseline is None:
            yield from itertools.combinations(members, 2)
        else:
            firsts = [column for column in members if column.name == baseline]
            yield from ((first, second) for first in firsts for second in members if second is not first)


def _gaps_of(first: Column, second: Column) -> dict[str, float | None]:
    """Return shared item -> second minus first, None if one is unscored."""
    pairs = {item: (value, second.values[item]) for item, value in first.values.items() if item in second.values}
    return {item: None if a is None or b is None else b - a for item, (a, b) in pairs.items()}


def _nothing_to_compare(columns: Sequence[Column]) -> ConfigurationError:
    found = dict.fromkeys(f"{c.name} in {c.group or 'one group'} ({c.context})" for c in columns)
    return ConfigurationError(
        "comparison",
        where=f"{len(columns)} columns of scores",
        expected="at least two that share data, encoder, judges, setting and metric",
        found="; ".join(found) or "none",
        next_step="use results that were scored in the same way, or score saved answers again: "
        "`ragtasks score RESULTS --output FOLDER`",
    )


# Holm's correction: among many tests, some differences are significant by chance.


def holm(p_values: Sequence[float | None], n_more: int = 0) -> list[float | None]:
    """Return the adjusted p values in order, each at least the unadjusted one and at most 1.

    If differences with an adjusted p of at most 5 % are called real, at most 5 % of such families have any false
    positive, whatever the dependence between tests.

    Source: S. Holm, A simple sequentially rejective multiple test procedure (1979).

    Args:
        p_values: p values of all tests of the family; None for an impossible test, which stays None and does not count.
        n_more: further tests of the family, without a p value here (`pairs_without_best`).

    Raises:
        ValueError: a p value outside 0 to 1.
    """
    tested = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    if not all(0 <= p <= 1 for p, _ in tested):
        raise ValueError("a p value is not between 0 and 1")
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, index) in enumerate(tested):
        largest = max(largest, min(1.0, (len(tested) + n_more - rank) * p))
        adjusted[index] = largest
    return adjusted


def pairs_without_best(n_columns: int) -> int:
    """Return the number of implicit tests if all other columns are compared with the best.

    The best is selected by the tested scores, so each pair could have been that of the best and the worst.
    """
    return (n_columns - 1) * (n_columns - 2) // 2 if n_columns else 0


# Detectable difference: a non-significant difference is not evidence of no difference.

LEVEL = 0.05
"""Chance of calling two equal models different."""
POWER = 0.8
"""Chance of detecting a difference of the detectable size."""
_MORE = 45.0


def planned_difference(mean: Estimate) -> Estimate:
    """Return the difference from a second system that is still to be evaluated, without its value.

    Its answers are assumed to be as variable as those of the mean, and independent of them.
    """
    error = None if mean.standard_error is None else math.sqrt(2) * mean.standard_error
    return replace(mean, value=None, low=None, high=None, standard_error=error, p=None)


def detectable_difference(difference: Estimate, level: float = LEVEL) -> float | None:
    """Return the smallest true difference that a two-sided test detects in 80 % of such benchmarks; above 0.

    At 5 % it is (t(97.5 %) + t(80 %)) standard errors, with one degree of freedom fewer than clusters: about 2.8. This
    is the value for a t-test. Our test, which is also valid for skewed differences, needs 1 + 45 / n² times as much
    with n clusters, by simulation. The value describes the resolution of the benchmark for these two models, from the
    spread of their differences, and does not depend on the difference itself. None if the standard error is missing or
    0, or if there are too few clusters for an interval.

    Source: J. Cohen, Statistical Power Analysis for the Behavioral Sciences (2nd ed., 1988), section 2.4; the standard
    error is that of `Estimate`.
    """
    from scipy.special import stdtrit

    if not difference.standard_error or difference.reason or difference.n_clusters < MIN_CLUSTERS:
        return None
    n = difference.n_clusters
    reach = stdtrit(n - 1, 1 - level / 2) + stdtrit(n - 1, POWER)
    return float(reach * (1 + _MORE / n**2) * difference.standard_error)
