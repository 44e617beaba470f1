"""What one server takes: which settings are sent, under which names, and how long a reply may be.

Servers that call themselves compatible refuse a temperature, a seed or the name of a limit. The first refusal is the
last one: the setting is left out, or renamed, for the rest of the call, and a note says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from ragtasks.clients._endpoint import Endpoint
from ragtasks.clients._protocol import Decoding, Outcome, Prompt, Reply
from ragtasks.clients.openai_api._completion import read_completion, split_thinking

_FORMAT = "response_format"
_LIMITS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}


@dataclass(frozen=True, slots=True)
class Wire:
    """What travels: where requests go, how they are built, how replies are read."""

    path: str
    """Where requests go, below the address; empty for the address itself."""
    dialect: Callable[[Endpoint, Decoding], Dialect]
    """Builds requests."""
    read: Callable[[bytes], Reply]
    """Body of a reply -> reply.

    Raises:
        ValueError: it is not JSON.
    """
    hint: str
    """What helps once nothing can be had any more."""


class Dialect:
    """Builds the requests to one server, and learns what it does not take."""

    def __init__(self, endpoint: Endpoint, decoding: Decoding) -> None:
        self._endpoint, self._decoding = endpoint, decoding
        self._left_out: set[str] = set()
        self._limit_name: str = endpoint.token_limit_there
        self._makes_room = endpoint.thinks

    @property
    def longest_reply(self) -> int:
        """Tokens that a reply may have, thinking included."""
        return self._decoding.max_tokens + (self._endpoint.thinking_tokens if self._makes_room else 0)

    def request(self, prompt: Prompt) -> dict[str, Any]:
        """Return the body of a request."""
        settings = {
            "temperature": self._decoding.temperature,
            "seed": self._decoding.seed,
            self._limit_name: self.longest_reply * prompt.longer,
            "reasoning_effort": self._endpoint.reasoning_effort,
            _FORMAT: self._format(prompt),
        }
        sent = {name: value for name, value in settings.items() if value is not None and name not in self._left_out}
        return {
            "model": self._endpoint.model_there,
            "messages": prompt.payload(),
            **sent,
            **self._endpoint.extra_fields,
            **prompt.body,
        }

    def _format(self, prompt: Prompt) -> dict[str, Any] | None:
        if not self._endpoint.structured or prompt.schema is None:
            return None
        return {"type": "json_schema", "json_schema": {"name": "reply", "schema": dict(prompt.schema)}}

    def adapt(self, setting: str, sent: Mapping[str, Any]) -> str | None:
        """Leave out or rename a setting that was refused.

        Returns:
            What is to be told, empty where it is known by now; None where nothing can be done about it.
        """
        if setting not in sent or setting in self._endpoint.extra_fields:
            return None
        if setting in self._left_out or (setting in _LIMITS and setting != self._limit_name):
            return ""  # refused while another request was on its way
        if setting in _LIMITS:
            other = _LIMITS[setting]
            if other in self._left_out:
                return None
            self._left_out.add(setting)
            self._limit_name = other
            return f"the server does not take {setting}: {other} is sent instead"
        self._left_out.add(setting)
        if setting == _FORMAT:
            return "the server does not take response_format: replies are free text, read as ever"
        return f"the server does not take {setting} as {sent[setting]}: it is left out, and the server's own holds"

    def make_room(self, reply: Reply, sent: Mapping[str, Any]) -> bool:
        """Return whether to ask again with room for thinking, which left none for the answer."""
        limit = sent.get(self._limit_name)
        was_small = isinstance(limit, int) and limit < self._decoding.max_tokens + self._endpoint.thinking_tokens
        if not was_small or self._limit_name in self._endpoint.extra_fields or not _thought_only(reply):
            return False
        self._makes_room = True
        return True

    def shrink(self) -> None:
        """Send the limit without room for thinking again: the server does not take the larger one."""
        self._makes_room = False


def _thought_only(reply: Reply) -> bool:
    """Return whether a reply reached its limit before the first word of its answer."""
    if reply.finish_reason != "length" or reply.outcome not in (Outcome.TRUNCATED, Outcome.EMPTY):
        return False
    return not _answer_begun(reply.raw)


def _answer_begun(raw: str) -> bool:
    """Return whether a completion holds the beginning of an answer."""
    try:
        content = orjson.loads(raw)["choices"][0]["message"].get("content")
    except (ValueError, LookupError, TypeError, AttributeError):
        return True
    return bool(isinstance(content, str) and split_thinking(content)[1])


CHAT = Wire(
    "/chat/completions",
    Dialect,
    read_completion,
    "Saved answers are scored without their model by `ragtasks judge RESULTS --output FOLDER`",
)
"""Chat completions, as language models are asked."""

__all__ = ["CHAT", "Dialect", "Wire"]
