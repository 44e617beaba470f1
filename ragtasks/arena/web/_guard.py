"""Checks of every request (size, time, rate, host), and the headers of every response.

The content security policy allows only the server's own style and script, so browsers block injected content.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BYTES = 256 * 1024
"""Maximum body of a request."""
BODY_SECONDS = 20.0
"""Maximum wait for the body of a request."""
SLOWEST_SECONDS = 20.0
"""Maximum wait for the head of a request, and for the client to read a response."""
RATE, BURST = 40.0, 200.0
"""Requests per second and client: sustained rate, burst."""
_MOST_CLIENTS = 10_000
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9][a-z0-9._-]*)(:[0-9]{1,5})?", re.IGNORECASE)
_UNSAFE = frozenset({"POST", "PUT", "PATCH", "DELETE"})

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Headers of every response."""
_TOO_LONG = 413, f"the body of the request is larger than {MOST_BYTES} bytes"


class Guard:
    """The outermost layer of the server."""

    def __init__(
        self, application: Application, hosts: frozenset[str] | None, client_of: Callable[[Scope], str]
    ) -> None:
        """Wrap an application."""
        self._application, self._hosts, self._client_of = application, hosts, client_of
        self._budgets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle or refuse a request."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal:
            await _refuse(send, *refusal)
            return
        try:
            body = await asyncio.wait_for(_body(receive), BODY_SECONDS)
        except asyncio.TimeoutError:
            await _refuse(send, 408, f"the request took longer than {BODY_SECONDS:.0f} seconds")
            return
        if body is None:
            await _refuse(send, *_TOO_LONG)
            return
        await self._application(scope, _replay(body, receive), _with_headers(send))

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        host = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if host is None or (self._hosts is not None and host[1].lower() not in self._hosts):
            return 421, "this server does not accept that host name"
        if scope["method"] in _UNSAFE and headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
            return 403, "requests from other sites are refused"
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MOST_BYTES:
            return _TOO_LONG
        if not self._has_budget(self._client_of(scope)):
            return 429, "too many requests: wait a moment"
        return None

    def _has_budget(self, client: str) -> bool:
        now = time.monotonic()
        left, since = self._budgets.pop(client, (BURST, now))
        left = min(BURST, left + (now - since) * RATE) - 1
        self._budgets[client] = (max(left, -1.0), now)
        if len(self._budgets) > _MOST_CLIENTS:
            self._budgets.popitem(last=False)
        return left >= 0


async def _body(receive: Receive) -> bytes | None:
    """Return the complete body of a request, regardless of its announced length; None if it is too long."""
    parts, n_read, is_more = [], 0, True
    while is_more:
        message = await receive()
        parts.append(message.get("body", b""))
        n_read += len(parts[-1])
        if n_read > MOST_BYTES:
            return None
        is_more = message.get("more_body", False)
    return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a receiver of the body that was read, followed by further messages."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def read() -> MutableMapping[str, Any]:
        return messages.pop() if messages else await receive()

    return read


def _with_headers(send: Send) -> Send:
    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            extra_headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            message = {**message, "headers": [*message.get("headers", []), *extra_headers]}
        await send(message)

    return sent


async def _refuse(send: Send, status: int, text: str) -> None:
    body = text.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await _with_headers(send)({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class PatientProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """A connection that closes if the client is too slow. uvicorn has no such timeout."""

    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start the timer for the first request."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # reports every byte that the client has not read
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        """Start the timer at the first byte of a head. The guard limits the time of bodies."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
        elif self._limit is None:
            self._start_timer()

    def pause_writing(self) -> None:
        """Start the timer: the client has not read the response yet."""
        super().pause_writing()
        self._stop_timer()
        self._start_timer()

    def resume_writing(self) -> None:
        """Stop the timer: the client has read the response."""
        super().resume_writing()
        self._stop_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def _start_timer(self) -> None:
        self._limit = self.loop.call_later(SLOWEST_SECONDS, self._abort)

    def _stop_timer(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _abort(self) -> None:
        self._limit = None
        connection = self.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # discard unsent bytes
        self.transport.abort()


def settings(app: Application, **overrides: Any) -> uvicorn.Config:
    """Return the server configuration of an application."""
    options: dict[str, Any] = {"log_level": "warning", "server_header": False, "date_header": False, "ws": "none"}
    return uvicorn.Config(
        lambda: app, factory=True, http=PatientProtocol, proxy_headers=False, **{**options, **overrides}
    )
