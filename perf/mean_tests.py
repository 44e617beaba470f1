"""False alarms and power of tests of equal means, on simulated benchmarks with conversations.

Conversations have 2 to 13 tasks, as MTRAG's have about 8. Rows of the first table are differences of two sides with
equal means, so each share is of false alarms at 5 %: first sides with different distributions, then equal
distributions. Rows of the second table are true differences of the size that a t-test finds in 80 % (Cohen's formula on
the standard error reported by ragtasks), and of the size that `ragtasks compare` reports as detectable. Columns:

- flip: sign flips of complete conversations, the former test of ragtasks, for sides with equal distributions;
- t: the mean in standard errors over conversations against Student's t;
- ours: `ragtasks.statistics`; without a p value, nothing is found.

The last table has equal systems: the share of benchmarks in which any of them is called worse than the best, with
Holm's correction over the differences to the best, and over all pairs, as in `report` and the leaderboard. `--equal`
prints only this table.

    python perf/mean_tests.py --benchmarks 2000
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from scipy import stats

from ragtasks.statistics import (
    LEVEL,
    UNBOUNDED,
    Clustered,
    Floats,
    cluster,
    detectable_difference,
    estimate_means,
    holm,
    pairs_without_best,
)

LARGEST = 13
N_TURNINGS = 999
DIFFERENCES = (-1.0, 1.0)
METHODS = ("flip", "t", "ours")
Chance = np.random.Generator
Draw = Callable[[Chance, Floats], Floats]
"""Sizes of conversations, (benchmarks, conversations) -> their mean differences."""


def outcomes(share: float, icc: float = 0.1) -> Draw:
    """Return a generator of shares of 0/1 values; each conversation has its own probability of a 1."""
    weight = 1 / icc - 1

    def draw(chance: Chance, sizes: Floats) -> Floats:
        own = chance.beta(share * weight, (1 - share) * weight, sizes.shape)
        return np.asarray(chance.binomial(sizes.astype(int), own) / sizes)

    return draw


def scores(mean: float, weight: float, icc: float = 0.1) -> Draw:
    """Return a generator of means of values between 0 and 1; each conversation has its own mean."""
    between = (weight + 1) / icc - 1

    def draw(chance: Chance, sizes: Floats) -> Floats:
        own = np.clip(chance.beta(mean * between, (1 - mean) * between, sizes.shape), 0.001, 0.999)
        return mean_of_tasks(lambda: chance.beta(own * weight, (1 - own) * weight), sizes)

    return draw


def failing(share: float, icc: float = 0.1) -> Draw:
    """Return a generator of means of values that are all about 0.94, but 0 for a share of the tasks."""
    weight = 1 / icc - 1

    def draw(chance: Chance, sizes: Floats) -> Floats:
        own = chance.beta(share * weight, (1 - share) * weight, sizes.shape)
        return mean_of_tasks(lambda: (chance.random(sizes.shape) >= own) * chance.beta(75, 5, sizes.shape), sizes)

    return draw


def lognormal(icc: float = 0.3) -> Draw:
    """Return a generator of means of log-normal values, such as numbers of words."""

    def draw(chance: Chance, sizes: Floats) -> Floats:
        shared = math.sqrt(icc) * chance.standard_normal(sizes.shape)
        return mean_of_tasks(lambda: np.exp(shared + math.sqrt(1 - icc) * chance.standard_normal(sizes.shape)), sizes)

    return draw


def normal(chance: Chance, sizes: Floats) -> Floats:
    """Return means of normal differences, 30 % of whose variance is common to a conversation."""
    shared, own = chance.standard_normal(sizes.shape), chance.standard_normal(sizes.shape)
    return np.asarray(0.2 * (math.sqrt(0.3) * shared + math.sqrt(0.7) * own / np.sqrt(sizes)))


def mean_of_tasks(draw: Callable[[], Floats], sizes: Floats) -> Floats:
    """Return the mean of as many draws as each conversation has tasks."""
    return np.asarray(sum(np.where(number < sizes, draw(), 0.0) for number in range(LARGEST)) / sizes)


def of_conversations(draw: Callable[[Chance, tuple[int, ...]], Floats], mean: float) -> Draw:
    """Return a generator of centered values that are correlated within a conversation."""
    return lambda chance, sizes: draw(chance, sizes.shape) - mean


def less(draw: Draw, other: Draw | float) -> Draw:
    """Return a generator of differences."""
    if isinstance(other, float):
        return lambda chance, sizes: draw(chance, sizes) - other
    return lambda chance, sizes: draw(chance, sizes) - other(chance, sizes)


ALIKE = 75 / 80  # the mean of Beta(75, 5)
EQUAL_MEANS: dict[str, tuple[Draw, tuple[float, float]]] = {
    "constant .9; 1, but 10 % of the conversations fail": (
        of_conversations(lambda chance, shape: (chance.random(shape) >= 0.1) * 1.0, 0.9),
        DIFFERENCES,
    ),
    "constant .9; skewed, Beta(4.5, .5)": (
        of_conversations(lambda chance, shape: chance.beta(4.5, 0.5, shape), 0.9),
        DIFFERENCES,
    ),
    "constant .1; skewed, Beta(.5, 4.5)": (
        of_conversations(lambda chance, shape: chance.beta(0.5, 4.5, shape), 0.1),
        DIFFERENCES,
    ),
    "constant .15; skewed, exponential": (
        of_conversations(lambda chance, shape: chance.exponential(0.15, shape), 0.15),
        DIFFERENCES,
    ),
    "constant; skewed, log-normal (.7)": (
        of_conversations(
            lambda chance, shape: 0.1 * np.exp(0.7 * chance.standard_normal(shape)), 0.1 * math.exp(0.245)
        ),
        DIFFERENCES,
    ),
    "constant; 0/1, 90 %, ICC .3": (less(outcomes(0.9, 0.3), 0.9), DIFFERENCES),
    "constant; 5 % of equal tasks fail": (less(failing(0.05), 0.95 * ALIKE), DIFFERENCES),
    "constant; words, log-normal, no bounds": (less(lognormal(), math.exp(0.5)), UNBOUNDED),
}
BOTH_ALIKE: dict[str, tuple[Draw, tuple[float, float]]] = {
    "both 0/1, 50 %, ICC .1": (less(outcomes(0.5), outcomes(0.5)), DIFFERENCES),
    "both 0/1, 80 %, ICC .3": (less(outcomes(0.8, 0.3), outcomes(0.8, 0.3)), DIFFERENCES),
    "both 0/1, 95 %, ICC .1": (less(outcomes(0.95), outcomes(0.95)), DIFFERENCES),
    "both about .5, ICC .1": (less(scores(0.5, 6), scores(0.5, 6)), DIFFERENCES),
    "both about .9, ICC .5": (less(scores(0.9, 20, 0.5), scores(0.9, 20, 0.5)), DIFFERENCES),
    "both words, log-normal, no bounds": (less(lognormal(), lognormal()), UNBOUNDED),
}
SHIFTED: dict[str, tuple[Callable[[float], Draw], tuple[float, float]]] = {
    "normal differences": (lambda shift: less(normal, -shift), DIFFERENCES),
    "normal differences, no bounds": (lambda shift: less(normal, -shift), UNBOUNDED),
    "0/1, from 50 %": (lambda shift: less(outcomes(min(0.99, 0.5 + shift)), outcomes(0.5)), DIFFERENCES),
    "scores, from .5": (lambda shift: less(scores(0.5 + shift, 6), scores(0.5, 6)), DIFFERENCES),
    "scores, from .2": (lambda shift: less(scores(0.2 + shift, 6), scores(0.2, 6)), DIFFERENCES),
    "scores, from .8": (lambda shift: less(scores(0.8 + shift, 20), scores(0.8, 20)), DIFFERENCES),
}


def simulate(draw: Draw, bounds: tuple[float, float], n_clusters: int, n: int, chance: Chance) -> list[Clustered]:
    """Return benchmarks of differences."""
    sizes = chance.integers(2, LARGEST + 1, (n, n_clusters)).astype(float)
    sums = draw(chance, sizes) * sizes
    ids = tuple(f"{number:03}" for number in range(n_clusters))
    return [
        Clustered(ids, own, counts, int(counts.sum()), 0, 1.0, bounds) for own, counts in zip(sums, sizes, strict=True)
    ]


def sign_flip(columns: Sequence[Clustered], chance: Chance) -> Floats:
    """Return the share of random sign flips of complete conversations whose sum is at least as far from 0."""
    sums = np.stack([column.sums for column in columns])
    signs = 2.0 * chance.integers(0, 2, (N_TURNINGS, sums.shape[1])) - 1
    limit = np.abs(sums.sum(axis=1)) - 1e-9 * np.abs(sums).sum(axis=1)
    return np.asarray((1 + (np.abs(signs @ sums.T) >= limit).sum(axis=0)) / (N_TURNINGS + 1))


def shares_found(columns: Sequence[Clustered], chance: Chance) -> list[float]:
    """Return the share of benchmarks in which each method finds a difference at 5 %."""
    ours = estimate_means(columns, tested=0.0)
    reach = stats.t.ppf(0.975, len(columns[0].ids) - 1)
    t = [abs(estimate.value or 0.0) > reach * (estimate.standard_error or 0.0) for estimate in ours]
    own = [estimate.p is not None and estimate.p <= 0.05 for estimate in ours]
    return [float(np.mean(share)) for share in (sign_flip(columns, chance) <= 0.05, t, own)]


def shifts(draw: Draw, bounds: tuple[float, float], n_clusters: int, n: int, chance: Chance) -> tuple[float, float]:
    """Return the difference that a t-test finds in 80 % and the detectable difference, at the usual error."""
    errors = [
        error_estimate.standard_error or 0.0
        for error_estimate in estimate_means(simulate(draw, bounds, n_clusters, n, chance))
    ]
    usual = math.sqrt(np.mean(np.square(errors)))
    estimate = estimate_means(simulate(draw, bounds, n_clusters, 1, chance))[0]
    promised = (detectable_difference(estimate) or 0.0) / (estimate.standard_error or math.nan)
    reach = stats.t.ppf(0.975, n_clusters - 1) + stats.t.ppf(0.8, n_clusters - 1)
    return float(reach) * usual, promised * usual


def rows(n: int, cluster_counts: Sequence[int]) -> Iterator[str]:
    """Yield both tables as Markdown."""
    for title, cases in (("equal means", EQUAL_MEANS), ("equal distributions", BOTH_ALIKE)):
        yield f"| {title}, false alarms in % ({', '.join(METHODS)}) |" + "".join(f" {k} |" for k in cluster_counts)
        yield "| --- |" + "---:|" * len(cluster_counts)
        for name, (draw, bounds) in cases.items():
            chance = np.random.default_rng(1)
            cells = [shares_found(simulate(draw, bounds, k, n, chance), chance) for k in cluster_counts]
            yield f"| {name} |" + "".join(cell(shares) for shares in cells)
        yield ""
    yield f"| power in % ({', '.join(METHODS)}; ours at `detectable`) |" + "".join(f" {k} |" for k in cluster_counts)
    yield "| --- |" + "---:|" * len(cluster_counts)
    for name, (shifted, bounds) in SHIFTED.items():
        chance = np.random.default_rng(2)
        cells = []
        for k in cluster_counts:
            by_t, promised = shifts(shifted(0.0), bounds, k, n, chance)
            shares = shares_found(simulate(shifted(by_t), bounds, k, n, chance), chance)
            cells.append([*shares, shares_found(simulate(shifted(promised), bounds, k, n, chance), chance)[-1]])
        yield f"| {name} |" + "".join(cell(shares) for shares in cells)


def equal_systems(n: int, cluster_counts: Sequence[int], sizes: Sequence[int] = (2, 3, 5, 10, 20)) -> Iterator[str]:
    """Yield the table of equal systems."""
    yield "| equal systems, any called worse than the best, in % (differences to the best, all pairs) |" + "".join(
        f" {k} |" for k in cluster_counts
    )
    yield "| --- |" + "---:|" * len(cluster_counts)
    for n_systems in sizes:
        chance = np.random.default_rng(3)
        cells = [np.mean([worse_than_best(n_systems, k, chance) for _ in range(n)], axis=0) for k in cluster_counts]
        yield f"| {n_systems} |" + "".join(cell(shares.tolist()) for shares in cells)


def worse_than_best(n_systems: int, n_clusters: int, chance: Chance) -> tuple[bool, bool]:
    """Return whether any equal system is called worse, by the differences to the best and by all pairs."""
    values = np.clip(chance.normal(0.6, 0.15, n_clusters) + chance.normal(0, 0.2, (n_systems, n_clusters)), 0, 1)
    names = [f"{number:03}" for number in range(n_clusters)]
    best, *remaining = values[np.argsort(-values.mean(axis=1))]
    estimates = estimate_means(
        [cluster((means - best).tolist(), names, DIFFERENCES) for means in remaining], tested=0.0
    )
    p_values = [estimate.p for estimate in estimates]
    plain, corrected = (
        min(1.0 if p is None else p for p in holm(p_values, n)) for n in (0, pairs_without_best(n_systems))
    )
    return plain <= LEVEL, corrected <= LEVEL


def cell(shares: Sequence[float]) -> str:
    """Return shares in per cent as a cell."""
    return f" {' / '.join(f'{100 * share:.1f}' for share in shares)} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmarks", type=int, default=2000, help="simulated benchmarks per cell")
    parser.add_argument("--conversations", type=int, nargs="+", default=[10, 18, 30, 110])
    parser.add_argument("--equal", action="store_true", help="only the table of equal systems")
    options = parser.parse_args()
    start = time.perf_counter()
    for line in () if options.equal else rows(options.benchmarks, options.conversations):
        print(line, flush=True)
    for line in equal_systems(options.benchmarks, options.conversations):
        print(line, flush=True)
    error = 100 * math.sqrt(0.05 * 0.95 / options.benchmarks)
    print(f"{options.benchmarks} benchmarks per cell: the error of 5 % is +- {2 * error:.1f} points")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
