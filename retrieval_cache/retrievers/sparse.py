"""Learned sparse retrieval (SPLADE and its kin): weights over a vocabulary, and an inverted index that is exact.

The passages' weights lie on disk in shards, as rows of a sparse matrix; in memory they are turned round, so that a
query touches only the passages that hold one of its terms.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ragtasks.clients import Secrets
from ragtasks.errors import (
    CacheError,
    ConfigurationError,
)
from ragtasks.files import Ranked, Run, canonical_hash
from ragtasks.progress import Progress, no_progress
from ragtasks.records import Passage
from ragtasks.requirements import Requirement, importing, library
from retrieval_cache.retrievers.protocol import canonical
from retrieval_cache.retrievers.vectors import (
    BATCH_TOKENS,
    TEXT_FORM,
    Fill,
    Place,
    ShardFolder,
    count_truncated,
    described_name,
    length_batches,
    library_versions,
    load_model,
    model_hash,
    model_requirements,
    passage_text,
    read_lengths,
    token_lengths,
)

_QUERIES = 64


_TERMS = 300
"""Terms that the models of learned sparse retrieval give a passage, at most."""


class SparseRetriever:
    """Ranks passages by the inner product of their term weights with the query's."""

    def __init__(
        self,
        model: str,
        *,
        max_length: int | None = None,
        batch_tokens: int = BATCH_TOKENS,
        device: str | None = None,
        shard_size: int = 8192,
    ) -> None:
        """Choose an encoder; nothing is loaded before it is needed."""
        self.model = model
        self._n_truncated = {"passages": 0, "queries": 0}
        self._max_length = max_length
        self._batch_tokens = batch_tokens
        self._device = device
        self._shard_size = shard_size
        self._place: Place | None = None
        self._index: tuple[tuple[str, ...], NDArray[np.int64], Any] | None = None

    @property
    def name(self) -> str:
        """`sparse:MODEL`, and the length where it is set."""
        options = {} if self._max_length is None else {"max_length": self._max_length}
        return canonical("sparse", self.model, **options)

    def requirements(self, secrets: Secrets) -> list[Requirement]:
        """Return the libraries and the weights of the encoder."""
        part = f"encoder {self.model} of the retriever"
        return [*model_requirements(self.model, part), library("scipy", "dense", part)]

    def index_bytes(self, n_passages: float, n_bytes: float) -> float:
        """Return the size of the weights: some hundred terms a passage, each a number and a weight."""
        return n_passages * _TERMS * (np.dtype(np.int32).itemsize + np.dtype(np.float32).itemsize)

    def describe(self) -> Mapping[str, Any]:
        """Return what decides the rankings; loads the encoder."""
        return self._description

    def statistics(self) -> Mapping[str, Any]:
        """Return how many passages of the corpus, and queries of the last search, were cut; nothing where none was."""
        return {"truncated": dict(self._n_truncated)} if any(self._n_truncated.values()) else {}

    @cached_property
    def _description(self) -> dict[str, Any]:
        return {
            "retriever": "sparse",
            "model": described_name(self.model),
            "weights": model_hash(self._encoder),
            "dimension": self._dimension,
            "prompts": dict(self._encoder.prompts),
            "max_length": self._encoder.max_seq_length,
            "max_active_dims": self._encoder.max_active_dims,
            "versions": library_versions(),
        }

    @cached_property
    def _encoder(self) -> Any:
        encoder = load_model(
            "SparseEncoder", self.model, "learned sparse retrieval", self._max_length, device=self._device
        )
        # A SPLADE model may not know its vocabulary's size before its first text, and gives the hidden size instead.
        encoder.encode_document(["first"], show_progress_bar=False)
        return encoder

    @property
    def _dimension(self) -> int:
        return int(self._encoder.get_embedding_dimension())

    def index(self, passages: Iterable[Passage], folder: Path, progress: Progress = no_progress) -> None:
        """Encode a corpus into `folder`, or take what is there of it."""
        sparse = _scipy_sparse()
        made_by = {**self.describe(), "text": TEXT_FORM, "shard_size": self._shard_size}
        with nullcontext(folder) if self._place is None else self._place(made_by) as vectors:
            shards = ShardFolder(vectors, "npz", canonical_hash(made_by), self._dimension, self._shard_size)
            filled = shards.fill(passages, self, progress)
        rows = [sparse.load_npz(path) for path in filled.paths]
        stacked = (
            sparse.vstack(rows, format="csr") if rows else sparse.csr_array((0, self._dimension), dtype=np.float32)
        )
        id_ranks = np.empty(len(filled.ids), np.int64)
        id_ranks[sorted(range(len(filled.ids)), key=filled.ids.__getitem__)] = np.arange(len(filled.ids))
        self._n_truncated["passages"] = filled.n_truncated
        self._index = (filled.ids, id_ranks, stacked.T.tocsr())

    def search(self, queries: Mapping[str, str], k: int, progress: Progress = no_progress) -> Run:
        """Return the best `k` passages of each query that share a term with it."""
        if self._index is None:
            raise CacheError(f"{self.name} was asked to search before it had a corpus; call index first")
        if k < 1:
            raise ConfigurationError(f"k must be at least 1, found {k}")
        ids, id_ranks, inverted = self._index
        texts = sorted({text for text in queries.values() if text.strip()})
        weights, self._n_truncated["queries"] = self._encode(
            texts, "query", lambda n: progress("encode queries", n, len(texts))
        )
        rankings: dict[str, tuple[Ranked, ...]] = {}
        for start in range(0, len(texts), _QUERIES):
            scores = (weights[start : start + _QUERIES] @ inverted).tocsr()
            for row, text in enumerate(texts[start : start + _QUERIES]):
                span = slice(scores.indptr[row], scores.indptr[row + 1])
                best, best_scores = _top(scores.indices[span], scores.data[span], id_ranks, k)
                rankings[text] = tuple(
                    Ranked(ids[position], score)
                    for position, score in zip(best.tolist(), best_scores.tolist(), strict=True)
                )
            progress("search", len(rankings), len(texts))
        return {query_id: rankings.get(text, ()) for query_id, text in queries.items()}

    def encode_with(self, fill: Fill | None = None, place: Place | None = None) -> bool:
        """Take the folder that all retrievers share; workers make no term weights."""
        self._place = place or self._place
        return False

    def batches(self, passages: Sequence[Passage]) -> tuple[list[list[int]], set[int]]:
        """Return the places of the passages that are encoded together, longest first, and of those that are cut."""
        texts = [passage_text(passage) for passage in passages]
        lengths = token_lengths(self._encoder.tokenizer, texts)
        batches = length_batches(texts, read_lengths(self._encoder, lengths), self._batch_tokens)
        return [places for places, _ in batches], {
            n for n, one in enumerate(lengths) if count_truncated(self._encoder, [one])
        }

    def encode(self, passages: Sequence[Passage]) -> Any:
        """Return the weights of a batch."""
        return self._batch([passage_text(passage) for passage in passages], "passage")

    @staticmethod
    def stacked(rows: Sequence[Any]) -> Any:
        """Return weights one below the other."""
        return _scipy_sparse().vstack(rows, format="csr")

    @staticmethod
    def written(rows: Any) -> bytes:
        """Return the file of weights."""
        file = io.BytesIO()
        # Uncompressed, so that the bytes do not depend on the zlib that is installed.
        _scipy_sparse().save_npz(file, rows, compressed=False)
        return file.getvalue()

    @staticmethod
    def read(path: Path) -> Any:
        """Return the weights of a file."""
        return _scipy_sparse().load_npz(path)

    def _encode(
        self, texts: Sequence[str], role: Literal["query", "passage"], done: Callable[[int], None]
    ) -> tuple[Any, int]:
        """Return (texts x vocabulary as CSR in float32, number of texts that were cut)."""
        sparse, encoder = _scipy_sparse(), self._encoder
        lengths = token_lengths(encoder.tokenizer, texts)
        order: list[int] = []
        parts = [sparse.csr_array((0, self._dimension), dtype=np.float32)]
        for positions, batch in length_batches(texts, read_lengths(encoder, lengths), self._batch_tokens, done):
            parts.append(self._batch(batch, role))
            order.extend(positions)
        weights = sparse.vstack(parts, format="csr")[np.argsort(np.array(order, np.int64))]
        return weights, count_truncated(encoder, lengths)

    def _batch(self, texts: Sequence[str], role: Literal["query", "passage"]) -> Any:
        encode = self._encoder.encode_query if role == "query" else self._encoder.encode_document
        encoded = encode(list(texts), batch_size=len(texts), save_to_cpu=True, show_progress_bar=False)
        encoded = encoded.float().coalesce()
        rows, columns = encoded.indices().numpy()
        shape = (len(texts), self._dimension)
        weights = _scipy_sparse().coo_array((encoded.values().numpy(), (rows, columns)), shape=shape).tocsr()
        weights.sort_indices()
        return weights


def _top(
    positions: NDArray[np.int32], scores: NDArray[np.float32], id_ranks: NDArray[np.int64], k: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the best `k` of a query's passages, in rank order; all that tie with the k-th are looked at."""
    positions, scores = positions[scores > 0], scores[scores > 0]
    if len(scores) > k:
        kept = scores >= np.partition(scores, len(scores) - k)[len(scores) - k]
        positions, scores = positions[kept], scores[kept]
    order = np.lexsort((-id_ranks[positions], -scores))[:k]
    return positions[order], scores[order]


def _scipy_sparse() -> Any:
    with importing("scipy", "dense", "learned sparse retrieval"):
        from scipy import sparse
    return sparse
