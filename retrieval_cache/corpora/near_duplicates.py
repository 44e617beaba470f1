"""Near-duplicate passages of a corpus: candidates by MinHash and banding, confirmed by exact Jaccard similarity.

A passage is represented by the set of its shingles: consecutive lower-cased words, five by default. MinHash gives each
set a short signature whose agreement estimates the Jaccard similarity (Broder 1997). Signatures are divided into bands,
and only passages that agree in a complete band are compared, so the work grows linearly with the corpus. Bands are
chosen so that a pair at the threshold is compared with a probability of at least 0.99. Every reported pair was compared
exactly, so there are no false positives.

The corpus is read twice, the second time for the shingles of the candidates. Memory: at most 42 numbers of eight bytes
per passage, and the shingles of the candidates.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragtasks.errors import ConfigurationError
from ragtasks.progress import Progress, no_progress
from ragtasks.records import Passage
from retrieval_cache.corpora.segmenting import WORD

_Hashes: TypeAlias = NDArray[np.uint64]

SHINGLE_WORDS = 5
"""Words per shingle. TREC RAG removed near-duplicates of MS MARCO V2.1 by shingles of nine."""
_N_HASHES = 128
_MEETING_CHANCE = 0.99
_MOST_COMPARED = 64
_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class Cluster:
    """A group of near-duplicates: each reaches the threshold with at least one other passage of the group."""

    passage_ids: tuple[str, ...]
    """Passage ids in the order of the corpus; at least two."""
    similarities: tuple[float, ...]
    """Jaccard similarity of each passage to the first, 0 to 1. It may be below the threshold in a chain of similar
    passages.
    """


@dataclass(frozen=True, slots=True)
class NearDuplicates:
    """The near-duplicates of one corpus."""

    groups: tuple[Cluster, ...]
    """Groups, largest first, then in the order of the corpus."""
    n_passages: int
    n_without_words: int
    """Number of passages without words, which have no similarity."""
    n_crowded: int
    """Number of candidate sets with more than 64 passages, in which each was compared only with the 64 before it."""

    @property
    def redundant(self) -> frozenset[str]:
        """Ids of the passages to remove if the first of each group is kept."""
        return frozenset(passage_id for group in self.groups for passage_id in group.passage_ids[1:])


def near_duplicates(
    read: Callable[[], Iterable[Passage]],
    threshold: float,
    progress: Progress = no_progress,
    width: int = SHINGLE_WORDS,
) -> NearDuplicates:
    """Return the groups of passages whose word shingles overlap by at least `threshold`."""
    if not 0.5 <= threshold <= 1:
        raise ConfigurationError(f"near-duplicates need a threshold from 0.5 to 1, found {threshold}")
    if width < 1:
        raise ConfigurationError(f"near-duplicates need shingles of at least one word, found {width}")
    # More rows per band save comparisons, so take the largest number that still finds pairs at the threshold.
    rows = max(rows for rows in range(1, 33) if 1 - (1 - threshold**rows) ** (_N_HASHES // rows) >= _MEETING_CHANCE)
    bands, n_passages = _bands(read(), rows, progress, width)
    buckets = list(_buckets(bands))
    candidates = _candidates(read(), {index for bucket in buckets for index in bucket}, width)
    pairing = _Pairing({index: candidate[1] for index, candidate in candidates.items()}, threshold)
    for done, bucket in enumerate(buckets, start=1):
        pairing.compare(bucket)
        if done % _AT_ONCE == 0:
            progress("comparing", done, len(buckets))
    names = {index: candidate[0] for index, candidate in candidates.items()}
    groups = [
        Cluster(
            tuple(names[index] for index in group),
            tuple(jaccard(pairing.sets[group[0]], pairing.sets[index]) for index in group),
        )
        for group in pairing.groups()
    ]
    n_crowded = sum(len(bucket) > _MOST_COMPARED for bucket in buckets)
    return NearDuplicates(tuple(groups), n_passages, n_passages - len(bands), n_crowded)


def shingles(text: str, width: int = SHINGLE_WORDS) -> _Hashes:
    """Return the distinct hashes of a text's shingles, sorted: one for a shorter text, none without words."""
    words = np.fromiter(map(_word_hash, WORD.findall(text.lower())), dtype=np.uint64)
    width = min(width, len(words))
    if not width:
        return words
    hashes = np.zeros(len(words) - width + 1, dtype=np.uint64)
    for offset in range(width):
        # Intended overflow: arithmetic modulo 2 ** 64. The order of the words counts.
        hashes = hashes * _factors()[0] + words[offset : offset + len(hashes)]
    return np.unique(hashes)


def jaccard(left: _Hashes, right: _Hashes) -> float:
    """Return the size of the intersection of two nonempty sets over that of their union, 0 to 1."""
    n_shared = len(np.intersect1d(left, right, assume_unique=True))
    return n_shared / (len(left) + len(right) - n_shared)


@lru_cache(maxsize=1 << 17)
def _word_hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")


@lru_cache(maxsize=1)
def _factors() -> _Hashes:
    """Return the odd factors of the hash functions, equal on every machine and version of numpy."""
    digests = b"".join(hashlib.blake2b(bytes([number]), digest_size=8).digest() for number in range(_N_HASHES))
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64) | np.uint64(1)


def _bands(passages: Iterable[Passage], rows: int, progress: Progress, width: int) -> tuple[_Hashes, int]:
    """Return the band hashes of each passage with words, and the number of all passages."""
    n_bands = _N_HASHES // rows
    numbers, n_passages = array("Q"), 0
    for n_passages, passage in enumerate(passages, start=1):
        hashes = shingles(passage.text, width)
        if len(hashes):
            signature = _signature(hashes)[: n_bands * rows].reshape(n_bands, rows)
            numbers.frombytes((signature * _factors()[:rows]).sum(axis=1, dtype=np.uint64).tobytes())
        if n_passages % _AT_ONCE == 0:
            progress("signatures", n_passages, None)
    return np.frombuffer(numbers, dtype=np.uint64).reshape(-1, n_bands), n_passages


def _signature(hashes: _Hashes) -> _Hashes:
    """Return the minimum of each hash function over a set."""
    parts = [hashes[start : start + _AT_ONCE] for start in range(0, len(hashes), _AT_ONCE)]
    least: _Hashes = np.min([np.multiply.outer(_factors(), part).min(axis=1) for part in parts], axis=0)
    return least


def _buckets(bands: _Hashes) -> Iterator[list[int]]:
    """Yield groups of two or more indices (among passages with words) that agree in a band, ascending."""
    for column in bands.T:
        order = np.argsort(column, kind="stable")
        edges = np.concatenate(([0], np.flatnonzero(np.diff(column[order])) + 1, [len(order)]))
        shared = np.diff(edges) > 1
        for start, end in zip(edges[:-1][shared], edges[1:][shared], strict=True):
            yield order[start:end].tolist()


def _candidates(passages: Iterable[Passage], wanted: set[int], width: int) -> dict[int, tuple[str, _Hashes]]:
    """Return index -> (passage id, shingles) for the candidate indices."""
    with_words = (passage for passage in passages if WORD.search(passage.text))
    return {
        index: (passage.passage_id, shingles(passage.text, width))
        for index, passage in enumerate(with_words)
        if index in wanted
    }


class _Pairing:
    """Union-find over candidates. Every pair is compared at most once, and never within a group."""

    def __init__(self, sets: dict[int, _Hashes], threshold: float) -> None:
        self.sets = sets
        self._threshold = threshold
        self._parent = {index: index for index in sets}
        self._apart: set[tuple[int, int]] = set()

    def compare(self, bucket: list[int]) -> None:
        """Join similar passages of a bucket. In a large bucket, each is compared only with the 64 before it."""
        if len({self._root(index) for index in bucket}) == 1:
            return
        for position, index in enumerate(bucket):
            for earlier in bucket[max(0, position - _MOST_COMPARED) : position]:
                if self._root(earlier) != self._root(index) and (earlier, index) not in self._apart:
                    if jaccard(self.sets[earlier], self.sets[index]) >= self._threshold:
                        first, second = sorted((self._root(earlier), self._root(index)))
                        self._parent[second] = first
                    else:
                        self._apart.add((earlier, index))

    def groups(self) -> list[list[int]]:
        """Return the indices of each group of two or more, largest group first, then by index."""
        members: defaultdict[int, list[int]] = defaultdict(list)
        for index in sorted(self._parent):
            members[self._root(index)].append(index)
        groups = [group for group in members.values() if len(group) > 1]
        return sorted(groups, key=lambda group: (-len(group), group))

    def _root(self, index: int) -> int:
        while self._parent[index] != index:
            self._parent[index] = self._parent[self._parent[index]]
            index = self._parent[index]
        return index
