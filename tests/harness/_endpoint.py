"""A real HTTP server on the loopback interface with the part of OpenAI's API that the harness uses."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ragtasks.harness.run import WORD


@dataclass(frozen=True)
class Request:
    """A request that reached the server."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


def _constant(_: Request) -> str | None:
    return "It takes three days."


@dataclass
class Endpoint:
    """The server's address, its received requests, and its replies."""

    address: str
    requests: list[Request] = field(default_factory=list)
    answer: Callable[[Request], str | None] = _constant

    @property
    def chat_url(self) -> str:
        return f"{self.address}/v1/chat/completions"

    @property
    def completions_url(self) -> str:
        return f"{self.address}/v1/completions"

    def reply(self, request: Request) -> dict[str, Any]:
        if WORD in json.dumps(request.body.get("messages", "")):  # without the test of the system role
            return {"choices": [{"index": 0, "message": {"role": "assistant", "content": WORD}}]}
        self.requests.append(request)
        text = self.answer(request)
        if request.path.endswith("/chat/completions"):
            return {"choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]}
        return {"choices": [{"index": 0, "text": text}]}


class Server:
    """Serves the replies of `endpoint` until it is closed."""

    def __init__(self) -> None:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._send({"object": "list", "data": [{"id": "loopback"}]} if self.path == "/v1/models" else None)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                is_served = self.path.split("?")[0].endswith(("/v1/chat/completions", "/v1/completions"))
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.path, headers, body)
                self._send(server.endpoint.reply(request) if is_served else None)

            def _send(self, content: dict[str, Any] | None) -> None:
                payload = json.dumps(content).encode()
                self.send_response(200 if content is not None else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, *_: Any) -> None:
                """Suppress log output."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = Endpoint(f"http://127.0.0.1:{self._http.server_port}")
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
