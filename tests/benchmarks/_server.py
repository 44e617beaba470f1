"""A loopback HTTP server that fails on request; every request is logged."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

Behaviour = Callable[["_Handler", bytes], None]


@dataclass
class FileServer:
    """The served files and behaviors, and the received requests."""

    bodies: dict[str, bytes] = field(default_factory=dict)
    authorization: str = ""
    """The header of the last request."""
    behaviours: dict[str, list[Behaviour]] = field(default_factory=dict)
    log: list[tuple[str, str | None]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def ranges(self, path: str) -> list[str | None]:
        return [requested for name, requested in self.log if name == path]


class _Handler(BaseHTTPRequestHandler):
    files: FileServer

    def do_GET(self) -> None:
        path = unquote(self.path.lstrip("/"))
        self.files.log.append((path, self.headers.get("Range")))
        self.files.authorization = self.headers.get("Authorization", "")
        body = self.files.bodies.get(path)
        script = self.files.behaviours.get(path, [])
        if script:
            script.pop(0)(self, body or b"")
        elif body is None:
            self.send_error(404)
        else:
            serve(self, body)

    def offset(self) -> int:
        requested_range = self.headers.get("Range")
        return int(requested_range.removeprefix("bytes=").rstrip("-")) if requested_range else 0

    def head(self, body: bytes, offset: int, **headers: str) -> None:
        """Send the status line and headers of a correct response."""
        self.send_response(206 if offset else 200)
        if offset:
            self.send_header("Content-Range", f"bytes {offset}-{len(body) - 1}/{len(body)}")
        self.send_header("Content-Length", str(len(body) - offset))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        return


def serve(handler: _Handler, body: bytes) -> None:
    """Respond correctly, ranges included."""
    offset = handler.offset()
    if offset >= len(body) > 0:
        handler.send_response(416)
        handler.send_header("Content-Range", f"bytes */{len(body)}")
        handler.end_headers()
        return
    handler.head(body, offset)
    handler.wfile.write(body[offset:])


def drop_after(n_bytes: int) -> Behaviour:
    """Announce the complete file and close the connection after `n_bytes` of the body."""

    def behave(handler: _Handler, body: bytes) -> None:
        offset = handler.offset()
        handler.head(body, offset)
        handler.wfile.write(body[offset : offset + n_bytes])

    return behave


def hang_after(n_bytes: int) -> Behaviour:
    """Announce the complete file and stop sending after `n_bytes` of the body."""

    def behave(handler: _Handler, body: bytes) -> None:
        offset = handler.offset()
        handler.head(body, offset)
        handler.wfile.write(body[offset : offset + n_bytes])
        handler.wfile.flush()
        handler.files.released.wait(30)

    return behave


def ignore_range(handler: _Handler, body: bytes) -> None:
    """Respond with the complete file regardless of the range."""
    handler.head(body, 0)
    handler.wfile.write(body)


def instead(body: bytes) -> Behaviour:
    """Respond with other bytes and correct headers."""

    def behave(handler: _Handler, _: bytes) -> None:
        serve(handler, body)

    return behave


def wrong_range(handler: _Handler, body: bytes) -> None:
    """Respond to a range with the complete file, labeled as a range from its start."""
    handler.send_response(206)
    handler.send_header("Content-Range", f"bytes 0-{len(body) - 1}/{len(body)}")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def status(code: int, **headers: str) -> Behaviour:
    """Respond with an error status."""

    def behave(handler: _Handler, _: bytes) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()

    return behave


def compressed(handler: _Handler, body: bytes) -> None:
    """Respond with an unrequested content coding."""
    handler.head(body, 0, Content_Encoding="gzip")
    handler.wfile.write(body)


def unmeasured(handler: _Handler, body: bytes) -> None:
    """Send the body without any indication of its end."""
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(body)


def chunked(*, is_complete: bool) -> Behaviour:
    """Send the body in chunks, with or without the last chunk."""

    def behave(handler: _Handler, body: bytes) -> None:
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.send_header("Connection", "close")
        handler.end_headers()
        half = len(body) // 2
        for chunk in (body[:half], body[half:]) if is_complete else (body[:half],):
            handler.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        if is_complete:
            handler.wfile.write(b"0\r\n\r\n")
        handler.close_connection = True

    return behave


@contextmanager
def serving(bodies: dict[str, bytes]) -> Iterator[FileServer]:
    """Yield a server on a free loopback port."""
    files = FileServer(bodies=dict(bodies))
    handler = type("Handler", (_Handler,), {"files": files})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    files.url = f"http://127.0.0.1:{server.server_address[1]}/"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield files
    finally:
        files.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
