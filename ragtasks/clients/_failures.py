"""Classifies what can go wrong with one request: worth another attempt, the end of this prompt, or of the whole call.

Transport is tried again, a refusal because of a rate is waited out. What a server decides about a prompt is final, and
what it decides about the caller (wrong key, unknown model, no credit left) is final for every prompt, so it is said
once instead of once a prompt. No exception of the transport is anything else than one of these.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any
from urllib.parse import urlsplit

import orjson

from ragtasks.clients._endpoint import Credentials
from ragtasks.clients._limits import NO_HINTS, RateHints, rate_hints

_FATAL = {
    401: "the endpoint does not accept the key",
    402: "the account has no credit left",
    404: "the endpoint does not know the model, or the address",
}
_TRANSIENT = frozenset({408, 409, 425})
_TOO_MANY, _UNAVAILABLE, _OVERLOADED = 429, 503, 529
_NO_CREDIT = "insufficient_quota"
_FILTER = "content_filter"
_MAX_CHARACTERS = 300
_MAX_BODY_CHARACTERS = 80
_RATE_WORDS = re.compile(r"rate.?limit|too many requests|overloaded|over capacity", re.IGNORECASE)
_NEVER_FITS = re.compile(r"request too large|reduce the length", re.IGNORECASE)
_SETTINGS = ("temperature", "seed", "max_completion_tokens", "max_tokens", "response_format")
_NOT_TAKEN = re.compile(
    r"unsupported|not support|unknown|unrecogni[sz]ed|unexpected|extra (?:input|field)|not permitted|not allowed|"
    r"deprecated|does not accept|invalid (?:parameter|argument)|instead",
    re.IGNORECASE,
)


class Verdict(Enum):
    """What follows from an error."""

    RETRY = auto()
    """Another attempt may succeed."""
    SLOW_DOWN = auto()
    """The server has too much to do now: it is no attempt, and the whole call goes slower."""
    SETTING = auto()
    """The server does not take one of the settings that were sent."""
    GIVE_UP = auto()
    """This prompt gets no answer."""
    FILTERED = auto()
    """A content filter stopped the prompt."""
    FATAL = auto()
    """No prompt of this call will get one."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One request that brought no completion."""

    verdict: Verdict
    """What follows."""
    reason: str
    """What happened, without keys and addresses."""
    hints: RateHints = NO_HINTS
    """What the server says about its limits."""
    nobody_there: bool = False
    """Whether no connection could be made at all."""
    setting: str = ""
    """The setting that the server does not take, empty where it is not about one."""
    usage: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """What the server says that it took all the same, by the fields of `Reply`."""


def redacted(text: str, credentials: Credentials, shown: int = _MAX_CHARACTERS) -> str:
    """Return a text with the key, and anything shaped like one, masked; whitespace collapsed, and cut."""
    return " ".join(credentials.masked(text).split())[:shown]


def failure_of(error: Exception, credentials: Credentials) -> Failure:
    """Return what an exception of sending a request and reading its reply means, whatever it is."""
    import openai

    if isinstance(error, openai.APIStatusError):
        try:
            return _status_failure(error, credentials)
        except RecursionError:
            return Failure(Verdict.RETRY, f"HTTP {error.status_code}, with a body that is nested too deeply")
    return _connection_failure(error)


def unreadable(body: bytes, credentials: Credentials) -> Failure:
    """Return what a body that is not JSON means: another attempt."""
    begins = redacted(body[: 4 * _MAX_CHARACTERS].decode("utf-8", errors="replace"), credentials, _MAX_BODY_CHARACTERS)
    return Failure(Verdict.RETRY, f"the reply is not JSON, or did not arrive whole; it begins with {begins!r}")


def _connection_failure(error: Exception) -> Failure:
    import aiohttp

    causes = _causes(error)
    kind = type(causes[-1]).__name__
    if any(isinstance(cause, aiohttp.ClientSSLError) for cause in causes):
        return Failure(Verdict.RETRY, f"no secure connection to the address ({kind})", nobody_there=True)
    if any(isinstance(cause, aiohttp.ClientConnectorError) for cause in causes):
        return Failure(Verdict.RETRY, "no connection: no server answers at the address", nobody_there=True)
    timeouts = (asyncio.TimeoutError, TimeoutError, aiohttp.ServerTimeoutError)
    if any(isinstance(cause, timeouts) for cause in causes):
        return Failure(Verdict.RETRY, "no reply in time")
    return Failure(Verdict.RETRY, f"the connection broke ({kind})")


def _causes(error: BaseException) -> list[BaseException]:
    """Return an exception and what it was raised from; the SDK gives connection errors few names of its own."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    return chain


def _status_failure(error: Any, credentials: Credentials) -> Failure:
    status: int = error.status_code
    # The SDK says no more than the status where a body has no message in OpenAI's shape.
    is_bare = str(error.message) == f"Error code: {status}"
    message = str(error.body if is_bare and error.body else error.message)
    reason = f"HTTP {status}: {redacted(message, credentials)}"
    headers: Mapping[str, str] = error.response.headers
    if 300 <= status < 400:
        return Failure(Verdict.FATAL, _redirected(status, headers.get("location", "")))
    if status in _FATAL or error.code == _NO_CREDIT:
        return Failure(Verdict.FATAL, f"{_FATAL.get(status, _FATAL[402])} ({reason})")
    if failure := _slow_down(status, message, reason, headers):
        return failure
    if status in _TRANSIENT or status >= 500:
        return Failure(Verdict.RETRY, reason)
    return _decided(error, status, message, reason)


def _decided(error: Any, status: int, message: str, reason: str) -> Failure:
    """Return what a server's word about one prompt means."""
    if error.code == _FILTER:
        return Failure(Verdict.FILTERED, reason)
    setting = _refused_setting(str(error.param or ""), message) if status in (400, 422) else ""
    return Failure(Verdict.SETTING if setting else Verdict.GIVE_UP, reason, setting=setting)


def _slow_down(status: int, message: str, reason: str, headers: Mapping[str, str]) -> Failure | None:
    """Return what a refusal because of a rate means; None where it is none."""
    if status not in (_TOO_MANY, _UNAVAILABLE, _OVERLOADED):
        return None
    hints = rate_hints(headers, message)
    if status == _UNAVAILABLE and hints.wait_seconds is None:
        return None
    if _NEVER_FITS.search(message):
        return Failure(Verdict.GIVE_UP, reason)
    return Failure(Verdict.SLOW_DOWN, reason, hints)


def _redirected(status: int, location: str) -> str:
    try:
        host = urlsplit(location).hostname
    except ValueError:
        host = None
    to = f"to {host}" if host else "elsewhere"
    return f"the endpoint redirects {to}, and a key follows no redirect: name the final address (HTTP {status})"


def _refused_setting(named: str, message: str) -> str:
    """Return the setting that an error names as one that the server does not take, empty where it names none."""
    if not _NOT_TAKEN.search(message):
        return ""
    if named in _SETTINGS:
        return named
    # Which one is refused is named first; what to use instead comes after it.
    found = [(match.start(), name) for name in _SETTINGS if (match := re.search(rf"\b{name}\b", message))]
    return min(found)[1] if found else ""


def failure_in_body(body: bytes, headers: Mapping[str, str], credentials: Credentials) -> Failure | None:
    """Return the error that a server sends with status 200, None where the body holds none that is known.

    Gateways do so when the model behind them refuses: `{"error": {"code": 429, "message": ...}}`.
    """
    if b'"error"' not in body:
        return None
    try:
        found = _error_in(orjson.loads(body))
    except ValueError:
        return None
    if found is None:
        return None
    message = f"{_word(found.get('type'))} {_word(found.get('message'))}".strip()
    reason = f"an error in place of a reply: {redacted(message, credentials)}"
    code = _word(found.get("code") or found.get("status"))
    status = int(code) if re.fullmatch("[0-9]{3}", code) else 0
    if status in (_TOO_MANY, _OVERLOADED) or _RATE_WORDS.search(f"{message} {code}"):
        return Failure(Verdict.SLOW_DOWN, reason, rate_hints(headers, message))
    return Failure(Verdict.RETRY, reason) if status in _TRANSIENT or 500 <= status < 600 else None


def _word(value: object) -> str:
    """Return what an error says in one field; lists and objects stay out: they may be nested too deeply to be shown."""
    return str(value) if isinstance(value, str | int) and value else ""


def _error_in(content: Any) -> Mapping[str, Any] | None:
    """Return the error of a decoded body, or of its first choice."""
    if not isinstance(content, dict):
        return None
    choices = content.get("choices")
    holders = [content, choices[0] if isinstance(choices, list) and choices else None]
    errors = [holder.get("error") for holder in holders if isinstance(holder, dict)]
    return next((error for error in errors if isinstance(error, dict)), None)
