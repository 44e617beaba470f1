"""Keeps a client within what its endpoint allows: the limits that the user names, and those that the server shows.

Limits hold over every window of sixty seconds, not on average: a bucket that refills would let twice the limit through
in the minute after a rest. What the server itself says and refuses is the business of `Throttle`, and how many requests
are open at once that of whoever starts them.
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
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

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
        too_many = self._requests is not None and len(self._sent) >= self._requests
        too_long = self._tokens is not None and self._n_tokens + n_tokens > self._tokens
        if not self._sent or not (too_many or too_long):
            return 0.0
        # Never 0, which float rounding could make of it: the loop above would spin.
        return max(self._sent[0][0] + WINDOW_SECONDS - now, 0.001)


# Learns how fast a server lets requests pass, from what it refuses and what it says while it does.
# A server's limit may be a window that opens all at once, one that slides, or a bucket that fills request by
# request, and headers rarely say which. What holds for all of them: between two moments at which the server had
# nothing left, it let pass what it grants in that time. So each refusal is such a moment, the requests that passed
# since the last one give the rate, and the time that passed since then gives a credit: a window that opens all at
# once is used all at once, a bucket is drawn from as it fills. The rate is tried a little higher with every request
# that passes, since nobody tells when a limit is raised or when the other process that shared it has ended.
# After a refusal one request goes first, when the server said or, where it said nothing, at times that grow with
# the time waited; the others follow in steps that double, so that slots never wake together. All of it counts
# requests: a limit on tokens shows as a rate of requests too.

_GROWTH = 1 / 500  # of the credit, for each request that passed: about one in thirty is refused at a steady rate
_QUIET = 1 / 6  # minute without a refusal, after which the credit doubles: who shared the limit may have ended
_LATENESS = 0.1  # of the time waited, where the server does not say when to come back
_JITTER = 0.05
_LONGEST_REST = 10  # minutes without a refusal: then the server may say itself that there is nothing for a day


@dataclass(frozen=True, slots=True)
class Ticket:
    """One request on its way."""

    number: int
    """How many were sent before it."""
    sent_at: float
    """When, in seconds of the clock."""
    epoch: int
    """How often the server had been exhausted by then."""


@dataclass(slots=True)
class _Account:
    """What passed between two moments at which the server had nothing left."""

    begun_at: float
    n_passed: int = 0
    seconds: float = 0.0


class Throttle:
    """When the next request may be sent; a state machine that neither sleeps nor knows the time."""

    def __init__(self, minute_seconds: float = 60.0, chance: random.Random | None = None) -> None:
        self._minute, self._chance = minute_seconds, chance or random.Random()
        self._n_sent = self._epoch = 0
        self._account: _Account | None = None  # since the last exhaustion; None while no limit was met
        self._closed: _Account | None = None  # the one before, as long as late refusals may correct it
        self._probe: Ticket | None = None
        self._is_probing = False
        self._resume_at = self._opened_at = float("-inf")
        self._last_pause = 0.0
        self._settle = minute_seconds / 3000
        self._step_size, self._step_left, self._step_ends = 1, 0, float("-inf")
        self._announced: float | None = None
        self._n_counted, self._seconds_counted = 0.0, 0.0
        self._full_from, self._full_by = float("-inf"), float("-inf")
        self._is_rolling = False

    @property
    def rate(self) -> float | None:
        """Requests a second that the server lets pass, None where that is not known."""
        if self._seconds_counted > 0 and self._n_counted > 0:
            return self._n_counted / self._seconds_counted
        return self._announced

    def pause(self, now: float) -> float:
        """Return for how many seconds the server wants nothing, 0 where it does not say so now."""
        return max(0.0, self._resume_at - now) if self._is_probing else 0.0

    def wait(self, now: float) -> float:
        """Return the seconds until the next look, 0 where a request may be sent now."""
        if self._is_probing:
            if self._probe is None:
                return max(0.0, self._resume_at - now)
            # Refusals come at once, answers late: a probe that is not refused by now has passed.
            settled_at = self._probe.sent_at + self._settle
            if now < settled_at:
                return settled_at - now
            self._open(now)
        if self._account is None:
            return 0.0
        return max(self._wait_for_step(now), self._wait_for_credit(now))

    def send(self, now: float) -> Ticket:
        """Count a request that is sent now."""
        ticket = Ticket(self._n_sent, now, self._epoch)
        self._n_sent += 1
        if self._account is not None:
            self._account.n_passed += 1
            self._step_left -= 1
        if self._is_probing and self._probe is None:
            self._probe = ticket
        return ticket

    def passed(self, ticket: Ticket, now: float, hints: RateHints) -> None:
        """Take the news that a request was let pass."""
        if self._is_probing and ticket == self._probe:
            self._open(now)
        if ticket.epoch == self._epoch and not self._is_probing:
            self._look_at_rest(ticket, now, hints)

    def refused(self, ticket: Ticket, now: float, hints: RateHints) -> None:
        """Take the news that a request was refused because there were too many."""
        self._settle = min(max(2 * (now - ticket.sent_at), 0.7 * self._settle, self._minute / 3000), self._minute / 20)
        self._announced = hints.rate(self._minute) or self._announced
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
        """Close the account: the server had nothing left."""
        self._closed, self._account = self._account, _Account(now)
        if self._closed is not None:
            self._closed.seconds = now - self._closed.begun_at
        self._epoch += 1
        self._is_probing, self._probe = True, None
        self._resume_at = now

    def _open(self, now: float) -> None:
        """End the pause: a request has passed; what passed between the last two exhaustions is final by now."""
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
        """Return for how long to send nothing after a refusal: as told, else longer the longer it takes."""
        assert self._account is not None
        waited = now - self._account.begun_at
        pause = hints.pause_seconds(is_rolling=self._is_rolling)
        if pause and not hints.wait_seconds and self._is_rolling:
            pause = max(pause, _LATENESS * waited)  # worked out, not told: it may be wrong, again and again
        jitter = 1 + _JITTER * self._chance.random()
        if pause:
            # A hair longer than told, so that a clock that is a little off costs no request; slots of other processes
            # were told the same.
            return pause * (1 + 0.2 * (jitter - 1)) + self._settle * self._chance.uniform(0.1, 0.5)
        # A window that slides may open again at once, one that does not keeps as long as the last one: the time is
        # doubled until half of that.
        doubled = min(waited, 0.5 * self._last_pause - waited)
        return max(self._minute / 120, doubled, _LATENESS * waited) * jitter

    def _wait_for_step(self, now: float) -> float:
        """Return the wait for the next step of the restart: each lets twice as many pass as the one before."""
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
        # The credit grows faster the longer nothing was refused: look again soon.
        return min(max(0.0, due - now), self._minute / 60)

    def _look_at_rest(self, ticket: Ticket, now: float, hints: RateHints) -> None:
        """Stop before the server must refuse, where it says how many requests it has left."""
        # Of two limits that of tokens is looked at: both open in the same way, and a request moves it further.
        reset = hints.reset_seconds if hints.tokens_reset_seconds is None else hints.tokens_reset_seconds
        if reset is not None:
            self._look_at_reset(ticket.sent_at + reset, now + reset, now)
        if hints.remaining is None or hints.reset_seconds is None:
            return
        left = hints.remaining - (self._n_sent - 1 - ticket.number)
        if left > 0:
            return
        if not self._is_rolling:
            self._exhaust(now)
            rest = min(hints.reset_seconds, _LONGEST_REST * self._minute)
            self._resume_at = now + rest + self._settle * self._chance.uniform(0.1, 0.5)
        elif self._account is None and (rate := hints.refill_rate()):
            self._announced = rate
            self._exhaust(now)
            self._resume_at = now + min(1 / rate, _LONGEST_REST * self._minute)

    def _look_at_reset(self, earliest: float, latest: float, now: float) -> None:
        """Learn whether the limit is a window, whose end stays where it is, or a bucket, where it moves on."""
        if now >= self._full_from:
            self._full_from, self._full_by = earliest, latest
            return
        self._is_rolling = self._is_rolling or earliest > self._full_by + self._minute / 30
        self._full_from, self._full_by = max(self._full_from, earliest), min(self._full_by, latest)


# Reads what servers say about their limits: a dozen spellings of headers, and the sentence in the error.
# No standard holds: `retry-after` is seconds or a date, resets are `1s`, `6m0s`, `120ms`, plain seconds, an epoch
# in seconds or milliseconds, or a date, and some servers say it in the message only. What is not a number that a
# server can mean says nothing: no header and no message makes a function of this module fail.

_PREFIXES = ("x-ratelimit-", "ratelimit-", "anthropic-ratelimit-")
_KINDS = ("requests", "tokens", "")
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = r"[0-9]{1,15}(?:\.[0-9]{1,15})?"  # more digits are no count and no time
_LONGEST_SECONDS = 366 * 86400.0
_LONGEST_MESSAGE = 2_000  # characters that are looked at
_DURATION = re.compile(rf"({_NUMBER})(ms|s|m|h|d)")
_EPOCH_FROM = 1e9  # seconds; what is larger counts from 1970
_EPOCH_MILLISECONDS_FROM = 1e12
_COME_BACK = re.compile(
    r"(?:try again|retry|come back|available|resets?)\s+(?:again\s+)?(?:in|after)\s+(?:about\s+)?"
    rf"((?:{_NUMBER}\s*(?:milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|h|days?|d)(?![a-z])\s*)+)",
    re.IGNORECASE | re.ASCII,
)
_PART = re.compile(rf"({_NUMBER})\s*([a-z]+)", re.IGNORECASE | re.ASCII)
_PERIOD_MINUTES = {"second": 1 / 60, "sec": 1 / 60, "minute": 1.0, "min": 1.0, "hour": 60.0, "day": 1440.0}
_COUNT = r"(\d[\d,]{0,19})"
_GRANTED = re.compile(
    rf"(?<![\d,]){_COUNT}\s*requests?\s*(?:per|a|/)\s*(second|sec|minute|min|hour|day)", re.IGNORECASE | re.ASCII
)
_GRANTED_BY_LIMIT = re.compile(
    rf"requests?\s*(?:per|a|/)\s*(second|sec|minute|min|hour|day)\b.{{0,20}}?limit:?\s*{_COUNT}(?![\d,])",
    re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class RateHints:
    """What one reply says about the limits of its server."""

    wait_seconds: float | None = None
    """How long to send nothing, None where it does not say."""
    limit: int | None = None
    remaining: int | None = None
    reset_seconds: float | None = None
    """When all of them are there again: at the end of a window, or when a bucket is full."""
    tokens_reset_seconds: float | None = None
    """The same of the limit on tokens."""
    exhausted_reset_seconds: float | None = None
    """The same of the limit that has nothing left, be it one of requests or of tokens."""
    requests_a_minute: float | None = None
    """The limit as the message says it."""

    def rate(self, minute_seconds: float) -> float | None:
        """Return the requests a second that the message grants."""
        return None if self.requests_a_minute is None else self.requests_a_minute / minute_seconds

    def refill_rate(self) -> float | None:
        """Return how fast a bucket fills, in requests a second."""
        if not self.reset_seconds or self.limit is None or self.remaining is None or self.limit <= self.remaining:
            return None
        return (self.limit - self.remaining) / self.reset_seconds

    def pause_seconds(self, *, is_rolling: bool) -> float | None:
        """Return how long to send nothing after a refusal."""
        if self.wait_seconds:
            return self.wait_seconds
        if not is_rolling:
            return self.exhausted_reset_seconds
        if self.remaining:
            return None  # it is tokens that ran out, and how many the next request needs is not known
        rate = self.refill_rate()
        return None if rate is None else 1 / rate


NO_HINTS = RateHints()


def rate_hints(headers: Mapping[str, str], message: str = "") -> RateHints:
    """Return what the headers of a reply and the message of an error say."""
    message = message[:_LONGEST_MESSAGE]
    found = {kind: _limit(headers, kind) for kind in _KINDS}
    _, *counted = found["requests"]
    limit, remaining, reset = found["requests"] if counted != [None, None] else found[""]
    # The reset of the limit that is used up; if that shows for none, the longest.
    resets = [(reset, remaining) for _, remaining, reset in found.values() if reset is not None]
    used_up = [reset for reset, remaining in resets if remaining == 0]
    wait = retry_after_seconds(headers)
    return RateHints(
        wait_seconds=wait if wait is not None else wait_in(message),
        limit=limit,
        remaining=remaining,
        reset_seconds=reset,
        tokens_reset_seconds=found["tokens"][2],
        exhausted_reset_seconds=max(used_up or [reset for reset, _ in resets], default=None),
        requests_a_minute=_granted_in(message),
    )


def _limit(headers: Mapping[str, str], kind: str) -> tuple[int | None, int | None, float | None]:
    """Return size, rest and reset of a limit of a kind (`requests`, `tokens`, or one that does not say of what)."""
    return (
        _whole_number(_header(headers, "limit", kind)),
        _whole_number(_header(headers, "remaining", kind)),
        reset_seconds(_header(headers, "reset", kind)),
    )


def _header(headers: Mapping[str, str], field: str, kind: str) -> str:
    for prefix in _PREFIXES:
        # OpenAI's order of the words, Anthropic's, and that of servers that limit one thing.
        for name in (f"{prefix}{field}-{kind}", f"{prefix}{kind}-{field}") if kind else (f"{prefix}{field}",):
            if value := headers.get(name):
                return value
    return ""


def _whole_number(text: str) -> int | None:
    match = re.match(r"\s*([0-9]{1,15})(?![0-9])", text)
    return int(match[1]) if match else None


def reset_seconds(text: str) -> float | None:
    """Return the seconds until a reset, 0 to a year, in any of the spellings of the module; None for another one."""
    return _possible(_reset_seconds(text.strip()))


def _possible(seconds: float | None) -> float | None:
    """Return a time that a server can mean: no forever, which a call would wait for."""
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
        when = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        try:
            when = parsedate_to_datetime(text)
        except (TypeError, ValueError, OverflowError, IndexError):
            return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=timezone.utc)
    return max(0.0, when.timestamp() - time.time())


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return how long a server asks to wait, at least 0; None where it does not say, or not in a way that is known.

    Known are `retry-after-ms`, and `retry-after` as seconds, a duration or a date (RFC 9110, section 10.2.3).
    """
    try:
        seconds = _possible(float(headers.get("retry-after-ms", "")) / 1000)
    except ValueError:
        seconds = None
    return seconds if seconds is not None else reset_seconds(headers.get("retry-after", ""))


def wait_in(message: str) -> float | None:
    """Return the seconds that a message such as `try again in 1m2.5s` or `retry after 20 seconds` asks to wait."""
    match = _COME_BACK.search(message)
    if match is None:
        return None
    return _possible(sum(float(number) * _unit(unit) for number, unit in _PART.findall(match[1])))


def _unit(word: str) -> float:
    word = word.lower()
    return _UNIT_SECONDS["ms"] if word.startswith(("ms", "milli")) else _UNIT_SECONDS[word[0]]


def _granted_in(message: str) -> float | None:
    """Return the requests a minute that a message grants, such as `500 requests per minute`."""
    if match := _GRANTED_BY_LIMIT.search(message):
        period, number = match[1], match[2]
    elif match := _GRANTED.search(message):
        number, period = match[1], match[2]
    else:
        return None
    granted = float(number.replace(",", "")) / _PERIOD_MINUTES[period.lower()]
    return granted if granted > 0 else None
