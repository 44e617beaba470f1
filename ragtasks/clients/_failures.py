"""Failures of a request: each is retried, ends its prompt, or ends the whole call.

Transport errors are retried; rate limits are waited out. A server's decision about a prompt is final. A decision about
the caller (wrong key, unknown model, no credit left) is final for every prompt, and is reported once instead of once
per prompt. Every exception of the transport becomes a `Failure`.
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

from ragtasks.clients._completion import ERROR_REPLY, SHORT_CONTEXT, error_in, error_text, server_words
from ragtasks.clients._credentials import Credentials
from ragtasks.clients._endpoint import SYSTEM_ROLE
from ragtasks.clients._limits import NO_HINTS, RateHints, rate_hints
from ragtasks.clients._protocol import CallUsage
from ragtasks.errors import JudgeError, masked_text

_FATAL = {
    401: "the endpoint does not accept the key",
    402: "the account has no credit left",
    404: "the endpoint has no such model or address",
}
_NEXT_STEPS = {
    402: "add credit to the account",
    404: "correct the model's name, or the address",
}
START_SERVER = "start the server, or correct the address"
_TRANSIENT = frozenset({408, 409, 425})
_TOO_MANY, _UNAVAILABLE, _OVERLOADED = 429, 503, 529
_NO_KEY, _UNKNOWN = 401, 404
_NO_CREDIT = "insufficient_quota"
_FILTER = "content_filter"
SLOW = "no reply in time"
"""Reason of a request that timed out."""
_MAX_FAILURE_CHARACTERS = 200
_MAX_BODY_CHARACTERS = 80
_RATE_WORDS = re.compile(r"rate.?limit|too many requests|overloaded|over capacity", re.IGNORECASE)
_NEVER_FITS = re.compile(r"request too large|reduce the length", re.IGNORECASE)
_OVER_CONTEXT = re.compile(
    r"context (?:length|size|window)|context_length_exceeded|max_model_len|prompt is too long", re.IGNORECASE
)
_SETTINGS = ("temperature", "seed", "max_completion_tokens", "max_tokens", "response_format", "stop")
_NO_SYSTEM_ROLE = re.compile(  # wording of chat templates and gateways
    r"system (?:role|message|prompt|instruction)s?\b.{0,40}\bnot\b|n[o']t support\b.{0,10}\bsystem\b|"
    r"only user and assistant roles|roles must alternate|developer instruction is not enabled",
    re.IGNORECASE,
)
_REFUSES_SETTING = re.compile(
    r"unsupported|n[o']t support|unknown|unrecogni[sz]ed|unexpected|extra (?:input|field)|not permitted|not allowed|"
    r"deprecated|does not accept|invalid (?:parameter|argument)|instead|strictly positive|only \S+ is allowed",
    re.IGNORECASE,
)


class Handling(Enum):
    """Consequence of an error."""

    RETRY = auto()
    SLOW_DOWN = auto()
    """The server is overloaded or its rate limit is reached: this is not an attempt, and the whole call slows down."""
    SETTING = auto()
    """The server refuses one of the settings."""
    GIVE_UP = auto()
    """This prompt gets no answer."""
    FILTERED = auto()
    FATAL = auto()
    """No prompt of this call will get an answer."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A request without a completion."""

    handling: Handling
    reason: str
    hints: RateHints = NO_HINTS
    """Rate limits in the server's response."""
    is_unreachable: bool = False
    """Whether no connection could be made at all."""
    next_step: str = ""
    """Next step for the user, if the failure shows one."""
    is_unknown: bool = False
    """Whether the server does not know the model or the address."""
    setting: str = ""
    """The refused setting, empty for other failures."""
    usage: CallUsage = field(default=CallUsage(), compare=False)


class EndpointError(JudgeError):
    """An endpoint that sends no more replies."""

    def __init__(self, where: str, found: str, step: str, n_kept: int = 0, unit: str = "replies") -> None:
        """Build the message; with stored replies, the next step is to run the same command again."""
        self._arguments = where, found, step, n_kept, unit
        self.next_step = f"{step} and run the same command: the {n_kept} {unit} are kept" if n_kept else step
        super().__init__("endpoint", where=where, expected="replies", found=found, next_step=self.next_step)

    def __reduce__(self) -> tuple[type[EndpointError], tuple[str, str, str, int, str]]:
        """Return the arguments for unpickling in another process."""
        return EndpointError, self._arguments

    def with_replies(self, n_kept: int, unit: str = "replies") -> EndpointError:
        """Return this error with the number of stored replies."""
        return EndpointError(*self._arguments[:3], n_kept, unit)


def redacted(text: str, credentials: Credentials, shown: int = _MAX_FAILURE_CHARACTERS) -> str:
    """Return a text on one line, cut to `shown` characters, with the key and anything shaped like a key masked."""
    return " ".join(masked_text(credentials.masked(text)).split())[:shown]


def failure_of(error: Exception, credentials: Credentials) -> Failure:
    """Return the failure for any exception raised while a request is sent or its reply is read."""
    import openai

    if isinstance(error, openai.APIStatusError):
        try:
            return _status_failure(error, credentials)
        except RecursionError:
            return Failure(Handling.RETRY, f"HTTP {error.status_code}, with a body that is nested too deeply")
    if type(error) is openai.APIError:  # in an event of a stream
        return Failure(Handling.GIVE_UP, f"{ERROR_REPLY}: {redacted(error.message, credentials)}")
    return _connection_failure(error)


def unreadable(body: bytes, credentials: Credentials) -> Failure:
    """Return the failure for a body that is not JSON: another attempt."""
    text = body.decode("utf-8", errors="replace")
    begins = redacted(server_words(text), credentials, _MAX_BODY_CHARACTERS)
    if begins != redacted(text, credentials, _MAX_BODY_CHARACTERS):
        return Failure(Handling.RETRY, f"the reply is not JSON but the web page {begins!r}")
    return Failure(Handling.RETRY, f"the reply is incomplete or not JSON; it begins with {begins!r}")


def _connection_failure(error: Exception) -> Failure:
    import aiohttp

    causes = _causes(error)
    error_name = type(causes[-1]).__name__
    if any(isinstance(cause, aiohttp.ClientSSLError) for cause in causes):
        why = getattr(causes[-1], "verify_message", "") or getattr(causes[-1], "reason", "") or error_name
        next_step = "correct the address: a server without TLS is http://, and a certificate must match its host"
        return Failure(
            Handling.RETRY, f"no secure connection to the address ({why})", is_unreachable=True, next_step=next_step
        )
    if any(isinstance(cause, aiohttp.ClientConnectorDNSError) for cause in causes):
        why = "no connection: the host name is unknown"
        return Failure(Handling.RETRY, why, is_unreachable=True, next_step="correct the address")
    if any(isinstance(cause, aiohttp.ClientConnectorError) for cause in causes):
        why = "no connection: no server answers at the address"
        return Failure(Handling.RETRY, why, is_unreachable=True, next_step=START_SERVER)
    timeouts = (asyncio.TimeoutError, TimeoutError, aiohttp.ServerTimeoutError)
    if any(isinstance(cause, timeouts) for cause in causes):
        return Failure(Handling.RETRY, SLOW)
    return Failure(Handling.RETRY, f"the connection broke ({error_name})")


def _causes(error: BaseException) -> list[BaseException]:
    """Return an exception and its causes; the SDK's own connection errors have few types."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    return chain


def _status_failure(error: Any, credentials: Credentials) -> Failure:
    status: int = error.status_code
    # The SDK's message has only the status if the body has no message in OpenAI's format.
    is_bare = str(error.message) == f"Error code: {status}"
    message = str(error.body if is_bare and error.body else error.message)
    words = (server_words(error.body) or message).removeprefix(f"{status} ")
    reason = f"HTTP {status}: {redacted(words, credentials)}"
    headers: Mapping[str, str] = error.response.headers
    if 300 <= status < 400:
        reason = _redirect_reason(status, headers.get("location", ""))
        return Failure(Handling.FATAL, reason, next_step="name the final address")
    if status in _FATAL or error.code == _NO_CREDIT:
        why, next_step = _FATAL.get(status, _FATAL[402]), _NEXT_STEPS.get(status, _NEXT_STEPS[402])
        if status == _NO_KEY:
            note, next_step = credentials.key_note()
            reason += f"; {note}"
        return Failure(Handling.FATAL, f"{why} ({reason})", next_step=next_step, is_unknown=status == _UNKNOWN)
    if failure := _rate_limit_failure(status, message, reason, headers):
        return failure
    if status in (400, 422, 500) and _NO_SYSTEM_ROLE.search(message):
        return Failure(Handling.SETTING, reason, setting=SYSTEM_ROLE)
    if status in _TRANSIENT or status >= 500:
        return Failure(Handling.RETRY, reason)
    return _prompt_failure(error, status, message, reason)


def _prompt_failure(error: Any, status: int, message: str, reason: str) -> Failure:
    """Return the failure for a server's decision about one prompt."""
    if error.code == _FILTER:
        return Failure(Handling.FILTERED, reason)
    setting = _refused_setting(str(error.param or ""), message) if status in (400, 422) else ""
    if not setting and _OVER_CONTEXT.search(message):
        reason = f"{SHORT_CONTEXT} ({reason})"
    return Failure(Handling.SETTING if setting else Handling.GIVE_UP, reason, setting=setting)


def _rate_limit_failure(status: int, message: str, reason: str, headers: Mapping[str, str]) -> Failure | None:
    """Return the failure for a rate limit, or None for other responses."""
    if status not in (_TOO_MANY, _UNAVAILABLE, _OVERLOADED):
        return None
    hints = rate_hints(headers, message)
    if status == _UNAVAILABLE and hints.wait_seconds is None:
        return None
    if _NEVER_FITS.search(message):
        return Failure(Handling.GIVE_UP, reason)
    seconds = hints.wait_seconds or 0.0
    wait = f"; the server requests a wait of {seconds:.0f} s" if seconds >= 1 else ""
    return Failure(Handling.SLOW_DOWN, reason + wait, hints)


def _redirect_reason(status: int, location: str) -> str:
    try:
        host = urlsplit(location).hostname
    except ValueError:
        host = None
    to = f"to {host}" if host else "elsewhere"
    return f"the endpoint redirects {to}, and no key is sent there (HTTP {status})"


def _refused_setting(parameter: str, message: str) -> str:
    """Return the setting that an error rejects, empty if it names none."""
    if not _REFUSES_SETTING.search(message):
        return ""
    if parameter in _SETTINGS:
        return parameter
    # The refused setting is named first, its replacement later.
    mentions = [(match.start(), name) for name in _SETTINGS if (match := re.search(rf"\b{name}\b", message))]
    return min(mentions)[1] if mentions else ""


def failure_in_body(body: bytes, headers: Mapping[str, str], credentials: Credentials) -> Failure | None:
    """Return the temporary error that a body of status 200 contains, or None.

    Gateways send such bodies when the model behind them refuses: `{"error": {"code": 429, "message": ...}}`.
    """
    if b'"error"' not in body:
        return None
    try:
        error = error_in(orjson.loads(body))
    except ValueError:
        return None
    message = error_text(error)
    reason = f"{ERROR_REPLY}: {redacted(message, credentials)}"
    code = (error.get("code") or error.get("status")) if isinstance(error, dict) else None
    status = int(code) if isinstance(code, str | int) and re.fullmatch("[0-9]{3}", str(code)) else 0
    if status in (_TOO_MANY, _OVERLOADED) or _RATE_WORDS.search(message):
        return Failure(Handling.SLOW_DOWN, reason, rate_hints(headers, message))
    return Failure(Handling.RETRY, reason) if status in _TRANSIENT or 500 <= status < 600 else None
