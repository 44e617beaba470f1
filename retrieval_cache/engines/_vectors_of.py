"""What the engines store for a passage: a dense vector or BM25 term weights, made on the client and kept as shards.

An engine only multiplies and sorts. What it multiplies is the same, bit for bit, as in the embedded retrievers, so a
run does not depend on the engine that made it; and a lost collection is loaded again without encoding anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import orjson
from numpy.typing import NDArray

from ragtasks.files import canonical_hash
from ragtasks.records import Passage
from retrieval_cache.retrievers import DenseRetriever, Filled, Progress

Vector = NDArray[np.float32] | dict[int, float]
"""A dense vector, or dimension -> weight."""


class Vectors(Protocol):
    """Makes the vectors of one corpus and of the queries to it."""

    @property
    def dimension(self) -> int | None:
        """Width of the vectors; None where they are sparse. Loads an encoder."""

    def describe(self) -> Mapping[str, Any]:
        """Return what decides the rankings."""

    def prepare(self, passages: Iterable[Passage], folder: Path, progress: Progress) -> Filled:
        """Return the shards of a corpus, made where they are not in `folder` yet."""

    def key(self) -> str:
        """Return the hash of everything that is stored in an engine; after `prepare`."""

    def rows(self) -> Sequence[int]:
        """Return the places in the corpus of the passages that are stored, ascending."""

    def stored(self, first: int) -> Iterator[tuple[int, Vector]]:
        """Yield (place in the corpus, vector) of what is stored, from the `first`-th of `rows` on."""

    def queries(self, texts: Sequence[str], progress: Progress) -> list[Vector]:
        """Return the vectors of queries; an empty dict for one that can match nothing."""

    def scores(self, query: Vector, rows: Sequence[int], found: Sequence[float]) -> list[float]:
        """Return the scores of a query's candidates, by one fixed arithmetic where the engine's is not."""


class DenseVectors:
    """The vectors of a dense retriever, in its own shards."""

    def __init__(self, retriever: DenseRetriever) -> None:
        """Take the encoder, prompts and lengths of a dense retriever; nothing is loaded yet."""
        self.retriever = retriever
        self._shards: list[NDArray[np.float16]] = []
        self._filled = Filled((), (), 0)

    @property
    def dimension(self) -> int:
        """Width of the vectors."""
        return self.retriever._dimension

    def describe(self) -> Mapping[str, Any]:
        """Return what the dense retriever says of itself."""
        return self.retriever.describe()

    def prepare(self, passages: Iterable[Passage], folder: Path, progress: Progress) -> Filled:
        """Return the shards of a corpus, encoding those that are missing.

        Raises:
            RagtasksError: as `DenseRetriever.index`.
        """
        self._filled = self.retriever.fill(passages, folder, progress)
        self._shards = [np.load(path, mmap_mode="r", allow_pickle=False) for path in self._filled.paths]
        return self._filled

    def key(self) -> str:
        """Return the hash of the vectors."""
        return canonical_hash({"vectors": "dense", "shards": seals(self._filled.paths)})

    def rows(self) -> Sequence[int]:
        """Return every place: each passage has a vector."""
        return range(len(self._filled.ids))

    def stored(self, first: int) -> Iterator[tuple[int, Vector]]:
        """Yield (place, vector) from the `first` place on, a shard in memory at a time."""
        start = 0
        for shard in self._shards:
            for offset in range(max(0, first - start), len(shard)):
                yield start + offset, shard[offset].astype(np.float32)
            start += len(shard)

    def queries(self, texts: Sequence[str], progress: Progress) -> list[Vector]:
        """Return one vector a text."""
        vectors, _ = self.retriever._encode(texts, "query", lambda n: progress("encode queries", n, len(texts)))
        return list(vectors)

    def scores(self, query: Vector, rows: Sequence[int], found: Sequence[float]) -> list[float]:
        """Return inner products summed in float64 and held in float32, as exact search has them."""
        size = len(self._shards[0])
        vectors = np.array([self._shards[row // size][row % size] for row in rows], np.float64)
        products = np.einsum("qcd,qd->qc", vectors[None], np.asarray(query, np.float64)[None])[0]
        scores: list[float] = products.astype(np.float32).tolist()
        return scores


def seals(paths: Sequence[Path]) -> list[list[str]]:
    """Return, for each shard, the hashes of the passages that went in and of the bytes that came out."""
    contents = (orjson.loads(path.with_suffix(".json").read_bytes()) for path in paths)
    return [[content["passages"], content["sha256"]] for content in contents]


__all__ = ["DenseVectors", "Vector", "Vectors", "seals"]
