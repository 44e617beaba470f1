"""Client of a RAG system behind HTTP: it sends a conversation, and returns the answer with its passages.

Slots, limits, attempts and timeouts are those of every endpoint. The key comes from the environment and is sent to this
server only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import Enum
from typing import Any

import orjson

from ragtasks.clients._completion import early_end, parts_of, text_and_thought, with_usage
from ragtasks.clients._credentials import Secrets, credentials_for
from ragtasks.clients._endpoint import Dialect, Endpoint, endpoint_of
from ragtasks.clients._openai_client import OpenAIClient
from ragtasks.clients._protocol import Outcome, Prompt, Reply
from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.files import contexts_and_steps, contexts_in, parse_json, usage_in_record
from ragtasks.records import Passage, Trajectory

# Parsing of a RAG system's reply: a text, and the passages that it is based on, if the system returns them. Chat
# servers with retrieval agree on the field of the answer and on nothing else. Passages are read from the fields that
# servers are known to use (list in docs/score-your-system.md); the first field with a list is used.

_FIELDS = ("contexts", "context", "citations", "sources")
_TEXTS = ("text", "content", "page_content")
_IDS = ("id", "passage_id", "document_id", "chunk_id", "filepath")
_MAX_LENGTH = 200


def read_plain(body: bytes) -> Reply:
    """Return the reply in `{"answer": text, "contexts": [...], "searches": [...]}`; MALFORMED in any other form."""
    content, raw = orjson.loads(body), body.decode("utf-8")
    if early := early_end(content):
        return Reply(early[0], reason=early[1], raw=raw)
    answer = content.get("answer") if isinstance(content, dict) else None
    if not isinstance(answer, str):
        reason = "the reply has no text as `answer`"
        if isinstance(content, dict) and content and "answer" not in content:
            reason = f"expected a reply with `answer`, a text, found the keys {', '.join(content)}"[:_MAX_LENGTH]
        return Reply(Outcome.MALFORMED, reason=reason, raw=raw)
    try:
        plain_contexts(raw)
    except ValueError as error:
        return _malformed(error, raw, "`contexts`: ")
    try:
        usage_in_record(content)
        contexts_and_steps(None, content.get("searches"))
    except ValueError as error:
        return _malformed(error, raw)
    return Reply(Outcome.ANSWERED, text=answer, raw=raw)


def _malformed(error: ValueError, raw: str, field: str = "") -> Reply:
    expected, found = error.args
    return Reply(Outcome.MALFORMED, reason=f"{field}expected {expected}, found {found}"[:_MAX_LENGTH], raw=raw)


def plain_contexts(raw: str) -> tuple[Passage, ...] | None:
    """Return the passages in a plain reply, or None if it has no `contexts`."""
    content = orjson.loads(raw)
    contexts = content.get("contexts") if isinstance(content, dict) else None
    return None if contexts is None else contexts_in(contexts)


def read_chat(body: bytes) -> Reply:
    """Return the reply in a chat completion; its text may contain thinking, which scoring removes."""
    content, raw = orjson.loads(body), body.decode("utf-8")
    if early := early_end(content):
        return with_usage(Reply(early[0], reason=early[1], raw=raw), content)
    message, _, _ = parts_of(content)
    try:
        contexts_and_steps(None, _chat_searches(content))
    except ValueError as error:
        return with_usage(_malformed(error, raw), content)
    if message.get("content") is not None:
        with suppress(TypeError):
            text, _ = text_and_thought(message["content"])
            return with_usage(Reply(Outcome.ANSWERED, text=text, raw=raw), content)
    reason = "the model refused" if message.get("refusal") else "the reply has no text as choices[0].message.content"
    return with_usage(Reply(Outcome.MALFORMED, reason=reason, raw=raw), content)


def chat_contexts(raw: str) -> tuple[Passage, ...] | None:
    """Return the passages in a chat completion: () for an empty list, None if no passage has a text."""
    for holder in parts_of(orjson.loads(raw)):
        for field in _FIELDS:
            sources = holder.get(field)
            if isinstance(sources, Mapping):  # Azure: message.context.citations
                sources = sources.get("citations")
            if (isinstance(sources, list) and (passages := tuple(_passages(sources, field)))) or sources == []:
                return passages if sources else ()
    return None


def _chat_searches(content: Any) -> Any:
    return next((holder["searches"] for holder in parts_of(content) if holder.get("searches") is not None), None)


def _passages(rows: list[Any], field: str) -> Iterator[Passage]:
    """Yield the passages of a list that have a text; a list of addresses has no texts."""
    for number, row in enumerate(rows, start=1):
        if isinstance(row, str) and field in {"contexts", "context"}:
            yield Passage(f"context-{number}", row)
        elif isinstance(row, dict):
            yield from _passages_in_row(row, number)


def _passages_in_row(row: Mapping[str, Any], number: int) -> Iterator[Passage]:
    texts = row.get("document")
    if isinstance(texts, list):  # Open WebUI: texts of one source under `document`
        yield from (Passage(f"context-{number}.{k}", text) for k, text in enumerate(texts, 1) if isinstance(text, str))
        return
    text = next((row[key] for key in _TEXTS if isinstance(row.get(key), str)), None)
    if text is not None:
        passage_id = next((row[key] for key in _IDS if isinstance(row.get(key), str) and row[key]), f"context-{number}")
        title = row.get("title")
        yield Passage(passage_id, text, title if isinstance(title, str) else "")


_OPTIONAL_SETTINGS = ("temperature", "max_tokens", "reasoning_effort")  # sent only if set by the user


class SystemProtocol(str, Enum):
    """Request format of a system (docs/score-your-system.md)."""

    OPENAI = "openai"
    """Chat completions; the passages are in a further field of the reply."""
    PLAIN = "plain"
    """`{"id", "messages"}` to the address itself; `{"answer", "contexts", "searches"}` back."""


class _ChatDialect(Dialect):
    can_make_room = False

    def _body(self, prompt: Prompt) -> dict[str, Any]:
        settings = {key: getattr(self._endpoint, key) for key in _OPTIONAL_SETTINGS}
        sent = {key: value for key, value in settings.items() if value not in {None, "server"}}
        messages = {"model": self._endpoint.server_model, "messages": prompt.payload()}
        return {**messages, **sent, **self._endpoint.extra_fields}

    def read(self, body: bytes, sent: Mapping[str, Any]) -> Reply:
        return read_chat(body)


class _PlainDialect(_ChatDialect):
    path = ""

    def _body(self, prompt: Prompt) -> dict[str, Any]:
        return {**prompt.body, "messages": prompt.payload(), **self._endpoint.extra_fields}

    def read(self, body: bytes, sent: Mapping[str, Any]) -> Reply:
        return read_plain(body)


_DIALECTS = {SystemProtocol.OPENAI: _ChatDialect, SystemProtocol.PLAIN: _PlainDialect}


class SystemClient(OpenAIClient):
    """Sends conversations to one RAG system."""

    def __init__(self, endpoint: Endpoint, protocol: SystemProtocol, secrets: Secrets) -> None:
        super().__init__(endpoint, credentials_for(endpoint, secrets), dialect=_DIALECTS[protocol])
        self._protocol = protocol

    def describe(self) -> dict[str, Any]:
        """Return the settings of requests that determine replies; the system's internal settings are unknown."""
        settings = {key: getattr(self._endpoint, key) for key in _OPTIONAL_SETTINGS}
        sent = {key: value for key, value in settings.items() if value is not None}
        return {"model": self.name, "protocol": self._protocol.value, **sent, "extra_body": self._endpoint.extra_fields}

    def used(self, reply: Reply) -> tuple[tuple[Passage, ...] | None, Trajectory | None]:
        """Return the passages and the searches in a reply, None for each that is missing."""
        content = orjson.loads(reply.raw)
        if self._protocol is SystemProtocol.OPENAI:
            return contexts_and_steps(chat_contexts(reply.raw), _chat_searches(content))
        return contexts_and_steps(plain_contexts(reply.raw), content.get("searches"))

    def usage(self, reply: Reply) -> dict[str, float]:
        """Return the usage that a system reports for an answer by the plain protocol; {} for other replies."""
        is_plain = self._protocol is SystemProtocol.PLAIN and reply.outcome is Outcome.ANSWERED
        return usage_in_record(orjson.loads(reply.raw)) if is_plain else {}


def system_endpoint(named: Mapping[str, Any] | str, name: str, protocol: str) -> tuple[Endpoint, SystemProtocol]:
    """Return the endpoint of a system and its protocol.

    Raises:
        ConfigurationError: the protocol is unknown, or the description is invalid.
    """
    if isinstance(named, str) and not named.lstrip().startswith("{"):
        named = {"base_url": named}
    fields = dict(_fields(named))
    chosen = str(fields.pop("protocol", protocol))
    protocols = [member.value for member in SystemProtocol]
    if chosen not in protocols:
        raise ConfigurationError(f"unknown protocol {chosen!r}: {close_matches(chosen, protocols)}")
    return endpoint_of({"model": name, **fields}), SystemProtocol(chosen)


def _fields(named: Mapping[str, Any] | str) -> Mapping[str, Any]:
    if not isinstance(named, str):
        return named
    try:
        fields = parse_json(named.encode())
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise ConfigurationError("endpoint: expected an address, or a JSON object with base_url")
    return fields
