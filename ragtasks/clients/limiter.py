"""Keeps a client within what its endpoint allows: requests and tokens a minute, and pauses that the server asks for.

Limits hold over every window of sixty seconds, not on average: a bucket that refills would let twice the limit through
in the minute after a rest. How many requests are open at once is the business of whoever starts them.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

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
        self._paused_until = float("-inf")
        self._gate = asyncio.Lock()

    async def admit(self, n_tokens: int) -> None:
        """Return when a request of about `n_tokens` may be sent; it counts from then on.

        Requests pass in the order in which they ask, one a round of the event loop. One that is larger than the whole
        limit passes alone.
        """
        await self._gate.acquire()
        try:
            while (wait := self._wait(n_tokens)) > 0:
                await self._sleep(wait)
            self._sent.append((self._clock(), n_tokens))
            self._n_tokens += n_tokens
        finally:
            # The next one passes a round later, when this one's bytes are out: they may be written by a task (aiohttp
            # before Python 3.12). At once, all whose replies came together would first be made and then written, their
            # replies would come together again, and every slot would wait for the work of all of them every time.
            asyncio.get_running_loop().call_soon(self._gate.release)

    def pause(self, seconds: float) -> None:
        """Let nothing pass for `seconds` from now: the server asked for it."""
        self._paused_until = max(self._paused_until, self._clock() + seconds)

    def _wait(self, n_tokens: int) -> float:
        """Return the seconds until the next look, 0 where there is room now."""
        now = self._clock()
        while self._sent and self._sent[0][0] <= now - WINDOW_SECONDS:
            self._n_tokens -= self._sent.popleft()[1]
        if now < self._paused_until:
            return self._paused_until - now
        if not self._sent or not self._is_full(n_tokens):
            return 0.0
        # Never 0, which float rounding could make of it: the loop above would spin.
        return max(self._sent[0][0] + WINDOW_SECONDS - now, 0.001)

    def _is_full(self, n_tokens: int) -> bool:
        too_many = self._requests is not None and len(self._sent) >= self._requests
        return too_many or (self._tokens is not None and self._n_tokens + n_tokens > self._tokens)


__all__ = ["WINDOW_SECONDS", "Limiter"]
