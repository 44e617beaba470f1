"""Learned sparse retrieval (SPLADE and similar models): term weights, searched exactly in an inverted index.

The passages' weights are stored on disk in shards, as rows of a sparse matrix. In memory they are transposed, so that a
query reads only the passages with one of its terms.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragtasks.clients import Secrets
from ragtasks.requirements import Requirement, importing, library
from retrieval_cache.retrievers.encoders import (
    EncodedRetriever,
    Role,
    described_name,
    id_ranks,
    library_versions,
    load_model,
    model_hash,
)
from retrieval_cache.retrievers.protocol import canonical
from retrieval_cache.retrievers.vectors import Filled

_QUERIES = 64
_TERMS = 300
"""Maximum number of terms that learned sparse models give a passage."""


class SparseRetriever(EncodedRetriever):
    """Ranks the passages that share a term with the query, by the inner product of their term weights."""

    suffix = "npz"

    @property
    def name(self) -> str:
        """`sparse:MODEL`, with the maximum length if set."""
        return canonical("sparse", self.model, max_length=self._max_length)

    def requirements(self, secrets: Secrets) -> list[Requirement]:
        """Return the requirements: libraries and weights of the encoder."""
        requirements = super().requirements(secrets)
        return [*requirements, library("scipy", "dense", f"encoder {self.model} of the retriever")]

    def index_bytes(self, n_passages: float, n_bytes: float) -> float:
        """Return the size of the weights in bytes: some hundred terms per passage, each a number and a weight."""
        return n_passages * _TERMS * (np.dtype(np.int32).itemsize + np.dtype(np.float32).itemsize)

    @cached_property
    def _description(self) -> dict[str, Any]:
        return {
            "retriever": "sparse",
            "model": described_name(self.model),
            "weights": model_hash(self._encoder),
            "dimension": self.dimension,
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
        # A SPLADE model may not know the size of its vocabulary before its first text, and returns the hidden size
        # instead.
        encoder.encode_document(["first"], show_progress_bar=False)
        return encoder

    def _opened(self, filled: Filled) -> InvertedIndex:
        empty = _scipy_sparse().csr_array((0, self.dimension), dtype=np.float32)
        stacked = self.stacked([empty, *map(self.read, filled.paths)])
        return InvertedIndex(stacked.T.tocsr(), id_ranks(filled.ids))

    @staticmethod
    def stacked(rows: Sequence[Any]) -> Any:
        """Return weights stacked by row."""
        return _scipy_sparse().vstack(rows, format="csr")

    @staticmethod
    def written(rows: Any) -> bytes:
        """Return the file of weights."""
        file = io.BytesIO()
        # Uncompressed, so that the bytes do not depend on the installed zlib.
        _scipy_sparse().save_npz(file, rows, compressed=False)
        return file.getvalue()

    @staticmethod
    def read(path: Path) -> Any:
        """Return the weights in a file."""
        return _scipy_sparse().load_npz(path)

    def _batch(self, texts: Sequence[str], role: Role) -> Any:
        encode = self._encoder.encode_query if role == "query" else self._encoder.encode_document
        encoded = encode(list(texts), batch_size=len(texts), save_to_cpu=True, show_progress_bar=False)
        encoded = encoded.float().coalesce()
        rows, columns = encoded.indices().numpy()
        shape = (len(texts), self.dimension)
        weights = _scipy_sparse().coo_array((encoded.values().numpy(), (rows, columns)), shape=shape).tocsr()
        weights.sort_indices()
        return weights


@dataclass(frozen=True)
class InvertedIndex:
    """The term weights of one corpus."""

    weights: Any
    """float32 in CSR format, terms x passages."""
    id_ranks: NDArray[np.int64]

    def search(
        self, queries: Any, k: int, done: Callable[[int, int], None]
    ) -> Iterator[tuple[NDArray[np.int32], NDArray[np.float32]]]:
        """Yield the positions and scores of the best `k` passages of each query, in rank order."""
        n_queries = queries.shape[0]
        for start in range(0, n_queries, _QUERIES):
            scores = (queries[start : start + _QUERIES] @ self.weights).tocsr()
            for begin, end in pairwise(scores.indptr):
                yield top(scores.indices[begin:end], scores.data[begin:end], self.id_ranks, k)
            done(min(start + _QUERIES, n_queries), n_queries)


def top(
    positions: NDArray[np.int32], scores: NDArray[np.float32], id_ranks: NDArray[np.int64], k: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the best `k` of a query's passages, in rank order, considering all that tie with the k-th."""
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
