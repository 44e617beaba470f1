"""Means with their standard errors, intervals and tests over clusters, all three by one statistic.

A mean over tasks is a ratio of two sums over conversations: values over counts. Its 95 % interval holds the means that
the test does not reject at 5 %, so p is at most 0.05 where the interval leaves a mean out, and nowhere else. How far a
mean is from another one is the smaller of two distances, both held against Student's quantiles:

- the distance in standard errors; where scores have two bounds, as nearly all have, with the standard error that the
  other mean would have, as in Wilson's score interval, whose ends never leave the bounds;
- where the other mean is on the side of the longer tail, also that distance corrected for skewness by Hall's
  transformation. Few conversations often miss a long tail: then their mean is off, and their spread too small. They
  show too little skewness for the same reason, so it is taken for larger than it is.

The standard error is that of Bell and McCaffrey (CR2), which makes up for large conversations fitting themselves, with
their degrees of freedom less two, for skewness and spread are known together. `perf/mean_tests.py` and
`perf/interval_coverage.py` print what this gives beside other methods; docs/statistics.md has the tables.

Sources: R. M. Bell and D. F. McCaffrey, Bias reduction in standard errors for linear regression with multi-stage
samples (2002); E. B. Wilson, Probable inference, the law of succession, and statistical inference (1927); P. Hall, On
the removal of skewness by transformation (1992); W. G. Cochran, Sampling Techniques (3rd ed., 1977), section 6.3, for
the standard error of a ratio that is reported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragtasks.statistics._clusters import ROUNDING, Clustered, Floats

MIN_CLUSTERS = 10
"""Fewest clusters of an interval: with fewer, none of the methods tried covers what it says."""

NOTHING_SCORED = "nothing is scored"
"""The reason of a mean without values."""
TOO_FEW_CLUSTERS = f"fewer than {MIN_CLUSTERS} conversations"
"""The reason of a mean without an interval: too few clusters."""
NOTHING_VARIES = "all conversations have the same mean"
"""The reason of a mean without an interval: the values say nothing about chance."""

# Chosen by simulation with 10 to 110 conversations, between errors where a tail is long and power where there is none.
_MISSED_SKEWNESS = 100.0  # the skewness of n conversations counts 1 + this / n² times
_LOST_FREEDOM = 2.0
_STRAIGHT_FROM = 1.25  # skewness times gap; at 3 Hall's cubic is flat, and an interval would reach far beyond all data
_SLOPE = (1 - _STRAIGHT_FROM / 3) ** 2
_NO_SKEWNESS = 1e-6


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


def estimate_means(columns: Sequence[Clustered], *, level: float = 0.95, tested: float | None = None) -> list[Estimate]:
    """Return each column's mean with its interval; [] for none.

    A column's estimate does not depend on the other columns.

    Args:
        columns: as from `cluster`; each has its own clusters.
        level: share of benchmarks whose interval should hold the true mean.
        tested: a mean to give a p value of, such as 0 for differences; None: no p values.

    Raises:
        ValueError: the level is not between 0 and 1.
    """
    if not 0 < level < 1:
        raise ValueError(f"an interval needs a level between 0 and 1, not {level}")
    return [_estimate(column, level, tested) for column in columns]


def _estimate(column: Clustered, level: float, tested: float | None) -> Estimate:
    error, n = _standard_error(column), column.n_values
    reason = _reason(column, error)
    low = high = p = None
    if not reason:
        pivot = _pivot(column)
        low, high = pivot.ends(level)
        p = None if tested is None else pivot.p_value(tested)
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


def _pivot(column: Clustered) -> _Pivot:
    counts, n_values, n = column.counts, float(column.counts.sum()), len(column.ids)
    gaps = _gaps(column)
    squares = gaps @ gaps
    own_share = 1 / (1 - counts / n_values)
    return _Pivot(
        mean=column.mean or 0.0,
        error=math.sqrt(float(own_share @ gaps**2)) / n_values,
        freedom=max(1.0, _freedom(counts, own_share) - _LOST_FREEDOM),
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


__all__ = ["MIN_CLUSTERS", "NOTHING_SCORED", "NOTHING_VARIES", "TOO_FEW_CLUSTERS", "Estimate", "estimate_means"]
