"""Transport of one request and its reply, through the `openai` SDK on aiohttp; every error becomes a `Failure`.

Values that the SDK would read from the environment are set here, or removed before a request is sent. A key, a header
and an organization therefore reach only the server that they are meant for. Redirects are not followed.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any

import orjson

from ragtasks.clients._completion import early_end, usage_in, with_cause
from ragtasks.clients._credentials import Credentials
from ragtasks.clients._endpoint import Dialect, Endpoint
from ragtasks.clients._failures import Failure, failure_in_body, failure_of, redacted, unreadable
from ragtasks.clients._protocol import ChatMessage, Decoding, Prompt, Reply
from ragtasks.errors import ModelError, shortened_list
from ragtasks.requirements import importing

_LOGGER = logging.getLogger(__name__)

_PATHS = re.compile(r"/(?:chat/completions|completions|embeddings)/?(?:\?.*)?$")
"""Paths of requests below the base URL of a server."""
_MODELS_SECONDS, _MOST_MODELS, _MAX_NAME = 5.0, 5, 60
_NO_KEY = "no-key"  # servers without keys accept any; the SDK refuses to start without one
_SENT_HEADERS = frozenset(
    {"host", "accept", "accept-encoding", "connection", "content-type", "content-length", "user-agent"}
)


class Transport:
    """Connections to one endpoint, open inside an `async with` block."""

    def __init__(self, endpoint: Endpoint, credentials: Credentials, dialect: Dialect) -> None:
        self._endpoint, self._credentials, self._dialect = endpoint, credentials, dialect
        self._sdk = _sdk(endpoint, credentials)

    async def __aenter__(self) -> Transport:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._sdk.close()

    async def exchange(
        self, sent: Mapping[str, Any], patience_seconds: float
    ) -> tuple[Reply | Failure, Mapping[str, str]]:
        """Return the reply to one request or its failure, and the headers of the response."""
        try:
            # `post` instead of `chat.completions.create`: traversing the types of every request is a third of the SDK's
            # time, and the unparsed body is needed.
            sending = self._sdk.post(
                self._dialect.path or self._endpoint.address, cast_to=_http_library().Response, body=sent
            )
            # The SDK's timeout applies between two bytes; a server that sends slowly would never reach it.
            async with _time_limit(max(min(self._endpoint.longest_reply_seconds, patience_seconds), 0.001)):
                response = await sending
            body, headers = self._credentials.without_key(response.content), response.headers
        except Exception as error:  # noqa: BLE001 (an error in transit fails this request only)
            _LOGGER.debug("endpoint %s: %s", self._endpoint.model, type(error).__name__)
            failed = failure_of(error, self._credentials)
            return await self._with_listed_models(failed) if failed.is_unknown else failed, {}
        if failure := failure_in_body(body, headers, self._credentials):
            return replace(failure, usage=usage_in(orjson.loads(body))), headers
        try:
            return with_cause(self._dialect.read(body, sent), sent), headers
        except (ValueError, RecursionError):
            return unreadable(body, self._credentials), headers

    async def _with_listed_models(self, failure: Failure) -> Failure:
        """Return a failure with the models that the server lists, or with an address that lists some."""
        if not self._dialect.path:
            return replace(failure, next_step="correct the address")
        sent = self._endpoint.address if self._dialect.path.startswith("/") else self._dialect.path
        base = _PATHS.sub("", sent.rstrip("/"))
        if names := await self._models(base):
            reason = f"{failure.reason}; the server has {shortened_list(names, _MOST_MODELS)}"
            if self._endpoint.server_model not in names:
                return replace(failure, reason=reason, next_step="correct the model's name")
            right = redacted(f"{base}/chat/completions", self._credentials)
            example = "" if base != sent.rstrip("/") or self._dialect.path.startswith("/") else f", such as {right}"
            return replace(failure, next_step=f"correct the path of the address{example}")
        if not base.endswith("/v1") and await self._models(f"{base}/v1"):
            right = redacted(sent.replace(base, f"{base}/v1", 1), self._credentials)
            return replace(failure, next_step=f"add /v1 to the address: {right}")
        return failure

    async def _models(self, base: str) -> list[str]:
        try:
            async with _time_limit(_MODELS_SECONDS):
                response = await self._sdk.get(f"{base}/models", cast_to=_http_library().Response)
            names = [str(row["id"]) for row in orjson.loads(response.content)["data"]]
        except Exception:  # noqa: BLE001 (the list only improves a message)
            return []
        return [redacted(name, self._credentials, _MAX_NAME) for name in names]

    async def stream(self, sent: Mapping[str, Any]) -> AsyncIterator[str]:
        """Yield the parts of one reply as they arrive.

        Raises:
            ModelError: the reply ended early.
        """
        further = {name: value for name, value in sent.items() if name not in {"model", "messages"}}
        chunks = await self._sdk.chat.completions.create(
            model=sent["model"], messages=sent["messages"], stream=True, extra_body=further
        )
        async for chunk in chunks:
            choice = chunk.choices[0] if chunk.choices else None
            if choice and choice.delta.content:
                yield choice.delta.content
            if choice and (early := early_end({"finish_reason": choice.finish_reason})):
                raise ModelError(early[1])


def require_libraries() -> None:
    """Raise MissingExtraError if a library for endpoints is not installed."""
    for library in ("openai", "aiohttp"):
        with importing(library, "judge", "an OpenAI-compatible endpoint"):
            __import__(library)


def _time_limit(seconds: float) -> AbstractAsyncContextManager[Any]:
    """Return a context manager that raises TimeoutError; `asyncio.wait_for` would start a task for every request."""
    if sys.version_info >= (3, 11):
        return asyncio.timeout(seconds)
    else:  # noqa: RET505 (type checkers read on after an `if`)
        import async_timeout  # aiohttp installs it for Python versions without asyncio.timeout

        return async_timeout.timeout(seconds)


@cache
def _http_library() -> Any:
    import openai

    (name,) = {base.__module__.partition(".")[0] for base in openai.DefaultAioHttpClient.__mro__} & {"httpx", "httpx2"}
    return import_module(name)


@cache
def _certificates() -> Any:
    """Return the SDK's own TLS settings, read once per process: reading them takes as long as fifty requests."""
    return _http_library().create_ssl_context()


def _sdk(endpoint: Endpoint, credentials: Credentials) -> Any:
    """Return the SDK's client; every value that it would read from the environment is set here."""
    import openai

    http_client = openai.DefaultAioHttpClient(
        verify=_certificates() if credentials.checks_certificate else False,
        follow_redirects=False,  # a redirect would send key and prompts to another host
        event_hooks={"request": [_header_hook(endpoint, credentials)]},
    )
    options: dict[str, Any] = {
        "api_key": credentials.key or _NO_KEY,
        "max_retries": 0,
        "timeout": endpoint.longest_reply_seconds,
        "http_client": http_client,
    }
    if endpoint.api_version is not None:
        return openai.AsyncAzureOpenAI(
            azure_endpoint=endpoint.address,
            api_version=endpoint.api_version,
            azure_deployment=endpoint.server_model,
            **options,
        )
    return openai.AsyncOpenAI(base_url=endpoint.address, **options)


def _header_hook(endpoint: Endpoint, credentials: Credentials) -> Callable[[Any], Coroutine[Any, Any, None]]:
    """Return a hook that keeps only our headers: the SDK adds values of its own environment variables."""
    key = credentials.key or _NO_KEY
    ours = {"Authorization": f"Bearer {key}"} if endpoint.api_version is None else {"api-key": key}
    named = {"OpenAI-Organization": credentials.organization, "OpenAI-Project": credentials.project}
    ours = dict(credentials.headers) or ours | {name: value for name, value in named.items() if value}

    async def clean(request: Any) -> None:
        for name in set(request.headers.keys()):
            if name.lower() not in _SENT_HEADERS and not name.lower().startswith("x-stainless-"):
                del request.headers[name]
        request.headers.update(ours)

    return clean


async def stream_reply(
    endpoint: Endpoint, credentials: Credentials, messages: Sequence[ChatMessage]
) -> AsyncIterator[str]:
    """Yield the parts of the reply to a chat as they arrive; thinking that the server sends separately is left out."""
    require_libraries()
    dialect = Dialect(endpoint, Decoding())
    async with Transport(endpoint, credentials, dialect) as transport:
        try:
            async for part in transport.stream(dialect.request(Prompt(tuple(messages)))):
                yield part
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001 (any error in transit ends this reply only)
            raise ModelError(failure_of(error, credentials).reason) from None
