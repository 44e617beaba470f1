"""The demonstration's judge server in this process, with a log of its requests."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.clients._server import Action, ChatServer, Script, completion, refusal

_FILE = Path(__file__).resolve().parents[2] / "scripts" / "judge_demo_server.py"
QUICK = {"backoff_seconds": 0.01, "longest_backoff_seconds": 0.02, "timeout_seconds": 20.0, "attempts": 4}
FLAKY = "flaky"


def _demo() -> Any:
    spec = importlib.util.spec_from_file_location("judge_demo_server", _FILE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class DemoServer:
    """Judge servers inside a `with` block, each with its own address; `flaky` fails on every tenth request."""

    def __init__(self, delay_seconds: float = 0.0, content: Callable[[str], Any] = str) -> None:
        """Start no server yet; `content` transforms a verdict's text in the reply."""
        self._verdict, self.delay_seconds, self._content = _demo().verdict, delay_seconds, content
        self._servers: dict[str, ChatServer] = {}
        self._running = ExitStack()

    def __enter__(self) -> DemoServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The bodies of all requests."""
        return [body for server in self._servers.values() for body in server.bodies]

    @property
    def headers(self) -> list[dict[str, str]]:
        """The headers of all requests."""
        return [headers for server in self._servers.values() for headers in server.headers]

    def judge(self, name: str, **options: Any) -> dict[str, Any]:
        """Return a judge of this name for the metadata."""
        if name not in self._servers:
            self._servers[name] = self._running.enter_context(ChatServer(self._script(name)).running())
        return {"model": name, "base_url": self._servers[name].base_url, **QUICK, **options}

    def _script(self, name: str) -> Script:
        numbers = itertools.count(1)

        def reply(prompt: str, _: int) -> Action:
            if name == FLAKY and next(numbers) % 10 == 0:
                return refusal(500, "overloaded")
            return replace(completion(self._content(self._verdict(prompt))), delay_seconds=self.delay_seconds)

        return reply
