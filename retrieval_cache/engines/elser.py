"""ELSER, the MTRAG paper's own retriever (section 4, table 3): a learned sparse model in Elasticsearch.

The user's cluster stores the model and the index. Passages go through an inference pipeline; queries are sent as text.
Sent shards are recorded, because every passage sent again costs the cluster an inference.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

import orjson

from ragtasks.clients import Secrets
from ragtasks.errors import CacheError, ConfigurationError, RagtasksError
from ragtasks.files import Ranked, Run, canonical_hash, in_rank_order, write_atomically
from ragtasks.progress import Progress, no_progress
from ragtasks.records import Passage
from ragtasks.requirements import Requirement, importing, library
from retrieval_cache.retrievers.encoders import passage_text
from retrieval_cache.retrievers.protocol import canonical, not_indexed
from retrieval_cache.retrievers.vectors import chunks

_FIELD = "tokens"
_WINDOW = 10_000
"""Elasticsearch's limit on the hits of one search."""
_BUSY = (429, 502, 503, 504)


class ElserRetriever:
    """Ranks passages by ELSER's term weights in the user's Elasticsearch cluster."""

    key_variables: ClassVar[Mapping[str, str]] = {"api_key": "ELASTIC_API_KEY"}

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
        """Set cluster and index; no request is sent yet."""
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
            raise ConfigurationError(
                "ELSER",
                where="url",
                expected="http(s)://HOST[:PORT], with the key as a separate option",
                found="a URL with credentials" if "@" in parts.netloc else repr(url),
                next_step="set the key as api_key",
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
        """`elser:URL,index=INDEX,model_id=MODEL,query_type=TYPE`, never with the key."""
        return canonical("elser", self.url, index=self.index_name, model_id=self.model_id, query_type=self._query_type)

    def requirements(self, secrets: Secrets) -> list[Requirement]:
        """Return the requirements: the client library."""
        return [library("elasticsearch", "elastic", "ELSER retrieval")]

    def index_bytes(self, n_passages: float, n_bytes: float) -> float:
        """Return 0: the index is stored in the cluster."""
        return 0.0

    def describe(self) -> Mapping[str, Any]:
        """Return the inputs that determine the rankings, without the cluster's address and key."""
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
        """Send a corpus through the inference pipeline, except shards recorded in `folder` as sent."""
        self._ready = False
        with self._reporting("index"):
            if self._prepare():
                for note in folder.glob("sent-*"):
                    note.unlink(missing_ok=True)
            n_passages = 0
            for number, shard in enumerate(chunks(passages, self._shard_size)):
                self._send(number, shard, folder)
                n_passages += len(shard)
                progress("send passages", n_passages, None)
            self._client.indices.refresh(index=self.index_name)
            n_stored = int(self._client.count(index=self.index_name)["count"])
            if n_stored != n_passages:
                raise CacheError(
                    "ELSER index",
                    where=self.index_name,
                    expected=f"{n_passages} passages, as the corpus has",
                    found=str(n_stored),
                    next_step="delete the index in the cluster, or name another, and index again",
                )
        self._ready = True

    def _prepare(self) -> bool:
        """Create the pipeline, and the index if missing; return whether the index is new."""
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

        note = folder / f"sent-{number:06d}.json"
        content = orjson.dumps({"index": self.index_name, "passages": self._shard_hash(shard)})
        if note.is_file() and note.read_bytes() == content:
            return
        # Passage ids are document ids, so sending a passage again after a kill changes nothing.
        actions = (
            {
                "_index": self.index_name,
                "_id": passage.passage_id,
                "_source": {"passage_id": passage.passage_id, "text": passage_text(passage)},
            }
            for passage in shard
        )
        sent = streaming_bulk(self._client, actions, max_retries=3, raise_on_error=False)
        failures = [self._failure(answer) for taken, answer in sent if not taken]
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

    def _failure(self, answer: Mapping[str, Any]) -> str:
        (result,) = answer.values()
        error = result.get("error")
        reason = error.get("reason") if isinstance(error, dict) else error
        return self._without_key(f"{result.get('_id')}: {reason} (status {result.get('status')})")

    def search(self, queries: Mapping[str, str], k: int, progress: Progress = no_progress) -> Run:
        """Return the best `k` passages of each query; an empty ranking for a query without text."""
        if not 1 <= k <= _WINDOW:
            raise ConfigurationError(f"k must be from 1 to {_WINDOW}, Elasticsearch's limit; found {k}")
        if not self._ready:
            raise not_indexed(self.name)
        computed: dict[str, tuple[Ranked, ...]] = {}
        with self._reporting("search"):
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
        # Sorted in the cluster, so that the selection among equal passages follows the rule for ties.
        order = [{"_score": "desc"}, {"passage_id": "desc"}]
        reply = self._client.search(index=self.index_name, query=query, sort=order, size=k, source=False)
        return in_rank_order(Ranked(hit["_id"], float(hit["_score"])) for hit in reply["hits"]["hits"])

    @contextmanager
    def _reporting(self, part: str) -> Iterator[None]:
        """Re-raise the client's errors as a `RagtasksError` without the key."""
        library = _elasticsearch()
        try:
            yield
        except (library.ApiError, library.TransportError, library.UnsupportedProductError) as error:
            raise RagtasksError(
                f"Elasticsearch {part}",
                where=f"{self.url}, index {self.index_name}",
                expected="a cluster that answers, with the model deployed",
                found=self._without_key(str(error)),
                next_step=_next_step(getattr(error, "status_code", None)),
            ) from None

    def _without_key(self, text: str) -> str:
        return text.replace(self._api_key, "***") if self._api_key else text


def _elasticsearch() -> Any:
    with importing("elasticsearch", "elastic", "ELSER retrieval"):
        import elasticsearch
    return elasticsearch


def _next_step(status: int | None) -> str:
    if status in {401, 403}:
        return "check the API key and its rights on the index"
    if status in {400, 404}:
        return "check the index and the model id; for a cluster before 8.15, query_type=text_expansion"
    return "check the address and that the cluster is running"
