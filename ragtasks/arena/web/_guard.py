"""What every request passes: sizes, rates, hosts, and the headers of every answer.

The pages load our own style and script and nothing else; a browser refuses whatever a text on a page might try.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BYTES = 256 * 1024
"""Longest body of a request."""
RATE, BURST = 40.0, 200.0
"""Requests a second that one client may send for long, and at once."""
_MOST_CLIENTS = 10_000
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
"""On every answer."""


class Guard:
    """The outermost layer of the server."""

    def __init__(
        self, application: Application, hosts: frozenset[str] | None, client_of: Callable[[Scope], str]
    ) -> None:
        """Wrap an application.

        Args:
            application: what answers.
            hosts: names under which the server may be addressed, so that no other site's name leads here; None: any.
            client_of: request -> whom its rate counts for.
        """
        self._application, self._hosts, self._client_of = application, hosts, client_of
        self._budgets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal:
            await _refuse(send, *refusal)
            return
        await self._application(scope, _bounded(receive), _with_headers(send))

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get("host", "").rsplit(":", 1)[0] if "]" not in headers.get("host", "") else "[::1]"
        if self._hosts is not None and host not in self._hosts:
            return 421, "this server is not addressed by that name"
        if scope["method"] in _UNSAFE and headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
            return 403, "requests of other sites are refused"
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MOST_BYTES:
            return 413, f"a request has at most {MOST_BYTES} bytes"
        if not self._has_budget(self._client_of(scope)):
            return 429, "too many requests: wait a little"
        return None

    def _has_budget(self, client: str) -> bool:
        now = time.monotonic()
        left, since = self._budgets.pop(client, (BURST, now))
        left = min(BURST, left + (now - since) * RATE) - 1
        self._budgets[client] = (max(left, -1.0), now)
        if len(self._budgets) > _MOST_CLIENTS:
            self._budgets.popitem(last=False)
        return left >= 0


def _bounded(receive: Receive) -> Receive:
    """Return what reads a body and ends it where it is longer than it said."""
    n_read = 0

    async def read() -> MutableMapping[str, Any]:
        nonlocal n_read
        message = await receive()
        n_read += len(message.get("body", b""))
        return {"type": "http.disconnect"} if n_read > MOST_BYTES else message

    return read


def _with_headers(send: Send) -> Send:
    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            message = {**message, "headers": [*message.get("headers", []), *own]}
        await send(message)

    return sent


async def _refuse(send: Send, status: int, text: str) -> None:
    body = text.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await _with_headers(send)({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


__all__ = ["BURST", "HEADERS", "MOST_BYTES", "RATE", "Application", "Guard", "Receive", "Scope", "Send"]
