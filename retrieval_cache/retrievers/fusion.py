"""Fusion of rankings by rank, for retrievers with unrelated scores.

Reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009): a passage's score is the sum of weight / (k + rank)
over the rankings that contain it, ranks from 1. In the paper, k is 60 and all weights are 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragtasks.errors import ConfigurationError
from ragtasks.files import Ranked, Run, in_rank_order
from ragtasks.progress import Progress, no_progress
from ragtasks.records import Passage
from retrieval_cache.retrievers.protocol import Retriever, repeatable, searched, statistics_of

K = 60

FUSION_DEPTH = 100
"""Number of passages of each ranking that are fused."""


def reciprocal_rank_fusion(
    runs: Sequence[Run], k: float = K, weights: Sequence[float] | None = None, depth: int | None = None
) -> dict[str, tuple[Ranked, ...]]:
    """Return one run over every query of `runs`, in order of first appearance. The order of the runs has no effect.

    Returns:
        Scores up to sum(weights) / (k + 1), higher is better; an empty run without runs.
    """
    checked = _checked_weights(len(runs), k, weights, depth)
    fused: dict[str, tuple[Ranked, ...]] = {}
    for query_id in dict.fromkeys(query_id for run in runs for query_id in run):
        shares: dict[str, list[float]] = {}
        for run, weight in zip(runs, checked, strict=True):
            for rank, ranked in enumerate(run.get(query_id, ())[:depth], start=1):
                shares.setdefault(ranked.passage_id, []).append(weight / (k + rank))
        # fsum is exact, so equal shares give equal scores in any order.
        fused[query_id] = in_rank_order(Ranked(passage, math.fsum(parts)) for passage, parts in shares.items())
    return fused


def _checked_weights(n_runs: int, k: float, weights: Sequence[float] | None, depth: int | None) -> tuple[float, ...]:
    checked = (1.0,) * n_runs if weights is None else tuple(float(weight) for weight in weights)
    if len(checked) != n_runs:
        raise _refused("weights", f"one for each of {n_runs} rankings", f"{len(checked)} weights")
    for label, value in [
        ("k", k),
        *(("weights", weight) for weight in checked),
        ("depth", 1 if depth is None else depth),
    ]:
        if not (math.isfinite(value) and value > 0):
            raise _refused(label, "a number above 0", repr(value))
    return checked


def _refused(where: str, expected: str, found: str) -> ConfigurationError:
    return ConfigurationError(
        "reciprocal rank fusion",
        where=where,
        expected=expected,
        found=found,
        next_step="such as hybrid(bm25,bm25-standard;k=60,weights=2/1)",
    )


class HybridRetriever:
    """Several retrievers over one corpus, fused by reciprocal rank."""

    def __init__(
        self,
        retrievers: Sequence[Retriever],
        k: float = K,
        weights: Sequence[float] | None = None,
        depth: int = FUSION_DEPTH,
    ) -> None:
        if len(retrievers) < 2:
            raise _refused("retrievers", "two or more", str(len(retrievers)))
        self._weights = _checked_weights(len(retrievers), k, weights, depth)
        self.retrievers = tuple(retrievers)
        self._k = float(k)
        self._depth = depth

    @property
    def name(self) -> str:
        """Such as `hybrid(bm25,dense:NAME;k=10.0)`, without defaults."""
        options = [f"k={self._k!r}"] if self._k != K else []
        if any(weight != 1 for weight in self._weights):
            options.append("weights=" + "/".join(repr(weight) for weight in self._weights))
        if self._depth != FUSION_DEPTH:
            options.append(f"depth={self._depth}")
        inner = ",".join(retriever.name for retriever in self.retrievers)
        return f"hybrid({inner}{';' if options else ''}{','.join(options)})"

    def describe(self) -> Mapping[str, Any]:
        """Return the parameters of the fusion and the description of each retriever."""
        return {
            "retriever": "hybrid",
            "fusion": "reciprocal rank",
            "k": self._k,
            "weights": list(self._weights),
            "depth": self._depth,
            "of": [dict(retriever.describe()) for retriever in self.retrievers],
        }

    def statistics(self) -> Mapping[str, Any]:
        """Return the counts of each retriever by its line; {} without counts."""
        counted = {retriever.name: dict(statistics_of(retriever)) for retriever in self.retrievers}
        return {name: counts for name, counts in counted.items() if counts}

    def index(self, passages: Iterable[Passage], folder: Path, progress: Progress = no_progress) -> None:
        """Index the corpus with each retriever, in a numbered folder each."""
        again = repeatable(passages)
        for number, retriever in enumerate(self.retrievers, start=1):
            retriever.index(again, folder / str(number), progress)

    def search(self, queries: Mapping[str, str], k: int, progress: Progress = no_progress) -> Run:
        """Return the best `k` fused passages of each query."""
        if k < 1:
            return dict.fromkeys(queries, ())
        depth = max(self._depth, k)
        runs = [searched(retriever, queries, depth, progress) for retriever in self.retrievers]
        fused = reciprocal_rank_fusion(runs, self._k, self._weights, depth)
        return {query_id: fused[query_id][:k] for query_id in queries}
