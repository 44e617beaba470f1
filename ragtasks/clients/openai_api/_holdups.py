"""Says what a call waits for, and when it has waited long enough for a server's rate limit."""

from __future__ import annotations

import asyncio
import time

from ragtasks.clients._endpoint import Endpoint
from ragtasks.clients._protocol import Reply
from ragtasks.clients._usage import Tally
from ragtasks.clients.openai_api._failures import Failure, Verdict
from ragtasks.clients.openai_api._limiter import Limiter

_LOOK_SECONDS = 1.0
_QUIET_SECONDS = 10.0
_SHOWN = 60


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
            f"the endpoint asks to come back in {pause_seconds:.0f} seconds, and answered nothing for {waited:.0f}, "
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
        last = f"; last: {self._last_failure[:_SHOWN]}" if self._last_failure else ""
        limit = self._endpoint.longest_prompt_seconds
        return f"no reply for {quiet:.0f} s, {self._n_open} open, at most {limit:.0f} s a prompt{last}"


__all__ = ["HoldUps"]
