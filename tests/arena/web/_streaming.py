"""A chat endpoint on this machine that streams, with a behavior selected by the model's name."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_CUT = {"index": 0, "delta": {}, "finish_reason": "length"}
_ENDS: dict[str, dict[str, Any]] = {
    "stopping": {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [_CUT]},
    "erring": {"error": {"message": "the model went away"}},
}
"""Word of a model's name -> the last event of its stream."""


class _Model(BaseHTTPRequestHandler):
    bodies: list[dict[str, Any]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.bodies.append(body)
        if "broken" in body["model"]:
            self._refuse(500, b"")
            return
        if "unknown" in body["model"]:
            why = f"The model `{body['model']}` does not exist in organization org-acme on gpu-7.internal"
            self._refuse(404, json.dumps({"error": {"message": why, "type": "NotFoundError"}}).encode())
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        parts = ("It runs ", "from ", "April [1].", f" {len(body['messages'])} messages.")
        thought = ("<think>I am ", "made by Acme.", "</think>\n\n") if "thinking" in body["model"] else ()
        more = (" It stops in June.",) * (20 if "long" in body["model"] else 0)
        for part in () if "silent" in body["model"] else (*thought, *parts, *more):
            time.sleep(0.3 if "slow" in body["model"] else 0.0)
            chunk = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m"}
            chunk["choices"] = [{"index": 0, "delta": {"content": part}, "finish_reason": None}]
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
            self.wfile.flush()
        for word, last in _ENDS.items():
            if word in body["model"]:
                self.wfile.write(f"data: {json.dumps(last)}\n\n".encode())
        if "stuck" in body["model"]:
            time.sleep(3)
        self.wfile.write(b"data: [DONE]\n\n")

    def _refuse(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Print nothing: the client may disconnect before the response is written."""


@contextmanager
def streaming_endpoint() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the endpoint's address and the received request bodies."""
    bodies: list[dict[str, Any]] = []
    handler = type("_Own", (_Model,), {"bodies": bodies})
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", bodies
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
