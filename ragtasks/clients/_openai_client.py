"""OpenAI-compatible endpoints: one client over requests, dialects, limits, failures and streams."""

from __future__ import annotations

import asyncio
import logging
import random
import re
import sys
import threading
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from copy import copy
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import cache
from importlib import import_module
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

import orjson

from ragtasks.clients._endpoint import Credentials, Endpoint, endpoint_of, is_open_to_others
from ragtasks.clients._limits import NO_HINTS, Limiter, RateHints, rate_hints
from ragtasks.clients._openai_dialect import (
    SYSTEM_ROLE,
    Dialect,
    GivenBodies,
    early_end,
    error_in,
    error_text,
    usage_in,
)
from ragtasks.clients._protocol import (
    CallUsage,
    Chain,
    ChatMessage,
    Continuation,
    Decoding,
    Journal,
    Outcome,
    Progress,
    Prompt,
    Reply,
    Tally,
    calls_of,
    no_progress,
)
from ragtasks.errors import JudgeError, ModelError
from ragtasks.requirements import importing

# Any OpenAI-compatible endpoint as a client: OpenAI, Azure, a vLLM server.
# Requests run concurrently through the `openai` SDK on aiohttp, whose overhead at 64 open requests is far below
# that of the SDK's default transport. The SDK's own retries are off: limits, pauses and attempts are counted in one
# place. Replies come in at any time and requests go out one a round of the event loop (see `Limiter`), so that work
# on one reply holds back no other slot's next request.

_LOGGER = logging.getLogger(__name__)
_T = TypeVar("_T")
_PROBE_SECONDS = 20.0


class OpenAIClient:
    """Answers prompts through one endpoint; holds no connection between calls."""

    def __init__(
        self,
        endpoint: Endpoint | str | Mapping[str, Any],
        credentials: Credentials | str | None = None,
        decoding: Decoding | None = None,
        dialect: Callable[[Endpoint, Decoding], Dialect] = Dialect,
    ) -> None:
        self._endpoint = endpoint if isinstance(endpoint, Endpoint) else endpoint_of(endpoint)
        given = credentials if isinstance(credentials, Credentials) else Credentials(credentials)
        self._credentials = given
        self._decoding = _decoding_of(self._endpoint, decoding or Decoding())
        self._dialect = dialect(self._endpoint, self._decoding)
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

    @property
    def learned(self) -> Mapping[str, str | None]:
        """Settings that the server refused -> what is sent instead, None where nothing is; no part of any cache key."""
        return self._dialect.learned

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
        """
        if not prompts:
            return []
        _require_libraries()
        return _run_async(lambda: self._answer(prompts, progress, journal))

    def probe(self, prompt: Prompt, seconds: float = _PROBE_SECONDS) -> Reply:
        """Return the reply to a request that is sent once and waited for `seconds`; FAILED where there is none."""
        hasty = copy(self)
        waits = dict.fromkeys(("timeout_seconds", "patience_seconds"), seconds)
        hasty._endpoint = self._endpoint.model_copy(update={"attempts": 1, "rate_limit_patience_seconds": 1.0, **waits})
        try:
            (reply,) = hasty.answer([prompt])
        except JudgeError as error:
            return Reply(Outcome.FAILED, reason=error.found)
        return reply

    async def _answer(self, prompts: Sequence[Prompt], progress: Progress, journal: Journal | None) -> list[Reply]:
        if is_open_to_others(self._endpoint.address):
            _warn_of_plain_http(self._endpoint.address)
        async with Transport(self._endpoint, self._credentials, self._dialect) as transport:
            tally = Tally(self.name, len(prompts), progress)
            call = Call(
                transport,
                self._endpoint,
                self._dialect,
                journal=journal,
                tally=tally,
                has_answered=self._has_answered,
            )
            try:
                return await call.answer(prompts)
            finally:
                self._has_answered = call.has_answered


def model_client(
    name: str,
    address: str,
    headers: Mapping[str, str],
    dialect: Callable[[Endpoint, Decoding], GivenBodies] = GivenBodies,
    *,
    checks_certificate: bool = True,
    **limits: Any,
) -> OpenAIClient:
    """Return a client of a model under test, for prompts whose `body` is the complete request.

    Args:
        name: the model's name.
        address: where requests go, with path and query; a login in it is sent as a header.
        headers: what the server is shown instead of a key.
        dialect: reads the replies.
        checks_certificate: whether the server's certificate must be valid.
        limits: further fields of the `Endpoint`, such as `slots`.
    """
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    endpoint = endpoint_of({"model": name, "base_url": urlunsplit((parts.scheme, host, parts.path, "", "")), **limits})
    if parts.username:
        login = b64encode(f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()).decode()
        headers = {**headers, "Authorization": f"Basic {login}"}
    credentials = Credentials(headers=headers, checks_certificate=checks_certificate)
    client = OpenAIClient(endpoint, credentials, dialect=dialect)
    client._dialect.path = parts._replace(netloc=host).geturl()
    return client


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
    """Raise what to install where a library of endpoints is missing."""
    for library in ("openai", "aiohttp"):
        with importing(library, "judge", "an OpenAI-compatible endpoint"):
            __import__(library)


def _run_async(work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
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


# One call of an endpoint: limits, pauses and attempts of all its prompts, counted in one place.

_CHARACTERS_PER_TOKEN = 4
_ENOUGH_FAILED = 3  # one prompt that a server stumbles over says nothing about the others
_WAITS_FOR_A_START = 4  # by default 4 to 8 seconds in all: what a small server takes to start listening


@dataclass(slots=True)
class _Patience:
    """What one prompt has used up so far."""

    n_attempts: int = 0
    seconds: float = 0.0
    unused: list[CallUsage] = field(default_factory=list)
    refused_since: float | None = None


class Call:
    """The state of one `answer`: it ends with the call, so two calls share nothing."""

    def __init__(
        self,
        transport: Transport,
        endpoint: Endpoint,
        dialect: Dialect,
        *,
        journal: Journal | None,
        tally: Tally,
        has_answered: bool = False,
    ) -> None:
        self._transport, self._endpoint, self._dialect = transport, endpoint, dialect
        self._journal, self._tally = journal, tally
        self._chain: Chain | None = journal if isinstance(journal, Chain) else None
        self._continuation: Continuation | None = journal if isinstance(journal, Continuation) else None
        self._slots = asyncio.Semaphore(endpoint.slots)
        self._limiter = Limiter(endpoint.requests_per_minute, endpoint.tokens_per_minute)
        self._hold_ups = HoldUps(endpoint)
        self._replies: dict[int, Reply] = {}
        self._n_prompts = self._n_begun = self._n_collected = self._n_failed = 0
        self.has_answered = has_answered
        """Whether a server was ever there: one that was not is given a few seconds to start, no more."""

    async def answer(self, prompts: Sequence[Prompt]) -> list[Reply]:
        self._n_prompts = len(prompts)
        waiting = iter(enumerate(prompts))
        n_workers = len(prompts) if self._continuation else min(self._endpoint.slots, len(prompts))
        workers = [asyncio.ensure_future(self._work(waiting)) for _ in range(n_workers)]
        watch = asyncio.ensure_future(self._hold_ups.watch(self._limiter, self._tally))
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in (*workers, watch):
                worker.cancel()
            await asyncio.gather(*workers, watch, return_exceptions=True)
        return [self._replies[index] for index in range(len(prompts))]

    async def _work(self, waiting: Iterator[tuple[int, Prompt]]) -> None:
        for index, first in waiting:
            prompt: Prompt | None = first
            while prompt is not None:
                reply = self._journal.recall(index) if self._journal else None
                if reply is None:
                    async with self._slots:
                        self._n_begun += 1
                        reply = await self._ask(prompt)
                    if self._journal:
                        self._journal.record(index, reply)
                else:
                    self._n_begun += 1
                self._replies[index] = reply
                self._tally.add(reply)
                prompt = await self._following(index)

    async def _following(self, index: int) -> Prompt | None:
        """Return what follows from the reply to a prompt."""
        prompt = None
        if self._continuation is not None:
            prompt = await self._continuation.continued(index)
        elif self._chain is not None:
            prompt = self._chain.following(index)
        if prompt is not None:
            self._n_prompts += 1
            self._tally.expect_more()
        return prompt

    async def _ask(self, prompt: Prompt) -> Reply:
        """Return the reply to one prompt, after as many attempts as it takes and the endpoint's options allow."""
        used = _Patience()
        n_collected_before = self._n_collected
        cut_off: Reply | None = None
        while True:
            outcome, sent = await self._attempt(prompt, used)
            if isinstance(outcome, Reply):
                self._n_collected += 1
                is_first_failure = outcome.outcome is Outcome.FAILED and not used.n_attempts
                if is_first_failure and await self._back_off(used, Failure(Verdict.RETRY, outcome.reason)):
                    used.unused += calls_of(outcome, is_used=False)
                    continue
                if cut_off is None and self._dialect.make_room(outcome, sent):
                    cut_off = replace(outcome, unused=tuple(used.unused))
                    used.unused += calls_of(outcome, is_used=False)
                    continue
                return replace(outcome, unused=tuple(used.unused))
            if self._goes_on(outcome, sent, used):
                continue
            is_lost = outcome.nobody_there and not self.has_answered and used.n_attempts >= _WAITS_FOR_A_START
            if outcome.verdict is Verdict.RETRY and not is_lost and await self._back_off(used, outcome):
                continue
            if cut_off is not None and outcome.verdict is not Verdict.FATAL:
                self._dialect.shrink()
                return cut_off
            found = self._end_of_call(outcome, n_collected_before)
            if found:
                raise self._fatal(found)
            return replace(_without_answer(outcome, used.n_attempts), unused=tuple(used.unused))

    def _goes_on(self, failure: Failure, sent: Mapping[str, Any], used: _Patience) -> bool:
        """Return whether the same prompt is sent again without that being an attempt."""
        if failure.verdict is Verdict.SETTING:
            note = self._dialect.adapt(failure.setting, sent)
            if note:
                _LOGGER.warning("endpoint %s: %s (%s)", self._endpoint.model, note, failure.reason)
            return note is not None
        if failure.verdict is not Verdict.SLOW_DOWN:
            return False
        if found := self._hold_ups.too_long(failure, failure.hints.wait_seconds or self._limiter.pause_seconds()):
            if self._n_begun < self._n_prompts:
                raise self._fatal(found)
            return False
        used.refused_since = used.refused_since or time.monotonic()
        return time.monotonic() - used.refused_since < self._endpoint.rate_limit_patience_seconds

    def _end_of_call(self, failure: Failure, n_collected_before: int) -> str:
        """Return why the last failure of a prompt ends the whole call, empty where it does not; counts the prompt."""
        if failure.verdict is Verdict.FATAL:
            return failure.reason
        if failure.verdict is not Verdict.RETRY:
            self._n_collected += failure.verdict is not Verdict.SLOW_DOWN
            return ""
        self._n_failed += 1
        # Replies to others since this prompt was first sent say that the endpoint lives.
        if failure.nobody_there and self._n_collected == n_collected_before:
            return failure.reason
        # Where no prompt is left to be sent, ending would spare nobody's time and cost the replies that still come.
        if not self._n_collected and self._n_failed >= _ENOUGH_FAILED and self._n_begun < self._n_prompts:
            return f"not one reply; what came last: {failure.reason}"
        return ""

    async def _attempt(self, prompt: Prompt, used: _Patience) -> tuple[Reply | Failure, Mapping[str, Any]]:
        """Return what became of one request, and its body."""
        n_characters = sum(len(message.content) for message in prompt.messages)
        ticket = await self._limiter.admit(n_characters // _CHARACTERS_PER_TOKEN + self._dialect.longest_reply)
        sent = self._dialect.request(prompt)
        begin = self._hold_ups.sent()
        found = await self._transport.exchange(sent, self._endpoint.longest_prompt_seconds - used.seconds)
        self._hold_ups.ended(found[0])
        outcome, headers = found
        seconds = round(time.monotonic() - begin, 4)
        if isinstance(outcome, Reply):
            outcome = replace(outcome, usage=replace(outcome.usage, seconds=seconds))
        elif outcome.usage.json_values:
            used.unused.append(replace(outcome.usage, seconds=seconds, is_used=False))
        self.has_answered |= isinstance(outcome, Reply) or not outcome.nobody_there
        if isinstance(outcome, Failure) and outcome.verdict is Verdict.SLOW_DOWN:
            self._limiter.refused(ticket, outcome.hints)
        else:
            used.seconds += seconds
            if not isinstance(outcome, Failure):
                self._limiter.passed(ticket, rate_hints(headers))
        return outcome, sent

    async def _back_off(self, used: _Patience, failure: Failure) -> bool:
        """Wait before the next attempt, longer each time and never all at once; False where none is left."""
        used.n_attempts += 1
        left = self._endpoint.longest_prompt_seconds - used.seconds
        if used.n_attempts >= self._endpoint.attempts or left <= 0:
            return False
        longest = self._endpoint.backoff_seconds * 2 ** min(used.n_attempts - 1, 30)
        wait = min(longest, self._endpoint.longest_backoff_seconds) * random.uniform(0.5, 1.0)
        if wait >= left:
            return False
        used.seconds += wait
        self._hold_ups.failed(failure)
        await asyncio.sleep(wait)
        return True

    def _fatal(self, found: str) -> JudgeError:
        return JudgeError(
            "endpoint",
            where=f"{self._endpoint.model} at {self._endpoint.address}",
            expected="replies to prompts",
            found=found,
            next_step="check address, model and key (docs/endpoints.md), then ask again: finished replies are cached. "
            f"{self._dialect.hint}",
        )


def _without_answer(failure: Failure, n_used: int) -> Reply:
    if failure.verdict is Verdict.FILTERED:
        return Reply(Outcome.FILTERED, reason=f"a content filter stopped the prompt ({failure.reason})")
    gave_up = "; no attempt left" if failure.verdict is Verdict.RETRY and n_used > 1 else ""
    return Reply(Outcome.FAILED, reason=failure.reason + gave_up)


# Says what a call waits for, and when it has waited long enough for a server's rate limit.

_LOOK_SECONDS = 1.0
_QUIET_SECONDS = 10.0
_MAX_CHARACTERS = 60


class HoldUps:
    """What came last from one server, and what is open."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._last_word = time.monotonic()
        self._n_open = 0
        self._last_failure = ""

    def sent(self) -> float:
        """Count a request; return when."""
        self._n_open += 1
        return time.monotonic()

    def ended(self, outcome: Reply | Failure) -> None:
        """Count what became of a request."""
        self._n_open -= 1
        if isinstance(outcome, Reply):
            self._last_word, self._last_failure = time.monotonic(), ""
        elif outcome.verdict in (Verdict.GIVE_UP, Verdict.FILTERED):
            self._last_word = time.monotonic()

    def failed(self, failure: Failure) -> None:
        """Remember why a request is tried again."""
        self._last_failure = failure.reason

    def too_long(self, failure: Failure, pause_seconds: float) -> str:
        """Return why a rate limit ends the call, empty where it does not yet."""
        patience = self._endpoint.rate_limit_patience_seconds
        waited = time.monotonic() - self._last_word
        if waited + pause_seconds <= patience:
            return ""
        return (
            f"the endpoint asks to retry in {pause_seconds:.0f} seconds, and answered nothing for {waited:.0f}, "
            f"more than rate_limit_patience_seconds={patience:.0f} ({failure.reason})"
        )

    async def watch(self, limiter: Limiter, tally: Tally) -> None:
        """Tell what is being waited for, again and again, until it is cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            tally.hold_up(self._now(limiter.pause_seconds()))

    def _now(self, pause_seconds: float) -> str:
        quiet = time.monotonic() - self._last_word
        if pause_seconds >= _LOOK_SECONDS:
            limit = self._endpoint.rate_limit_patience_seconds
            return f"rate limit, next request in {pause_seconds:.0f} s; no reply for {quiet:.0f} of {limit:.0f} s"
        if quiet < _QUIET_SECONDS:
            return ""
        last = f"; last: {self._last_failure[:_MAX_CHARACTERS]}" if self._last_failure else ""
        limit = self._endpoint.longest_prompt_seconds
        return f"no reply for {quiet:.0f} s, {self._n_open} open, at most {limit:.0f} s a prompt{last}"


# Sends one request and reads its reply, through the `openai` SDK on aiohttp; whatever fails on the way is a
# `Failure`.
# What the SDK would read from the environment is given, or taken away before a request leaves: a key, a header and
# an organisation reach the server that they are meant for and no other. No redirect is followed.

_NO_KEY = "no-key"  # servers without keys take any; the SDK refuses to start without one
_SENT_HEADERS = frozenset(
    {"host", "accept", "accept-encoding", "connection", "content-type", "content-length", "user-agent"}
)


class Transport:
    """The connections to one endpoint, while an `async with` lasts."""

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
        """Return the reply to one request, or why there is none, and the headers that came with it."""
        try:
            # `post` instead of `chat.completions.create`: walking over the types of every request is a third of the
            # SDK's time, and the body is wanted as it came.
            sending = self._sdk.post(
                self._dialect.path or self._endpoint.address, cast_to=_http_library().Response, body=sent
            )
            # The SDK's time limit holds between two bytes; a server that drips would never reach it.
            async with _time_limit(max(min(self._endpoint.longest_reply_seconds, patience_seconds), 0.001)):
                response = await sending
            body, headers = self._credentials.without_key(response.content), response.headers
        except Exception as error:  # noqa: BLE001 (what fails on the way costs this request, and no other)
            _LOGGER.debug("endpoint %s: %s", self._endpoint.model, type(error).__name__)
            return failure_of(error, self._credentials), {}
        if failure := failure_in_body(body, headers, self._credentials):
            return replace(failure, usage=usage_in(orjson.loads(body))), headers
        try:
            return self._dialect.read(body, sent), headers
        except (ValueError, RecursionError):
            return unreadable(body, self._credentials), headers

    async def stream(self, sent: Mapping[str, Any]) -> AsyncIterator[str]:
        """Yield the parts of one reply as they come."""
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


def _time_limit(seconds: float) -> AbstractAsyncContextManager[Any]:
    """Return what ends its block with a TimeoutError; `asyncio.wait_for` would start a task for every request."""
    if sys.version_info >= (3, 11):
        return asyncio.timeout(seconds)
    else:  # noqa: RET505 (type checkers read on after an `if`)
        import async_timeout  # aiohttp brings it where the standard library has none

        return async_timeout.timeout(seconds)


@cache
def _http_library() -> Any:
    """Return the SDK's HTTP library: httpx or httpx2, by version."""
    import openai

    (name,) = {base.__module__.partition(".")[0] for base in openai.DefaultAioHttpClient.__mro__} & {"httpx", "httpx2"}
    return import_module(name)


@cache
def _certificates() -> Any:
    """Return the SDK's own TLS settings, read once a process: reading them takes as long as fifty requests."""
    return _http_library().create_ssl_context()


def _sdk(endpoint: Endpoint, credentials: Credentials) -> Any:
    """Return the SDK's client; everything that it would else read from the environment is given."""
    import openai

    http_client = openai.DefaultAioHttpClient(
        verify=_certificates() if credentials.checks_certificate else False,
        follow_redirects=False,  # a redirect would take key and prompts to another host
        event_hooks={"request": [_only_ours(endpoint, credentials)]},
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
            azure_deployment=endpoint.model_there,
            **options,
        )
    return openai.AsyncOpenAI(base_url=endpoint.address, **options)


def _only_ours(endpoint: Endpoint, credentials: Credentials) -> Callable[[Any], Coroutine[Any, Any, None]]:
    """Return a hook that leaves a request our headers only: the SDK adds what variables of its own hold."""
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


# One reply as it is written: for people who read along. Nothing is retried, limited or kept.


async def stream_reply(
    endpoint: Endpoint, credentials: Credentials, messages: Sequence[ChatMessage]
) -> AsyncIterator[str]:
    """Yield the parts of the reply to a chat as they come; thinking that the server sends apart is left out."""
    _require_libraries()
    dialect = Dialect(endpoint, Decoding())
    async with Transport(endpoint, credentials, dialect) as transport:
        try:
            async for part in transport.stream(dialect.request(Prompt(tuple(messages)))):
                yield part
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001 (whatever fails on the way is the end of this reply, and no other's)
            raise ModelError(failure_of(error, credentials).reason) from None


# The model that a server reports with a reply: one name may stand for several models, also one after the other.


class ServedModels:
    """Warns once if replies to one client come from two models; usable from any thread."""

    def __init__(self, client: str) -> None:
        self._client, self._lock = client, threading.Lock()
        self._first, self._is_warned = "", False

    def note(self, reply: Reply) -> None:
        """Compare the model of a reply with that of the first one."""
        with self._lock:
            self._first = self._first or reply.served_model
            is_change = reply.served_model not in {"", self._first} and not self._is_warned
            self._is_warned |= is_change
        if is_change:
            _LOGGER.warning(
                "%s: the server answered with %r before and answers with %r now: verdicts or queries of one run come "
                "from two models. Each reply keeps the model that gave it",
                self._client,
                self._first,
                reply.served_model,
            )


# Classifies what can go wrong with one request: worth another attempt, the end of this prompt, or of the whole call.
#
# Transport is tried again, a refusal because of a rate is waited out. What a server decides about a prompt is final,
# and what it decides about the caller (wrong key, unknown model, no credit left) is final for every prompt, so it is
# said once instead of once a prompt. No exception of the transport is anything else than one of these.

_FATAL = {
    401: "the endpoint does not accept the key",
    402: "the account has no credit left",
    404: "the endpoint does not know the model, or the address",
}
_TRANSIENT = frozenset({408, 409, 425})
_TOO_MANY, _UNAVAILABLE, _OVERLOADED = 429, 503, 529
_NO_CREDIT = "insufficient_quota"
_FILTER = "content_filter"
SLOW = "no reply in time"
"""Why a request failed whose time ran out."""
_MAX_FAILURE_CHARACTERS = 300
_MAX_BODY_CHARACTERS = 80
_RATE_WORDS = re.compile(r"rate.?limit|too many requests|overloaded|over capacity", re.IGNORECASE)
_NEVER_FITS = re.compile(r"request too large|reduce the length", re.IGNORECASE)
_SETTINGS = ("temperature", "seed", "max_completion_tokens", "max_tokens", "response_format", "stop")
_NO_SYSTEM_ROLE = re.compile(  # as chat templates and gateways word it
    r"system (?:role|message|prompt|instruction)s?\b.{0,40}\bnot\b|\bnot support\b.{0,10}\bsystem\b|"
    r"only user and assistant roles|roles must alternate|developer instruction is not enabled",
    re.IGNORECASE,
)
_NOT_TAKEN = re.compile(
    r"unsupported|not support|unknown|unrecogni[sz]ed|unexpected|extra (?:input|field)|not permitted|not allowed|"
    r"deprecated|does not accept|invalid (?:parameter|argument)|instead",
    re.IGNORECASE,
)


class Verdict(Enum):
    """What follows from an error."""

    RETRY = auto()
    SLOW_DOWN = auto()
    """The server has too much to do now: it is no attempt, and the whole call goes slower."""
    SETTING = auto()
    """The server does not take one of the settings that were sent."""
    GIVE_UP = auto()
    """This prompt gets no answer."""
    FILTERED = auto()
    """A content filter stopped the prompt."""
    FATAL = auto()
    """No prompt of this call will get one."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One request that brought no completion."""

    verdict: Verdict
    reason: str
    hints: RateHints = NO_HINTS
    """What the server says about its limits."""
    nobody_there: bool = False
    """Whether no connection could be made at all."""
    setting: str = ""
    """The setting that the server does not take, empty where it is not about one."""
    usage: CallUsage = field(default=CallUsage(), compare=False)
    """What the server says that it took all the same."""


def redacted(text: str, credentials: Credentials, shown: int = _MAX_FAILURE_CHARACTERS) -> str:
    """Return a text with the key, and anything shaped like one, masked; whitespace collapsed, and cut."""
    return " ".join(credentials.masked(text).split())[:shown]


def failure_of(error: Exception, credentials: Credentials) -> Failure:
    """Return what an exception of sending a request and reading its reply means, whatever it is."""
    import openai

    if isinstance(error, openai.APIStatusError):
        try:
            return _status_failure(error, credentials)
        except RecursionError:
            return Failure(Verdict.RETRY, f"HTTP {error.status_code}, with a body that is nested too deeply")
    if type(error) is openai.APIError:  # in an event of a stream
        return Failure(Verdict.GIVE_UP, f"an error in place of a reply: {redacted(error.message, credentials)}")
    return _connection_failure(error)


def unreadable(body: bytes, credentials: Credentials) -> Failure:
    """Return what a body that is not JSON means: another attempt."""
    begins = redacted(
        body[: 4 * _MAX_FAILURE_CHARACTERS].decode("utf-8", errors="replace"), credentials, _MAX_BODY_CHARACTERS
    )
    return Failure(Verdict.RETRY, f"the reply is not JSON, or did not arrive whole; it begins with {begins!r}")


def _connection_failure(error: Exception) -> Failure:
    import aiohttp

    causes = _causes(error)
    kind = type(causes[-1]).__name__
    if any(isinstance(cause, aiohttp.ClientSSLError) for cause in causes):
        return Failure(Verdict.RETRY, f"no secure connection to the address ({kind})", nobody_there=True)
    if any(isinstance(cause, aiohttp.ClientConnectorError) for cause in causes):
        return Failure(Verdict.RETRY, "no connection: no server answers at the address", nobody_there=True)
    timeouts = (asyncio.TimeoutError, TimeoutError, aiohttp.ServerTimeoutError)
    if any(isinstance(cause, timeouts) for cause in causes):
        return Failure(Verdict.RETRY, SLOW)
    return Failure(Verdict.RETRY, f"the connection broke ({kind})")


def _causes(error: BaseException) -> list[BaseException]:
    """Return an exception and what it was raised from; the SDK gives connection errors few names of its own."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    return chain


def _status_failure(error: Any, credentials: Credentials) -> Failure:
    status: int = error.status_code
    # The SDK says no more than the status where a body has no message in OpenAI's shape.
    is_bare = str(error.message) == f"Error code: {status}"
    message = str(error.body if is_bare and error.body else error.message)
    reason = f"HTTP {status}: {redacted(message.removeprefix(f'Error code: {status} - '), credentials)}"
    headers: Mapping[str, str] = error.response.headers
    if 300 <= status < 400:
        return Failure(Verdict.FATAL, _redirected(status, headers.get("location", "")))
    if status in _FATAL or error.code == _NO_CREDIT:
        return Failure(Verdict.FATAL, f"{_FATAL.get(status, _FATAL[402])} ({reason})")
    if failure := _slow_down(status, message, reason, headers):
        return failure
    if status in (400, 422, 500) and _NO_SYSTEM_ROLE.search(message):
        return Failure(Verdict.SETTING, reason, setting=SYSTEM_ROLE)
    if status in _TRANSIENT or status >= 500:
        return Failure(Verdict.RETRY, reason)
    return _decided(error, status, message, reason)


def _decided(error: Any, status: int, message: str, reason: str) -> Failure:
    """Return what a server's word about one prompt means."""
    if error.code == _FILTER:
        return Failure(Verdict.FILTERED, reason)
    setting = _refused_setting(str(error.param or ""), message) if status in (400, 422) else ""
    return Failure(Verdict.SETTING if setting else Verdict.GIVE_UP, reason, setting=setting)


def _slow_down(status: int, message: str, reason: str, headers: Mapping[str, str]) -> Failure | None:
    """Return what a refusal because of a rate means; None where it is none."""
    if status not in (_TOO_MANY, _UNAVAILABLE, _OVERLOADED):
        return None
    hints = rate_hints(headers, message)
    if status == _UNAVAILABLE and hints.wait_seconds is None:
        return None
    if _NEVER_FITS.search(message):
        return Failure(Verdict.GIVE_UP, reason)
    return Failure(Verdict.SLOW_DOWN, reason, hints)


def _redirected(status: int, location: str) -> str:
    try:
        host = urlsplit(location).hostname
    except ValueError:
        host = None
    to = f"to {host}" if host else "elsewhere"
    return f"the endpoint redirects {to}, and a key follows no redirect: name the final address (HTTP {status})"


def _refused_setting(named: str, message: str) -> str:
    """Return the setting that an error names as one that the server does not take, empty where it names none."""
    if not _NOT_TAKEN.search(message):
        return ""
    if named in _SETTINGS:
        return named
    # Which one is refused is named first; what to use instead comes after it.
    found = [(match.start(), name) for name in _SETTINGS if (match := re.search(rf"\b{name}\b", message))]
    return min(found)[1] if found else ""


def failure_in_body(body: bytes, headers: Mapping[str, str], credentials: Credentials) -> Failure | None:
    """Return the passing error that a server sends with status 200, None where the body has none that is known.

    Gateways do so when the model behind them refuses: `{"error": {"code": 429, "message": ...}}`.
    """
    if b'"error"' not in body:
        return None
    try:
        error = error_in(orjson.loads(body))
    except ValueError:
        return None
    message = error_text(error)
    reason = f"an error in place of a reply: {redacted(message, credentials)}"
    named = (error.get("code") or error.get("status")) if isinstance(error, dict) else None
    status = int(named) if isinstance(named, str | int) and re.fullmatch("[0-9]{3}", str(named)) else 0
    if status in (_TOO_MANY, _OVERLOADED) or _RATE_WORDS.search(message):
        return Failure(Verdict.SLOW_DOWN, reason, rate_hints(headers, message))
    return Failure(Verdict.RETRY, reason) if status in _TRANSIENT or 500 <= status < 600 else None
