"""A chat endpoint on the loopback interface with scripted replies."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ragtasks.clients._transport import _certificates
from ragtasks.harness.protocols import TOOLS_QUESTION
from ragtasks.harness.run import WORD


@dataclass(frozen=True)
class Action:
    """The server's reaction to one request."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_seconds: float = 0.0
    sent_bytes: int | None = None  # less than the body: the connection breaks in the middle
    drip_seconds: float = 0.0  # between two bytes
    reset: bool = False  # instead of any reply


def completion(content: Any = "fine", *, finish_reason: Any = "stop", usage: Any = None, **message: Any) -> Action:
    """Return an action that sends a completion."""
    choice = {
        "index": 0,
        "finish_reason": finish_reason,
        "message": {"role": "assistant", "content": content, **message},
    }
    counts = {"prompt_tokens": 7, "completion_tokens": 3} if usage is None else usage
    return Action(json.dumps({"id": "x", "object": "chat.completion", "choices": [choice], "usage": counts}).encode())


def tool_call(name: Any, arguments: Any, call_id: str = "x1") -> dict[str, Any]:
    """Return a tool call as servers send it; arguments given as a text are unchanged."""
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": written}}


def refusal(status: int, message: str = "no", code: str = "", **headers: str) -> Action:
    """Return an action that sends an error in OpenAI's format."""
    content = {"error": {"message": message, "type": "error", "code": code or None}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Action(json.dumps(content).encode(), status, named)


Script = Callable[[str, int], Action]
"""(text of the last message, number of earlier requests with it) -> action."""


class ChatServer:
    """The running server and its requests."""

    def __init__(self, script: Script, port: int = 0, *, is_tested: bool = False) -> None:
        self.script = script
        self._is_tested = is_tested
        self.listing: dict[str, Action] = {}
        """Path -> reply to a GET, such as a list of models; any other is 404."""
        self.asked: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.most_open = 0
        self._n_open = 0
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", port), self._handler())

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def begin(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Action:
        text = body["messages"][-1]["content"]
        if not self._is_tested and WORD in body["messages"][0]["content"] and len(body["messages"]) == 2:
            self._open()
            return completion(WORD)  # the probe of the system role is not part of an evaluation
        if not self._is_tested and body["messages"][0]["content"] == TOOLS_QUESTION:
            self._open()
            words = {"prompt_tokens": len(json.dumps(body).split())}
            # It is not counted here either.
            return completion(None, tool_calls=[tool_call("search", {"query": "ferry"})], usage=words)
        with self._lock:
            n_before = self.asked.count(text)
            self.asked.append(text)
            self.bodies.append(body)
            self.paths.append(path)
            self.headers.append(headers)
            self.times.append(time.monotonic())
            self._n_open += 1
            self.most_open = max(self.most_open, self._n_open)
        return self.script(text, n_before)

    def _open(self) -> None:
        with self._lock:
            self._n_open += 1

    def end(self) -> None:
        with self._lock:
            self._n_open -= 1

    @contextmanager
    def running(self) -> Iterator[ChatServer]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        chat = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                action = chat.begin(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
                try:
                    time.sleep(action.delay_seconds)
                    self._send(action)
                except OSError:
                    self.close_connection = True  # the client has gone
                finally:
                    chat.end()

            def do_GET(self) -> None:
                self._send(chat.listing.get(self.path, Action(b"{}", 404)))

            def _send(self, action: Action) -> None:
                if action.reset:
                    # Zero linger: closing sends a reset instead of an orderly end.
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.connection.close()
                    self.close_connection = True
                    return
                self.send_response(action.status)
                for name, value in {"Content-Type": "application/json", **action.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(action.body)))
                self.end_headers()
                if action.drip_seconds:
                    for byte in action.body:
                        self.wfile.write(bytes([byte]))
                        time.sleep(action.drip_seconds)
                    return
                self.wfile.write(action.body[: action.sent_bytes])
                if action.sent_bytes is not None:
                    self.close_connection = True

            def log_message(self, *_: Any) -> None:
                """Stay quiet."""

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def handle_error(self, *_: Any) -> None:
        """Ignore connections that a test breaks."""


@contextmanager
def chat_server(script: Script, *, is_tested: bool = False) -> Iterator[ChatServer]:
    """Yield a running server that replies by `script`; with `is_tested`, also to the probe of its system role."""
    with ChatServer(script, is_tested=is_tested).running() as server:
        yield server


def closed_port() -> int:
    """Return a port without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def forget_certificates() -> None:
    """Clear the cached TLS settings, which a process reads once."""
    _certificates.cache_clear()
