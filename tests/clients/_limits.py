"""Simulated rate limits of servers: three types of limits, a dozen styles of headers."""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from typing import Protocol


@dataclass(frozen=True)
class State:
    """State of a limit at one request."""

    granted: bool
    limit: int
    remaining: int
    wait_seconds: float  # until this request would be granted, 0 if it is
    reset_seconds: float  # until the full limit is available


class Limit(Protocol):
    """Grants requests."""

    def take(self, now: float, cost: float = 1.0) -> State:
        """Send a request at the time `now`, and return the state of the limit."""


class FixedWindow:
    """N requests per window; windows follow each other from the first request on."""

    def __init__(self, limit: int, window: float, offset: float = 0.0) -> None:
        self.limit, self.window, self._offset = limit, window, offset
        self._begin: float | None = None
        self._used = 0.0

    def take(self, now: float, cost: float = 1.0) -> State:
        if self._begin is None:
            self._begin = now - self._offset
        if now >= self._begin + self.window:
            self._begin += self.window * math.floor((now - self._begin) / self.window)
            self._used = 0.0
        granted = self._used + cost <= self.limit
        self._used += cost if granted else 0.0
        left = self._begin + self.window - now
        return State(granted, self.limit, int(self.limit - self._used), 0.0 if granted else left, left)


class SlidingWindow:
    """N requests in any window."""

    def __init__(self, limit: int, window: float) -> None:
        self.limit, self.window = limit, window
        self._sent: deque[tuple[float, float]] = deque()
        self._used = 0.0

    def take(self, now: float, cost: float = 1.0) -> State:
        while self._sent and self._sent[0][0] <= now - self.window:
            self._used -= self._sent.popleft()[1]
        granted = self._used + cost <= self.limit
        if granted:
            self._sent.append((now, cost))
            self._used += cost
        wait = 0.0 if granted else self._sent[0][0] + self.window - now
        reset = self._sent[-1][0] + self.window - now if self._sent else 0.0
        return State(granted, self.limit, int(self.limit - self._used), wait, reset)


class Bucket:
    """A full bucket that fills again at an even rate."""

    def __init__(self, limit: int, window: float) -> None:
        self.limit, self.window = limit, window
        self._level, self._at = float(limit), 0.0

    def take(self, now: float, cost: float = 1.0) -> State:
        rate = self.limit / self.window
        self._level, self._at = min(self.limit, self._level + (now - self._at) * rate), now
        granted = self._level >= cost
        self._level -= cost if granted else 0.0
        wait = 0.0 if granted else (cost - self._level) / rate
        return State(granted, self.limit, int(self._level), wait, (self.limit - self._level) / rate)


Style = Callable[[State], Mapping[str, str]]
"""State of a limit -> headers."""


def duration(seconds: float) -> str:
    """Return a duration in OpenAI's notation: `6m0s`, `1.5s`, `120ms`."""
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    minutes, rest = divmod(seconds, 60)
    return (f"{int(minutes)}m" if minutes else "") + f"{rest:.3f}s"


def _counts(prefix: str, state: State, reset: str, suffix: str = "") -> dict[str, str]:
    named = {"limit": str(state.limit), "remaining": str(state.remaining), "reset": reset}
    return {f"{prefix}{name}{suffix}": value for name, value in named.items()}


def _refused(state: State, **headers: str) -> dict[str, str]:
    return {} if state.granted else {name.replace("_", "-"): value for name, value in headers.items()}


STYLES: dict[str, Style] = {
    "none": lambda state: {},
    "retry-after": lambda state: _refused(state, retry_after=f"{state.wait_seconds:.3f}"),
    "retry-after, whole seconds": lambda state: _refused(state, retry_after=str(math.ceil(state.wait_seconds))),
    "retry-after, date": lambda state: _refused(
        state, retry_after=formatdate(math.ceil(time.time() + state.wait_seconds), usegmt=True)
    ),
    "retry-after-ms": lambda state: _refused(state, retry_after_ms=str(math.ceil(state.wait_seconds * 1000))),
    "x-ratelimit, durations": lambda state: _counts("x-ratelimit-", state, duration(state.reset_seconds), "-requests"),
    "x-ratelimit, durations, retry-after": lambda state: {
        **_counts("x-ratelimit-", state, duration(state.reset_seconds), "-requests"),
        **_refused(state, retry_after_ms=str(math.ceil(state.wait_seconds * 1000))),
    },
    "x-ratelimit, epoch": lambda state: _counts("x-ratelimit-", state, f"{time.time() + state.reset_seconds:.3f}"),
    "x-ratelimit, tokens": lambda state: _counts("x-ratelimit-", state, duration(state.reset_seconds), "-tokens"),
    "x-ratelimit, tokens and ample requests": lambda state: {
        **_counts("x-ratelimit-", state, duration(state.reset_seconds), "-tokens"),
        **_counts("x-ratelimit-", State(True, 10_000, 9_999, 0.0, 0.006), duration(0.006), "-requests"),
    },
    "ratelimit, seconds": lambda state: _counts("ratelimit-", state, f"{state.reset_seconds:.3f}"),
}


def refusal_body(state: State, style: str, granted: str = "") -> bytes:
    """Return the error of a refused request; with the style `message`, it states the wait and the limit."""
    message = "Rate limit reached"
    if style == "message":
        message += f" for m on requests per min (RPM): {granted}. Please try again in {duration(state.wait_seconds)}."
    return json.dumps({"error": {"message": message, "type": "requests", "code": "rate_limit_exceeded"}}).encode()


STYLES["message"] = STYLES["none"]
