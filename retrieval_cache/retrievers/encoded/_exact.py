"""Exact inner-product search over shards of float16 vectors, a block of them in memory at a time.

An engine (faiss, or torch on a GPU or without faiss) names candidates; their scores are then computed again in one
fixed way, because engines sum in different orders. Where the last candidate is as good as the k-th best, more are
fetched, so that which of many equal passages are returned follows the rule of `ragtasks.files` and not the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Halves = NDArray[np.float16]
Positions = NDArray[np.int64]
Engine = Literal["faiss", "torch"]

_SLACK = 8
"""Candidates beyond k: enough for chance ties, so that a second pass is for duplicates only."""
_QUERIES = 1024
_CANDIDATES = 1 << 24
"""Scores that are held for one portion of the queries."""
_RESCORED_VALUES = 1 << 17
"""Numbers that are scored again at a time: what the cache of a processor core holds."""
_BLOCK_VALUES = 1 << 25
"""Numbers in a block, 128 MiB: engines start over at every block, so few large ones are quicker than many small."""

BlockSearch = Callable[[Floats, Floats, int], tuple[Floats, Positions]]


@dataclass(frozen=True)
class ExactIndex:
    """The vectors of one corpus."""

    shards: Sequence[Halves]
    """float16, passages x dimensions; memory-mapped where it matters. All but the last have the same length."""
    id_ranks: Positions
    """For each passage, in the order of the shards, the place of its id among all ids, ascending."""
    longest: float
    """Length of the longest vector, which bounds the rounding of the engines."""
    engine: Engine
    """What multiplies; decides no result."""
    device: str = "cpu"
    """Where torch multiplies."""
    _kept: list[Floats] = field(default_factory=list, repr=False)

    @classmethod
    def of(cls, shards: Sequence[Halves], ids: Sequence[str], engine: Engine, device: str = "cpu") -> ExactIndex:
        """Return the index of passages with these vectors and ids, both in the same order."""
        id_ranks = np.empty(len(ids), np.int64)
        id_ranks[sorted(range(len(ids)), key=ids.__getitem__)] = np.arange(len(ids))
        index = cls(shards, id_ranks, 0.0, engine, device)
        squares = [float(np.einsum("pd,pd->p", block, block).max()) for block in index._blocks()] if ids else [0.0]
        return replace(index, longest=max(squares) ** 0.5)

    def search(
        self, queries: Floats, k: int, done: Callable[[int], None] = lambda n: None
    ) -> list[tuple[Positions, Floats]]:
        """Return the positions and scores of the best `k` passages of each query, in rank order.

        Args:
            queries: queries x dimensions, float32.
            k: at least 1; a smaller corpus gives fewer.
            done: told how many passages are searched.
        """
        n_passages = len(self.id_ranks)
        found: list[tuple[Positions, Floats]] = [(np.empty(0, np.int64), np.empty(0, np.float32))] * len(queries)
        if not n_passages:
            return found
        pending = _portions(np.arange(len(queries)), min(k + _SLACK, n_passages))
        while pending:
            rows, width = pending.pop()
            approximate, positions = self._candidates(queries[rows], width, done)
            scores = self._scores(queries[rows], positions)
            order = np.lexsort((-self.id_ranks[positions], -scores), axis=1)
            positions = np.take_along_axis(positions, order, axis=1)[:, :k]
            scores = np.take_along_axis(scores, order, axis=1)[:, :k]
            for row, row_positions, row_scores in zip(rows, positions, scores, strict=True):
                found[row] = (row_positions, row_scores)
            if width < n_passages:
                # A passage that is no candidate scores at most what the last one does, up to the engine's rounding.
                tied = scores[:, -1] - approximate[:, -1] <= self._rounding(queries[rows])
                pending += _portions(rows[tied], min(width * 8, n_passages))
        return found

    def _candidates(self, queries: Floats, width: int, done: Callable[[int], None]) -> tuple[Floats, Positions]:
        """Return (scores, positions) of the best `width` passages by the engine's arithmetic, best first."""
        search = _faiss_block if self.engine == "faiss" else _torch_block(self.device)
        scores = np.empty((len(queries), 0), np.float32)
        positions = np.empty((len(queries), 0), np.int64)
        offset = 0
        for block in self._blocks():
            block_scores, block_positions = search(queries, block, min(width, len(block)))
            scores = np.concatenate((scores, block_scores), axis=1)
            positions = np.concatenate((positions, block_positions + offset), axis=1)
            if scores.shape[1] > width:
                best = np.argpartition(-scores, width - 1, axis=1)[:, :width]
                scores = np.take_along_axis(scores, best, axis=1)
                positions = np.take_along_axis(positions, best, axis=1)
            offset += len(block)
            done(offset)
        order = np.argsort(-scores, axis=1, kind="stable")
        return np.take_along_axis(scores, order, axis=1), np.take_along_axis(positions, order, axis=1)

    def _blocks(self) -> Iterator[Floats]:
        """Yield the vectors in float32, as many whole shards at a time as a block holds; each is gone at the next.

        A corpus that fits in one block is kept, since widening it would be a good part of a search.
        """
        if self._kept:
            yield self._kept[0]
            return
        shard_size, dimension = self.shards[0].shape
        n_shards = max(1, _BLOCK_VALUES // (shard_size * dimension))
        buffer = np.empty((min(n_shards * shard_size, len(self.id_ranks)), dimension), np.float32)
        for start in range(0, len(self.shards), n_shards):
            filled = 0
            for shard in self.shards[start : start + n_shards]:
                _widen(shard, buffer[filled : filled + len(shard)])
                filled += len(shard)
            if filled == len(self.id_ranks):
                self._kept.append(buffer)
            yield buffer[:filled]

    def _scores(self, queries: Floats, positions: Positions) -> Floats:
        """Return the inner products of queries and their candidates: summed in float64, held in float32."""
        scores = np.empty(positions.shape, np.float32)
        step = max(1, _RESCORED_VALUES // (positions.shape[1] * queries.shape[1]))
        for start in range(0, len(queries), step):
            rows = slice(start, start + step)
            vectors = self._gather(positions[rows].ravel()).reshape(*positions[rows].shape, -1)
            scores[rows] = np.einsum("qcd,qd->qc", vectors, queries[rows].astype(np.float64))
        return scores

    def _gather(self, positions: Positions) -> NDArray[np.float64]:
        size = len(self.shards[0])
        vectors = np.empty((len(positions), self.shards[0].shape[1]), np.float64)
        order = np.argsort(positions, kind="stable")
        shard_of = positions[order] // size
        for number in np.unique(shard_of):
            rows = order[np.searchsorted(shard_of, number) : np.searchsorted(shard_of, number, side="right")]
            vectors[rows] = self.shards[number][positions[rows] - number * size]
        return vectors

    def _rounding(self, queries: Floats) -> Floats:
        """Return how far a float32 sum may be from the true one, for each query and the longest passage."""
        relative = np.float32(self.longest * queries.shape[1] * np.finfo(np.float32).eps)
        bound: Floats = np.linalg.norm(queries, axis=1) * relative
        return bound


def _portions(rows: Positions, width: int) -> list[tuple[Positions, int]]:
    """Return the queries in portions whose candidates fit in memory, each with the number of candidates."""
    step = max(1, _CANDIDATES // width)
    return [(rows[start : start + step], width) for start in range(0, len(rows), step)]


def _widen(shard: Halves, target: Floats) -> None:
    """Write a shard in float32 to `target`; torch converts on all cores, numpy on one."""
    import torch

    torch.from_numpy(target).copy_(torch.from_numpy(shard))


def _faiss_block(queries: Floats, block: Floats, k: int) -> tuple[Floats, Positions]:
    import faiss

    found: tuple[Floats, Positions] = faiss.knn(queries, block, k, metric=faiss.METRIC_INNER_PRODUCT)
    return found


def _torch_block(device: str) -> BlockSearch:
    import torch

    def search(queries: Floats, block: Floats, k: int) -> tuple[Floats, Positions]:
        transposed = torch.from_numpy(block).to(device).T
        parts: list[tuple[Any, Any]] = []
        for start in range(0, len(queries), _QUERIES):
            product = torch.from_numpy(queries[start : start + _QUERIES]).to(device) @ transposed
            scores, positions = product.topk(k, dim=1)
            parts.append((scores.cpu().numpy(), positions.cpu().numpy()))
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    return search


__all__ = ["Engine", "ExactIndex"]
