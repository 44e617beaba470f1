"""Coverage and false alarms for tasks of the harness, on simulated samples.

Columns are numbers of documents. `200 in 30` are 200 documents in 30 clusters of unequal size (`--cluster`), of which
the largest have about 15 times as many documents as the smallest; without clusters, documents are independent. Two
systems of equal quality have half of the difficulty of a document in common. Cells are three shares in %:

- samples whose interval of two standard errors of independent documents, as in the harness's table, contains the truth;
- samples whose 95 % interval by ragtasks contains it;
- samples in which the paired test finds a difference between the two systems, at 5 %.

The values of documents are those that ragtasks reads from logged samples: a number, or the reported number plus the
effect of the document on it.

    python perf/harness_intervals.py --samples 2000
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import stats

from ragtasks.results._harness_samples import (
    _FORMS,
    HarnessMetric,
    TaskDocument,
    TaskResults,
    _influences,
    _ratio,
    _strata,
)
from ragtasks.statistics import LEVEL, UNBOUNDED, Column, Floats, compare_columns

ICC = 0.2
DESIGNS = ((50, 0), (200, 0), (1000, 0), (200, 30), (200, 100), (1000, 30), (1000, 100))
"""Documents, and clusters; 0 if each document is a cluster."""
Values = dict[str, float | None]


@dataclass(frozen=True, slots=True)
class Kind:
    """Type of values: standard normal difficulty and size of each document -> its values; and the true number."""

    name: str
    truth: float
    values: Callable[[Floats, Floats], Values]
    bounds: tuple[float, float] = UNBOUNDED


def numbers(draw: Callable[[Floats], Floats]) -> Callable[[Floats, Floats], Values]:
    """Return values that are logged as numbers."""
    return lambda difficulty, _: named(draw(difficulty))


def named(values: Floats) -> Values:
    """Return document -> value."""
    return {str(index): float(value) for index, value in enumerate(values)}


def right(share: float) -> Callable[[Floats, Floats], Values]:
    """Return 0/1 values of which a share is 1."""
    limit = stats.norm.ppf(share)
    return numbers(lambda difficulty: (difficulty < limit).astype(float))


def ratios(form: str, level: float, spread: float) -> Callable[[Floats, Floats], Values]:
    """Return the values of a ratio of sums over texts of log-normal length. Long texts are a little easier."""

    def values(difficulty: Floats, size: Floats) -> Values:
        lengths = np.exp(5 + 0.8 * size)
        sums = -level * lengths * np.exp(spread * difficulty - 0.1 * size)
        logged = {str(index): list(pair) for index, pair in enumerate(zip(sums, lengths, strict=True))}
        return _influences(_FORMS[form], _FORMS[form].number(_ratio(_FORMS[form], logged) or 0.0), logged)

    return values


def ratio(level: float, spread: float) -> float:
    """Return the true ratio of `ratios`, of two means of log-normal values."""
    return level * math.exp((0.7**2 + spread**2 - 0.8**2) / 2)


SHARES = (0.4, 0.3, 0.2, 0.1)
LEVELS = (0.3, 0.5, 0.7, 0.9)


def group(*, is_by_size: bool) -> Callable[[Floats, Floats], Values]:
    """Return the values of a group of four tasks of different size and difficulty."""

    def values(difficulty: Floats, _size: Floats) -> Values:
        ends = np.rint(np.cumsum((0, *SHARES)) * len(difficulty)).astype(int)
        members = []
        for name, level, start, end in zip("abcd", LEVELS, ends, ends[1:], strict=False):
            solved = right(level)(difficulty[start:end], difficulty)
            mean = math.fsum(value or 0.0 for value in solved.values()) / len(solved)
            metric = HarnessMetric("acc", "mean", True, mean, None, solved, 0.0, 1.0)
            members.append((replace(_TASK, name=name, documents=dict.fromkeys(solved, _DOCUMENT)), metric))
        sizes = np.diff(ends) if is_by_size else np.ones(len(LEVELS))
        reported = float(np.average([metric.reported or 0.0 for _, metric in members], weights=sizes))
        return named(np.array([value for _, value in _strata(reported, members, is_by_size=is_by_size)], dtype=float))

    return values


_DOCUMENT = TaskDocument(doc_id="", prompt="", target="", response="", cluster="")
_TASK = TaskResults(
    name="",
    model="",
    source=Path(),
    version="",
    n_shot="",
    n_offered=None,
    prompts={},
    messages={},
    chat_template=None,
    generation="",
    documents={},
    metrics={},
    cluster="",
)

KINDS = (
    Kind("accuracy, 50 %", 0.5, right(0.5), (0.0, 1.0)),
    Kind("accuracy, 90 %", 0.9, right(0.9), (0.0, 1.0)),
    Kind("Brier score, skewed", 0.5, numbers(lambda z: 2 * stats.norm.cdf(z) ** 3), (0.0, math.inf)),
    Kind("length in words, log-normal", 50 * math.exp(0.32), numbers(lambda z: 50 * np.exp(0.8 * z))),
    Kind("bits per byte", ratio(1.0, 0.25) / math.log(2), ratios("bits_per_byte", 1.0, 0.25), (0.0, math.inf)),
    Kind(
        *("word perplexity", math.exp(ratio(3.0, 0.15)), ratios("weighted_perplexity", 3.0, 0.15), (1.0, math.inf)),
    ),
    Kind("group of 4 tasks, by size", float(np.dot(SHARES, LEVELS)), group(is_by_size=True), (0.0, 1.0)),
    Kind("group of 4 tasks, equal weights", float(np.mean(LEVELS)), group(is_by_size=False), (0.0, 1.0)),
)


def effects(chance: np.random.Generator, cluster_of: Floats) -> Floats:
    """Return standard normal values, a share ICC of whose variance is common to a cluster."""
    shared = chance.standard_normal(int(cluster_of.max()) + 1)[cluster_of]
    return np.asarray(math.sqrt(ICC) * shared + math.sqrt(1 - ICC) * chance.standard_normal(len(cluster_of)))


def clusters_of(chance: np.random.Generator, n: int, n_clusters: int) -> np.ndarray:
    """Return the cluster of each document, each cluster with at least one."""
    if not n_clusters:
        return np.arange(n)
    shares = chance.lognormal(0, 0.7, n_clusters)
    more = chance.choice(n_clusters, n - n_clusters, p=shares / shares.sum())
    return chance.permutation(np.concatenate([np.arange(n_clusters), more]))


def outcome(kind: Kind, n: int, n_clusters: int, chance: np.random.Generator) -> tuple[bool, bool, bool]:
    """Return whether both intervals of one system contain the truth, and whether two equal systems differ."""
    cluster_of = clusters_of(chance, n, n_clusters)
    common, size = effects(chance, cluster_of), effects(chance, cluster_of)
    labels: Mapping[str, str] = {str(index): str(number) for index, number in enumerate(cluster_of)}
    columns = [
        Column(
            "", "", kind.name, name, kind.values((common + effects(chance, cluster_of)) / math.sqrt(2), size), labels
        )
        for name in "ab"
    ]
    compared = compare_columns([replace(column, bounds=kind.bounds) for column in columns])
    mean = compared.means[0].estimate
    low, high, error = mean.low, mean.high, mean.independent_error or 0.0
    ours = low is not None and high is not None and low <= kind.truth <= high
    p = compared.pairs[0].p
    return abs((mean.value or 0.0) - kind.truth) <= 1.96 * error, ours, p is not None and p <= LEVEL


def rows(n: int) -> Iterator[str]:
    """Yield the table as Markdown."""
    names = (f"{documents} in {clusters}" if clusters else str(documents) for documents, clusters in DESIGNS)
    yield f"| values | {' | '.join(names)} |"
    yield "| --- |" + " ---: |" * len(DESIGNS)
    for kind in KINDS:
        chance = np.random.default_rng(1)
        cells = [np.mean([outcome(kind, *design, chance) for _ in range(n)], axis=0) for design in DESIGNS]
        yield (
            f"| {kind.name} | "
            + " | ".join(" / ".join(f"{100 * share:.1f}" for share in cell) for cell in cells)
            + " |"
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=2000, help="simulated samples per cell")
    options = parser.parse_args()
    start = time.perf_counter()
    for line in rows(options.samples):
        print(line, flush=True)
    error = 100 * math.sqrt(0.05 * 0.95 / options.samples)
    print(f"{options.samples} samples per cell: the error of 5 % is +- {2 * error:.1f} points")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
