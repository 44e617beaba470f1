"""Any OpenAI-compatible endpoint as a client: OpenAI, Azure, a vLLM server.

Requests run concurrently through the `openai` SDK on aiohttp, whose overhead at 64 open requests is far below that of
the SDK's default transport. The SDK's own retries are off: limits, pauses and attempts are counted in one place.
Replies come in at any time and requests go out one a round of the event loop (see `Limiter`), so that work on one reply
holds back no other slot's next request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from ragtasks.clients._credentials import Credentials, is_open_to_others
from ragtasks.clients._endpoint import Endpoint, endpoint_of
from ragtasks.clients._protocol import Decoding, Journal, Progress, Prompt, Reply, no_progress
from ragtasks.clients._usage import Tally
from ragtasks.clients.openai_api._call import Call
from ragtasks.clients.openai_api._dialect import CHAT, Wire
from ragtasks.clients.openai_api._transport import Transport
from ragtasks.errors import MissingExtraError

_LOGGER = logging.getLogger(__name__)
_T = TypeVar("_T")


class OpenAIClient:
    """Answers prompts through one endpoint; holds no connection between calls."""

    def __init__(
        self,
        endpoint: Endpoint | str | Mapping[str, Any],
        credentials: Credentials | str | None = None,
        decoding: Decoding | None = None,
        wire: Wire = CHAT,
    ) -> None:
        """Name who is asked.

        Args:
            endpoint: address, model, limits; what it says of temperature and longest reply goes before `decoding`.
            credentials: what the endpoint is shown, see `credentials_for`; a text is its key.
            decoding: how replies are generated.
            wire: what travels, where it is no chat completion.

        Raises:
            ConfigurationError: an endpoint that cannot be read.
        """
        self._endpoint = endpoint if isinstance(endpoint, Endpoint) else endpoint_of(endpoint)
        given = credentials if isinstance(credentials, Credentials) else Credentials(credentials)
        self._credentials = given
        self._decoding = _decoding_of(self._endpoint, decoding or Decoding())
        self._wire = wire
        self._has_answered = False

    def __repr__(self) -> str:
        return f"OpenAIClient({self.name!r})"

    @property
    def name(self) -> str:
        """The model, as the endpoint was named."""
        return self._endpoint.model

    @property
    def origin(self) -> str:
        """What replies are kept by beside the description: the address, or nothing where they are shared."""
        return self._endpoint.origin

    def describe(self) -> dict[str, Any]:
        """Return model, decoding and what else is sent; neither key nor address, so that a server may move."""
        endpoint = self._endpoint
        further = {"reasoning_effort": endpoint.reasoning_effort, "extra_body": endpoint.extra_fields}
        sent: dict[str, Any] = {name: value for name, value in further.items() if value}
        if endpoint.thinking_tokens != Endpoint.model_fields["thinking_tokens"].default:
            sent["thinking_tokens"] = endpoint.thinking_tokens
        if endpoint.structured:
            sent["structured"] = True
        return {"model": self.name, "decoding": self._decoding.describe(), **sent}

    def answer(
        self, prompts: Sequence[Prompt], progress: Progress = no_progress, journal: Journal | None = None
    ) -> list[Reply]:
        """Return one reply a prompt, in order (see `Client.answer`).

        A prompt gives up, as FAILED, after `attempts` transport errors or `patience_seconds`; every other outcome is
        the server's word. A refusal because of a rate is no attempt: all requests go slower until it is let pass.

        Raises:
            JudgeError: wrong key, unknown model, no credit, a redirect, nothing but refusals because of a rate for
                `rate_limit_patience_seconds`, nobody at the address before anything was answered, nor later while a
                prompt used up its attempts, or nothing but failures until several did while others were still to be
                asked. Nothing more is sent then.
            MissingExtraError: `openai` or `aiohttp` is not installed.
        """
        if not prompts:
            return []
        _require_libraries()
        return _run(lambda: self._answer(prompts, progress, journal))

    async def _answer(self, prompts: Sequence[Prompt], progress: Progress, journal: Journal | None) -> list[Reply]:
        if is_open_to_others(self._endpoint.address):
            _warn_of_plain_http(self._endpoint.address)
        async with Transport(self._endpoint, self._credentials, self._wire) as transport:
            tally = Tally(self.name, len(prompts), progress)
            call = Call(
                transport,
                self._endpoint,
                self._decoding,
                self._wire,
                journal=journal,
                tally=tally,
                has_answered=self._has_answered,
            )
            try:
                return await call.answer(prompts)
            finally:
                self._has_answered = call.has_answered


def _decoding_of(endpoint: Endpoint, decoding: Decoding) -> Decoding:
    """Return how replies are generated where the endpoint says more than its caller."""
    if endpoint.max_tokens is not None:
        decoding = replace(decoding, max_tokens=endpoint.max_tokens)
    if endpoint.temperature is None:
        return decoding
    return replace(decoding, temperature=None if endpoint.temperature == "server" else endpoint.temperature)


@cache
def _warn_of_plain_http(address: str) -> None:
    """Warn once a process of an address whose requests others can read."""
    _LOGGER.warning("%s: prompts, and a key where there is one, go there unencrypted; use https", address)


def _require_libraries() -> None:
    for library in ("openai", "aiohttp"):
        try:
            __import__(library)
        except ImportError as error:
            raise MissingExtraError(library, "judge", "an OpenAI-compatible endpoint") from error


def _run(work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Return what `work` does on an event loop, in a thread of its own where this one has a loop (notebooks)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        has_loop = False
    else:
        has_loop = True
    if not has_loop:  # outside of the handler, whose exception would show as the cause of every later one
        return asyncio.run(work())
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(lambda: asyncio.run(work())).result()


__all__ = ["OpenAIClient"]
