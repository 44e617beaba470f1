"""Checks of a request before any page receives it: host, site, size, rate."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from ragtasks.arena.web import _guard
from ragtasks.arena.web._guard import BURST, HEADERS, MOST_BYTES, RATE, Guard

Headers = Sequence[tuple[str, str]]


class Page:
    """An application that reads its complete request and responds."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.later: list[Any] = []
        self.scopes: list[Any] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        if scope["type"] != "http":
            return
        self.bodies.append((await receive())["body"])
        self.later.append(await receive())
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-own", b"1")]})
        await send({"type": "http.response.body", "body": b"fine"})


def response_to(
    guard: Guard,
    method: str = "GET",
    headers: Headers = (("host", "localhost"),),
    parts: Sequence[bytes] = (b"",),
    client: str = "a",
) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body of the response to a request."""
    messages = [
        {"type": "http.request", "body": part, "more_body": index < len(parts) - 1} for index, part in enumerate(parts)
    ]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    named = [(name.encode(), value.encode()) for name, value in headers]
    scope = {"type": "http", "method": method, "headers": named, "client": client}
    asyncio.run(guard(scope, receive, send))
    response_headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], response_headers, sent[1]["body"]


def guarded(*hosts: str) -> tuple[Guard, Page]:
    page = Page()
    return Guard(page, frozenset(hosts) or None, lambda scope: str(scope["client"])), page


def test_an_accepted_request_is_complete_and_every_response_has_the_headers() -> None:
    guard, page = guarded()
    status, headers, body = response_to(guard, "POST", parts=(b"one ", b"and ", b"two"))
    assert (status, body, page.bodies) == (200, b"fine", [b"one and two"])
    assert page.later == [{"type": "http.disconnect"}], "what comes behind the body is passed on"
    assert headers == {"x-own": "1", **HEADERS}
    assert "script-src 'self'" in headers["content-security-policy"]
    status, headers, body = response_to(guard, headers=())
    assert (status, body) == (421, b"this server does not accept that host name")
    assert headers == {"content-type": "text/plain; charset=utf-8", "content-length": str(len(body)), **HEADERS}
    assert len(page.bodies) == 1


def test_other_scopes_are_passed_through() -> None:
    guard, page = guarded("nobody")
    asyncio.run(guard({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert page.scopes == [{"type": "lifespan"}]


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8000", "a-b.example_c:1", "127.0.0.1:80", "[::1]", "[::1]:8000"]
)
def test_a_well_formed_host_is_accepted_without_restrictions(host: str) -> None:
    assert response_to(guarded()[0], headers=[("host", host)])[0] == 200


@pytest.mark.parametrize(
    "hosts",
    [
        [],
        [""],
        ["a b"],
        ["a/b"],
        ["a:"],
        ["a:123456"],
        ["-a"],
        ["a@b"],
        ["[::1"],
        ["::1"],
        ["localhost", "localhost"],
        ["localhost", "other"],
    ],
    ids=str,
)
def test_a_malformed_host_is_refused(hosts: list[str]) -> None:
    assert response_to(guarded()[0], headers=[("host", host) for host in hosts])[0] == 421


@pytest.mark.parametrize(
    ("host", "status"), [("votes.example", 200), ("Votes.Example:8000", 200), ("evil.example", 421), ("localhost", 421)]
)
def test_only_the_configured_hosts_are_accepted(host: str, status: int) -> None:
    assert response_to(guarded("votes.example")[0], headers=[("host", host)])[0] == status


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    ("site", "status"), [(None, 200), ("same-origin", 200), ("none", 200), ("same-site", 403), ("cross-site", 403)]
)
def test_other_sites_cannot_change_data_but_may_link(method: str, site: str | None, status: int) -> None:
    headers = [("host", "localhost"), *([("sec-fetch-site", site)] if site else [])]
    guard, page = guarded()
    assert response_to(guard, method, headers)[0] == status
    assert len(page.bodies) == (status == 200)
    assert response_to(guard, "GET", headers)[0] == 200


@pytest.mark.parametrize(
    ("length", "status"), [("0", 200), (str(MOST_BYTES), 200), (str(MOST_BYTES + 1), 413), ("-1", 413), ("many", 413)]
)
def test_a_body_announced_as_too_large_is_not_read(length: str, status: int) -> None:
    guard, page = guarded()
    assert response_to(guard, "POST", [("host", "localhost"), ("content-length", length)])[0] == status
    assert len(page.bodies) == (status == 200)


@pytest.mark.parametrize(("last", "status"), [(0, 200), (1, 413)])
def test_a_body_of_parts_has_the_same_limit(last: int, status: int) -> None:
    guard, page = guarded()
    parts = [b"x" * (MOST_BYTES // 2), b"x" * (MOST_BYTES // 2), b"x" * last]
    response_status, _, body = response_to(guard, "POST", parts=parts)
    assert response_status == status
    assert [len(received_body) for received_body in page.bodies] == ([MOST_BYTES] if status == 200 else [])
    assert status == 200 or body == b"the body of the request is larger than 262144 bytes"


def test_a_missing_body_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_guard, "BODY_SECONDS", 0.01)
    guard, page = guarded()
    sent: list[Any] = []

    async def never() -> Any:
        await asyncio.sleep(60)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "headers": [(b"host", b"localhost")], "client": "a"}
    asyncio.run(guard(scope, never, send))
    assert (sent[0]["status"], sent[1]["body"], page.bodies) == (408, b"the request took longer than 0 seconds", [])


class Clock:
    """A clock that stands still until a test advances it."""

    now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    test_clock = Clock()
    monkeypatch.setattr(_guard, "time", test_clock)
    return test_clock


def test_a_client_has_a_burst_then_a_rate(clock: Clock) -> None:
    guard, _ = guarded()

    def passed(client: str = "a") -> int:
        n = 0
        while response_to(guard, client=client)[0] == 200:
            n += 1
        return n

    assert passed() == BURST
    assert passed("b") == BURST, "each client has its own"
    clock.now += 1.0
    assert passed() == pytest.approx(RATE, abs=2)
    clock.now += 3_600.0
    assert passed() == BURST, "what is saved up is no more than a burst"
    status, _, body = response_to(guard)
    assert (status, body) == (429, b"too many requests: wait a moment")


def test_the_oldest_clients_are_dropped_if_there_are_very_many(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_guard, "_MOST_CLIENTS", 2)
    guard, _ = guarded()
    while response_to(guard, client="a")[0] == 200:
        pass
    response_to(guard, client="b")
    assert response_to(guard, client="a")[0] == 429, "two clients are remembered"
    response_to(guard, client="c")
    assert response_to(guard, client="a")[0] == 429, "of three clients the one with the oldest request is not"
    response_to(guard, client="b")
    response_to(guard, client="c")
    assert response_to(guard, client="a")[0] == 200
