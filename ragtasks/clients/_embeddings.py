"""Embeddings of an OpenAI-compatible server: a client whose prompts are texts and whose replies are vectors.

A request contains many texts, but each text has its own reply, and so its own row in a reply cache. A cached text is
not sent again, whichever texts are requested with it the next time. Limits, attempts, failures and keys are handled as
for every endpoint.
"""

from __future__ import annotations

import base64
import json
import math
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import orjson

from ragtasks.clients._completion import early_end, missing_in, usage_in
from ragtasks.clients._credentials import Credentials
from ragtasks.clients._endpoint import Dialect, Endpoint
from ragtasks.clients._openai_client import OpenAIClient
from ragtasks.clients._protocol import UNCOUNTED, Journal, Outcome, Prompt, Reply
from ragtasks.progress import Progress, no_progress
from ragtasks.tables import plain

BATCH_TOKENS, BATCH_TEXTS = 8192, 32
"""Maximum tokens (estimated) and texts per request; several servers accept at most 32 texts."""
_CHARACTERS_PER_TOKEN = 4
_NO_WORD = re.compile(r"[\W_]+")
_MAX_LENGTH, _FEW = 200, 5


class _TextsDialect(Dialect):
    """Sends the model, the texts and the user's further fields; reads vectors."""

    path = "/embeddings"
    can_make_room = False

    @property
    def longest_reply(self) -> int:
        """Return 0: vectors use no reply tokens."""
        return 0

    def _body(self, prompt: Prompt) -> dict[str, Any]:
        texts = [message["content"] for message in prompt.payload()]
        return {"model": self._endpoint.server_model, "input": texts, **self._endpoint.extra_fields}

    def read(self, body: bytes, sent: Any) -> Reply:
        return read_vectors(body)


def read_vectors(body: bytes) -> Reply:
    """Return the vectors in a reply's body as a reply whose text is a JSON list; `vector_in` decodes each element.

    Raises:
        ValueError: the body is not JSON.
    """
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        content = json.loads(body)  # accepts NaN, which `_encoded` refuses
    if early := early_end(content):
        return Reply(early[0], reason=early[1])
    try:
        rows = {row.get("index"): row for row in content["data"] if type(row.get("index")) is int}
        if rows.keys() != set(range(len(content["data"]))):
            indexes = [row.get("index") for row in content["data"]]
            raise ValueError(f"expected each `index` from 0 to {len(indexes) - 1} once, found {indexes[:_FEW]}")
        texts = [_encoded(rows[n]["embedding"]) for n in range(len(rows))]
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
        return Reply(Outcome.MALFORMED, reason=f"no list of vectors: {missing_in(content, error)}")
    model = content.get("model")
    return Reply(
        Outcome.ANSWERED,
        text=orjson.dumps(texts).decode(),
        usage=replace(usage_in(content), output_tokens=0),
        served_model=model[:_MAX_LENGTH] if isinstance(model, str) else "",
    )


def _encoded(vector: Any) -> str:
    """Return a vector as base64 of 32-bit floats; servers send a list of numbers, or base64."""
    numbers = array("f", base64.b64decode(vector, validate=True)) if isinstance(vector, str) else array("f", vector)
    if not any(numbers) or not all(map(math.isfinite, numbers)):
        raise ValueError("a vector that is empty or all zeros, or with numbers that are not finite")
    return base64.b64encode(numbers.tobytes()).decode()


def vector_in(text: str) -> array[float]:
    """Return the vector in the text of a reply, as 32-bit floats."""
    return array("f", base64.b64decode(text))


class EmbeddingClient(OpenAIClient):
    """Returns the vectors of texts through one endpoint."""

    def __init__(
        self,
        endpoint: Endpoint,
        credentials: Credentials | None = None,
        *,
        batch_tokens: int = BATCH_TOKENS,
        batch_texts: int = BATCH_TEXTS,
    ) -> None:
        super().__init__(endpoint, credentials, dialect=_TextsDialect)
        self._batch_limits = batch_tokens, batch_texts
        self.dimensions = endpoint.extra_fields.get("dimensions")
        self.first: tuple[str, str, str] | None = None
        """Model, text and vector of the first valid reply."""

    def describe(self) -> dict[str, Any]:
        """Return the settings that determine the vectors."""
        extra = self._endpoint.extra_fields
        return {"model": self.name, "reply": "embedding", **({"extra_body": extra} if extra else {})}

    def answer(
        self, prompts: Sequence[Prompt], progress: Progress = no_progress, journal: Journal | None = None
    ) -> list[Reply]:
        """Return one reply per prompt, in order (see `Client.answer`).

        The text of a reply is a vector (see `vector_in`). The usage of a request is recorded in the reply to its first
        text that had no reply before.
        """
        batches = list(self._batches(prompts))
        batch_journal = _BatchJournal(self, prompts, batches, journal)

        def counted(note: str, _done: int, _total: int | None) -> None:
            progress(note, len(batch_journal.replies), len(prompts))

        joined = [Prompt(tuple(prompts[index].messages[-1] for index in batch)) for batch in batches]
        super().answer(joined, counted, batch_journal)
        return [batch_journal.replies[index] for index in range(len(prompts))]

    def _batches(self, prompts: Sequence[Prompt]) -> Iterator[list[int]]:
        """Yield the indexes of the prompts sent together; a text above the limit is sent alone."""
        most_tokens, most_texts = self._batch_limits
        batch: list[int] = []
        n_tokens = 0
        for index, prompt in enumerate(prompts):
            n_more = 1 + len(prompt.messages[-1].content) // _CHARACTERS_PER_TOKEN
            if batch and (len(batch) == most_texts or n_tokens + n_more > most_tokens):
                yield batch
                batch, n_tokens = [], 0
            batch.append(index)
            n_tokens += n_more
        if batch:
            yield batch


class _BatchJournal:
    """Journal of the underlying client: splits the reply to a request into a reply per text."""

    def __init__(
        self,
        client: EmbeddingClient,
        prompts: Sequence[Prompt],
        batches: Sequence[Sequence[int]],
        journal: Journal | None,
    ) -> None:
        self._client, self._prompts, self._batches, self._journal = client, prompts, batches, journal
        self.replies: dict[int, Reply] = {}

    def recall(self, index: int) -> Reply | None:
        """Return the reply to the first text of a request if all its texts have replies, else None."""
        prompt_indexes = self._batches[index]
        if self._journal is not None:
            replies = ((prompt_index, self._journal.recall(prompt_index)) for prompt_index in prompt_indexes)
            self.replies.update((prompt_index, reply) for prompt_index, reply in replies if reply is not None)
        return self.replies[prompt_indexes[0]] if self.replies.keys() >= {*prompt_indexes} else None

    def record(self, index: int, reply: Reply) -> None:
        """Store the replies to the texts of a request that had no reply yet."""
        prompt_indexes = self._batches[index]
        texts = [self._prompts[prompt_index].messages[-1].content for prompt_index in prompt_indexes]
        parts = dict(zip(prompt_indexes, self._parts(reply, texts), strict=True))
        # The usage of the request is recorded with the first of these texts.
        first, *later = (prompt_index for prompt_index in prompt_indexes if prompt_index not in self.replies)
        for prompt_index in (first, *later):
            part = (
                parts[prompt_index]
                if prompt_index == first
                else replace(parts[prompt_index], usage=UNCOUNTED, unused=())
            )
            self.replies[prompt_index] = part
            if self._journal is not None:
                self._journal.record(prompt_index, part)

    def _parts(self, reply: Reply, texts: Sequence[str]) -> list[Reply]:
        vectors = orjson.loads(reply.text) if reply.text is not None else []
        reason = self._vector_problem(vectors, texts, reply.served_model) if reply.text is not None else ""
        if reason or reply.text is None:
            outcome = Outcome.MALFORMED if reason else reply.outcome
            return [replace(reply, outcome=outcome, text=None, reason=reason or reply.reason)] * len(texts)
        self._client.first = self._client.first or (reply.served_model, texts[0], vectors[0])
        return [replace(reply, text=vector) for vector in vectors]

    def _vector_problem(self, vectors: Sequence[str], texts: Sequence[str], model: str) -> str:
        """Return the problem with the vectors of a request, empty if they are valid."""
        if len(vectors) != len(texts):
            return f"{len(vectors)} vectors for {len(texts)} texts"
        first_model, text, vector = self._client.first or (model, texts[0], vectors[0])
        if first_model != model and first_model and model:
            return f"a vector of the model {plain(model)!r}, after vectors of {plain(first_model)!r}"
        widths = sorted({len(vector_in(each)) for each in [vector, *vectors]})
        if len(widths) > 1:
            return f"vectors of {widths[0]} and of {widths[-1]} dimensions"
        if self._client.dimensions not in {None, widths[0]}:
            return f"{self._client.dimensions} dimensions were requested, and the vectors have {widths[0]}"
        for group_texts, group_vectors in (texts, vectors), ([text, *texts], [vector, *vectors]):
            n_texts = len({_NO_WORD.sub("", each.casefold())[:_MAX_LENGTH] for each in group_texts})
            if n_texts > 1 and len(set(group_vectors)) == 1:  # encoders ignore case, and the end of a long text
                return f"the same vector for {n_texts} different texts"
        return ""
