"""How often intervals hold the true mean, on simulated benchmarks whose tasks are alike within a conversation.

Each line is one kind of benchmark: conversations, the correlation of two tasks of one (ICC), and what values look like.
Conversations have 2 to 13 tasks, as MTRAG's have about 8. Columns are the share of benchmarks whose 95 % interval holds
the true mean:

- naive: the mean and 1.96 standard errors of independent tasks, as in the harness's table;
- percentile, BCa: bootstraps over conversations by their textbook form;
- t: 95 % of Student's t with the standard error over conversations, no bootstrap;
- ours: `ragtasks.statistics`. `none` is the share of benchmarks for which it gives no interval and says why;
  its coverage is over the others.

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

from ragtasks.statistics import Clustered, Estimate, cluster, estimate_means
from ragtasks.statistics._clusters import Floats

METHODS = ("naive", "percentile", "BCa", "t", "ours")
Ends = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Kind:
    """How values come about: `draw(chance, conversation of each task, ICC)`, and their true mean."""

    name: str
    mean: float
    draw: Callable[[np.random.Generator, np.ndarray, float], Floats]


def normal_effects(chance: np.random.Generator, cluster_of: np.ndarray, icc: float) -> Floats:
    """Return normal values of variance 1, `icc` of it shared by a conversation."""
    shared = chance.standard_normal(cluster_of.max() + 1)[cluster_of]
    return math.sqrt(icc) * shared + math.sqrt(1 - icc) * chance.standard_normal(len(cluster_of))


def skewed(chance: np.random.Generator, cluster_of: np.ndarray, icc: float) -> Floats:
    """Return log-normal values; `icc` is that of their logarithms."""
    return np.exp(normal_effects(chance, cluster_of, icc))


def outcomes(share: float) -> Callable[[np.random.Generator, np.ndarray, float], Floats]:
    """Return a maker of 0/1 values: each conversation has its own chance of a 1, drawn around `share`."""

    def draw(chance: np.random.Generator, cluster_of: np.ndarray, icc: float) -> Floats:
        weight = 1 / max(icc, 1e-6) - 1
        own = chance.beta(share * weight, (1 - share) * weight, cluster_of.max() + 1)
        return np.asarray(chance.random(len(cluster_of)) < own[cluster_of], dtype=np.float64)

    return draw


def paired(chance: np.random.Generator, cluster_of: np.ndarray, icc: float) -> Floats:
    """Return differences of two systems' 0/1 values: -1, 0 or 1."""
    return outcomes(0.85)(chance, cluster_of, icc) - outcomes(0.80)(chance, cluster_of, icc)


KINDS = (
    Kind("normal", 0.0, normal_effects),
    Kind("0/1, 50 %", 0.5, outcomes(0.5)),
    Kind("0/1, 90 %", 0.9, outcomes(0.9)),
    Kind("0/1, 97 %", 0.97, outcomes(0.97)),
    Kind("skewed", math.exp(0.5), skewed),
    Kind("0/1 paired", 0.05, paired),
)


def simulate(kind: Kind, n_clusters: int, icc: float, n: int, seed: int) -> list[Clustered]:
    """Return `n` benchmarks of one kind, their values summed by conversation."""
    chance = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        cluster_of = np.repeat(np.arange(n_clusters), chance.integers(2, 14, n_clusters))
        values = kind.draw(chance, cluster_of, icc)
        made.append(cluster(values.tolist(), [f"{number:04}" for number in cluster_of]))
    return made


def textbook(column: Clustered, weights: Floats) -> dict[str, Ends]:
    """Return the ends of the percentile and BCa intervals; a BCa that is not defined is the percentile one."""
    sums, counts = column.sums, column.counts
    mean = sums.sum() / counts.sum()
    means = (weights @ sums) / (weights @ counts)
    percentile = np.quantile(means, (0.025, 0.975))
    left_out = (sums.sum() - sums) / (counts.sum() - counts)
    gaps = left_out.mean() - left_out
    below = np.mean(means < mean) + np.mean(means == mean) / 2
    if not 0 < below < 1 or not gaps.any():
        return {"percentile": tuple(percentile), "BCa": tuple(percentile)}
    shift = stats.norm.ppf(below) + stats.norm.ppf((0.025, 0.975))
    skew = (gaps**3).sum() / (6 * (gaps**2).sum() ** 1.5)
    places = stats.norm.cdf(stats.norm.ppf(below) + shift / (1 - skew * shift))
    return {"percentile": tuple(percentile), "BCa": tuple(np.quantile(means, places))}


def around(estimate: Estimate, error: float | None, reach: float) -> Ends:
    """Return the ends of an interval that reaches as many errors to both sides."""
    value, width = estimate.value or 0.0, (error or 0.0) * reach
    return value - width, value + width


def covered(kind: Kind, n_clusters: int, icc: float, n: int, seed: int) -> tuple[dict[str, float], float]:
    """Return method -> share of benchmarks whose interval holds the true mean, and the share that ours leaves out."""
    columns = simulate(kind, n_clusters, icc, n, seed)
    estimates = estimate_means(columns)
    weights = np.random.default_rng(seed).multinomial(n_clusters, np.full(n_clusters, 1 / n_clusters), 2000) * 1.0
    hits: dict[str, list[bool]] = {method: [] for method in METHODS}
    student = float(stats.t.ppf(0.975, n_clusters - 1))
    for column, estimate in zip(columns, estimates, strict=True):
        ends = textbook(column, weights)
        ends["naive"] = around(estimate, estimate.independent_error, 1.96)
        ends["t"] = around(estimate, estimate.standard_error, student)
        if estimate.low is not None and estimate.high is not None:
            ends["ours"] = (estimate.low, estimate.high)
        for method, (low, high) in ends.items():
            hits[method].append(bool(low <= kind.mean <= high))
    return {method: float(np.mean(found)) for method, found in hits.items()}, 1 - len(hits["ours"]) / n


def rows(n: int, cluster_counts: list[int], correlations: list[float]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield f"{'conversations':>13}{'ICC':>6}  {'values':<12}" + "".join(f"{m:>12}" for m in METHODS) + f"{'none':>8}"
    for n_clusters in cluster_counts:
        for icc in correlations:
            for seed, kind in enumerate(KINDS):
                shares, left_out = covered(kind, n_clusters, icc, n, seed)
                scores = "".join(f"{100 * shares[method]:>10.1f} %" for method in METHODS)
                yield f"{n_clusters:>13}{icc:>6.2f}  {kind.name:<12}{scores}{100 * left_out:>6.1f} %"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmarks", type=int, default=500, help="simulated benchmarks a line")
    parser.add_argument("--conversations", type=int, nargs="+", default=[10, 25, 50, 110])
    parser.add_argument("--icc", type=float, nargs="+", default=[0.0, 0.1, 0.3])
    options = parser.parse_args()
    start = time.perf_counter()
    for line in rows(options.benchmarks, options.conversations, options.icc):
        print(line, flush=True)
    error = 100 * math.sqrt(0.95 * 0.05 / options.benchmarks)
    print(f"{options.benchmarks} benchmarks a line: at 95 % a share is sure to +- {2 * error:.1f} points")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
