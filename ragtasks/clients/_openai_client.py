"""Client of an OpenAI-compatible endpoint: OpenAI, Azure, a vLLM server.

Requests run concurrently through the `openai` SDK on aiohttp, whose overhead at 64 open requests is far below that of
the SDK's default transport. The SDK's own retries are off: limits, pauses and attempts are counted in one module.
Replies arrive at any time, and one request is sent per cycle of the event loop (see `Limiter`). Work on one reply
therefore does not delay the next request of another slot.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from base64 import b64encode
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from ragtasks.clients._credentials import Credentials, is_open_to_others, without_login
from ragtasks.clients._endpoint import Dialect, Endpoint, GivenBodies, endpoint_of
from ragtasks.clients._failures import START_SERVER, EndpointError, Failure, Handling
from ragtasks.clients._limits import Limiter, rate_hints
from ragtasks.clients._protocol import CallUsage, Chain, Continuation, Decoding, Journal, Outcome, Prompt, Reply
from ragtasks.clients._transport import Transport, require_libraries
from ragtasks.clients._usage import Price, Tally, calls_of
from ragtasks.progress import Progress, no_progress

_LOGGER = logging.getLogger(__name__)
_T = TypeVar("_T")
_PROBE_SECONDS = 20.0


class OpenAIClient:
    """Sends prompts to one endpoint; keeps no connection between calls."""

    def __init__(
        self,
        endpoint: Endpoint | str | Mapping[str, Any],
        credentials: Credentials | str | None = None,
        decoding: Decoding | None = None,
        dialect: Callable[[Endpoint, Decoding], Dialect] = Dialect,
    ) -> None:
        self._endpoint = endpoint if isinstance(endpoint, Endpoint) else endpoint_of(endpoint)
        resolved = credentials if isinstance(credentials, Credentials) else Credentials(credentials)
        self._credentials = resolved
        self._decoding = _decoding_of(self._endpoint, decoding or Decoding())
        self._dialect = dialect(self._endpoint, self._decoding)
        self.has_answered = False
        """Whether the server was ever reached; a server that never was gets only a few seconds to start."""

    def __repr__(self) -> str:
        return f"OpenAIClient({self.name!r})"

    @property
    def name(self) -> str:
        """The model's name in the endpoint."""
        return self._endpoint.model

    @property
    def origin(self) -> str:
        """Address under which replies are cached, in addition to the description; empty if replies are shared."""
        return self._endpoint.origin

    @property
    def price(self) -> Price | None:
        """Price of tokens, if the user set one."""
        return self._endpoint.price

    @property
    def learned(self) -> Mapping[str, str | None]:
        """Settings that the server refused -> their replacement, or None if left out; not part of any cache key."""
        return self._dialect.learned

    def describe(self) -> dict[str, Any]:
        """Return model, decoding and further settings; neither key nor address, so that a server may move."""
        endpoint = self._endpoint
        options = {"reasoning_effort": endpoint.reasoning_effort, "extra_body": endpoint.extra_fields}
        sent: dict[str, Any] = {name: value for name, value in options.items() if value}
        if endpoint.thinking_tokens != Endpoint.model_fields["thinking_tokens"].default:
            sent["thinking_tokens"] = endpoint.thinking_tokens
        if endpoint.structured:
            sent["structured"] = True
        return {"model": self.name, "decoding": self._decoding.describe(), **sent}

    def answer(
        self, prompts: Sequence[Prompt], progress: Progress = no_progress, journal: Journal | None = None
    ) -> list[Reply]:
        """Return one reply per prompt, in order (see `Client.answer`).

        A prompt ends as FAILED after `attempts` transport errors or `patience_seconds`; every other outcome is the
        server's decision. A rate limit is not an attempt: all requests slow down until the prompt is accepted.
        """
        if not prompts:
            return []
        require_libraries()
        return _run_async(lambda: self._answer(prompts, progress, journal))

    def probe(self, prompt: Prompt, seconds: float = _PROBE_SECONDS) -> Reply:
        """Send a prompt once, wait at most `seconds`, and return the reply; its outcome is FAILED if none came."""
        probing = copy(self)
        waits = dict.fromkeys(("timeout_seconds", "patience_seconds"), seconds)
        probing._endpoint = self._endpoint.model_copy(
            update={"attempts": 1, "rate_limit_patience_seconds": 1.0, **waits}
        )
        try:
            (reply,) = probing.answer([prompt])
        except EndpointError as error:
            return Reply(Outcome.FAILED, reason=f"{error.found}. Next step: {error.next_step}")
        return reply

    async def _answer(self, prompts: Sequence[Prompt], progress: Progress, journal: Journal | None) -> list[Reply]:
        if is_open_to_others(self._endpoint.address):
            _warn_of_plain_http(self._endpoint.address)
        async with Transport(self._endpoint, self._credentials, self._dialect) as transport:
            return await Call(self, transport, journal, Tally(self.name, len(prompts), progress)).answer(prompts)


def model_client(
    name: str,
    address: str,
    headers: Mapping[str, str],
    dialect: Callable[[Endpoint, Decoding], GivenBodies] = GivenBodies,
    *,
    checks_certificate: bool = True,
    key_source: str = "",
    **limits: Any,
) -> OpenAIClient:
    """Return a client of a model under test, for prompts whose `body` is the complete request.

    Args:
        name: the model's name.
        address: URL of requests, with path and query; a login in it is sent as a header.
        headers: sent instead of a key.
        dialect: parses the replies.
        checks_certificate: whether the server's certificate must be valid.
        key_source: variable or option of the key in the headers, for messages.
        limits: further fields of the `Endpoint`, such as `slots`.
    """
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    endpoint = endpoint_of({"model": name, "base_url": without_login(address), **limits})
    if parts.username:
        login = b64encode(f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()).decode()
        headers = {**headers, "Authorization": f"Basic {login}"}
    credentials = Credentials(headers=headers, checks_certificate=checks_certificate, source=key_source)
    client = OpenAIClient(endpoint, credentials, dialect=dialect)
    client._dialect.path = parts._replace(netloc=host).geturl()
    return client


def _decoding_of(endpoint: Endpoint, decoding: Decoding) -> Decoding:
    if endpoint.max_tokens is not None:
        decoding = replace(decoding, max_tokens=endpoint.max_tokens)
    if endpoint.temperature is None:
        return decoding
    return replace(decoding, temperature=None if endpoint.temperature == "server" else endpoint.temperature)


@cache
def _warn_of_plain_http(address: str) -> None:
    """Warn once per process about an address whose requests can be read on the network."""
    _LOGGER.warning("%s: prompts, and the key if one is set, are sent unencrypted; use https", address)


def _run_async(work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Run a coroutine and return its result; in a separate thread if this thread has an event loop (notebooks)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        has_loop = False
    else:
        has_loop = True
    if not has_loop:  # outside the handler, whose exception would appear as the cause of every later one
        return asyncio.run(work())
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(lambda: asyncio.run(work())).result()


_CHARACTERS_PER_TOKEN = 4
_MAX_FAILED_PROMPTS = 3  # a single failed prompt is no evidence about the others
_LAST_REPLIES_SECONDS = 2.0  # for replies in flight when the call ends: they are paid for
_WAITS_FOR_A_START = 4  # attempts; by default 4 to 8 seconds in total, enough for a small server to start


@dataclass(slots=True)
class _Patience:
    """Attempts, seconds and usage of one prompt so far."""

    n_attempts: int = 0
    seconds: float = 0.0
    unused: list[CallUsage] = field(default_factory=list)
    refused_since: float | None = None


class Call:
    """State of one `answer` call; two calls share nothing."""

    def __init__(self, client: OpenAIClient, transport: Transport, journal: Journal | None, tally: Tally) -> None:
        self._client, self._transport, self._journal, self._tally = client, transport, journal, tally
        self._endpoint, self._dialect = client._endpoint, client._dialect
        self._chain: Chain | None = journal if isinstance(journal, Chain) else None
        self._continuation: Continuation | None = journal if isinstance(journal, Continuation) else None
        self._slots = asyncio.Semaphore(self._endpoint.slots)
        self._limiter = Limiter(self._endpoint.requests_per_minute, self._endpoint.tokens_per_minute)
        self._activity = ServerActivity(self._endpoint)
        self._replies: dict[int, Reply] = {}
        self._n_prompts = self._n_begun = self._n_collected = self._n_failed = 0
        self._senders: set[asyncio.Task[Any] | None] = set()
        """Workers with a request in flight."""
        self._end_reason = ""
        """Reason for ending the call; after that, no request is sent. Empty while it runs."""

    async def answer(self, prompts: Sequence[Prompt]) -> list[Reply]:
        self._n_prompts = len(prompts)
        waiting = iter(enumerate(prompts))
        n_workers = len(prompts) if self._continuation else min(self._endpoint.slots, len(prompts))
        workers = [asyncio.ensure_future(self._work(waiting)) for _ in range(n_workers)]
        watch = asyncio.ensure_future(self._activity.watch(self._limiter, self._tally))
        try:
            await asyncio.gather(*workers)
        except EndpointError as error:
            self._end_reason = error.found
            under_way = [worker for worker in workers if worker in self._senders]
            for worker in workers:
                if worker not in under_way:
                    worker.cancel()
            if under_way:
                await asyncio.wait(under_way, timeout=_LAST_REPLIES_SECONDS)
            raise
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
                        reply = await self._send(prompt)
                    if self._journal:
                        self._journal.record(index, reply)
                else:
                    self._n_begun += 1
                self._replies[index] = reply
                self._tally.add(reply)
                prompt = await self._next_prompt(index)

    async def _next_prompt(self, index: int) -> Prompt | None:
        """Return the prompt that follows the reply to a prompt, or None."""
        prompt = None
        if self._continuation is not None:
            prompt = await self._continuation.continued(index)
        elif self._chain is not None:
            prompt = self._chain.following(index)
        if prompt is not None:
            self._n_prompts += 1
            self._tally.expect_more()
        return prompt

    async def _send(self, prompt: Prompt) -> Reply:
        """Return the reply to one prompt, with as many attempts as needed and allowed by the endpoint."""
        used = _Patience()
        n_collected_before = self._n_collected
        cut_off: Reply | None = None
        while True:
            outcome, sent = await self._attempt(prompt, used)
            if isinstance(outcome, Reply):
                self._n_collected += 1
                is_first_failure = outcome.outcome is Outcome.FAILED and not used.n_attempts
                if is_first_failure and await self._back_off(used, Failure(Handling.RETRY, outcome.reason)):
                    used.unused += calls_of(outcome, is_used=False)
                    continue
                if cut_off is None and self._dialect.make_room(outcome, sent):
                    cut_off = replace(outcome, unused=tuple(used.unused))
                    used.unused += calls_of(outcome, is_used=False)
                    continue
                return replace(outcome, unused=tuple(used.unused))
            if self._may_resend(outcome, sent, used):
                continue
            is_lost = outcome.is_unreachable and not self._client.has_answered and used.n_attempts >= _WAITS_FOR_A_START
            if outcome.handling is Handling.RETRY and not is_lost and await self._back_off(used, outcome):
                continue
            if cut_off is not None and outcome.handling is not Handling.FATAL:
                self._dialect.shrink()
                return cut_off
            fatal = self._fatal_reason(outcome, n_collected_before)
            if fatal:
                raise self._fatal_error(fatal, outcome.next_step)
            if outcome.handling is Handling.FILTERED:
                reason = f"a content filter stopped the prompt ({outcome.reason})"
                return Reply(Outcome.FILTERED, reason=reason, unused=tuple(used.unused))
            gave_up = "; no attempt left" if outcome.handling is Handling.RETRY and used.n_attempts > 1 else ""
            return Reply(Outcome.FAILED, reason=outcome.reason + gave_up, unused=tuple(used.unused))

    def _may_resend(self, failure: Failure, sent: Mapping[str, Any], used: _Patience) -> bool:
        """Return whether to send the same prompt again without counting an attempt; adapts a refused setting.

        Raises:
            EndpointError: the rate limit lasts longer than the patience, and prompts are left.
        """
        if failure.handling is Handling.SETTING:
            note = self._dialect.adapt(failure.setting, sent)
            if note:
                _LOGGER.warning("endpoint %s: %s (%s)", self._endpoint.model, note, failure.reason)
            return note is not None
        if failure.handling is not Handling.SLOW_DOWN:
            return False
        if reason := self._activity.timeout_reason(
            failure, failure.hints.wait_seconds or self._limiter.pause_seconds()
        ):
            if self._n_begun < self._n_prompts:
                raise self._fatal_error(reason, "wait")
            return False
        used.refused_since = used.refused_since or time.monotonic()
        return time.monotonic() - used.refused_since < self._endpoint.rate_limit_patience_seconds

    def _fatal_reason(self, failure: Failure, n_collected_before: int) -> str:
        """Return why the last failure of a prompt ends the call, empty if it does not; counts failed prompts."""
        if failure.handling is Handling.FATAL:
            return failure.reason
        if failure.handling is not Handling.RETRY:
            self._n_collected += failure.handling is not Handling.SLOW_DOWN
            return ""
        self._n_failed += 1
        # Other replies since this prompt was first sent show that the server is running.
        if failure.is_unreachable and self._n_collected == n_collected_before:
            return failure.reason
        # If no prompt is left to send, ending the call would save no time and lose the replies in flight.
        if not self._n_collected and self._n_failed >= _MAX_FAILED_PROMPTS and self._n_begun < self._n_prompts:
            return f"no reply at all; last failure: {failure.reason}"
        return ""

    async def _attempt(self, prompt: Prompt, used: _Patience) -> tuple[Reply | Failure, Mapping[str, Any]]:
        """Return the reply or failure of one request, and its body."""
        if self._end_reason:
            return Failure(Handling.FATAL, self._end_reason), {}
        n_characters = sum(len(message.content) for message in prompt.messages)
        ticket = await self._limiter.admit(n_characters // _CHARACTERS_PER_TOKEN + self._dialect.longest_reply)
        sent = self._dialect.request(prompt)
        begin = self._activity.sent()
        self._senders.add(sender := asyncio.current_task())
        result = await self._transport.exchange(sent, self._endpoint.longest_prompt_seconds - used.seconds)
        self._senders.discard(sender)
        self._activity.ended(result[0])
        outcome, headers = result
        seconds = round(time.monotonic() - begin, 4)
        if isinstance(outcome, Reply):
            outcome = replace(outcome, usage=replace(outcome.usage, seconds=seconds))
        elif outcome.usage.json_values:
            used.unused.append(replace(outcome.usage, seconds=seconds, is_used=False))
        self._client.has_answered |= isinstance(outcome, Reply) or not outcome.is_unreachable
        if isinstance(outcome, Failure) and outcome.handling is Handling.SLOW_DOWN:
            self._limiter.refused(ticket, outcome.hints)
        else:
            used.seconds += seconds
            if not isinstance(outcome, Failure):
                self._limiter.passed(ticket, rate_hints(headers))
        return outcome, sent

    async def _back_off(self, used: _Patience, failure: Failure) -> bool:
        """Wait before the next attempt, with growing and randomized delays; return False if no attempt is left."""
        used.n_attempts += 1
        left = self._endpoint.longest_prompt_seconds - used.seconds
        # A large model takes minutes to start again, which is longer than the default number of attempts.
        is_restart = failure.is_unreachable and self._client.has_answered
        may_wait = is_restart and "attempts" not in self._endpoint.model_fields_set
        if (used.n_attempts >= self._endpoint.attempts and not may_wait) or left <= 0 or self._end_reason:
            return False
        longest = self._endpoint.backoff_seconds * 2 ** min(used.n_attempts - 1, 30)
        wait = min(longest, self._endpoint.longest_backoff_seconds) * random.uniform(0.5, 1.0)
        if wait >= left:
            return False
        used.seconds += wait
        self._activity.failed(failure)
        await asyncio.sleep(wait)
        return True

    def _fatal_error(self, found: str, next_step: str) -> EndpointError:
        if next_step == START_SERVER and self._client.has_answered:
            next_step = "start the server"  # its address was right
        where = f"{self._endpoint.model} at {self._endpoint.address}"
        return EndpointError(where, found, next_step or "see the server's log (docs/endpoints.md)")


_POLL_SECONDS = 1.0
_QUIET_SECONDS = 10.0
_MAX_CHARACTERS = 60


class ServerActivity:
    """Last response and open requests of one server, for progress messages and the rate-limit timeout."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._last_response_at = time.monotonic()
        self._n_open = 0
        self._last_failure = ""

    def sent(self) -> float:
        """Count a request, and return its start time."""
        self._n_open += 1
        return time.monotonic()

    def ended(self, outcome: Reply | Failure) -> None:
        """Count the end of a request."""
        self._n_open -= 1
        if isinstance(outcome, Reply):
            self._last_response_at, self._last_failure = time.monotonic(), ""
        elif outcome.handling in (Handling.GIVE_UP, Handling.FILTERED):
            self._last_response_at = time.monotonic()

    def failed(self, failure: Failure) -> None:
        """Record why a request is retried."""
        self._last_failure = failure.reason

    def timeout_reason(self, failure: Failure, pause_seconds: float) -> str:
        """Return why a rate limit ends the call, empty while it does not."""
        patience = self._endpoint.rate_limit_patience_seconds
        waited = time.monotonic() - self._last_response_at
        if waited + pause_seconds <= patience:
            return ""
        return (
            f"the endpoint requests a wait of {pause_seconds:.0f} seconds, and has not replied for {waited:.0f}, "
            f"more than rate_limit_patience_seconds={patience:.0f} ({failure.reason})"
        )

    async def watch(self, limiter: Limiter, tally: Tally) -> None:
        """Report the reason for waiting every second, until cancelled."""
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            tally.show_wait(self._wait_reason(limiter.pause_seconds()))

    def _wait_reason(self, pause_seconds: float) -> str:
        quiet = time.monotonic() - self._last_response_at
        if pause_seconds >= _POLL_SECONDS:
            limit = self._endpoint.rate_limit_patience_seconds
            return f"rate limit, next request in {pause_seconds:.0f} s; no reply for {quiet:.0f} of {limit:.0f} s"
        if quiet < _QUIET_SECONDS:
            return ""
        last = f" ({self._last_failure[:_MAX_CHARACTERS]})" if self._last_failure else ""
        limit = self._endpoint.longest_prompt_seconds
        return f"no reply for {quiet:.0f} s{last}, {self._n_open} open, at most {limit:.0f} s a prompt"
