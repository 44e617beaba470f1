"""A RAG system behind HTTP as a client: it is shown a conversation, and says an answer and what that rests on.

Everything about the way there is that of every endpoint: slots, limits, attempts, patience, and a key that comes from
the environment and goes to this server only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from ragtasks.clients._credentials import Secrets, credentials_for
from ragtasks.clients._endpoint import Endpoint, endpoint_of
from ragtasks.clients._protocol import Journal, Progress, Prompt, Reply, no_progress
from ragtasks.clients._system_reply import chat_contexts, plain_contexts, read_chat, read_plain
from ragtasks.clients.openai_api import Dialect, OpenAIClient, Wire
from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.files import parse_json
from ragtasks.records import Passage

_HINT = "Answers that came are kept: the same command asks only the rest"
_NAMED_ONLY = ("temperature", "max_tokens", "reasoning_effort")  # sent where the user says so: a system has its own


class SystemProtocol(str, Enum):
    """How a system is asked (docs/score-your-system.md)."""

    OPENAI = "openai"
    """Chat completions; the passages stand in a further field of the reply."""
    PLAIN = "plain"
    """`{"id", "messages"}` to the address itself; `{"answer", "contexts"}` back."""


class _ChatDialect(Dialect):
    """Sends model and messages, and what the user has named beside them."""

    def request(self, prompt: Prompt) -> dict[str, Any]:
        named = {key: getattr(self._endpoint, key) for key in _NAMED_ONLY}
        sent = {key: value for key, value in named.items() if value not in {None, "server"}}
        messages = {"model": self._endpoint.model_there, "messages": prompt.payload()}
        return {**messages, **sent, **self._endpoint.extra_fields}

    def make_room(self, reply: Reply, sent: Mapping[str, Any]) -> bool:
        return False


class _PlainDialect(_ChatDialect):
    """Sends id and messages, and what the user has named beside them."""

    def request(self, prompt: Prompt) -> dict[str, Any]:
        return {**prompt.body, "messages": prompt.payload(), **self._endpoint.extra_fields}


_WIRES = {
    SystemProtocol.OPENAI: Wire("/chat/completions", _ChatDialect, read_chat, _HINT),
    SystemProtocol.PLAIN: Wire("", _PlainDialect, read_plain, _HINT),
}


class SystemClient:
    """Asks one RAG system; a `Client`."""

    def __init__(self, endpoint: Endpoint, protocol: SystemProtocol, secrets: Secrets) -> None:
        """Name who is asked.

        Args:
            endpoint: address, limits and patience.
            protocol: what is sent and read.
            secrets: variable -> key.

        Raises:
            ConfigurationError: the variable that the endpoint names is not set.
        """
        self._endpoint, self._protocol = endpoint, protocol
        self._client = OpenAIClient(endpoint, credentials_for(endpoint, secrets), wire=_WIRES[protocol])

    @property
    def name(self) -> str:
        """The system's name."""
        return self._client.name

    @property
    def origin(self) -> str:
        """The address, without secrets."""
        return self._client.origin

    def describe(self) -> dict[str, Any]:
        """Return what decides its replies, as far as it is known here."""
        named = {key: getattr(self._endpoint, key) for key in _NAMED_ONLY}
        sent = {key: value for key, value in named.items() if value is not None}
        return {"model": self.name, "protocol": self._protocol.value, **sent, "extra_body": self._endpoint.extra_fields}

    def answer(
        self, prompts: Sequence[Prompt], progress: Progress = no_progress, journal: Journal | None = None
    ) -> list[Reply]:
        """Return one reply a prompt, in order (see `Client.answer`).

        Raises:
            JudgeError: nothing can be had from the system any more.
            MissingExtraError: `openai` or `aiohttp` is not installed.
        """
        return self._client.answer(prompts, progress, journal)

    def contexts(self, reply: Reply) -> tuple[Passage, ...] | None:
        """Return the passages that a reply names; None where it names none."""
        return chat_contexts(reply.raw) if self._protocol is SystemProtocol.OPENAI else plain_contexts(reply.raw)


def system_endpoint(named: Mapping[str, Any] | str, name: str, protocol: str) -> tuple[Endpoint, SystemProtocol]:
    """Return the endpoint of a system and its protocol.

    Args:
        named: an address, or an object with the keys of an endpoint (docs/endpoints.md), as such or as JSON; its
            `protocol` goes before the argument.
        name: the system's name where the object gives no `model`.
        protocol: `openai` or `plain`.

    Raises:
        ConfigurationError: an unknown key or protocol, or a value that does not fit. No value is shown.
    """
    if isinstance(named, str) and not named.lstrip().startswith("{"):
        named = {"base_url": named}
    fields = dict(_fields(named))
    chosen = str(fields.pop("protocol", protocol))
    known = [item.value for item in SystemProtocol]
    if chosen not in known:
        raise ConfigurationError(f"unknown protocol {chosen!r}: {close_matches(chosen, known)}")
    return endpoint_of({"model": name, **fields}), SystemProtocol(chosen)


def _fields(named: Mapping[str, Any] | str) -> Mapping[str, Any]:
    """Return the fields of an endpoint that is named by an object, as such or as JSON.

    Raises:
        ConfigurationError: it is not JSON. Nothing of it is shown.
    """
    if not isinstance(named, str):
        return named
    try:
        found = parse_json(named.encode())
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ConfigurationError("endpoint: expected an address, or a JSON object with base_url")
    return found


__all__ = ["SystemClient", "SystemProtocol", "system_endpoint"]
