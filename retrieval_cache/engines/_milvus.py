"""Milvus behind the retriever protocol: one code for the embedded file, a standalone server and a distributed cluster.

The vectors are made here and stored there (`_vectors_of`, `_term_weights`), so `milvus` in mode `dense` gives the run
of `dense`, and in mode `bm25` the ranking of `bm25`: moving to an engine changes where a corpus lies and no score.
Search is exact (FLAT, or an inverted index), never an approximation that a comparison of retrievers would measure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ragtasks.errors import CacheError, ConfigurationError, clear_error, close_matches
from ragtasks.files import Ranked, Run, in_rank_order
from ragtasks.records import Passage
from retrieval_cache.engines._milvus_collection import MOST_HITS, Collection, Server, without_secrets
from retrieval_cache.engines._term_weights import TermWeights
from retrieval_cache.engines._vectors_of import DenseVectors, Vector, Vectors
from retrieval_cache.retrievers import DenseRetriever, Fill, HybridRetriever, Place, Progress, canonical, no_progress
from retrieval_cache.spec import parse

MODES = ("dense", "bm25", "hybrid")
"""What is searched: vectors, BM25 term weights, or both, fused by reciprocal rank (k = 60)."""

_SLACK = 16
"""Hits beyond k, so that chance ties at the cut need no second question."""
_ROUNDING = 1e-5
"""How far, relative to the best score, an engine's sum may be from ours."""


class MilvusRetriever:
    """Ranks the passages of one corpus that lies in Milvus."""

    def __init__(
        self,
        uri: str,
        *,
        mode: str = "dense",
        encoder: DenseRetriever | str | None = None,
        analyzer: str = "bm25",
        collection: str = "ragtasks",
        token: str | None = None,
        timeout_seconds: float = 60.0,
    ) -> None:
        """Choose a place and what is searched there; nothing is opened before it is needed.

        Args:
            uri: a path that ends in `.db` (milvus-lite, in this process), or `http(s)://host:port`.
            mode: one of `MODES`.
            encoder: for `dense` and `hybrid`: what follows `dense:` in the line of a dense retriever, or one itself.
            analyzer: for `bm25` and `hybrid`: `bm25` or `bm25-standard`, the retriever whose terms it shares.
            collection: start of the collection's name; the rest is the hash of what it holds, so no corpus meets
                another one's vectors.
            token: of the server; as user and password in `uri` it is never shown or recorded.
            timeout_seconds: for the connection.

        Raises:
            ConfigurationError: unknown mode or analyser, no encoder where one is needed, or one where none is.
        """
        if mode not in MODES:
            raise ConfigurationError(f"unknown Milvus mode {mode!r}: {close_matches(mode, MODES)}")
        self._uri, self._mode, self._prefix, self._analyzer = uri, mode, collection, analyzer
        self._encoder = _encoder(encoder, mode)
        self._server = Server(uri, token, timeout_seconds)
        self._vectors: Vectors = TermWeights(analyzer) if self._encoder is None else DenseVectors(self._encoder)
        self._parts: tuple[MilvusRetriever, ...] = ()
        if mode == "hybrid":
            shared = {"collection": collection, "token": token, "timeout_seconds": timeout_seconds}
            self._parts = (
                MilvusRetriever(uri, mode="dense", encoder=self._encoder, **cast("Any", shared)),
                MilvusRetriever(uri, mode="bm25", analyzer=analyzer, **cast("Any", shared)),
            )
            self._fused = HybridRetriever(self._parts)
        self._ids: tuple[str, ...] = ()
        self._collection: Collection | None = None

    @property
    def name(self) -> str:
        """`milvus:URI` with the options that are not the default; user, password and token are left out."""
        options: dict[str, str] = {} if self._mode == "dense" else {"mode": self._mode}
        if self._encoder is not None:
            options["encoder"] = self._encoder.name.removeprefix("dense:")
        if self._mode != "dense" and self._analyzer != "bm25":
            options["analyzer"] = self._analyzer
        if self._prefix != "ragtasks":
            options["collection"] = self._prefix
        return canonical("milvus", without_secrets(self._uri), **options)

    def describe(self) -> Mapping[str, Any]:
        """Return what decides the rankings; the place, which decides none, is not in it. Loads an encoder.

        Raises:
            RagtasksError: as the encoder.
        """
        if self._parts:
            return {**self._fused.describe(), "retriever": "milvus"}
        return {"retriever": "milvus", "mode": self._mode, "search": "exact", "of": dict(self._vectors.describe())}

    def encode_with(self, fill: Fill | None = None, place: Place | None = None) -> bool:
        """Let `fill` make the dense vectors; False where there are none."""
        return self._encoder is not None and self._encoder.encode_with(fill, place)

    def index(self, passages: Iterable[Passage], folder: Path, progress: Progress = no_progress) -> None:
        """Make the corpus's vectors in `folder` and store them in Milvus, going on where a killed call stopped.

        Raises:
            MissingExtraError: pymilvus, or a library of the vectors, is not installed.
            BenchmarkFileError: a passage without text, where vectors are dense.
            CacheError: Milvus does not answer, a collection that is in the way, a full disk.
        """
        if self._parts:
            self._fused.index(passages, folder, progress)
            return
        # Before hours of encoding, not after.
        _ = self._server.client
        filled = self._vectors.prepare(passages, folder / self._mode, progress)
        name = f"{self._prefix}_{self._vectors.key()[:24]}"
        n_rows = len(self._vectors.rows())
        collection = Collection(self._server, name, self._vectors.dimension)
        collection.fill(n_rows, self._vectors.stored, lambda n: progress(f"store {self._mode}", n, n_rows))
        self._ids, self._collection = filled.ids, collection

    def search(self, queries: Mapping[str, str], k: int, progress: Progress = no_progress) -> Run:
        """Return the best `k` passages of each query.

        More than 16,384 passages that tie at the cut are cut as Milvus orders them.

        Raises:
            CacheError: called before `index`, or Milvus does not answer.
            ConfigurationError: `k` is below 1 or above 16,384.
        """
        if not 1 <= k <= MOST_HITS:
            raise ConfigurationError(f"k must be from 1 to {MOST_HITS}, as Milvus gives no more; found {k}")
        if self._parts:
            return self._fused.search(queries, k, progress)
        if self._collection is None:
            raise CacheError(f"{self.name} was asked to search before it had a corpus; call index first")
        texts = sorted({text for text in queries.values() if text.strip()})
        vectors = self._vectors.queries(texts, progress)
        rankings = self._ranked(self._collection, dict(zip(texts, vectors, strict=True)), k, progress)
        return {query_id: rankings.get(text, ()) for query_id, text in queries.items()}

    def _ranked(
        self, collection: Collection, vectors: Mapping[str, Vector], k: int, progress: Progress
    ) -> dict[str, tuple[Ranked, ...]]:
        """Return the rankings, asking for more hits where those at hand may not hold all that tie with the k-th."""
        rankings: dict[str, tuple[Ranked, ...]] = {}
        open_texts = [text for text, vector in vectors.items() if len(vector)] if self._ids else []
        limit = min(k + _SLACK, MOST_HITS)
        while open_texts:
            tied = []
            answers = collection.search([vectors[text] for text in open_texts], limit)
            for text, hits in zip(open_texts, answers, strict=True):
                rankings[text] = self._ranking(vectors[text], hits)
                if len(hits) == limit < MOST_HITS and self._may_miss(rankings[text], hits, k):
                    tied.append(text)
                rankings[text] = rankings[text][:k]
                progress("search milvus", len(rankings), len(vectors))
            open_texts, limit = tied, min(limit * 8, MOST_HITS)
        return rankings

    def _ranking(self, vector: Vector, hits: Sequence[tuple[int, float]]) -> tuple[Ranked, ...]:
        if not hits:
            return ()
        rows = [row for row, _ in hits]
        scores = self._vectors.scores(vector, rows, [score for _, score in hits])
        return in_rank_order(Ranked(self._ids[row], score) for row, score in zip(rows, scores, strict=True))

    def _may_miss(self, ranking: Sequence[Ranked], hits: Sequence[tuple[int, float]], k: int) -> bool:
        """Return whether a passage that is no hit may be as good as the k-th: it scores at most the last hit."""
        return ranking[k - 1].score - hits[-1][1] <= _ROUNDING * abs(hits[0][1])

    def close(self) -> None:
        """Let go of the server; an embedded file may then be opened by another process."""
        for retriever in self._parts:
            retriever.close()
        self._server.close()


def _encoder(encoder: DenseRetriever | str | None, mode: str) -> DenseRetriever | None:
    if (encoder is None) != (mode == "bm25"):
        message = clear_error(
            "Milvus",
            where=f"mode {mode}",
            expected="no encoder" if mode == "bm25" else "an encoder",
            found="none" if encoder is None else "one",
            next_step="such as milvus:corpus.db,mode=bm25 or milvus:corpus.db,encoder=BAAI/bge-base-en-v1.5",
        )
        raise ConfigurationError(message)
    return cast("DenseRetriever", parse(f"dense:{encoder}")) if isinstance(encoder, str) else encoder


__all__ = ["MODES", "MilvusRetriever"]
