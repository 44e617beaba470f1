"""An arena served on this machine during a `with` block, and requests of browsers and programs."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import uvicorn

from ragtasks.arena.battles import AnswerPool
from ragtasks.arena.store import LEASE_SECONDS, VoteStore
from ragtasks.arena.web import Application, Identity
from ragtasks.arena.web._comparing import Arena
from ragtasks.arena.web._guard import settings
from ragtasks.arena.web._server import application
from tests.arena._made import answer

LOCAL = frozenset({"127.0.0.1", "localhost"})


def small_pool(*systems: str, n: int = 3, text: str = "") -> AnswerPool:
    """Return systems with answers to `n` turns and a citation. Every answer contains `text`."""
    return AnswerPool(
        answer(system, f"It runs from April [1]. Number {index} it is. {text}", conversation=f"c{turn}", turn=turn)
        for index, system in enumerate(systems or ("secret-one", "secret-two"))
        for turn in range(1, n + 1)
    )


@dataclass
class Served:
    """A running server."""

    port: int
    arena: Arena

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def serving(
    folder: Path,
    pool: AnswerPool | None = None,
    *,
    raters: int = 1,
    lease_seconds: float = LEASE_SECONDS,
    types_names: bool = True,
    token: str | None = None,
    **options: Any,
) -> Iterator[Served]:
    """Serve an arena over a database in a folder. By default raters type their names."""
    store = VoteStore(folder / "arena.sqlite")
    arena = Arena(store, pool or small_pool(), raters, lease_seconds=lease_seconds)
    identity = Identity(store.secret, token, None if types_names else store)
    app = application(arena, identity, LOCAL, **options)
    try:
        with running(app) as port:
            yield Served(port, arena)
    finally:
        store.close()


@contextmanager
def running(app: Application) -> Iterator[int]:
    """Run a server on a free port of this machine, and yield the port."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(settings(app, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(10)


@dataclass
class Reply:
    """An HTTP response."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def form_token(self) -> str:
        match = re.search(r'name="form_token" value="([0-9a-f]{64})"', self.text)
        assert match, self.text[:500]
        return match[1]


@dataclass
class Visitor:
    """A browser without a display. It keeps its cookie and does not follow redirects."""

    port: int
    cookie: str = ""
    sent: dict[str, str] = field(default_factory=dict)

    def ask(self, method: str, path: str, body: str | None = None, **headers: str) -> Reply:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=20)) as connection:
            return self._response(connection, method, path, body, headers)

    def _response(
        self, connection: HTTPConnection, method: str, path: str, body: str | None, headers: dict[str, str]
    ) -> Reply:
        own = {"Cookie": self.cookie} if self.cookie else {}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body=body, headers={**own, **self.sent, **named})
        with connection.getresponse() as response:
            text = response.read().decode()
        received_headers = {name.lower(): value for name, value in response.getheaders()}
        if "set-cookie" in received_headers:
            self.cookie = received_headers["set-cookie"].partition(";")[0]
        return Reply(response.status, received_headers, text)

    def get(self, path: str) -> Reply:
        return self.ask("GET", path)

    def post(self, path: str, **fields: str) -> Reply:
        return self.ask("POST", path, urlencode(fields), Content_Type="application/x-www-form-urlencoded")

    def enter(self, name: str = "Ann", token: str = "", invitation: str = "") -> Reply:
        return self.post("/enter", name=name, token=token, invitation=invitation)

    def next(self) -> tuple[str, Reply]:
        """Return the address of the next pair, and its page."""
        address = self.get("/battles").headers["location"]
        return address, self.get(address)

    def vote(self, preference: str = "first", reason: str = "") -> str:
        """Vote on the next pair, and return its address."""
        address, shown = self.next()
        done = self.post(f"{address}/vote", preference=preference, reason=reason, form_token=shown.form_token)
        assert done.status == 303, done.text
        return address
