"""Coverage of the arena's rating intervals, and mean error of the strengths.

    python perf/arena_coverage.py [--tournaments 400]

Votes are drawn from Davidson's model. Each conversation shifts the strengths of its votes randomly, so votes of one
conversation are correlated. `naive` is the interval from the inverse information matrix, as for independent votes.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator

import numpy as np

from ragtasks.arena.bradley_terry import Fit, fit
from ragtasks.statistics import Clustered, cluster, estimate_means

CASES = ((3, 20, 4), (5, 30, 8), (5, 100, 5), (8, 60, 10))
"""(Systems, conversations, votes per conversation)."""


def drawn(
    strengths: np.ndarray, n_conversations: int, n_votes: int, spread: float, chance: np.random.Generator
) -> tuple[list[tuple[str, str, float]], list[str]]:
    """Return votes, and the conversation of each."""
    votes, conversations = [], []
    for conversation in range(n_conversations):
        own = strengths + chance.normal(0, spread, len(strengths))
        for _ in range(n_votes):
            first, second = chance.choice(len(own), 2, replace=False)
            half = (own[first] - own[second]) / 2
            weights = np.array([math.exp(half), math.exp(-half), 0.5])
            share = (1.0, 0.0, 0.5)[chance.choice(3, p=weights / weights.sum())]
            votes.append((f"s{first}", f"s{second}", share))
            conversations.append(f"c{conversation:03}")
    return votes, conversations


def naive_errors(fitted: Fit) -> np.ndarray:
    """Return standard errors of the strengths for independent votes."""
    return np.sqrt((fitted.influence**2).sum(axis=0))


def line(case: tuple[int, int, int], spread: float, n: int, seed: int) -> str:
    """Return the results of one case."""
    n_systems, n_conversations, n_votes = case
    chance = np.random.default_rng(seed)
    strengths = np.linspace(-1, 1, n_systems)
    columns: list[Clustered] = []
    truths: list[float] = []
    naive: list[bool] = []
    n_without = 0
    for _ in range(n):
        votes, conversations = drawn(strengths, n_conversations, n_votes, spread, chance)
        fitted = fit(votes)
        if len(fitted.systems) < n_systems:
            n_without += 1
            continue
        columns += [cluster(fitted.pseudo_values(index).tolist(), conversations) for index in range(n_systems)]
        truths += strengths.tolist()
        naive += (np.abs(fitted.strengths - strengths) <= 1.96 * naive_errors(fitted)).tolist()
    estimates = estimate_means(columns)
    pairs = [(e, truth) for e, truth in zip(estimates, truths, strict=True) if e.low is not None and e.high is not None]
    hits = [e.low <= truth <= e.high for e, truth in pairs if e.low is not None and e.high is not None]
    values = [(e.value or 0.0) / truth for e, truth in pairs if truth]
    return (
        f"{n_systems:>8}{n_conversations:>14}{n_votes:>7}{spread:>8.1f}{100 * np.mean(hits):>10.1f} %"
        f"{100 * np.mean(naive):>9.1f} %{np.mean(values):>10.2f}{100 * n_without / n:>10.1f} %"
    )


def lines(n: int) -> Iterator[str]:
    """Yield the table."""
    heads = (("systems", 8), ("conversations", 14), ("votes", 7), ("spread", 8), ("coverage", 12), ("naive", 11))
    yield "".join(f"{name:>{width}}" for name, width in (*heads, ("slope", 10), ("unrated", 12)))
    for seed, case in enumerate(CASES):
        for spread in (0.0, 0.5):
            yield line(case, spread, n, seed)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tournaments", type=int, default=400, help="simulated tournaments per line")
    options = parser.parse_args()
    start = time.perf_counter()
    for text in lines(options.tournaments):
        print(text, flush=True)
    print("slope: mean ratio of estimated to true strength")
    print("spread: standard deviation of a conversation's shift of strengths")
    print(f"{options.tournaments} tournaments per line; {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
