"""Means with their standard errors and intervals over clusters.

A mean over tasks is a ratio of two sums over conversations: values over counts. Where scores have two bounds, as nearly
all have, the interval is that of `ragtasks.statistics._bounded`. Where they have not, it is the symmetric studentised
bootstrap (bootstrap-t): a resample draws as many conversations as there are, with replacement, and is a row of weights;
each resample's distance from the mean is measured in that resample's own standard error, and the interval reaches as
many standard errors as 95 % of the resamples stay within. Percentile and BCa intervals cover too little with 10 to 50
conversations; `perf/interval_coverage.py` prints it. A resample without any spread counts as infinitely far. A single
bound cuts the interval off: beyond it is no true mean, so the coverage is the same.

Sources: B. Efron and R. Tibshirani, An Introduction to the Bootstrap (1993), section 12.5; P. Hall, Theoretical
comparison of bootstrap confidence intervals (1988), on the symmetric form; W. G. Cochran, Sampling Techniques (3rd ed.,
1977), section 6.3, for the standard error of a ratio.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ragtasks.statistics._bounded import bounded_interval
from ragtasks.statistics._clusters import ROUNDING, Clustered, Floats

N_RESAMPLES = 9_999
"""Resamples of an interval; one more than that is a round number, so that 95 % of it is a whole one."""
MIN_CLUSTERS = 10
"""Fewest clusters of an interval: with fewer, none of the methods tried covers what it says."""

NOTHING_SCORED = "nothing is scored"
"""The reason of a mean without values."""
TOO_FEW_CLUSTERS = f"fewer than {MIN_CLUSTERS} conversations"
"""The reason of a mean without an interval: too few clusters."""
NOTHING_VARIES = "all conversations have the same mean"
"""The reason of a mean without an interval: the values say nothing about chance."""
TOO_FEW_DIFFER = "too few conversations differ from the rest"
"""The reason of a mean without an interval, its scores without bounds: 5 % of the resamples miss all that varies."""

_COLUMNS_AT_ONCE = 64
_NO_SPREAD = 1e-12  # a share of a resample's squares: what rounding leaves where they cancel


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


def estimate_means(
    columns: Sequence[Clustered], *, level: float = 0.95, n_resamples: int = N_RESAMPLES, seed: int = 0
) -> list[Estimate]:
    """Return each column's mean with its interval; [] for none.

    But for rounding, a column's interval does not depend on the other columns; it is the same at every call.

    Args:
        columns: as from `cluster`; each has its own clusters.
        level: share of benchmarks whose interval should hold the true mean.
        n_resamples: resamples of an interval.
        seed: start of the random numbers.

    Raises:
        ValueError: too few resamples for the level.
    """
    if not 0 < level < 1 or math.ceil(level * (n_resamples + 1)) > n_resamples:
        raise ValueError(f"{n_resamples} resamples cannot give an interval at level {level}")
    errors = [_standard_error(column) for column in columns]
    reaches: list[float] = [math.nan] * len(columns)
    for n_clusters, chosen in _by_size(columns, errors):
        weights = _weights(n_clusters, n_resamples, seed)
        found = _reaches(weights, [columns[index] for index in chosen], level)
        for index, reach in zip(chosen, found, strict=True):
            reaches[index] = float(reach)
    return [_estimate(*known, level) for known in zip(columns, errors, reaches, strict=True)]


def _is_bounded(column: Clustered) -> bool:
    return all(map(math.isfinite, column.bounds))


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


def _by_size(columns: Sequence[Clustered], errors: Sequence[float | None]) -> Iterator[tuple[int, list[int]]]:
    """Yield a number of clusters with the columns that have it, a batch at a time; those without interval left out."""
    sizes: dict[int, list[int]] = {}
    for index, (column, error) in enumerate(zip(columns, errors, strict=True)):
        if error and len(column.ids) >= MIN_CLUSTERS and not _is_bounded(column):
            sizes.setdefault(len(column.ids), []).append(index)
    for n_clusters, indices in sizes.items():
        for start in range(0, len(indices), _COLUMNS_AT_ONCE):
            yield n_clusters, indices[start : start + _COLUMNS_AT_ONCE]


@lru_cache(maxsize=2)
def _weights(n_clusters: int, n_resamples: int, seed: int) -> Floats:
    """Return how often each resample draws each cluster; shape (resamples, clusters), rows add up to the clusters."""
    drawn = np.random.default_rng(seed).integers(n_clusters, size=(n_resamples, n_clusters))
    places = drawn + np.arange(n_resamples)[:, None] * n_clusters
    counts = np.bincount(places.ravel(), minlength=n_resamples * n_clusters)
    return np.asarray(counts.reshape(n_resamples, n_clusters), dtype=np.float64)


def _reaches(weights: Floats, columns: Sequence[Clustered], level: float) -> Floats:
    """Return how many standard errors each column's interval reaches; infinite where too many resamples do not vary."""
    n_clusters = weights.shape[1]
    counts = np.stack([column.counts for column in columns], axis=1)
    gaps = np.stack([_gaps(column) for column in columns], axis=1)
    n_values = weights @ counts
    shifts = (weights @ gaps) / n_values  # a resample's mean less the mean
    squares = weights @ (gaps * gaps)
    # The squared gaps of a resample's clusters from its own mean, without going through the clusters again.
    spread = squares - 2 * shifts * (weights @ (gaps * counts)) + shifts**2 * (weights @ (counts * counts))
    spread[spread <= _NO_SPREAD * squares] = 0
    errors = np.sqrt(spread * (n_clusters / (n_clusters - 1))) / n_values
    distances = np.full_like(errors, np.inf)
    np.divide(np.abs(shifts), errors, out=distances, where=errors > 0)
    place = math.ceil(level * (len(weights) + 1)) - 1
    return np.asarray(np.partition(distances, place, axis=0)[place])


def _estimate(column: Clustered, error: float | None, reach: float, level: float) -> Estimate:
    mean, n = column.mean, column.n_values
    reason = _reason(column, error, reach)
    low = high = None
    if not reason and mean is not None and error is not None:
        low, high = bounded_interval(column, level) if _is_bounded(column) else _symmetric(column, mean, reach * error)
    return Estimate(
        value=mean,
        low=low,
        high=high,
        standard_error=error,
        independent_error=math.sqrt(column.spread / (n - 1) / n) if n > 1 else None,
        n_clusters=len(column.ids),
        n_values=n,
        n_unscored=column.n_unscored,
        reason=reason,
    )


def _symmetric(column: Clustered, mean: float, reach: float) -> tuple[float, float]:
    smallest, largest = column.bounds
    # A value beyond its bound is the metric's error: its mean stays within the interval all the same.
    return min(mean, max(mean - reach, smallest)), max(mean, min(mean + reach, largest))


def _reason(column: Clustered, error: float | None, reach: float) -> str:
    if not column.n_values:
        return NOTHING_SCORED
    if len(column.ids) < MIN_CLUSTERS:
        return TOO_FEW_CLUSTERS
    if error == 0:
        return NOTHING_VARIES
    return TOO_FEW_DIFFER if math.isinf(reach) else ""


__all__ = [
    "MIN_CLUSTERS",
    "NOTHING_SCORED",
    "NOTHING_VARIES",
    "N_RESAMPLES",
    "TOO_FEW_CLUSTERS",
    "TOO_FEW_DIFFER",
    "Estimate",
    "estimate_means",
]
