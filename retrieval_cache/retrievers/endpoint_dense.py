"""Dense retrieval with an encoder behind an OpenAI-compatible server: `dense:openai/NAME`, `dense:NAME,base_url=...`.

Only the encoder differs from `DenseRetriever`: shards on disk, exact search and prompts are the same. Vectors are
cached by text in the file of replies, so a killed call, another query form or a corpus with the same texts does not
request them again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from ragtasks.clients import (
    BATCH_TEXTS,
    BATCH_TOKENS,
    Client,
    Endpoint,
    Outcome,
    Prompt,
    Secrets,
    Spending,
    Spent,
    Usage,
    encoder_endpoint_requirements,
    spent_on,
    summed_calls,
    usage_of,
    vector_in,
)
from ragtasks.errors import ModelError
from ragtasks.files import write_atomically
from ragtasks.progress import Progress, no_progress
from ragtasks.records import Passage
from ragtasks.requirements import Requirement
from retrieval_cache.retrievers.dense import DenseRetriever, Engine
from retrieval_cache.retrievers.encoders import Role
from retrieval_cache.retrievers.vectors import Filled

_KIND = "embedding"
"""Type of the texts in a reply cache."""
_IN_NAME = ("api_key_env", "api_version", "base_url", "extra_body", "shared_replies")
"""The fields of an endpoint that identify its vectors."""
_PROBE = "dimension"
ConnectEncoder = Callable[[Endpoint, int, int], Client]
"""(endpoint, maximum tokens per request, maximum texts per request) -> client of the encoder, with an optional
cache.
"""


class EndpointDenseRetriever(DenseRetriever):
    """Ranks passages by vectors of a server."""

    on_workers = False

    def __init__(
        self,
        endpoint: Endpoint,
        connect: ConnectEncoder,
        *,
        dimensions: int | None = None,
        query_prompt: str = "",
        passage_prompt: str = "",
        normalize: bool = True,
        batch_tokens: int = BATCH_TOKENS,
        batch_texts: int = BATCH_TEXTS,
        shard_size: int = 8192,
        engine: Engine | None = None,
    ) -> None:
        """Set the server's encoder, and optionally the width of its vectors; no request is sent yet."""
        super().__init__(
            endpoint.model,
            query_prompt=query_prompt or None,
            passage_prompt=passage_prompt or None,
            normalize=normalize,
            shard_size=shard_size,
            engine=engine,
        )
        self._endpoint, self._dimensions = endpoint, dimensions
        self._client = connect(_with_dimensions(endpoint, dimensions), batch_tokens, batch_texts)
        self._usage, self._n_tokens_before = Usage(), 0
        self._spent: list[dict[str, Any]] = []
        self._spent_on_index: list[dict[str, Any]] = []
        self._record: Path | None = None
        self._progress: Progress = no_progress
        self._served: set[str] = set()

    @property
    def _named_options(self) -> dict[str, Any]:
        """The options that change rankings or address the server."""
        names = self._endpoint.model_fields_set.intersection(_IN_NAME)
        fields = {field: getattr(self._endpoint, field) for field in names}
        return {**super()._named_options, **fields, "dimensions": self._dimensions}

    def requirements(self, secrets: Secrets) -> list[Requirement]:
        """Return the requirements: libraries, key and a reply of the server."""
        return encoder_endpoint_requirements(_with_dimensions(self._endpoint, self._dimensions), secrets)

    def index_bytes(self, n_passages: float, n_bytes: float) -> float:
        """Return the size of vectors and replies in bytes; 0 if their dimension is the server's default."""
        halves, replies = np.dtype(np.float16).itemsize, np.dtype(np.float32).itemsize * 4 / 3
        return n_passages * (self._dimensions or 0) * (halves + replies)

    @property
    def _described_encoder(self) -> dict[str, Any]:
        return {"encoder": {**self._client.describe(), "address": self._endpoint.origin}}

    @cached_property
    def dimension(self) -> int:
        """Width of the server's vectors."""
        return len(self._vectors([_PROBE])[0])

    @property
    def _prompts_in_force(self) -> tuple[str, str]:
        query_prompt, passage_prompt = self._prompts
        return query_prompt or "", passage_prompt or ""

    @property
    def _torch_device(self) -> str:
        return "cpu"

    def statistics(self) -> Mapping[str, Any]:
        """Return the numbers of tokens reported by the server, for this process and for cached vectors."""
        usage = self._usage
        counts: dict[str, Any] = {
            "asked": usage.n_asked,
            "cached": usage.n_cached,
            "tokens": usage.input_tokens,
            "tokens_of_cached": self._n_tokens_before,
        }
        return {"embeddings": {**counts, **({} if usage.cost is None else {"dollars": round(usage.cost, 6)})}}

    def spending(self) -> Spending:
        """Return the spending on all replies so far."""
        return {f"encoder {self.model}": self._spent} if self._spent else {}

    def fill(self, passages: Iterable[Passage], folder: Path, progress: Progress) -> Filled:
        """Return the vectors of a corpus; those missing in `folder` are requested."""
        self._progress, _ = progress, self.dimension  # the cost of earlier vectors does not belong to this index
        self._record = folder / "spent.json"
        earlier = orjson.loads(self._record.read_bytes()) if self._record.is_file() else []
        self._spent_on_index = [{**call, "spent": Spent.BEFORE.value} for call in earlier]
        self._spent = summed_calls([*self._spent, *self._spent_on_index])
        self._n_tokens_before += sum(call.get("input_tokens", 0) for call in earlier)
        filled = super().fill(passages, folder, progress)
        write_atomically(self._record, orjson.dumps(self._spent_on_index))
        self._record = None
        return filled

    def batches(self, passages: Sequence[Passage]) -> tuple[list[list[int]], set[int]]:
        """Return all positions as one batch: the client divides it and caches the replies."""
        return [list(range(len(passages)))], set()

    def encode_queries(self, texts: Sequence[str], done: Callable[[int], None]) -> tuple[NDArray[np.float32], int]:
        """Return the vectors of queries, stacked by row, and 0, because the server does not report truncated texts."""
        vectors = self._batch(texts, "query")
        done(len(texts))
        return vectors, 0

    def _batch(self, texts: Sequence[str], role: Role) -> NDArray[np.float32]:
        prompt = self._prompts_in_force[role == "passage"]
        vectors = self._vectors([prompt + text for text in texts])
        if self.normalize:
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return vectors

    def _vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the server's vectors of texts, stacked by row."""
        if self._record is not None:  # earlier shards are saved, with the spending of a killed process
            write_atomically(self._record, orjson.dumps(self._spent_on_index))
        replies = self._client.answer([Prompt.of(text, kind=_KIND) for text in texts], self._progress)
        self._usage = sum((usage_of(reply, self._endpoint.price) for reply in replies), self._usage)
        calls = spent_on(replies, self._endpoint.price)
        self._spent = summed_calls([*self._spent, *calls])
        self._spent_on_index = summed_calls([*self._spent_on_index, *calls])
        self._n_tokens_before += sum(
            reply.usage.input_tokens or 0 for reply in replies if reply.from_cache and not reply.is_shared
        )
        failed = [reply for reply in replies if reply.outcome is not Outcome.ANSWERED]
        if failed:
            text = texts[replies.index(failed[0])]
            problem = f"{len(failed)} without a vector; the first, {text[:60]!r}: {failed[0].reason}"
            raise self._refused(f"a vector for each of {len(texts)} texts", problem)
        self._served |= {reply.served_model for reply in replies} - {""}
        if len(self._served) > 1:
            names = " and of ".join(map(repr, sorted(self._served)))
            remove = f"`ragtasks data cache --model {self.model} --remove` removes all of them"
            raise self._refused("vectors of one model", f"vectors of {names}; {remove}")
        rows = [np.asarray(vector_in(reply.text or ""), np.float32) for reply in replies]
        width = self.__dict__.get("dimension", len(rows[0]))
        other_width = next((len(row) for row in rows if len(row) != width), None)
        if other_width is not None:
            raise self._refused(f"vectors of {width} dimensions, as before", f"one of {other_width}")
        return np.stack(rows)

    def _refused(self, expected: str, found: str) -> ModelError:
        return ModelError(
            "embeddings",
            where=f"{self.model} at {self._endpoint.address}",
            expected=expected,
            found=found,
            next_step="received vectors are saved; the same command requests the others. A text that is too long for "
            "the encoder must be cut into passages, a request that is too large requires batch_texts or batch_tokens",
        )


def _with_dimensions(endpoint: Endpoint, dimensions: int | None) -> Endpoint:
    """Return an endpoint whose requests contain the width of the vectors."""
    if dimensions is None:
        return endpoint
    fields = {**endpoint.extra_fields, "dimensions": dimensions}
    return endpoint.model_copy(update={"extra_body": json.dumps(fields, sort_keys=True)})
