"""Asks a loopback server that fails in one way: what becomes of the prompts, how many requests, how long it takes.

All patience of the client and all delays of the server are divided by `--scale`, so that hours take a minute. What the
same takes at default patience is computed, not measured: what a run takes longer than one against a server that answers
at once, times the scale.

    python -m perf.server_faults [--scale 120] [--prompts 100] [--share 1.0] [--fault NAME ...]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from ragtasks.clients import Endpoint, OpenAIClient, Prompt, endpoint_of
from ragtasks.clients import _limits as limiter
from ragtasks.errors import JudgeError

_BAD = "bad"  # what a prompt holds that meets the fault
_LONG_BODY = 1200  # bytes, which drip for ten minutes
_WRONG_REASON = "what came last: "


def _completion(content: str | None, padding: int = 0) -> bytes:
    message = {"role": "assistant", "content": content}
    choices = [{"index": 0, "finish_reason": "stop", "message": message}]
    return json.dumps({"choices": choices, "id": "x" * padding}).encode()


def _http(status: str, body: bytes = b"{}", **headers: str) -> bytes:
    head = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in head.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body


def _error(status: str, message: str, **headers: str) -> bytes:
    return _http(status, json.dumps({"error": {"message": message}}).encode(), **headers)


Fault = Callable[[asyncio.StreamWriter, float], Awaitable[None]]
"""(where the reply goes, scale) -> it is sent, or not."""


def _sending(reply: bytes) -> Fault:
    async def send(writer: asyncio.StreamWriter, _scale: float) -> None:
        writer.write(reply)
        await writer.drain()

    return send


async def _hang(_writer: asyncio.StreamWriter, _scale: float) -> None:
    await asyncio.Event().wait()


async def _drip(writer: asyncio.StreamWriter, scale: float) -> None:
    for byte in _http("200 OK", _completion("fine", _LONG_BODY)):
        writer.write(bytes([byte]))
        await asyncio.sleep(0.5 / scale)


async def _reset(writer: asyncio.StreamWriter, _scale: float) -> None:
    connection = writer.get_extra_info("socket")
    # Zero linger: closing sends a reset instead of an orderly end.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.close()


async def _come_back(writer: asyncio.StreamWriter, scale: float) -> None:
    await _sending(_error("429 Too Many Requests", "slower", retry_after=f"{599 / scale:.3f}"))(writer, scale)


_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n"
_FINE = "no fault"
FAULTS: dict[str, Fault] = {
    _FINE: _sending(_http("200 OK", _completion("fine"))),
    "hang": _hang,
    "a byte every half second": _drip,
    "reset": _reset,
    "500": _sending(_error("500 Internal Server Error", "boom")),
    "bad chunk": _sending(_CHUNKED),
    "header of 9,000 bytes": _sending(_http("200 OK", _completion("fine"), X_Long="x" * 9000)),
    "401": _sending(_error("401 Unauthorized", "bad key")),
    "404": _sending(_error("404 Not Found", "no such model")),
    "429, Retry-After: 599": _come_back,
    "null content": _sending(_http("200 OK", _completion(None))),
    "truncated JSON": _sending(_http("200 OK", _completion("fine")[:40])),
    "HTML page": _sending(_http("200 OK", b"<html>sign in</html>", Content_Type="text/html")),
    "redirect to another host": _sending(_http("307 Temporary Redirect", Location="http://other.invalid/v1")),
}


class FaultyServer:
    """Fails where a prompt is a bad one, and answers the others."""

    def __init__(self, fault: Fault, scale: float) -> None:
        self._fault, self._scale = fault, scale
        self.n_requests = 0
        self.port = 0
        self._loop: asyncio.AbstractEventLoop

    @contextmanager
    def running(self) -> Iterator[FaultyServer]:
        """Serve while a `with` lasts."""
        is_up, is_over = threading.Event(), asyncio.Event()

        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=512)
            self.port = server.sockets[0].getsockname()[1]
            is_up.set()
            await is_over.wait()

        thread = threading.Thread(target=lambda: asyncio.run(serve()))
        thread.start()
        is_up.wait()
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(is_over.set)
            thread.join()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while not writer.is_closing():
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                body = await reader.readexactly(int(head.split("content-length: ")[1].split("\r\n")[0]))
                self.n_requests += 1
                is_bad = _BAD in json.loads(body)["messages"][-1]["content"]
                await (self._fault if is_bad else FAULTS[_FINE])(writer, self._scale)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()  # a task that ends cancelled would be reported


def endpoint_at(port: int, scale: float) -> Endpoint:
    """Return an endpoint whose default patience is divided by `scale`."""
    plain = endpoint_of({"model": "m", "base_url": f"http://127.0.0.1:{port}/v1"})
    patience = {
        "timeout_seconds": plain.longest_reply_seconds,
        "rate_limit_patience_seconds": plain.rate_limit_patience_seconds,
        "backoff_seconds": plain.backoff_seconds,
        "longest_backoff_seconds": plain.longest_backoff_seconds,
    }
    return plain.model_copy(update={name: seconds / scale for name, seconds in patience.items()})


def measure(fault: str, options: argparse.Namespace) -> tuple[str, int, float]:
    """Return what became of the prompts, how many requests the server got, and the seconds until the end."""
    n_bad = round(options.share * options.prompts)
    texts = [f"{_BAD if number < n_bad else 'good'} {number}" for number in range(options.prompts)]
    with FaultyServer(FAULTS[fault], options.scale).running() as server:
        begin = time.monotonic()
        try:
            replies = OpenAIClient(endpoint_at(server.port, options.scale)).answer([Prompt.of(text) for text in texts])
            counts = Counter(reply.outcome.value for reply in replies)
            outcome = ", ".join(f"{count} {name}" for name, count in counts.most_common())
        except JudgeError as error:
            outcome = f"the call ends: {_found(str(error))}"
        return outcome, server.n_requests, time.monotonic() - begin


def _found(message: str) -> str:
    """Return what an error says that was found."""
    found = message.partition("found: ")[2].partition("\n")[0].partition("; next step")[0]
    return found.rpartition(_WRONG_REASON)[2][:90]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=120.0, help="what all patience and all delays are divided by")
    parser.add_argument("--prompts", type=int, default=100)
    parser.add_argument("--share", type=float, default=1.0, help="of the prompts that meet the fault")
    parser.add_argument("--fault", action="append", choices=list(FAULTS))
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    limiter.WINDOW_SECONDS /= options.scale
    measure(_FINE, options)  # imports and first connections
    _, _, least = measure(_FINE, options)
    print("| fault | outcome | requests | scaled, s | at default patience, s (computed) |")
    print("|---|---|---|---|---|")
    for fault in options.fault or FAULTS:
        outcome, n_requests, seconds = measure(fault, options)
        waited = max(0.0, seconds - least) * options.scale
        print(f"| {fault} | {outcome} | {n_requests} | {seconds:.1f} | {least + waited:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
