"""Values summed by cluster: all that the statistics here need of a benchmark's scores.

Tasks of one conversation share their subject, their corpus and half their words, so they are no independent items. The
conversations are what was drawn, and every interval and test here draws them again: it needs one sum and one count a
conversation, and none of the single values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""An array of 64-bit floats."""

UNBOUNDED = (-math.inf, math.inf)
"""The range of a score that may be any number."""

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

    @property
    def mean(self) -> float | None:
        """The mean over all scored values, each weighing the same; None without any."""
        return float(self.sums.sum() / self.counts.sum()) if self.n_values else None


def cluster(
    values: Sequence[float | None], clusters: Sequence[str], bounds: tuple[float, float] = UNBOUNDED
) -> Clustered:
    """Return the values summed by cluster.

    Args:
        values: one score an item, None where it is unscored.
        clusters: the cluster of each item, such as its conversation id.
        bounds: smallest and largest value that can be.

    Raises:
        ValueError: lengths differ, or a value is NaN or infinite.
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
    )


__all__ = ["ROUNDING", "UNBOUNDED", "Clustered", "Floats", "cluster"]
