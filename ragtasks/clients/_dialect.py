"""The requests that one server accepts: which settings are sent, under which names, and how long a reply may be.

Servers that call themselves compatible refuse a temperature, a seed, a role or the name of a limit. The first refusal
is the last one: the setting is left out, or renamed, from then on, and a note reports it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from ragtasks.clients._completion import parts_of, read_completion, text_and_thought
from ragtasks.clients._endpoint import Endpoint
from ragtasks.clients._protocol import Decoding, Outcome, Prompt, Reply
from ragtasks.thoughts import split_thought

_FORMAT = "response_format"
_LIMITS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
SYSTEM_ROLE = "system role"
"""What `Dialect.learned` calls the role of a message that a server may refuse."""


class Dialect:
    """Builds the requests to one server, reads its replies, and learns which settings it refuses."""

    path = "/chat/completions"
    """Where requests go, below the address; empty for the address itself."""
    hint = "Saved answers are scored without their model by `ragtasks score RESULTS --output FOLDER`"
    """What helps once the endpoint gives no replies any more."""

    def __init__(self, endpoint: Endpoint, decoding: Decoding) -> None:
        self._endpoint, self._decoding = endpoint, decoding
        self._makes_room = endpoint.thinks
        self.learned: dict[str, str | None] = {}
        """Setting that the server refused -> what is sent instead, None where it is left out."""

    @property
    def longest_reply(self) -> int:
        """Tokens that a reply may have, thinking included."""
        return self._decoding.max_tokens + (self._endpoint.thinking_tokens if self._makes_room else 0)

    def request(self, prompt: Prompt) -> dict[str, Any]:
        """Return the body of a request, without the settings that the server refused."""
        body = self._body(prompt)
        for refused, instead in self.learned.items():
            if refused == SYSTEM_ROLE:
                body["messages"] = without_system(body["messages"])
            elif refused in body:
                value = body.pop(refused)
                if instead is not None:
                    body[instead] = value
        return body

    def _body(self, prompt: Prompt) -> dict[str, Any]:
        """Return the body of a request to a server that accepts every setting."""
        settings = {
            "temperature": self._decoding.temperature,
            "seed": self._decoding.seed,
            self._endpoint.token_limit_there: self.longest_reply * prompt.longer,
            "reasoning_effort": self._endpoint.reasoning_effort,
            _FORMAT: self._format(prompt),
        }
        return {
            "model": self._endpoint.model_there,
            "messages": prompt.payload(),
            **{name: value for name, value in settings.items() if value is not None},
            **self._endpoint.extra_fields,
            **prompt.body,
        }

    def _format(self, prompt: Prompt) -> dict[str, Any] | None:
        if not self._endpoint.structured or prompt.schema is None:
            return None
        return {"type": "json_schema", "json_schema": {"name": "reply", "schema": dict(prompt.schema)}}

    def read(self, body: bytes, sent: Mapping[str, Any]) -> Reply:
        """Return the reply in the body of a response to the request `sent`.

        Raises:
            ValueError: it is not JSON.
        """
        return read_completion(body)

    def adapt(self, setting: str, sent: Mapping[str, Any]) -> str | None:
        """Leave out or rename a setting that was refused.

        Returns:
            A note for the user, empty where the setting was refused before; None where the request cannot be changed.
        """
        is_sent = has_system(sent) if setting == SYSTEM_ROLE else setting in sent
        if not is_sent or setting in self._endpoint.extra_fields:
            return None
        if setting in self.learned:
            return ""  # refused while another request was on its way
        instead = "user" if setting == SYSTEM_ROLE else _LIMITS.get(setting)
        if instead in self.learned:
            return None
        self.learned[setting] = instead
        if setting == SYSTEM_ROLE:
            change = "a system message: its text is sent before the first user message instead"
        elif instead is not None:
            change = f"{setting}: {instead} is sent instead"
        elif setting == _FORMAT:
            change = "response_format: replies are free text, read as ever"
        else:
            change = f"{setting} as {sent[setting]}: left out, the server's default applies"
        return f"the server does not take {change}"

    def make_room(self, reply: Reply, sent: Mapping[str, Any]) -> bool:
        """Return whether to ask again with room for thinking, which left none for the answer."""
        name = next((name for name in _LIMITS if name in sent), "")
        limit = sent.get(name)
        was_small = isinstance(limit, int) and limit < self._decoding.max_tokens + self._endpoint.thinking_tokens
        if not was_small or name in self._endpoint.extra_fields or not _thought_only(reply):
            return False
        self._makes_room = True
        return True

    def shrink(self) -> None:
        """Send the limit without room for thinking again: the server does not take the larger one."""
        self._makes_room = False


class GivenBodies(Dialect):
    """Sends the body of each prompt as it is, to the endpoint's address itself: another library builds the requests."""

    path = ""

    def _body(self, prompt: Prompt) -> dict[str, Any]:
        """Return a copy, in which half a character is `?`: no request can contain one."""
        body: dict[str, Any] = json.loads(json.dumps(prompt.body, ensure_ascii=False).encode(errors="replace"))
        return body

    def make_room(self, reply: Reply, sent: Mapping[str, Any]) -> bool:
        """Return False: the limit is the caller's."""
        return False


def has_system(body: Mapping[str, Any]) -> bool:
    """Return whether a request has a system message and a later message that could contain its text."""
    messages = body.get("messages") or []
    return len(messages) > 1 and messages[0].get("role") == "system"


def without_system(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return messages with the text of the system message before the first user message."""
    if not has_system({"messages": messages}):
        return list(messages)
    system, first, *rest = messages
    return [{**first, "content": f"{system['content']}\n\n{first['content']}"}, *rest]


def _thought_only(reply: Reply) -> bool:
    """Return whether a reply reached its limit before the first word of its answer."""
    try:
        message, _, _ = parts_of(orjson.loads(reply.raw))
        text, _ = text_and_thought(message.get("content"))
    except (ValueError, TypeError):
        return False
    return reply.outcome is Outcome.TRUNCATED and bool(message) and not split_thought(text)[1].strip()
