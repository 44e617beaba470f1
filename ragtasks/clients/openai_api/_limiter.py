"""Keeps a client within what its endpoint allows: the limits that the user names, and those that the server shows.

Limits hold over every window of sixty seconds, not on average: a bucket that refills would let twice the limit through
in the minute after a rest. What the server itself says and refuses is the business of `Throttle`, and how many requests
are open at once that of whoever starts them.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

from ragtasks.clients.openai_api._rate_hints import RateHints
from ragtasks.clients.openai_api._throttle import Throttle, Ticket

WINDOW_SECONDS = 60.0


class Limiter:
    """Lets requests pass when the last minute has room for them; for one event loop."""

    def __init__(
        self,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._requests, self._tokens = requests_per_minute, tokens_per_minute
        self._clock, self._sleep = clock, sleep
        self._sent: deque[tuple[float, int]] = deque()
        self._n_tokens = 0
        self._throttle = Throttle(WINDOW_SECONDS)
        self._gate = asyncio.Lock()

    async def admit(self, n_tokens: int) -> Ticket:
        """Return when a request of about `n_tokens` may be sent; it counts from then on.

        Requests pass in the order in which they ask, one a round of the event loop. One that is larger than the whole
        limit passes alone.
        """
        await self._gate.acquire()
        try:
            while (wait := self._wait(n_tokens)) > 0:
                await self._sleep(wait)
            now = self._clock()
            if self._requests is not None or self._tokens is not None:
                self._sent.append((now, n_tokens))
                self._n_tokens += n_tokens
            return self._throttle.send(now)
        finally:
            # The next one passes a round later, when this one's bytes are out: they may be written by a task (aiohttp
            # before Python 3.12). At once, all whose replies came together would first be made and then written, their
            # replies would come together again, and every slot would wait for the work of all of them every time.
            asyncio.get_running_loop().call_soon(self._gate.release)

    def passed(self, ticket: Ticket, hints: RateHints) -> None:
        """Take the news that a request was let pass, with what the server says about its limits."""
        self._throttle.passed(ticket, self._clock(), hints)

    def refused(self, ticket: Ticket, hints: RateHints) -> None:
        """Take the news that a request was refused because there were too many: all go slower."""
        self._throttle.refused(ticket, self._clock(), hints)

    def pause_seconds(self) -> float:
        """Return for how long the server wants nothing at all."""
        return self._throttle.pause(self._clock())

    def _wait(self, n_tokens: int) -> float:
        """Return the seconds until the next look, 0 where there is room now."""
        now = self._clock()
        while self._sent and self._sent[0][0] <= now - WINDOW_SECONDS:
            self._n_tokens -= self._sent.popleft()[1]
        if (wait := self._throttle.wait(now)) > 0:
            return max(wait, 0.001)
        if not self._sent or not self._is_full(n_tokens):
            return 0.0
        # Never 0, which float rounding could make of it: the loop above would spin.
        return max(self._sent[0][0] + WINDOW_SECONDS - now, 0.001)

    def _is_full(self, n_tokens: int) -> bool:
        too_many = self._requests is not None and len(self._sent) >= self._requests
        return too_many or (self._tokens is not None and self._n_tokens + n_tokens > self._tokens)


__all__ = ["WINDOW_SECONDS", "Limiter"]
