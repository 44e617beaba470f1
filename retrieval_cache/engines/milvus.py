"""Milvus as a retriever: the same code for the embedded file, a standalone server and a cluster.

Vectors are computed by this package and stored in Milvus, so `milvus` in mode `dense` gives the run of `dense`, and in
mode `bm25` the ranking of `bm25`: the engine changes the storage of a corpus but no score. Search is exact (FLAT, or an
inverted index), because an approximation would affect comparisons of retrievers.
"""

from __future__ import annotations

import io
import itertools
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, cast
from urllib.parse import urlsplit

import numpy as np
import orjson
from numpy.typing import NDArray

from ragtasks.clients import Secrets, without_login
from ragtasks.errors import CacheError, ConfigurationError, MissingExtraError, close_matches
from ragtasks.files import Ranked, Run, canonical_hash, in_rank_order
from ragtasks.progress import Progress, no_progress
from ragtasks.records import Passage
from ragtasks.requirements import Requirement, importing, library
from retrieval_cache.retrievers.bm25 import ANALYSERS, K1, NAMES, B, indexed_text, term_lister
from retrieval_cache.retrievers.dense import DenseRetriever
from retrieval_cache.retrievers.fusion import HybridRetriever
from retrieval_cache.retrievers.protocol import canonical, not_indexed, statistics_of
from retrieval_cache.retrievers.vectors import Filled, ShardFolder, seal_path
from retrieval_cache.spec import parse

MODES = ("dense", "bm25", "hybrid")
"""Vectors that are searched: dense, BM25 term weights, or both, fused by reciprocal rank (k = 60)."""

_SLACK = 16
"""Hits requested beyond k, so that accidental ties at the cut need no second request."""
_ROUNDING = 1e-5
"""Largest difference between the engine's sum and ours, relative to the best score."""


class MilvusRetriever:
    """Ranks the passages of one corpus stored in Milvus."""

    key_variables: ClassVar[Mapping[str, str]] = {"token": "MILVUS_TOKEN"}
    inner_retrievers: ClassVar[Mapping[str, str]] = {"encoder": "dense:"}

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
        """Set the address and the vectors to search; no connection is opened yet."""
        if mode not in MODES:
            raise ConfigurationError(f"unknown Milvus mode {mode!r}: {close_matches(mode, MODES)}")
        self._uri, self._mode, self._prefix, self._analyzer = uri, mode, collection, analyzer
        self._encoder = _encoder(encoder, mode)
        self._server = Server(uri, token, timeout_seconds)
        self._vectors = TermWeights(analyzer) if self._encoder is None else DenseVectors(self._encoder)
        self._parts: tuple[MilvusRetriever, ...] = ()
        if mode == "hybrid":
            shared = {"collection": collection, "token": token, "timeout_seconds": timeout_seconds}
            self._parts = (
                MilvusRetriever(uri, mode="dense", encoder=self._encoder, **cast("Any", shared)),
                MilvusRetriever(uri, mode="bm25", analyzer=analyzer, **cast("Any", shared)),
            )
            self._fused = HybridRetriever(self._parts)
        self._ids: tuple[str, ...] = ()
        self._collection: StoredVectors | None = None

    @property
    def name(self) -> str:
        """`milvus:URI` with the options that are not the default, without user, password and token."""
        return canonical(
            "milvus",
            without_login(self._uri),
            mode=None if self._mode == "dense" else self._mode,
            encoder=None if self._encoder is None else self._encoder.name.removeprefix("dense:"),
            analyzer=None if self._mode == "dense" or self._analyzer == "bm25" else self._analyzer,
            collection=None if self._prefix == "ragtasks" else self._prefix,
        )

    @property
    def retrievers(self) -> Sequence[DenseRetriever]:
        """The retriever whose vectors are stored, if any."""
        return () if self._encoder is None else (self._encoder,)

    def requirements(self, secrets: Secrets) -> list[Requirement]:
        """Return the requirements: the libraries of Milvus."""
        names = ["pymilvus", *(["milvus_lite"] if self._uri.endswith(_EMBEDDED) else [])]
        return [library(name, "scale", "the milvus engine") for name in names]

    def index_bytes(self, n_passages: float, n_bytes: float) -> float:
        """Return the size in bytes of the counted terms, which are also stored locally; an encoder adds its vectors."""
        return 0.0 if self._mode == "dense" else n_bytes

    def describe(self) -> Mapping[str, Any]:
        """Return the inputs that determine the rankings, without the address. Loads an encoder."""
        if self._parts:
            return {**self._fused.describe(), "retriever": "milvus"}
        return {"retriever": "milvus", "mode": self._mode, "search": "exact", "of": dict(self._vectors.describe())}

    def statistics(self) -> Mapping[str, Any]:
        """Return the counts of the encoder; {} without an encoder or counts."""
        return {} if self._encoder is None else statistics_of(self._encoder)

    def index(self, passages: Iterable[Passage], folder: Path, progress: Progress = no_progress) -> None:
        """Compute the corpus's vectors in `folder` and store them in Milvus, continuing a killed call."""
        if self._parts:
            self._fused.index(passages, folder, progress)
            return
        # Checked before hours of encoding.
        _ = self._server.client
        filled = self._vectors.prepare(passages, folder / self._mode, progress)
        name = f"{self._prefix}_{self._vectors.key()[:24]}"
        n_rows = len(self._vectors.rows())
        collection = StoredVectors(self._server, name, self._vectors.dimension)
        collection.fill(n_rows, self._vectors.stored, lambda n: progress(f"store {self._mode}", n, n_rows))
        self._ids, self._collection = filled.ids, collection

    def search(self, queries: Mapping[str, str], k: int, progress: Progress = no_progress) -> Run:
        """Return the best `k` passages of each query.

        If more than 16,384 passages tie at the cut, the selection follows Milvus's order.
        """
        if not 1 <= k <= MOST_HITS:
            raise ConfigurationError(f"k must be from 1 to {MOST_HITS}, Milvus's limit; found {k}")
        if self._parts:
            return self._fused.search(queries, k, progress)
        if self._collection is None:
            raise not_indexed(self.name)
        texts = sorted({text for text in queries.values() if text.strip()})
        if not texts:
            return dict.fromkeys(queries, ())
        vectors = self._vectors.queries(texts, progress)
        rankings = self._ranked(self._collection, dict(zip(texts, vectors, strict=True)), k, progress)
        return {query_id: rankings.get(text, ()) for query_id, text in queries.items()}

    def _ranked(
        self, collection: StoredVectors, vectors: Mapping[str, Vector], k: int, progress: Progress
    ) -> dict[str, tuple[Ranked, ...]]:
        """Return the rankings, requesting more hits if passages that tie with the k-th may be missing."""
        rankings: dict[str, tuple[Ranked, ...]] = {}
        open_texts = [text for text, vector in vectors.items() if len(vector)] if self._ids else []
        limit = min(k + _SLACK, MOST_HITS)
        while open_texts:
            tied = []
            answers = collection.search([vectors[text] for text in open_texts], limit)
            for text, hits in zip(open_texts, answers, strict=True):
                rankings[text] = self._ranking(vectors[text], hits)
                # A passage that is not a hit scores at most as much as the last hit.
                if len(hits) == limit < MOST_HITS and (
                    rankings[text][k - 1].score - hits[-1][1] <= _ROUNDING * abs(hits[0][1])
                ):
                    tied.append(text)
                rankings[text] = rankings[text][:k]
                progress("search milvus", len(rankings), len(vectors))
            open_texts, limit = tied, min(limit * 8, MOST_HITS)
        return rankings

    def _ranking(self, vector: Vector, hits: Sequence[tuple[int, float]]) -> tuple[Ranked, ...]:
        rows = [row for row, _ in hits]
        scores = self._vectors.scores(vector, rows, [score for _, score in hits])
        return in_rank_order(Ranked(self._ids[row], score) for row, score in zip(rows, scores, strict=True))

    def close(self) -> None:
        """Close the connection, so that another process can open an embedded file."""
        for retriever in self._parts:
            retriever.close()
        self._server.close()


def _encoder(encoder: DenseRetriever | str | None, mode: str) -> DenseRetriever | None:
    if (encoder is None) != (mode == "bm25"):
        raise ConfigurationError(
            "Milvus",
            where=f"mode {mode}",
            expected="no encoder" if mode == "bm25" else "an encoder",
            found="none" if encoder is None else "one",
            next_step="such as milvus:corpus.db,mode=bm25 or milvus:corpus.db,encoder=BAAI/bge-base-en-v1.5",
        )
    return cast("DenseRetriever", parse(f"dense:{encoder}")) if isinstance(encoder, str) else encoder


# A Milvus collection: one row number and vector per passage, searched exactly by inner product. The same calls run on
# the embedded file, a standalone server and a cluster. Rows are upserted in order and in batches, each acknowledged
# before the next. A killed call therefore leaves a prefix, and its last batch is sent again. Messages of pymilvus are
# printed without the token and the address's user and password.

MOST_HITS = 16_384
"""Milvus's limit on the hits of one query."""

_EMBEDDED = ".db"
_BATCH = 1000
_QUERIES = 256
_ROW, _VECTOR = "row", "vector"


class Server:
    """A connection to Milvus, opened at first use."""

    def __init__(self, uri: str, token: str | None, timeout_seconds: float) -> None:
        """Set the address: a path ending in `.db` is the embedded engine, a URL a server or cluster."""
        self._uri, self._token, self._timeout = uri, token, timeout_seconds
        self.place = without_login(uri)
        """The address without secrets."""

    @cached_property
    def client(self) -> Any:
        """The open client."""
        with importing("pymilvus", "scale", "the milvus engine"):
            from pymilvus import MilvusClient
        if self._uri.endswith(_EMBEDDED):
            if find_spec("milvus_lite") is None:
                raise MissingExtraError("milvus-lite", "scale", "the embedded milvus engine")
            Path(self._uri).parent.mkdir(parents=True, exist_ok=True)
        expected = "a path ending in .db that no other process has open, or http(s)://host:port of a running Milvus"
        with self.reporting("connect to Milvus", expected, "start the server, or check address and token"):
            return MilvusClient(uri=self._uri, token=self._token or "", timeout=self._timeout)

    @contextmanager
    def reporting(self, part: str, expected: str, next_step: str) -> Iterator[None]:
        """Re-raise exceptions of pymilvus as one error without secrets."""
        from pymilvus.exceptions import MilvusException

        try:
            yield
        except (MilvusException, OSError) as error:
            # `from None`: the cause's text and arguments may contain the address with its password.
            message = self._scrubbed(str(getattr(error, "message", error)))
            raise CacheError(part, where=self.place, expected=expected, found=message, next_step=next_step) from None

    def _scrubbed(self, text: str) -> str:
        user_info = urlsplit(self._uri).netloc.rpartition("@")[0]
        secrets = {self._token or "", user_info, *user_info.split(":")[1:], *(self._token or "").split(":")[1:]}
        for secret in sorted(secrets - {""}, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def close(self) -> None:
        """Close the connection and the embedded engine, so that another process can open the file."""
        client = self.__dict__.pop("client", None)
        if client is None:
            return
        client.close()
        if self._uri.endswith(_EMBEDDED):
            from milvus_lite.server_manager import server_manager_instance

            server_manager_instance.release_server(self._uri)


class StoredVectors:
    """The vectors of one corpus."""

    def __init__(self, server: Server, name: str, dimension: int | None) -> None:
        self._server, self._name, self._dimension = server, name, dimension
        with self._reporting("open the collection"):
            if server.client.has_collection(name):
                self._check(server.client.describe_collection(name)["fields"])
            else:
                self._create()
            server.client.load_collection(name)

    def _reporting(self, part: str) -> Any:
        return self._server.reporting(
            f"Milvus: {part} {self._name!r}", "an answer", "check the server, then call again: it resumes from here"
        )

    def _check(self, fields: Sequence[dict[str, Any]]) -> None:
        stored_fields = {field["name"]: field for field in fields}
        expected = f"{_ROW} and {_VECTOR} ({'sparse' if self._dimension is None else f'{self._dimension} dimensions'})"
        width = stored_fields.get(_VECTOR, {}).get("params", {}).get("dim")
        if set(stored_fields) != {_ROW, _VECTOR} or (None if width is None else int(width)) != self._dimension:
            raise CacheError(
                f"Milvus collection {self._name!r}",
                where=self._server.place,
                expected=f"no collection, or one with {expected}",
                found=f"another collection of this name, with {', '.join(sorted(stored_fields))} ({width} dimensions)",
                next_step="drop it, or choose another prefix with collection=NAME",
            )

    def _create(self) -> None:
        from pymilvus import DataType, MilvusClient

        schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field(_ROW, DataType.INT64, is_primary=True)
        index = MilvusClient.prepare_index_params()
        if self._dimension is None:
            schema.add_field(_VECTOR, DataType.SPARSE_FLOAT_VECTOR)
            index.add_index(_VECTOR, index_type="SPARSE_INVERTED_INDEX", metric_type="IP")
        else:
            schema.add_field(_VECTOR, DataType.FLOAT_VECTOR, dim=self._dimension)
            index.add_index(_VECTOR, index_type="FLAT", metric_type="IP")
        self._server.client.create_collection(self._name, schema=schema, index_params=index, consistency_level="Strong")

    def fill(
        self, n_rows: int, stored: Callable[[int], Iterator[tuple[int, Vector]]], report: Callable[[int], None]
    ) -> None:
        """Store the missing rows."""
        done = self._n_rows()
        if done != n_rows:
            # One row less, because the interrupted batch may be stored in part.
            done = max(0, done - 1) // _BATCH * _BATCH
            rows = stored(done)
            while batch := [{_ROW: row, _VECTOR: vector} for row, vector in itertools.islice(rows, _BATCH)]:
                with self._reporting("store rows in"):
                    self._server.client.upsert(self._name, batch)
                done += len(batch)
                report(done)
            with self._reporting("flush"):
                self._server.client.flush(self._name)
            done = self._n_rows()
        report(done)
        if done != n_rows:
            raise CacheError(
                f"Milvus collection {self._name!r}",
                where=self._server.place,
                expected=f"{n_rows} rows",
                found=f"{done} rows",
                next_step="drop the collection and index again; stored vectors are reused",
            )

    def _n_rows(self) -> int:
        with self._reporting("count"):
            counted = self._server.client.query(
                self._name, filter="", output_fields=["count(*)"], consistency_level="Strong"
            )
        return int(counted[0]["count(*)"])

    def search(self, queries: Sequence[Vector], limit: int) -> Iterator[list[tuple[int, float]]]:
        """Yield the best `limit` (row, score) of each query, best first."""
        for start in range(0, len(queries), _QUERIES):
            with self._reporting("search"):
                answers = self._server.client.search(
                    self._name,
                    data=list(queries[start : start + _QUERIES]),
                    limit=limit,
                    anns_field=_VECTOR,
                    output_fields=[_ROW],
                    search_params={"metric_type": "IP", "params": {}},
                    consistency_level="Strong",
                )
            for hits in answers:
                yield [(int(hit[_ROW]), float(hit["distance"])) for hit in hits]


# Vectors stored for a passage: dense vectors or BM25 term weights, computed by the client and stored as shards. The
# engine only multiplies and sorts. The numbers are bit for bit those of the embedded retrievers, so a run does not
# depend on the engine, and a lost collection is loaded again without encoding.

Vector = NDArray[np.float32] | dict[int, float]
"""A dense vector, or dimension -> weight."""


class DenseVectors:
    """The vectors of a dense retriever, in its own shards."""

    def __init__(self, retriever: DenseRetriever) -> None:
        """Set the options of a dense retriever; weights are loaded at first use."""
        self.retriever = retriever
        self._shards: list[NDArray[np.float16]] = []
        self._filled = Filled((), (), 0)

    @property
    def dimension(self) -> int:
        """Width of the vectors."""
        return self.retriever.dimension

    def describe(self) -> Mapping[str, Any]:
        """Return the description of the dense retriever."""
        return self.retriever.describe()

    def prepare(self, passages: Iterable[Passage], folder: Path, progress: Progress) -> Filled:
        """Return the shards of a corpus; missing shards are encoded."""
        self._filled = self.retriever.fill(passages, folder, progress)
        self._shards = [np.load(path, mmap_mode="r", allow_pickle=False) for path in self._filled.paths]
        return self._filled

    def key(self) -> str:
        """Return the hash of the vectors."""
        return canonical_hash({"vectors": "dense", "shards": seals(self._filled.paths)})

    def rows(self) -> Sequence[int]:
        """Return all indices: each passage has a vector."""
        return range(len(self._filled.ids))

    def stored(self, first: int) -> Iterator[tuple[int, Vector]]:
        """Yield (index, vector) from index `first` on, with one shard in memory at a time."""
        start = 0
        for shard in self._shards:
            for offset in range(max(0, first - start), len(shard)):
                yield start + offset, shard[offset].astype(np.float32)
            start += len(shard)

    def queries(self, texts: Sequence[str], progress: Progress) -> list[Vector]:
        """Return one vector per text."""
        vectors, _ = self.retriever.encode_queries(texts, lambda n: progress("encode queries", n, len(texts)))
        return list(vectors)

    def scores(self, query: Vector, rows: Sequence[int], engine_scores: Sequence[float]) -> list[float]:
        """Return inner products, summed in float64 and stored in float32, as in exact search."""
        size = len(self._shards[0])
        vectors = np.array([self._shards[row // size][row % size] for row in rows], np.float64)
        products = np.einsum("qcd,qd->qc", vectors[None], np.asarray(query, np.float64)[None])[0]
        scores: list[float] = products.astype(np.float32).tolist()
        return scores


def seals(paths: Sequence[Path]) -> list[list[str]]:
    """Return, for each shard, the hashes of its passages and of its file."""
    contents = (orjson.loads(seal_path(path).read_bytes()) for path in paths)
    return [[content["passages"], content["sha256"]] for content in contents]


# BM25 as an inner product of sparse vectors, so that any engine with sparse vectors ranks as `bm25` does. Engines have
# their own BM25, but with other analyzers and with statistics of a part of the corpus at a time (milvus-lite: of each
# segment), so that scores depend on how the corpus was divided. Here terms come from our analyzer, statistics cover the
# complete corpus, and the engine only sums: a passage contains the saturated frequency of each term, a query the term's
# rarity.
#
# passage: tf (k1 + 1) / (tf + k1 (1 - b + b length / average))
# query: frequency in the query * ln(1 + (N - n + .5) / (n + .5)), where n of N passages contain the term
#
# with k1, b and the one-byte lengths of Lucene and tantivy (Robertson and Zaragoza, 2009; `bm25`). A term's dimension
# is the CRC-32 of its bytes, so machines need not share a vocabulary. Two terms collide with a probability of 1 in 4.3
# billion per pair, and then count as one term.

_SHARD_SIZE = 8192
# Milvus reserves the largest 32-bit number.
_DIMENSIONS = 2**32 - 1
_STORED_LENGTHS = np.array(
    [*range(40), *(24 + ((8 + step) << shift) for shift in range(1, 27) for step in range(8))], np.int64
)
"""Passage lengths that one byte encodes in Lucene and tantivy: exact below 40, then eight steps per doubling."""


class TermWeights:
    """The BM25 vectors of one corpus under one analyzer."""

    def __init__(self, analyser: str) -> None:
        """Set the analyzer by the name of its BM25 retriever: `bm25` or `bm25-standard`."""
        if analyser not in NAMES:
            raise ConfigurationError(f"unknown analyser {analyser!r}: {close_matches(analyser, NAMES)}")
        self._analyser = NAMES[analyser]
        self._filled = Filled((), (), 0)
        self._rows: NDArray[np.int64] = np.empty(0, np.int64)
        self._average = 0.0
        self._n_passages = (np.empty(0, np.uint32), np.empty(0, np.int64))

    @property
    def dimension(self) -> None:
        """None: sparse vectors have no width."""

    def describe(self) -> Mapping[str, Any]:
        """Return analyzer, parameters and the analyzer's version."""
        return {"analyser": ANALYSERS[self._analyser], "k1": K1, "b": B, "tantivy": version("tantivy")}

    @cached_property
    def _terms(self) -> Callable[[str], list[str]]:
        return term_lister(self._analyser)

    def prepare(self, passages: Iterable[Passage], folder: Path, progress: Progress) -> Filled:
        """Return the shards of counted terms, and compute the statistics of the corpus."""
        counted_as = canonical_hash({"analyser": ANALYSERS[self._analyser], "tantivy": version("tantivy")})
        shards = ShardFolder(folder, "npz", counted_as, 0, _SHARD_SIZE)
        self._filled = shards.fill(map(_with_text, passages), self._count_shard, progress)
        dimensions, n_passages = np.empty(0, np.uint32), np.empty(0, np.int64)
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

    def _count_shard(self, passages: Sequence[Passage]) -> bytes:
        """Return the terms of a shard's passages: their number, and the frequency of each."""
        counts = [self._counts(indexed_text(passage)) for passage in passages]
        file = io.BytesIO()
        np.savez(
            file,
            lengths=np.array([sum(terms.values()) for terms in counts], np.int64),
            ends=np.cumsum([len(terms) for terms in counts], dtype=np.int64),
            dimensions=np.array([dimension for terms in counts for dimension in sorted(terms)], np.uint32),
            frequencies=np.array([terms[dimension] for terms in counts for dimension in sorted(terms)], np.uint32),
        )
        return file.getvalue()

    def _counts(self, text: str) -> Counter[int]:
        return Counter(zlib.crc32(term.encode()) % _DIMENSIONS for term in self._terms(text))

    def key(self) -> str:
        """Return the hash of the weights."""
        return canonical_hash({"vectors": "bm25", "k1": K1, "b": B, "shards": seals(self._filled.paths)})

    def rows(self) -> Sequence[int]:
        """Return the indices of passages with at least one term. Engines refuse empty vectors, which match nothing."""
        rows: list[int] = self._rows.tolist()
        return rows

    def stored(self, first: int) -> Iterator[tuple[int, Vector]]:
        """Yield (index, dimension -> weight) from position `first` of `rows` on, with one shard in memory at a time."""
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
        """Return dimension -> weight of each text, without terms that are not in the corpus."""
        return [self._query(text) for text in texts]

    def _query(self, text: str) -> dict[int, float]:
        dimensions, n_passages = self._n_passages
        weights = {}
        for dimension, times in sorted(self._counts(text).items()):
            position = int(np.searchsorted(dimensions, dimension))
            if position < len(dimensions) and dimensions[position] == dimension:
                weights[dimension] = times * rarity(len(self._filled.ids), int(n_passages[position]))
        return weights

    def scores(self, query: Vector, rows: Sequence[int], engine_scores: Sequence[float]) -> list[float]:
        """Return the engine's own sums."""
        return list(engine_scores)


def _with_text(passage: Passage) -> Passage:
    """Return a passage with text "-" (not a term) instead of none: shards require a text, and `bm25` counts it."""
    return passage if passage.text.strip() else replace(passage, text="-")


def saturated(frequencies: NDArray[Any], lengths: NDArray[np.int64], average: float) -> NDArray[np.float32]:
    """Return the weight of each term of a passage, up to k1 + 1."""
    stored = _STORED_LENGTHS[np.searchsorted(_STORED_LENGTHS, lengths, side="right") - 1]
    tf = frequencies.astype(np.float64)
    return (tf * (K1 + 1) / (tf + K1 * (1 - B + B * stored / average))).astype(np.float32)


def rarity(n_corpus: int, n_holding: int) -> float:
    """Return Lucene's idf of a term in `n_holding` of `n_corpus` passages; above 0."""
    return float(np.log1p((n_corpus - n_holding + 0.5) / (n_holding + 0.5)))


def _read(path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint32]]:
    with np.load(path, allow_pickle=False) as arrays:
        return arrays["lengths"], arrays["ends"], arrays["dimensions"], arrays["frequencies"]


def _added(
    dimensions: NDArray[np.uint32], n_passages: NDArray[np.int64], more: NDArray[np.uint32]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return (dimensions, ascending; passages that contain each) including the counts of another shard."""
    terms, counts = np.unique(more, return_counts=True)
    merged, positions = np.unique(np.concatenate((dimensions, terms)), return_inverse=True)
    total = np.bincount(positions, weights=np.concatenate((n_passages, counts)), minlength=len(merged))
    return merged, total.astype(np.int64)
