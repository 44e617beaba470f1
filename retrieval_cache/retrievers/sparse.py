"""Learned sparse retrieval (SPLADE and its kin): weights over a vocabulary, and an inverted index that is exact.

The passages' weights lie on disk in shards, as rows of a sparse matrix; in memory they are turned round, so that a
query touches only the passages that hold one of its terms.
"""

from __future__ import annotations

import hashlib
import io
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import numpy as np
import orjson
from numpy.typing import NDArray

from ragtasks.errors import (
    BenchmarkFileError,
    CacheError,
    ConfigurationError,
    MissingExtraError,
    RagtasksError,
)
from ragtasks.files import Ranked, Run, canonical_hash, in_rank_order, write_atomically
from ragtasks.records import Passage
from retrieval_cache.retrievers.protocol import Progress, canonical, no_progress
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
    passage_text,
    read_lengths,
    token_lengths,
)

_QUERIES = 64


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
    try:
        from scipy import sparse
    except ModuleNotFoundError as error:
        raise MissingExtraError("scipy", "dense", "learned sparse retrieval") from error
    return sparse


# ELSER, the MTRAG paper's own retriever (section 4, table 3): a learned sparse model that runs inside
# Elasticsearch.
# The user's cluster holds the model and the index; here passages are sent through an inference pipeline and queries
# asked. What has been sent is noted shard by shard, since every passage sent again costs the cluster an inference.

_FIELD = "tokens"
_WINDOW = 10_000
"""Elasticsearch's own limit on the hits of one search."""
_BUSY = (429, 502, 503, 504)


class ElserRetriever:
    """Ranks passages by ELSER's term weights, through the user's Elasticsearch cluster."""

    def __init__(
        self,
        url: str,
        index: str,
        *,
        model_id: str = ".elser_model_2",
        api_key: str | None = None,
        query_type: Literal["sparse_vector", "text_expansion"] = "sparse_vector",
        shard_size: int = 512,
        timeout_seconds: float = 120.0,
    ) -> None:
        """Name a cluster and an index; nothing is sent before it is needed."""
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
            raise ConfigurationError(
                "ELSER",
                where="url",
                expected="http(s)://HOST[:PORT], and the key given apart",
                found="a URL with credentials in it" if "@" in parts.netloc else repr(url),
                next_step="give the key as api_key",
            )
        self.url = url
        self.index_name = index
        self.model_id = model_id
        self._api_key = api_key
        self._query_type = query_type
        self._shard_size = shard_size
        self._timeout_seconds = timeout_seconds
        self._ready = False

    @property
    def name(self) -> str:
        """`elser:URL,index=INDEX,model_id=MODEL,query_type=TYPE`; never the key."""
        return canonical("elser", self.url, index=self.index_name, model_id=self.model_id, query_type=self._query_type)

    def describe(self) -> Mapping[str, Any]:
        """Return what decides the rankings; the cluster's address and the key do not."""
        return {"retriever": "elser", "model_id": self.model_id, "query_type": self._query_type}

    @cached_property
    def _client(self) -> Any:
        return _elasticsearch().Elasticsearch(
            self.url,
            api_key=self._api_key,
            request_timeout=self._timeout_seconds,
            max_retries=3,
            retry_on_status=_BUSY,
            retry_on_timeout=True,
        )

    def index(self, passages: Iterable[Passage], folder: Path, progress: Progress = no_progress) -> None:
        """Send a corpus through the inference pipeline, except for the shards that `folder` notes as sent."""
        self._ready = False
        with self._clearly("index"):
            if self._prepare():
                _forget(folder)
            n_passages = 0
            iterator = iter(passages)
            for number in itertools.count():
                shard = list(itertools.islice(iterator, self._shard_size))
                if not shard:
                    break
                self._send(number, shard, folder)
                n_passages += len(shard)
                progress("send passages", n_passages, None)
            self._client.indices.refresh(index=self.index_name)
            self._check_count(n_passages)
        self._ready = True

    def _prepare(self) -> bool:
        """Make the pipeline, and the index where there is none; return whether the index is new."""
        pipeline = f"{self.index_name}-elser"
        inference = {
            "model_id": self.model_id,
            "input_output": [{"input_field": "text", "output_field": _FIELD}],
        }
        self._client.ingest.put_pipeline(id=pipeline, processors=[{"inference": inference}])
        if self._client.indices.exists(index=self.index_name):
            return False
        fields = {"passage_id": {"type": "keyword"}, "text": {"type": "text"}, _FIELD: {"type": "sparse_vector"}}
        self._client.indices.create(
            index=self.index_name, settings={"default_pipeline": pipeline}, mappings={"properties": fields}
        )
        return True

    def _send(self, number: int, shard: Sequence[Passage], folder: Path) -> None:
        from elasticsearch.helpers import streaming_bulk

        for passage in shard:
            if not passage.text.strip():
                raise BenchmarkFileError(f"corpus: passage {passage.passage_id!r} has no text; remove it")
        note = folder / f"sent-{number:06d}.json"
        content = orjson.dumps({"index": self.index_name, "passages": self._shard_hash(shard)})
        if note.is_file() and note.read_bytes() == content:
            return
        # The passage's id is the document's, so sending it twice after a kill changes nothing.
        actions = (
            {
                "_index": self.index_name,
                "_id": passage.passage_id,
                "_source": {"passage_id": passage.passage_id, "text": passage_text(passage)},
            }
            for passage in shard
        )
        sent = streaming_bulk(self._client, actions, max_retries=3, raise_on_error=False)
        failures = [self._failure(item) for taken, item in sent if not taken]
        if failures:
            listed = [*failures[:5], *([f"and {len(failures) - 5} more"] if len(failures) > 5 else [])]
            raise RagtasksError(
                f"ELSER index {self.index_name}: {len(failures)} passages refused\n  " + "\n  ".join(listed)
            )
        write_atomically(note, content)

    def _shard_hash(self, shard: Sequence[Passage]) -> str:
        digest = hashlib.sha256(canonical_hash(self.describe()).encode())
        for passage in shard:
            digest.update(orjson.dumps([passage.passage_id, passage_text(passage)]))
        return digest.hexdigest()

    def _failure(self, item: Mapping[str, Any]) -> str:
        (result,) = item.values()
        error = result.get("error")
        reason = error.get("reason") if isinstance(error, dict) else error
        return self._without_key(f"{result.get('_id')}: {reason} (status {result.get('status')})")

    def _check_count(self, n_passages: int) -> None:
        found = int(self._client.count(index=self.index_name)["count"])
        if found != n_passages:
            raise CacheError(
                "ELSER index",
                where=self.index_name,
                expected=f"{n_passages} passages, as the corpus has",
                found=str(found),
                next_step="delete the index in the cluster, or name another, and index again",
            )

    def search(self, queries: Mapping[str, str], k: int, progress: Progress = no_progress) -> Run:
        """Return the best `k` passages of each query; an empty ranking for a query without text."""
        if not 1 <= k <= _WINDOW:
            raise ConfigurationError(f"k must be from 1 to {_WINDOW}, Elasticsearch's limit; found {k}")
        if not self._ready:
            raise CacheError(f"{self.name} was asked to search before it had a corpus; call index first")
        computed: dict[str, tuple[Ranked, ...]] = {}
        with self._clearly("search"):
            for number, text in enumerate(queries.values(), start=1):
                if text not in computed:
                    computed[text] = self._ranking(text, k) if text.strip() else ()
                progress("search", number, len(queries))
        return {query_id: computed[text] for query_id, text in queries.items()}

    def _ranking(self, text: str, k: int) -> tuple[Ranked, ...]:
        query: dict[str, Any] = (
            {"sparse_vector": {"field": _FIELD, "inference_id": self.model_id, "query": text}}
            if self._query_type == "sparse_vector"
            else {"text_expansion": {_FIELD: {"model_id": self.model_id, "model_text": text}}}
        )
        # Sorted in the cluster, so that which of many equal passages come back follows the rule for ties as well.
        order = [{"_score": "desc"}, {"passage_id": "desc"}]
        reply = self._client.search(index=self.index_name, query=query, sort=order, size=k, source=False)
        return in_rank_order(Ranked(hit["_id"], float(hit["_score"])) for hit in reply["hits"]["hits"])

    @contextmanager
    def _clearly(self, what: str) -> Iterator[None]:
        """Turn the client's errors into one of ours, from which the key is gone."""
        library = _elasticsearch()
        try:
            yield
        except (library.ApiError, library.TransportError, library.UnsupportedProductError) as error:
            raise RagtasksError(
                f"Elasticsearch {what}",
                where=f"{self.url}, index {self.index_name}",
                expected="a cluster that answers, with the model deployed",
                found=self._without_key(str(error)),
                next_step=_next_step(getattr(error, "status_code", None)),
            ) from None

    def _without_key(self, text: str) -> str:
        return text.replace(self._api_key, "***") if self._api_key else text


def _elasticsearch() -> Any:
    try:
        import elasticsearch
    except ModuleNotFoundError as error:
        raise MissingExtraError("elasticsearch", "elastic", "ELSER retrieval") from error
    return elasticsearch


def _forget(folder: Path) -> None:
    for note in folder.glob("sent-*"):
        note.unlink(missing_ok=True)


def _next_step(status: int | None) -> str:
    if status in {401, 403}:
        return "check the API key and its rights on the index"
    if status in {400, 404}:
        return "check the index and the model id; for a cluster before 8.15, query_type=text_expansion"
    return "check the address, and whether the cluster is up"
