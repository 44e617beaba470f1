"""BM25 as an inner product of sparse vectors, so that any engine with sparse vectors ranks as `bm25` does.

Engines have a BM25 of their own, but with other analysers, and with statistics of a part of the corpus at a time
(milvus-lite: of each segment), so that scores move with how the corpus happened to be cut. Here terms come from our
analyser, statistics from the whole corpus, and the engine only adds up: a passage holds the saturated frequency of
each term, a query the term's rarity.

    passage: tf (k1 + 1) / (tf + k1 (1 - b + b length / average))
    query:   times it stands there * ln(1 + (N - n + .5) / (n + .5)), n of N passages holding the term

with k1, b and the one-byte lengths of Lucene and tantivy (Robertson and Zaragoza, 2009; `bm25`). A term's dimension
is the CRC-32 of its bytes: no vocabulary to keep or to agree on between machines. Two terms share one with a chance
of 1 in 4.3 billion a pair, and then count as one term.
"""

from __future__ import annotations

import io
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.files import canonical_hash
from ragtasks.records import Passage
from retrieval_cache.engines._vectors_of import Vector, seals
from retrieval_cache.retrievers import (
    ANALYSERS,
    K1,
    NAMES,
    B,
    Encoded,
    Filled,
    Progress,
    ShardFolder,
    indexed_text,
    term_lister,
)

_SHARD_SIZE = 8192
# Milvus reserves the largest 32-bit number.
_DIMENSIONS = 2**32 - 1
_STORED_LENGTHS = np.array(
    [*range(40), *(24 + ((8 + step) << shift) for shift in range(1, 27) for step in range(8))], np.int64
)
"""The passage lengths that one byte can say in Lucene and tantivy: exact below 40, then eight to a doubling."""


class TermWeights:
    """The BM25 vectors of one corpus under one analyser."""

    def __init__(self, analyser: str) -> None:
        """Choose an analyser by the name of the BM25 retriever that has it: `bm25` or `bm25-standard`.

        Raises:
            ConfigurationError: unknown name.
        """
        if analyser not in NAMES:
            raise ConfigurationError(f"unknown analyser {analyser!r}: {close_matches(analyser, NAMES)}")
        self._analyser = NAMES[analyser]
        self._filled = Filled((), (), 0)
        self._rows: NDArray[np.int64] = np.empty(0, np.int64)
        self._average = 0.0
        self._n_passages: tuple[NDArray[np.uint32], NDArray[np.int64]] = (
            np.empty(0, np.uint32),
            np.empty(0, np.int64),
        )

    @property
    def dimension(self) -> None:
        """Nothing: sparse vectors have no width."""

    def describe(self) -> Mapping[str, Any]:
        """Return analyser, parameters and the analyser's version."""
        return {"analyser": ANALYSERS[self._analyser], "k1": K1, "b": B, "tantivy": version("tantivy")}

    @cached_property
    def _terms(self) -> Callable[[str], list[str]]:
        return term_lister(self._analyser)

    def prepare(self, passages: Iterable[Passage], folder: Path, progress: Progress) -> Filled:
        """Return the shards of counted terms, and gather the statistics of the corpus.

        Raises:
            MissingExtraError: tantivy is not installed.
            CacheError: the disk is full; finished shards are kept.
        """
        counted_as = canonical_hash({"analyser": ANALYSERS[self._analyser], "tantivy": version("tantivy")})
        shards = ShardFolder(folder, "npz", counted_as, 0, _SHARD_SIZE)
        self._filled = shards.fill(map(_with_text, passages), self._count_shard, progress)
        dimensions, n_passages = self._n_passages[0][:0], self._n_passages[1][:0]
        all_lengths = [np.empty(0, np.int64)]
        for path in self._filled.paths:
            lengths, _, in_shard, _ = _read(path)
            all_lengths.append(lengths)
            dimensions, n_passages = _added(dimensions, n_passages, in_shard)
        lengths = np.concatenate(all_lengths)
        self._n_passages = (dimensions, n_passages)
        self._average = float(lengths.mean()) if len(lengths) else 0.0
        self._rows = np.flatnonzero(lengths)
        return self._filled

    def _count_shard(self, passages: Sequence[Passage], done: Callable[[int], None]) -> Encoded:
        """Return the terms of a shard's passages: their number, and how often each stands there."""
        counts = [self._counts(indexed_text(passage)) for passage in passages]
        file = io.BytesIO()
        np.savez(
            file,
            lengths=np.array([sum(terms.values()) for terms in counts], np.int64),
            ends=np.cumsum([len(terms) for terms in counts], dtype=np.int64),
            dimensions=np.array([dimension for terms in counts for dimension in sorted(terms)], np.uint32),
            frequencies=np.array([terms[dimension] for terms in counts for dimension in sorted(terms)], np.uint32),
        )
        done(len(passages))
        return Encoded(file.getvalue())

    def _counts(self, text: str) -> Counter[int]:
        return Counter(zlib.crc32(term.encode()) % _DIMENSIONS for term in self._terms(text))

    def key(self) -> str:
        """Return the hash of the weights."""
        return canonical_hash({"vectors": "bm25", "k1": K1, "b": B, "shards": seals(self._filled.paths)})

    def rows(self) -> Sequence[int]:
        """Return the places of the passages that have a term; engines refuse empty vectors, and they match nothing."""
        rows: list[int] = self._rows.tolist()
        return rows

    def stored(self, first: int) -> Iterator[tuple[int, Vector]]:
        """Yield (place, dimension -> weight) from the `first`-th of `rows` on, a shard in memory at a time."""
        if first >= len(self._rows):
            return
        start = int(self._rows[first])
        for number in range(start // _SHARD_SIZE, len(self._filled.paths)):
            lengths, ends, dimensions, frequencies = _read(self._filled.paths[number])
            n_terms = np.diff(ends, prepend=0)
            weights = saturated(frequencies, np.repeat(lengths, n_terms), self._average)
            for offset in range(max(0, start - number * _SHARD_SIZE), len(lengths)):
                span = slice(int(ends[offset] - n_terms[offset]), int(ends[offset]))
                if lengths[offset]:
                    pairs = zip(dimensions[span].tolist(), weights[span].tolist(), strict=True)
                    yield number * _SHARD_SIZE + offset, dict(pairs)

    def queries(self, texts: Sequence[str], progress: Progress) -> list[Vector]:
        """Return dimension -> weight of each text; terms that the corpus does not hold are left out."""
        return [self._query(text) for text in texts]

    def _query(self, text: str) -> dict[int, float]:
        dimensions, n_passages = self._n_passages
        weights = {}
        for dimension, times in sorted(self._counts(text).items()):
            place = int(np.searchsorted(dimensions, dimension))
            if place < len(dimensions) and dimensions[place] == dimension:
                weights[dimension] = times * rarity(len(self._filled.ids), int(n_passages[place]))
        return weights

    def scores(self, query: Vector, rows: Sequence[int], found: Sequence[float]) -> list[float]:
        """Return the engine's own sums."""
        return list(found)


def _with_text(passage: Passage) -> Passage:
    """Return the passage with a dash, which is no term, for no text: shards refuse none, and `bm25` counts such in."""
    return passage if passage.text.strip() else replace(passage, text="-")


def saturated(frequencies: NDArray[Any], lengths: NDArray[np.int64], average: float) -> NDArray[np.float32]:
    """Return what each term of a passage weighs, up to k1 + 1.

    Args:
        frequencies: how often the term stands in the passage.
        lengths: terms of that passage.
        average: mean length over the corpus.
    """
    stored = _STORED_LENGTHS[np.searchsorted(_STORED_LENGTHS, lengths, side="right") - 1]
    tf = frequencies.astype(np.float64)
    return (tf * (K1 + 1) / (tf + K1 * (1 - B + B * stored / average))).astype(np.float32)


def rarity(n_corpus: int, n_holding: int) -> float:
    """Return Lucene's idf of a term that `n_holding` of `n_corpus` passages hold; above 0."""
    return float(np.log1p((n_corpus - n_holding + 0.5) / (n_holding + 0.5)))


def _read(path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint32]]:
    with np.load(path, allow_pickle=False) as arrays:
        return arrays["lengths"], arrays["ends"], arrays["dimensions"], arrays["frequencies"]


def _added(
    dimensions: NDArray[np.uint32], n_passages: NDArray[np.int64], more: NDArray[np.uint32]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return (dimensions, ascending; passages that hold each) with those of another shard counted in."""
    found, counts = np.unique(more, return_counts=True)
    merged, places = np.unique(np.concatenate((dimensions, found)), return_inverse=True)
    total = np.bincount(places, weights=np.concatenate((n_passages, counts)), minlength=len(merged))
    return merged, total.astype(np.int64)


__all__ = ["TermWeights", "rarity", "saturated"]
