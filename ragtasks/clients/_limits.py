"""Rate limits of a client: the limits that the user sets, and those that the server reports.

The user's limits hold for every window of sixty seconds. An average is not enough: a bucket that refills would allow
twice the limit in the minute after a pause. `Throttle` handles the server's reports and refusals. The number of open
requests is limited by the caller.
"""

from __future__ import annotations

import asyncio
import math
import random
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timezone
from email.utils import parsedate_to_datetime

from ragtasks.files import parse_time

WINDOW_SECONDS = 60.0


class Limiter:
    """Admits requests while the last minute has room for them; for one event loop."""

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
        """Wait until a request of about `n_tokens` may be sent; it is counted from then on.

        Requests are admitted in the order of their calls, one per cycle of the event loop. A request that is larger
        than the limit is admitted alone.
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
            # The next request is admitted one cycle later, after the bytes of this request are written: a task may
            # write them (aiohttp before Python 3.12). Otherwise, requests whose replies arrive together would be built
            # together and sent together. Their replies would arrive together again, and every slot would wait for the
            # work of all of them each time.
            asyncio.get_running_loop().call_soon(self._gate.release)

    def passed(self, ticket: Ticket, hints: RateHints) -> None:
        """Record that the server accepted a request, with the limits in its reply."""
        self._throttle.passed(ticket, self._clock(), hints)

    def refused(self, ticket: Ticket, hints: RateHints) -> None:
        """Record that the server refused a request because of a rate limit: all requests slow down."""
        self._throttle.refused(ticket, self._clock(), hints)

    def pause_seconds(self) -> float:
        """Return the seconds until a pause ends, 0 without a pause."""
        return self._throttle.pause(self._clock())

    def _wait(self, n_tokens: int) -> float:
        """Return the seconds until the next check, 0 if there is room now."""
        now = self._clock()
        while self._sent and self._sent[0][0] <= now - WINDOW_SECONDS:
            self._n_tokens -= self._sent.popleft()[1]
        if (wait := self._throttle.wait(now)) > 0:
            return max(wait, 0.001)
        too_many = self._requests is not None and len(self._sent) >= self._requests
        too_long = self._tokens is not None and self._n_tokens + n_tokens > self._tokens
        if not self._sent or not (too_many or too_long):
            return 0.0
        # Rounding could make it 0, and the loop above would spin.
        return max(self._sent[0][0] + WINDOW_SECONDS - now, 0.001)


# Estimates the rate that a server allows, from its refusals and its headers. A server's limit may be a window that
# opens all at once, a sliding window, or a bucket that fills request by request; headers rarely show which. One
# property is common to all: between two moments of exhaustion, the server accepts what its limit allows in that time.
# Each refusal is a moment of exhaustion. The requests accepted since the last one give the rate, and the time since
# then gives a credit. So a window that opens all at once is used at once, and a bucket is used as it fills.
#
# The rate is raised a little with every accepted request, since no message reports that a limit was raised, or that
# another process sharing it has ended. After a refusal, one request is sent first: at the server's time, or at
# intervals that grow with the time waited. The others follow in steps that double, so that slots never resume together.
# Only requests are counted: a limit on tokens appears as a rate of requests too.

_GROWTH = 1 / 500  # of the credit, per accepted request: about one in thirty is refused at a steady rate
_QUIET = 1 / 6  # of a minute without a refusal, after which the credit doubles: other processes may have ended
_LATENESS = 0.1  # of the time waited, if the server does not report when to retry
_JITTER = 0.05
_LONGEST_PAUSE = 10  # minutes to pause without a refusal, even if the server reports a reset in a day


@dataclass(frozen=True, slots=True)
class Ticket:
    """An admitted request."""

    number: int
    """Number of requests sent before it."""
    sent_at: float
    """Time of sending, in seconds of the clock."""
    epoch: int
    """Number of exhaustions of the server before it."""


@dataclass(slots=True)
class _Account:
    """Requests accepted between two exhaustions of the limit."""

    begun_at: float
    n_passed: int = 0
    seconds: float = 0.0


class Throttle:
    """Decides when the next request may be sent; a state machine that neither reads the clock nor sleeps."""

    def __init__(self, minute_seconds: float = 60.0, chance: random.Random | None = None) -> None:
        self._minute, self._chance = minute_seconds, chance or random.Random()
        self._n_sent = self._epoch = 0
        self._account: _Account | None = None  # since the last exhaustion; None before the first
        self._closed: _Account | None = None  # the previous account, as long as late refusals may correct it
        self._probe: Ticket | None = None
        self._is_probing = False
        self._resume_at = self._opened_at = float("-inf")
        self._last_pause = 0.0
        self._settle = minute_seconds / 3000
        self._step_size, self._step_left, self._step_ends = 1, 0, float("-inf")
        self._reported_rate: float | None = None
        self._n_counted, self._seconds_counted = 0.0, 0.0
        self._full_from, self._full_by = float("-inf"), float("-inf")
        self._is_rolling = False

    @property
    def rate(self) -> float | None:
        """Requests per second that the server accepts, None if unknown."""
        if self._seconds_counted > 0 and self._n_counted > 0:
            return self._n_counted / self._seconds_counted
        return self._reported_rate

    def pause(self, now: float) -> float:
        """Return the seconds until the pause ends, 0 without a pause."""
        return max(0.0, self._resume_at - now) if self._is_probing else 0.0

    def wait(self, now: float) -> float:
        """Return the seconds until the next check, 0 if a request may be sent now."""
        if self._is_probing:
            if self._probe is None:
                return max(0.0, self._resume_at - now)
            # Refusals arrive at once, answers late: a probe that is not refused by now has passed.
            settled_at = self._probe.sent_at + self._settle
            if now < settled_at:
                return settled_at - now
            self._open(now)
        if self._account is None:
            return 0.0
        return max(self._wait_for_step(now), self._wait_for_credit(now))

    def send(self, now: float) -> Ticket:
        ticket = Ticket(self._n_sent, now, self._epoch)
        self._n_sent += 1
        if self._account is not None:
            self._account.n_passed += 1
            self._step_left -= 1
        if self._is_probing and self._probe is None:
            self._probe = ticket
        return ticket

    def passed(self, ticket: Ticket, now: float, hints: RateHints) -> None:
        """Record that the server accepted a request."""
        if self._is_probing and ticket == self._probe:
            self._open(now)
        if ticket.epoch == self._epoch and not self._is_probing:
            self._pause_if_exhausted(ticket, now, hints)

    def refused(self, ticket: Ticket, now: float, hints: RateHints) -> None:
        """Record that the server refused a request because of a rate limit."""
        self._settle = min(max(2 * (now - ticket.sent_at), 0.7 * self._settle, self._minute / 3000), self._minute / 20)
        self._reported_rate = hints.rate(self._minute) or self._reported_rate
        is_late = ticket.epoch < self._epoch
        counted_in = self._closed if is_late else self._account
        if counted_in is not None:
            counted_in.n_passed -= 1
        if is_late and not self._is_probing:
            return
        if not is_late and not self._is_probing:
            self._exhaust(ticket.sent_at)
        if ticket == self._probe:
            self._probe = None
        self._resume_at = max(self._resume_at, now + self._pause_after(now, hints))

    def _exhaust(self, now: float) -> None:
        self._closed, self._account = self._account, _Account(now)
        if self._closed is not None:
            self._closed.seconds = now - self._closed.begun_at
        self._epoch += 1
        self._is_probing, self._probe = True, None
        self._resume_at = now

    def _open(self, now: float) -> None:
        """End the pause after an accepted probe, and add the closed account to the rate: it is final by now."""
        assert self._account is not None
        self._is_probing, self._probe = False, None
        self._opened_at = now
        self._last_pause = now - self._account.begun_at
        self._step_size, self._step_left, self._step_ends = 1, 0, now
        if self._closed is not None and self._closed.seconds > 0:
            share = 0.5 ** (self._closed.seconds / self._minute)
            self._n_counted = share * self._n_counted + max(self._closed.n_passed, 1)
            self._seconds_counted = share * self._seconds_counted + self._closed.seconds
        self._closed = None

    def _pause_after(self, now: float, hints: RateHints) -> float:
        """Return the seconds of the pause after a refusal: the server's time, else a time that grows with the wait."""
        assert self._account is not None
        waited = now - self._account.begun_at
        pause = hints.pause_seconds(is_rolling=self._is_rolling)
        if pause and not hints.wait_seconds and self._is_rolling:
            pause = max(pause, _LATENESS * waited)  # estimated, not reported by the server: it may be wrong repeatedly
        jitter = 1 + _JITTER * self._chance.random()
        if pause:
            # Slightly longer than reported, so that a small clock difference costs no request. Slots of other processes
            # received the same time.
            return pause * (1 + 0.2 * (jitter - 1)) + self._settle * self._chance.uniform(0.1, 0.5)
        # A sliding window may open again at once. Other windows probably take as long as the last pause, so the time
        # waited doubles up to half of that pause.
        doubled = min(waited, 0.5 * self._last_pause - waited)
        return max(self._minute / 120, doubled, _LATENESS * waited) * jitter

    def _wait_for_step(self, now: float) -> float:
        """Return the wait for the next step of the restart: each step admits twice as many requests as the last."""
        if self._step_left > 0:
            return 0.0
        if now < self._step_ends:
            return self._step_ends - now
        self._step_size = min(2 * self._step_size, 1 << 20)
        self._step_left, self._step_ends = self._step_size, now + self._settle
        return 0.0

    def _wait_for_credit(self, now: float) -> float:
        assert self._account is not None
        rate = self.rate
        if rate is None:
            return 0.0
        n, begun_at = self._account.n_passed, self._account.begun_at
        quiet = max(0.0, now - self._opened_at) / (_QUIET * self._minute)
        due = begun_at + (n + 1) / (rate * (1 + _GROWTH * n + quiet**3))
        # The credit grows faster the longer the server refuses nothing, so check again soon.
        return min(max(0.0, due - now), self._minute / 60)

    def _pause_if_exhausted(self, ticket: Ticket, now: float, hints: RateHints) -> None:
        """Pause before the server must refuse, if its headers report the remaining requests."""
        # The token limit is preferred: both limits reset in the same way, and a request changes it more.
        reset = hints.reset_seconds if hints.tokens_reset_seconds is None else hints.tokens_reset_seconds
        if reset is not None:
            self._detect_rolling(ticket.sent_at + reset, now + reset, now)
        if hints.remaining is None or hints.reset_seconds is None:
            return
        left = hints.remaining - (self._n_sent - 1 - ticket.number)
        if left > 0:
            return
        if not self._is_rolling:
            self._exhaust(now)
            pause = min(hints.reset_seconds, _LONGEST_PAUSE * self._minute)
            self._resume_at = now + pause + self._settle * self._chance.uniform(0.1, 0.5)
        elif self._account is None and (rate := hints.refill_rate()):
            self._reported_rate = rate
            self._exhaust(now)
            self._resume_at = now + min(1 / rate, _LONGEST_PAUSE * self._minute)

    def _detect_rolling(self, earliest: float, latest: float, now: float) -> None:
        """Classify the limit: the reset time of a window is constant, that of a bucket moves."""
        if now >= self._full_from:
            self._full_from, self._full_by = earliest, latest
            return
        self._is_rolling = self._is_rolling or earliest > self._full_by + self._minute / 30
        self._full_from, self._full_by = max(self._full_from, earliest), min(self._full_by, latest)


# Parsing of rate limits: about a dozen spellings of headers, and the sentence in the error message. There is no common
# standard. `retry-after` is seconds or a date. Resets are `1s`, `6m0s`, `120ms`, plain seconds, an epoch in seconds or
# milliseconds, or a date. Some servers report the time only in the message. Impossible numbers are ignored: no header
# and no message raises an exception here.

_PREFIXES = ("x-ratelimit-", "ratelimit-", "anthropic-ratelimit-")
_QUANTITIES = ("requests", "tokens", "")
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = r"[0-9]{1,15}(?:\.[0-9]{1,15})?"  # more digits are neither a count nor a time
_LONGEST_SECONDS = 366 * 86400.0
_LONGEST_MESSAGE = 2_000  # characters that are parsed
_DURATION = re.compile(rf"({_NUMBER})(ms|s|m|h|d)")
_EPOCH_FROM = 1e9  # seconds; larger numbers count from 1970
_EPOCH_MILLISECONDS_FROM = 1e12
_RETRY_IN = re.compile(
    r"(?:try again|retry|come back|available|resets?)\s+(?:again\s+)?(?:in|after)\s+(?:about\s+)?"
    rf"((?:{_NUMBER}\s*(?:milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|h|days?|d)(?![a-z])\s*)+)",
    re.IGNORECASE | re.ASCII,
)
_PART = re.compile(rf"({_NUMBER})\s*([a-z]+)", re.IGNORECASE | re.ASCII)
_PERIOD_MINUTES = {"second": 1 / 60, "sec": 1 / 60, "minute": 1.0, "min": 1.0, "hour": 60.0, "day": 1440.0}
_COUNT = r"(\d[\d,]{0,19})"
_RATE = re.compile(
    rf"(?<![\d,]){_COUNT}\s*requests?\s*(?:per|a|/)\s*(second|sec|minute|min|hour|day)", re.IGNORECASE | re.ASCII
)
_RATE_BY_LIMIT = re.compile(
    rf"requests?\s*(?:per|a|/)\s*(second|sec|minute|min|hour|day)\b.{{0,20}}?limit:?\s*{_COUNT}(?![\d,])",
    re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class RateHints:
    """Rate limits in one response."""

    wait_seconds: float | None = None
    """Seconds to wait before the next request, None if not reported."""
    limit: int | None = None
    remaining: int | None = None
    reset_seconds: float | None = None
    """Seconds until the full limit is available: at the end of a window, or when a bucket is full."""
    tokens_reset_seconds: float | None = None
    """The same for the limit on tokens."""
    exhausted_reset_seconds: float | None = None
    """The same for the exhausted limits, on requests or on tokens; the longest reset if no limit is exhausted."""
    requests_per_minute: float | None = None
    """The limit in the message."""

    def rate(self, minute_seconds: float) -> float | None:
        """Return the requests per second that the message allows, None if it states no limit."""
        return None if self.requests_per_minute is None else self.requests_per_minute / minute_seconds

    def refill_rate(self) -> float | None:
        """Return the fill rate of a bucket, in requests per second; None if unknown."""
        if not self.reset_seconds or self.limit is None or self.remaining is None or self.limit <= self.remaining:
            return None
        return (self.limit - self.remaining) / self.reset_seconds

    def pause_seconds(self, *, is_rolling: bool) -> float | None:
        """Return the seconds to pause after a refusal, None if unknown."""
        if self.wait_seconds:
            return self.wait_seconds
        if not is_rolling:
            return self.exhausted_reset_seconds
        if self.remaining:
            return None  # the token limit is exhausted, and the tokens of the next request are unknown
        rate = self.refill_rate()
        return None if rate is None else 1 / rate


NO_HINTS = RateHints()


def rate_hints(headers: Mapping[str, str], message: str = "") -> RateHints:
    """Return the rate limits in the headers of a response and in the message of an error."""
    message = message[:_LONGEST_MESSAGE]
    limits = {quantity: _limit(headers, quantity) for quantity in _QUANTITIES}
    _, *counts = limits["requests"]
    limit, remaining, reset = limits["requests"] if counts != [None, None] else limits[""]
    # The reset of the exhausted limit, or the longest reset if none is exhausted.
    resets = [(reset, remaining) for _, remaining, reset in limits.values() if reset is not None]
    used_up = [reset for reset, remaining in resets if remaining == 0]
    wait = retry_after_seconds(headers)
    return RateHints(
        wait_seconds=wait if wait is not None else wait_in(message),
        limit=limit,
        remaining=remaining,
        reset_seconds=reset,
        tokens_reset_seconds=limits["tokens"][2],
        exhausted_reset_seconds=max(used_up or [reset for reset, _ in resets], default=None),
        requests_per_minute=_requests_per_minute_in(message),
    )


def _limit(headers: Mapping[str, str], quantity: str) -> tuple[int | None, int | None, float | None]:
    """Return size, remaining number and reset seconds of a limit (`requests`, `tokens`, or empty if unnamed)."""
    return (
        _integer(_header(headers, "limit", quantity)),
        _integer(_header(headers, "remaining", quantity)),
        reset_seconds(_header(headers, "reset", quantity)),
    )


def _header(headers: Mapping[str, str], field: str, quantity: str) -> str:
    for prefix in _PREFIXES:
        # The word order of OpenAI, of Anthropic, and of servers with a single limit.
        for name in (
            (f"{prefix}{field}-{quantity}", f"{prefix}{quantity}-{field}") if quantity else (f"{prefix}{field}",)
        ):
            if value := headers.get(name):
                return value
    return ""


def _integer(text: str) -> int | None:
    match = re.match(r"\s*([0-9]{1,15})(?![0-9])", text)
    return int(match[1]) if match else None


def reset_seconds(text: str) -> float | None:
    """Return the seconds until a reset, 0 to a year, for any of these spellings; None for other texts."""
    return _within_a_year(_reset_seconds(text.strip()))


def _within_a_year(seconds: float | None) -> float | None:
    """Return the seconds if they are between 0 and a year, else None: a call would wait that long."""
    return seconds if seconds is not None and 0 <= seconds <= _LONGEST_SECONDS else None


def _reset_seconds(text: str) -> float | None:
    parts = _DURATION.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)
    try:
        number = float(text)
    except ValueError:
        return _until_date(text)
    if not math.isfinite(number):
        return None
    if number >= _EPOCH_FROM:
        return max(0.0, number / (1000 if number >= _EPOCH_MILLISECONDS_FROM else 1) - time.time())
    return number


def _until_date(text: str) -> float | None:
    if not text:
        return None
    try:
        date = parse_time(text)
    except ValueError:
        try:
            date = parsedate_to_datetime(text)
        except (TypeError, ValueError, OverflowError, IndexError):
            return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=timezone.utc)
    return max(0.0, date.timestamp() - time.time())


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server requests to wait, at least 0; None if missing or unreadable.

    Reads `retry-after-ms`, and `retry-after` as seconds, a duration or a date (RFC 9110, section 10.2.3).
    """
    try:
        seconds = _within_a_year(float(headers.get("retry-after-ms", "")) / 1000)
    except ValueError:
        seconds = None
    return seconds if seconds is not None else reset_seconds(headers.get("retry-after", ""))


def wait_in(message: str) -> float | None:
    """Return the wait in a message such as `try again in 1m2.5s` or `retry after 20 seconds`, in seconds."""
    match = _RETRY_IN.search(message)
    if match is None:
        return None
    return _within_a_year(sum(float(number) * _unit(unit) for number, unit in _PART.findall(match[1])))


def _unit(word: str) -> float:
    word = word.lower()
    return _UNIT_SECONDS["ms"] if word.startswith(("ms", "milli")) else _UNIT_SECONDS[word[0]]


def _requests_per_minute_in(message: str) -> float | None:
    """Return the requests per minute that a message allows, such as `500 requests per minute`."""
    if match := _RATE_BY_LIMIT.search(message):
        period, number = match[1], match[2]
    elif match := _RATE.search(message):
        number, period = match[1], match[2]
    else:
        return None
    per_minute = float(number.replace(",", "")) / _PERIOD_MINUTES[period.lower()]
    return per_minute if per_minute > 0 else None
