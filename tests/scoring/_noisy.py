"""A judge server with scripted noise in its ratings; all other verdicts are constant."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from tests.clients._server import Action, ChatServer
from tests.judges._demo import QUICK, _demo

Move = Callable[[str, int], int]
"""(prompt, number of earlier requests with it) -> steps to add to the rating."""
_RATING = re.compile(r"^(Rating [0-9a-f]{8}: )(\d+)$", re.MULTILINE)


class NoisyServer(AbstractContextManager["NoisyServer"]):
    """Judge server inside a `with` block; `model` is the served model that it reports, and may change."""

    def __init__(self, move: Move, model: str = "") -> None:
        self.move, self.model = move, model
        self._verdict = _demo().verdict
        self._server = ChatServer(self._reply)
        self._running = self._server.running()

    def __enter__(self) -> NoisyServer:
        self._running.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.__exit__(None, None, None)

    @property
    def n_asked(self) -> int:
        return len(self._server.asked)

    def judge(self, name: str = "noisy") -> dict[str, Any]:
        """Return the judge for the metadata."""
        return {"model": name, "base_url": self._server.base_url, **QUICK}

    def _reply(self, prompt: str, n_before: int) -> Action:
        def moved(match: re.Match[str]) -> str:
            return f"{match[1]}{min(10, max(1, int(match[2]) + self.move(prompt, n_before)))}"

        message = {"role": "assistant", "content": _RATING.sub(moved, self._verdict(prompt))}
        content = {
            **({"model": self.model} if self.model else {}),
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 3},
        }
        return Action(json.dumps(content).encode())
