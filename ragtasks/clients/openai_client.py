"""Any OpenAI-compatible endpoint as a client: OpenAI, Azure, a vLLM server.

Requests run concurrently through the `openai` SDK on aiohttp, whose overhead at 64 open requests is far below that of
the SDK's default transport. The SDK's own retries are off: limits, pauses and attempts are counted in one place.
Replies come in at any time and requests go out one a round of the event loop (see `Limiter`), so that work on one reply
holds back no other slot's next request.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

from ragtasks.clients._faults import Fault, Verdict, fault_of
from ragtasks.clients.completion import read_completion
from ragtasks.clients.endpoint import Endpoint, endpoint_of
from ragtasks.clients.limiter import Limiter
from ragtasks.clients.protocol import Decoding, Journal, Outcome, Progress, Prompt, Reply, no_progress
from ragtasks.clients.usage import Tally
from ragtasks.errors import JudgeError, MissingExtraError, clear_error

_T = TypeVar("_T")
_CHARACTERS_PER_TOKEN = 4
_ENOUGH_FAILED = 3  # one prompt that a server stumbles over says nothing about the others
_NO_KEY = "no-key"  # servers without keys take any; the SDK refuses to start without one


class OpenAIClient:
    """Answers prompts through one endpoint; holds no connection between calls."""

    def __init__(
        self, endpoint: Endpoint | str | Mapping[str, Any], key: str | None = None, decoding: Decoding | None = None
    ) -> None:
        self._endpoint = endpoint if isinstance(endpoint, Endpoint) else endpoint_of(endpoint)
        self._key = key
        self._decoding = decoding or Decoding()

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
        """Return model and decoding; neither key nor address, so that a server may move to another port."""
        return {"model": self.name, "decoding": self._decoding.describe()}

    def answer(
        self, prompts: Sequence[Prompt], progress: Progress = no_progress, journal: Journal | None = None
    ) -> list[Reply]:
        """Return one reply a prompt, in order (see `Client.answer`).

        A prompt gives up, as FAILED, after `attempts` transport failures; every other outcome is the server's word.

        Raises:
            JudgeError: wrong key, unknown model, no credit, a wait of more than ten minutes asked for, nobody at the
                address while a prompt used up its attempts, or nothing but failures until several did while others
                were still to be asked. Nothing more is sent then.
            MissingExtraError: `openai` or `aiohttp` is not installed.
        """
        if not prompts:
            return []
        _require_libraries()
        return _run(lambda: self._answer(prompts, progress, journal))

    async def _answer(self, prompts: Sequence[Prompt], progress: Progress, journal: Journal | None) -> list[Reply]:
        sdk = _sdk(self._endpoint, self._key)
        try:
            tally = Tally(self.name, len(prompts), progress)
            call = _Call(sdk, self._endpoint, self._key, self._decoding, journal=journal, tally=tally)
            return await call.answer(prompts)
        finally:
            await sdk.close()


class _Call:
    """The state of one `answer`: it ends with the call, so two calls share nothing."""

    def __init__(
        self,
        sdk: Any,
        endpoint: Endpoint,
        key: str | None,
        decoding: Decoding,
        *,
        journal: Journal | None,
        tally: Tally,
    ) -> None:
        self._sdk, self._endpoint, self._key = sdk, endpoint, key
        self._decoding, self._journal, self._tally = decoding, journal, tally
        self._limiter = Limiter(endpoint.requests_per_minute, endpoint.tokens_per_minute)
        self._replies: dict[int, Reply] = {}
        self._n_prompts = self._n_begun = self._n_heard = self._n_failed = 0

    async def answer(self, prompts: Sequence[Prompt]) -> list[Reply]:
        self._n_prompts = len(prompts)
        waiting = iter(enumerate(prompts))
        n_workers = min(self._endpoint.slots, len(prompts))
        workers = [asyncio.ensure_future(self._work(waiting)) for _ in range(n_workers)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        return [self._replies[index] for index in range(len(prompts))]

    async def _work(self, waiting: Iterator[tuple[int, Prompt]]) -> None:
        for index, prompt in waiting:
            self._n_begun += 1
            reply = self._journal.recall(index) if self._journal else None
            if reply is None:
                reply = await self._ask(prompt)
                if self._journal:
                    self._journal.record(index, reply)
            self._replies[index] = reply
            self._tally.add(reply)

    async def _ask(self, prompt: Prompt) -> Reply:
        """Return the reply to one prompt, after as many attempts as it takes and the endpoint's options allow."""
        n_used = 0
        n_heard_before = self._n_heard
        while True:
            outcome = await self._attempt(prompt)
            if isinstance(outcome, Reply):
                self._n_heard += 1
                return outcome
            n_used += outcome.weight
            if outcome.verdict is Verdict.RETRY and n_used < self._endpoint.attempts:
                await self._back_off(n_used, outcome)
                continue
            found = self._end_of_call(outcome, n_heard_before)
            if found:
                raise JudgeError(self._fatal(found))
            return _without_answer(outcome, n_used)

    def _end_of_call(self, fault: Fault, n_heard_before: int) -> str:
        """Return why the last fault of a prompt ends the whole call, empty where it does not; counts the prompt."""
        if fault.verdict is Verdict.FATAL:
            return fault.reason
        if fault.verdict is not Verdict.RETRY:
            self._n_heard += 1
            return ""
        self._n_failed += 1
        # Replies to others since this prompt was first sent say that the endpoint lives.
        if fault.nobody_there and self._n_heard == n_heard_before:
            return fault.reason
        # Where no prompt is left to be sent, ending would spare nobody's time and cost the replies that still come.
        if not self._n_heard and self._n_failed >= _ENOUGH_FAILED and self._n_begun < self._n_prompts:
            return f"not one reply; what came last: {fault.reason}"
        return ""

    async def _attempt(self, prompt: Prompt) -> Reply | Fault:
        n_characters = sum(len(message.content) for message in prompt.messages)
        await self._limiter.admit(n_characters // _CHARACTERS_PER_TOKEN + self._decoding.max_tokens)
        try:
            # `post` instead of `chat.completions.create`: walking over the types of every request is a third of the
            # SDK's time, and the body is wanted as it came.
            sending = self._sdk.post("/chat/completions", cast_to=bytes, body=self._request(prompt))
            # The SDK's time limit holds between two bytes; a server that drips would never reach it.
            async with _time_limit(self._endpoint.timeout_seconds):
                body = await sending
            return read_completion(self._without_key(body))
        except Exception as error:  # noqa: BLE001 (what is no fault of a request is raised again)
            return fault_of(error, self._key)

    def _request(self, prompt: Prompt) -> dict[str, Any]:
        settings = {
            "temperature": self._decoding.temperature,
            "seed": self._decoding.seed,
            self._endpoint.token_limit_there: self._decoding.max_tokens,
        }
        given = {name: value for name, value in settings.items() if value is not None}
        return {"model": self._endpoint.model_there, "messages": prompt.payload(), **given}

    def _without_key(self, body: bytes) -> bytes:
        """Return a body without the key: some gateways send the request back, and the body is stored."""
        return body.replace(self._key.encode(), b"***") if self._key else body

    async def _back_off(self, n_used: int, fault: Fault) -> None:
        """Wait before the next attempt: as long as the server asks, else longer each time, never all at once."""
        if fault.wait_seconds is not None:
            self._limiter.pause(fault.wait_seconds)
            return
        longest = min(self._endpoint.backoff_seconds * 2 ** (n_used - 1), self._endpoint.longest_backoff_seconds)
        await asyncio.sleep(longest * random.uniform(0.5, 1.0))

    def _fatal(self, found: str) -> str:
        return clear_error(
            "endpoint",
            where=f"{self._endpoint.model} at {self._endpoint.address}",
            expected="replies to prompts",
            found=found,
            next_step="check address, model and key (OPENAI_API_KEY), then ask again: stored replies are kept. Saved "
            "answers are scored without their model by `ragtasks judge RESULTS --output-path FOLDER`",
        )


def _without_answer(fault: Fault, n_used: int) -> Reply:
    if fault.verdict is Verdict.FILTERED:
        return Reply(Outcome.FILTERED, reason=f"a content filter stopped the prompt ({fault.reason})")
    gave_up = "; no attempt left" if fault.verdict is Verdict.RETRY and n_used > 1 else ""
    return Reply(Outcome.FAILED, reason=fault.reason + gave_up)


def _require_libraries() -> None:
    for library in ("openai", "aiohttp"):
        try:
            __import__(library)
        except ImportError as error:
            raise MissingExtraError(library, "judge", "an OpenAI-compatible endpoint") from error


def _time_limit(seconds: float) -> AbstractAsyncContextManager[Any]:
    """Return what ends its block with a TimeoutError; `asyncio.wait_for` would start a task for every request."""
    if sys.version_info >= (3, 11):
        return asyncio.timeout(seconds)
    else:  # noqa: RET505 (type checkers read on after an `if`)
        import async_timeout  # aiohttp brings it where the standard library has none

        return async_timeout.timeout(seconds)


@cache
def _certificates() -> Any:
    """Return the SDK's own TLS settings, read once a process: reading them takes as long as fifty requests."""
    import openai

    # The SDK's HTTP library is httpx or httpx2, by version.
    (library,) = {base.__module__.partition(".")[0] for base in openai.DefaultAioHttpClient.__mro__} & {
        "httpx",
        "httpx2",
    }
    return import_module(library).create_ssl_context()


def _sdk(endpoint: Endpoint, key: str | None) -> Any:
    """Return the SDK's client; everything that it would else read from the environment is given."""
    import openai

    options: dict[str, Any] = {
        "api_key": key or _NO_KEY,
        "max_retries": 0,
        "timeout": endpoint.timeout_seconds,
        "http_client": openai.DefaultAioHttpClient(verify=_certificates()),
    }
    if endpoint.api_version is not None:
        return openai.AsyncAzureOpenAI(
            azure_endpoint=endpoint.address,
            api_version=endpoint.api_version,
            azure_deployment=endpoint.model_there,
            **options,
        )
    return openai.AsyncOpenAI(base_url=endpoint.address, **options)


def _run(work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Return what `work` does on an event loop, in a thread of its own where this one has a loop (notebooks)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(lambda: asyncio.run(work())).result()


__all__ = ["OpenAIClient"]
