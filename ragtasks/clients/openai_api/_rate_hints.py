"""Reads what servers say about their limits: a dozen spellings of headers, and the sentence in the error.

No standard holds: `retry-after` is seconds or a date, resets are `1s`, `6m0s`, `120ms`, plain seconds, an epoch in
seconds or milliseconds, or a date, and some servers say it in the message only. What is not a number that a server can
mean says nothing: no header and no message makes a function of this module fail.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

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
    """Requests that are granted at once."""
    remaining: int | None = None
    """How many of them are left."""
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
        """Return how long to send nothing after a refusal.

        Args:
            is_rolling: the limit fills request by request, so that waiting for its reset would waste most of it.
        """
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
    """Return what the headers of a reply and the message of an error say.

    Args:
        headers: names in any case, if the mapping does not mind the case.
        message: the text of the error, empty for none.
    """
    message = message[:_LONGEST_MESSAGE]
    found = {kind: _Limit.of(headers, kind) for kind in _KINDS}
    requests = found["requests"] if found["requests"].is_said else found[""]
    wait = retry_after_seconds(headers)
    return RateHints(
        wait_seconds=wait if wait is not None else wait_in(message),
        limit=requests.limit,
        remaining=requests.remaining,
        reset_seconds=requests.reset_seconds,
        tokens_reset_seconds=found["tokens"].reset_seconds,
        exhausted_reset_seconds=_reset_of_exhausted(list(found.values())),
        requests_a_minute=_granted_in(message),
    )


@dataclass(frozen=True, slots=True)
class _Limit:
    """One limit as headers say it."""

    limit: int | None
    remaining: int | None
    reset_seconds: float | None

    @classmethod
    def of(cls, headers: Mapping[str, str], kind: str) -> _Limit:
        """Return the limit of a kind (`requests`, `tokens`, or one that does not say of what)."""
        return cls(
            _whole_number(_header(headers, "limit", kind)),
            _whole_number(_header(headers, "remaining", kind)),
            reset_seconds(_header(headers, "reset", kind)),
        )

    @property
    def is_said(self) -> bool:
        return self.remaining is not None or self.reset_seconds is not None


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


def _reset_of_exhausted(limits: list[_Limit]) -> float | None:
    """Return the reset of the limit that is used up; where that shows for none, the longest."""
    resets = [(limit.reset_seconds, limit.remaining) for limit in limits if limit.reset_seconds is not None]
    used_up = [reset for reset, remaining in resets if remaining == 0]
    return max(used_up or [reset for reset, _ in resets], default=None)


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


__all__ = ["NO_HINTS", "RateHints", "rate_hints", "reset_seconds", "retry_after_seconds", "wait_in"]
