"""Coverage and width of intervals of a mean, on simulated benchmarks with conversations.

Each row is one type of benchmark: number of conversations, correlation of two tasks of one (ICC), and distribution of
values. Conversations have 2 to 13 tasks, as MTRAG's have about 8. Columns are the share of benchmarks whose 95 %
interval contains the true mean, and the mean width:

- naive: the mean and 1.96 standard errors of independent tasks, as in the harness's table;
- BCa: a bootstrap over conversations by its textbook form (the percentile interval if it is undefined);
- boot-t: the symmetric bootstrap-t over conversations;
- t: 95 % of Student's t with the standard error over conversations, no bootstrap;
- logit: CR2 standard error and its degrees of freedom on the logit scale;
- ours: `ragtasks.statistics`.

`none` is the share of benchmarks for which boot-t and ours give no interval; coverage is over the others.
If answers fail rarely but completely (`rare 0`), a benchmark of few conversations often contains no failure at all, and
no method can detect them.

    python perf/interval_coverage.py --benchmarks 500
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import stats

from ragtasks.statistics import UNBOUNDED, Clustered, Estimate, Floats, cluster, estimate_means
from ragtasks.statistics._means import _freedom

METHODS = ("naive", "BCa", "boot-t", "t", "logit", "ours")
Ends = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Kind:
    """Type of values: `draw(random generator, conversation of each task, ICC)`, and their true mean."""

    name: str
    mean: float
    draw: Callable[[np.random.Generator, np.ndarray, float], Floats]
    bounds: Ends = (0.0, 1.0)


def normal_effects(chance: np.random.Generator, cluster_of: np.ndarray, icc: float) -> Floats:
    """Return normal values of variance 1, a share `icc` of it common to a conversation."""
    shared = chance.standard_normal(cluster_of.max() + 1)[cluster_of]
    return math.sqrt(icc) * shared + math.sqrt(1 - icc) * chance.standard_normal(len(cluster_of))


def skewed(chance: np.random.Generator, cluster_of: np.ndarray, icc: float) -> Floats:
    """Return log-normal values; `icc` is that of their logarithms."""
    return np.exp(normal_effects(chance, cluster_of, icc))


def outcomes(share: float) -> Callable[[np.random.Generator, np.ndarray, float], Floats]:
    """Return a generator of 0/1 values; each conversation has its own probability of a 1 around `share`."""

    def draw(chance: np.random.Generator, cluster_of: np.ndarray, icc: float) -> Floats:
        weight = 1 / max(icc, 1e-6) - 1
        own = chance.beta(share * weight, (1 - share) * weight, cluster_of.max() + 1)
        return np.asarray(chance.random(len(cluster_of)) < own[cluster_of], dtype=np.float64)

    return draw


def paired(chance: np.random.Generator, cluster_of: np.ndarray, icc: float) -> Floats:
    """Return differences of two systems' 0/1 values: -1, 0 or 1."""
    return outcomes(0.85)(chance, cluster_of, icc) - outcomes(0.80)(chance, cluster_of, icc)


def shares(mean: float, weight: float) -> Callable[[np.random.Generator, np.ndarray, float], Floats]:
    """Return a generator of values between 0 and 1; each conversation has its own mean around `mean`."""

    def draw(chance: np.random.Generator, cluster_of: np.ndarray, icc: float) -> Floats:
        between = max(icc, 1e-6) / (weight + 1)
        own = chance.beta(mean * (1 / between - 1), (1 - mean) * (1 / between - 1), cluster_of.max() + 1)
        own = np.clip(own, 0.001, 0.999)[cluster_of]
        return chance.beta(own * weight, (1 - own) * weight)

    return draw


def failing(share: float, mean: float, weight: float) -> Callable[[np.random.Generator, np.ndarray, float], Floats]:
    """Return a generator of values around `mean`, with 0 for a share of the tasks."""

    def draw(chance: np.random.Generator, cluster_of: np.ndarray, icc: float) -> Floats:
        values = chance.beta(mean * weight, (1 - mean) * weight, len(cluster_of))
        return np.where(outcomes(share)(chance, cluster_of, icc) > 0, 0.0, values)

    return draw


KINDS = (
    Kind("0/1, 50 %", 0.5, outcomes(0.5)),
    Kind("0/1, 90 %", 0.9, outcomes(0.9)),
    Kind("0/1, 97 %", 0.97, outcomes(0.97)),
    Kind("0/1, 5 %", 0.05, outcomes(0.05)),
    Kind("about .93", 0.93, shares(0.93, 20)),
    Kind("about .20", 0.2, shares(0.2, 6)),
    Kind("mostly 0", 0.06, failing(0.85, 0.4, 5)),
    Kind("rare 0", 0.95 * 0.94, failing(0.05, 0.94, 80)),
    Kind("0/1 paired", 0.05, paired, (-1.0, 1.0)),
    Kind("skewed", math.exp(0.5), skewed, UNBOUNDED),
)


def simulate(kind: Kind, n_clusters: int, icc: float, n: int, seed: int) -> list[Clustered]:
    """Return `n` benchmarks of one type, their values summed by conversation."""
    chance = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        cluster_of = np.repeat(np.arange(n_clusters), chance.integers(2, 14, n_clusters))
        values = kind.draw(chance, cluster_of, icc)
        made.append(cluster(values.tolist(), [f"{number:04}" for number in cluster_of], kind.bounds))
    return made


def bca(column: Clustered, weights: Floats) -> Ends:
    """Return the ends of the BCa interval; the percentile interval if it is undefined."""
    sums, counts = column.sums, column.counts
    mean = sums.sum() / counts.sum()
    means = (weights @ sums) / (weights @ counts)
    left_out = (sums.sum() - sums) / (counts.sum() - counts)
    gaps = left_out.mean() - left_out
    below = np.mean(means < mean) + np.mean(means == mean) / 2
    probabilities: tuple[float, ...] = (0.025, 0.975)
    if 0 < below < 1 and gaps.any():
        shift = stats.norm.ppf(below) + stats.norm.ppf(probabilities)
        skew = (gaps**3).sum() / (6 * (gaps**2).sum() ** 1.5)
        probabilities = stats.norm.cdf(stats.norm.ppf(below) + shift / (1 - skew * shift))
    low, high = np.quantile(means, probabilities)
    return float(low), float(high)


def bootstrap_t(column: Clustered, weights: Floats) -> Ends:
    """Return the ends of the symmetric bootstrap-t; NaN if too many resamples do not vary."""
    counts, mean, n = column.counts, column.mean or 0.0, len(column.ids)
    gaps = column.sums - mean * counts
    drawn = weights @ counts
    shifts = (weights @ gaps) / drawn
    squares = weights @ gaps**2
    spread = squares - 2 * shifts * (weights @ (gaps * counts)) + shifts**2 * (weights @ counts**2)
    spread[spread <= 1e-12 * squares] = 0
    distances = np.full(len(weights), np.inf)
    errors = np.sqrt(spread * n / (n - 1)) / drawn
    np.divide(np.abs(shifts), errors, out=distances, where=errors > 0)
    reach = np.sort(distances)[math.ceil(0.95 * (len(weights) + 1)) - 1]
    reach *= math.sqrt(n / (n - 1) * (gaps @ gaps)) / counts.sum()
    return (mean - reach, mean + reach) if math.isfinite(reach) else (math.nan, math.nan)


def logit(column: Clustered) -> Ends:
    """Return the ends of an interval on the logit scale, with CR2's error and degrees of freedom."""
    mean, (lowest, highest) = column.mean or 0.0, column.bounds
    own_share = 1 / (1 - column.counts / column.counts.sum())
    error = math.sqrt((own_share * (column.sums - mean * column.counts) ** 2).sum()) / column.counts.sum()
    share = (mean - lowest) / (highest - lowest)
    if not 0 < share < 1 or math.isinf(highest):
        return math.nan, math.nan
    reach = stats.t.ppf(0.975, _freedom(column.counts, own_share)) * error / (highest - lowest) / (share * (1 - share))
    low, high = (
        lowest + (highest - lowest) / (1 + math.exp(-math.log(share / (1 - share)) - r)) for r in (-reach, reach)
    )
    return low, high


def around(estimate: Estimate, error: float | None, reach: float) -> Ends:
    """Return the ends of an interval with equally many errors on both sides."""
    value, width = estimate.value or 0.0, (error or 0.0) * reach
    return value - width, value + width


def ends_of(column: Clustered, ours: Estimate, weights: Floats) -> dict[str, Ends]:
    """Return method -> ends within the bounds, for methods with an interval."""
    student = float(stats.t.ppf(0.975, len(column.ids) - 1))
    ends = {
        "naive": around(ours, ours.independent_error, 1.96),
        "BCa": bca(column, weights),
        "t": around(ours, ours.standard_error, student),
        "logit": logit(column),
        "boot-t": bootstrap_t(column, weights),
        "ours": (math.nan if ours.low is None else ours.low, math.nan if ours.high is None else ours.high),
    }
    lowest, highest = column.bounds
    return {
        name: (max(low, lowest), min(high, highest))
        for name, (low, high) in ends.items()
        if math.isfinite(low) and math.isfinite(high)
    }


def rows(n: int, cluster_counts: list[int], correlations: list[float]) -> Iterator[str]:
    """Yield the rows of the table."""
    yield (
        f"{'conversations':>13}{'ICC':>6}  {'values':<11}"
        + "".join(f"{m:>13}" for m in METHODS)
        + "   none: boot-t, ours"
    )
    for n_clusters in cluster_counts:
        weights = np.random.default_rng(1).multinomial(n_clusters, np.full(n_clusters, 1 / n_clusters), 2000) * 1.0
        for icc in correlations:
            for seed, kind in enumerate(KINDS):
                columns = simulate(kind, n_clusters, icc, n, seed)
                ours = estimate_means(columns)
                # Benchmarks without variation are uninformative for every method.
                with_error = [pair for pair in zip(columns, ours, strict=True) if pair[1].standard_error]
                intervals = [ends_of(*pair, weights) for pair in with_error]
                n_without = (
                    sum(method not in ends for ends in intervals) + n - len(with_error) for method in ("boot-t", "ours")
                )
                yield (
                    f"{n_clusters:>13}{icc:>6.2f}  {kind.name:<11}"
                    + "".join(
                        cell([ends[method] for ends in intervals if method in ends], kind.mean) for method in METHODS
                    )
                    + "".join(f"{count / n:>9.1%}" for count in n_without)
                )


def cell(intervals: list[Ends], mean: float) -> str:
    """Return coverage and mean width of the intervals of one method."""
    if not intervals:
        return f"{'-':>13}"
    covered = np.mean([low <= mean <= high for low, high in intervals])
    return f"{100 * covered:>7.1f} {np.mean([high - low for low, high in intervals]):.3f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmarks", type=int, default=500, help="simulated benchmarks per line")
    parser.add_argument("--conversations", type=int, nargs="+", default=[10, 16, 25, 50, 110])
    parser.add_argument("--icc", type=float, nargs="+", default=[0.0, 0.1, 0.3])
    options = parser.parse_args()
    start = time.perf_counter()
    for line in rows(options.benchmarks, options.conversations, options.icc):
        print(line, flush=True)
    error = 100 * math.sqrt(0.95 * 0.05 / options.benchmarks)
    print(f"{options.benchmarks} benchmarks per line: the error of a coverage of 95 % is +- {2 * error:.1f} points")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
