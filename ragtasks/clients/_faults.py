"""Tells apart what can go wrong with one request: worth another attempt, the end of this prompt, or of the whole call.

Only transport is tried again. What a server decides about a prompt is final, and what it decides about the caller
(wrong key, unknown model, no credit left) is final for every prompt, so it is said once instead of once a prompt.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from typing import Any

import orjson

LONGEST_RETRY_AFTER_SECONDS = 600.0
"""A server that wants more than this means a daily quota: nobody's run should sleep through it unasked."""

_FATAL = {401: "the endpoint does not accept the key", 404: "the endpoint does not know the model, or the address"}
_TRANSIENT = frozenset({408, 409, 425, 429})
_NO_CREDIT = "insufficient_quota"
_FILTER = "content_filter"
_TIMEOUT_WEIGHT = 3
_SHOWN = 300
_SHOWN_BODY = 80
_KEY_SHAPE = re.compile(r"\bsk-[\w*.-]+")


class Verdict(Enum):
    """What follows from a fault."""

    RETRY = auto()
    """Another attempt may succeed."""
    GIVE_UP = auto()
    """This prompt gets no answer."""
    FILTERED = auto()
    """A content filter stopped the prompt."""
    FATAL = auto()
    """No prompt of this call will get one."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One request that brought no completion."""

    verdict: Verdict
    """What follows."""
    reason: str
    """What happened, without keys and addresses."""
    wait_seconds: float | None = None
    """How long the server asks to wait, None where it does not say."""
    nobody_there: bool = False
    """Whether no connection could be made at all."""
    weight: int = 1
    """How many attempts it uses up: a time-out costs as much patience as several quick failures."""


def redacted(text: str, key: str | None) -> str:
    """Return a text with the key, and anything shaped like one, masked; whitespace collapsed, cut to 300 characters."""
    hidden = text.replace(key, "***") if key else text
    return " ".join(_KEY_SHAPE.sub("***", hidden).split())[:_SHOWN]


def fault_of(error: Exception, key: str | None) -> Fault:
    """Return what an exception of the SDK, a time-out or a body that is no JSON means.

    Raises:
        Exception: `error` itself where it is none of these: a bug must not pass for a bad connection.
    """
    import openai

    if isinstance(error, openai.APIStatusError):
        return _status_fault(error, key)
    if isinstance(error, (asyncio.TimeoutError, openai.APIConnectionError)):
        return _connection_fault(error)
    if isinstance(error, orjson.JSONDecodeError):
        begins = redacted(error.doc, key)[:_SHOWN_BODY]
        return Fault(Verdict.RETRY, f"the reply is no JSON, or did not arrive whole; it begins with {begins!r}")
    raise error


def _connection_fault(error: Exception) -> Fault:
    import aiohttp

    causes = _causes(error)
    if any(isinstance(cause, aiohttp.ClientConnectorError) for cause in causes):
        return Fault(Verdict.RETRY, "no connection: nobody answers at the address", nobody_there=True)
    timeouts = (asyncio.TimeoutError, TimeoutError, aiohttp.ServerTimeoutError)
    if any(isinstance(cause, timeouts) for cause in causes):
        return Fault(Verdict.RETRY, "no reply in time", weight=_TIMEOUT_WEIGHT)
    return Fault(Verdict.RETRY, f"the connection broke ({type(causes[-1]).__name__})")


def _causes(error: BaseException) -> list[BaseException]:
    """Return an exception and what it was raised from; the SDK gives connection errors few names of its own."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    return chain


def _status_fault(error: Any, key: str | None) -> Fault:
    status: int = error.status_code
    # The SDK says no more than the status where a body has no message in OpenAI's shape.
    is_bare = str(error.message) == f"Error code: {status}"
    reason = f"HTTP {status}: {redacted(str(error.body if is_bare and error.body else error.message), key)}"
    wait = retry_after_seconds(error.response.headers)
    if status in _FATAL:
        return Fault(Verdict.FATAL, f"{_FATAL[status]} ({reason})")
    if error.code == _NO_CREDIT:
        return Fault(Verdict.FATAL, f"the account has no credit left ({reason})")
    if status not in _TRANSIENT and status < 500:
        return Fault(Verdict.FILTERED if error.code == _FILTER else Verdict.GIVE_UP, reason)
    if wait is not None and wait > LONGEST_RETRY_AFTER_SECONDS:
        return Fault(Verdict.FATAL, f"the endpoint asks to come back in {wait:.0f} seconds ({reason})")
    return Fault(Verdict.RETRY, reason, wait)


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return how long a server asks to wait, at least 0; None where it does not say, or not in a way that is known.

    Known are `retry-after-ms`, and `retry-after` as seconds or as a date (RFC 9110, section 10.2.3).
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


__all__ = ["LONGEST_RETRY_AFTER_SECONDS", "Fault", "Verdict", "fault_of", "redacted", "retry_after_seconds"]
