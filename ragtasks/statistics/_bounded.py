"""Intervals of means of scores that lie between two bounds, where a symmetric interval fails near either of them.

Near a bound few conversations carry all that varies: resamples that miss them have hardly any spread, and a bootstrap-t
then reaches over half the scale, or gives up. This interval needs no resamples:

- The standard error is that of Bell and McCaffrey (CR2), which makes up for large conversations fitting themselves.
- Student's t has their degrees of freedom, and no more than twice the conversations that carry the spread, plus 1: the
  error of a mean that hangs on three conversations is itself known from three.
- The ends are those of Wilson's score interval for as many independent tasks as have this standard error, so they never
  leave the bounds and reach farther into the scale than to the near bound. Rare failures among scores that are alike
  leave the mean far from the bound, yet as lopsided: so the same is done between a bound and the farthest conversation,
  and the wider end counts.

`perf/interval_coverage.py` shows the coverage beside that of other methods, docs/statistics.md has its table.

Sources: R. M. Bell and D. F. McCaffrey, Bias reduction in standard errors for linear regression with multi-stage
samples (2002); E. B. Wilson, Probable inference, the law of succession, and statistical inference (1927); N. Dean and
M. Pagano, Evaluating confidence interval methods for binomial proportions in clustered surveys (2015), for its use
on an effective number of tasks.
"""

from __future__ import annotations

import math

import numpy as np

from ragtasks.statistics._clusters import Clustered
from ragtasks.statistics._student import student_quantile


def bounded_interval(column: Clustered, level: float) -> tuple[float, float]:
    """Return the ends of the interval of a mean, both within the bounds.

    A mean that is not between the bounds, which only a wrong score can make, has itself for both ends.

    Args:
        column: scores with finite bounds, in at least two clusters that are not alike.
        level: share of benchmarks whose interval should hold the true mean.
    """
    mean, (lowest, highest) = column.mean or 0.0, column.bounds
    if not lowest < mean < highest:
        return mean, mean
    means = column.sums / column.counts
    reach = _reach(column, mean, level)
    low, high = _wilson(mean, reach, lowest, highest)
    nearest, farthest = min(highest, float(means.max())), max(lowest, float(means.min()))
    if nearest > mean:
        low = min(low, _wilson(mean, reach, lowest, nearest)[0])
    if farthest < mean:
        high = max(high, _wilson(mean, reach, farthest, highest)[1])
    return low, high


def _reach(column: Clustered, mean: float, level: float) -> float:
    """Return the standard error of the mean times the quantile of its degrees of freedom."""
    counts, n = column.counts, float(column.counts.sum())
    own_share = 1 / (1 - counts / n)
    squares = own_share * (column.sums - mean * counts) ** 2
    freedom = min(_freedom(counts, own_share), 2 * squares.sum() ** 2 / (squares @ squares) + 1)
    # A hundredth is too fine to matter, and most columns of a report then share their quantiles.
    quantile = student_quantile((1 + level) / 2, round(max(1.0, float(freedom)), 2))
    return quantile * math.sqrt(float(squares.sum())) / n


def _freedom(counts: np.ndarray, own_share: np.ndarray) -> float:
    """Return Satterthwaite's degrees of freedom of the CR2 variance of a mean, by the sizes of the clusters."""
    n = float(counts.sum())
    weights = own_share * counts**2
    return float(n**2 / (counts @ counts + (weights.sum() ** 2 - weights @ weights) / n**2))


def _wilson(mean: float, reach: float, lowest: float, highest: float) -> tuple[float, float]:
    """Return the means between two bounds that are `reach` away, were the error theirs and not that of `mean`."""
    width = highest - lowest
    share = (mean - lowest) / width
    spread = share * (1 - share)
    pull = (reach / width) ** 2 / spread
    half = math.sqrt(pull * spread + pull**2 / 4)
    low, high = ((share + pull / 2 + side) / (1 + pull) for side in (-half, half))
    # Rounding must not leave the bounds, nor the mean outside.
    return min(mean, max(lowest, lowest + width * low)), max(mean, min(highest, lowest + width * high))


__all__ = ["bounded_interval"]
