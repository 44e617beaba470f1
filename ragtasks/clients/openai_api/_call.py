"""One call of an endpoint: limits, pauses and attempts of all its prompts, counted in one place."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragtasks.clients._endpoint import Endpoint
from ragtasks.clients._protocol import Decoding, Journal, Outcome, Prompt, Reply
from ragtasks.clients._usage import Tally
from ragtasks.clients.openai_api._dialect import Wire
from ragtasks.clients.openai_api._failures import Failure, Verdict
from ragtasks.clients.openai_api._holdups import HoldUps
from ragtasks.clients.openai_api._limiter import Limiter
from ragtasks.clients.openai_api._rate_hints import rate_hints
from ragtasks.clients.openai_api._transport import Transport
from ragtasks.errors import JudgeError, clear_error

_LOGGER = logging.getLogger(__name__)
_CHARACTERS_PER_TOKEN = 4
_ENOUGH_FAILED = 3  # one prompt that a server stumbles over says nothing about the others
_WAITS_FOR_A_START = 4  # by default 4 to 8 seconds in all: what a small server takes to start listening


@dataclass(slots=True)
class _Patience:
    """What one prompt has used up so far."""

    n_attempts: int = 0
    seconds: float = 0.0
    refused_since: float | None = None


class Call:
    """The state of one `answer`: it ends with the call, so two calls share nothing."""

    def __init__(
        self,
        transport: Transport,
        endpoint: Endpoint,
        decoding: Decoding,
        wire: Wire,
        *,
        journal: Journal | None,
        tally: Tally,
        has_answered: bool = False,
    ) -> None:
        self._transport, self._endpoint = transport, endpoint
        self._decoding, self._journal, self._tally = decoding, journal, tally
        self._dialect, self._hint = wire.dialect(endpoint, decoding), wire.hint
        self._limiter = Limiter(endpoint.requests_per_minute, endpoint.tokens_per_minute)
        self._hold_ups = HoldUps(endpoint)
        self._replies: dict[int, Reply] = {}
        self._n_prompts = self._n_begun = self._n_collected = self._n_failed = 0
        self.has_answered = has_answered
        """Whether a server was ever there: one that was not is given a few seconds to start, no more."""

    async def answer(self, prompts: Sequence[Prompt]) -> list[Reply]:
        self._n_prompts = len(prompts)
        waiting = iter(enumerate(prompts))
        n_workers = min(self._endpoint.slots, len(prompts))
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
        used = _Patience()
        n_collected_before = self._n_collected
        cut_off: Reply | None = None
        while True:
            outcome, sent = await self._attempt(prompt, used)
            if isinstance(outcome, Reply):
                self._n_collected += 1
                if cut_off is None and self._dialect.make_room(outcome, sent):
                    cut_off = outcome
                    continue
                return outcome
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
                raise JudgeError(self._fatal(found))
            return _without_answer(outcome, used.n_attempts)

    def _goes_on(self, failure: Failure, sent: Mapping[str, Any], used: _Patience) -> bool:
        """Return whether the same prompt is sent again without that being an attempt.

        Raises:
            JudgeError: the server has refused everything because of its rate for too long.
        """
        if failure.verdict is Verdict.SETTING:
            note = self._dialect.adapt(failure.setting, sent)
            if note:
                _LOGGER.warning("endpoint %s: %s (%s)", self._endpoint.model, note, failure.reason)
            return note is not None
        if failure.verdict is not Verdict.SLOW_DOWN:
            return False
        if found := self._hold_ups.too_long(failure, failure.hints.wait_seconds or self._limiter.pause_seconds()):
            if self._n_begun < self._n_prompts:
                raise JudgeError(self._fatal(found))
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
        self.has_answered |= isinstance(outcome, Reply) or not outcome.nobody_there
        if isinstance(outcome, Failure) and outcome.verdict is Verdict.SLOW_DOWN:
            self._limiter.refused(ticket, outcome.hints)
        else:
            used.seconds += time.monotonic() - begin
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

    def _fatal(self, found: str) -> str:
        return clear_error(
            "endpoint",
            where=f"{self._endpoint.model} at {self._endpoint.address}",
            expected="replies to prompts",
            found=found,
            next_step="check address, model and key (docs/endpoints.md), then ask again: stored replies are kept. "
            f"{self._hint}",
        )


def _without_answer(failure: Failure, n_used: int) -> Reply:
    if failure.verdict is Verdict.FILTERED:
        return Reply(Outcome.FILTERED, reason=f"a content filter stopped the prompt ({failure.reason})")
    gave_up = "; no attempt left" if failure.verdict is Verdict.RETRY and n_used > 1 else ""
    return Reply(Outcome.FAILED, reason=failure.reason + gave_up)


__all__ = ["Call"]
