"""Work on what others wrote, done by another process that cannot take all memory or run for ever.

No rule inside one process bounds what a template or a file can cost, so the operating system does. A line of JSON goes
in for each piece of work, and one comes out.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

_CODE = "import sys; from ragtasks.bounded import serve; serve(*sys.argv[1:])"
_ABOVE = Path(__file__).resolve().parents[1]  # its folder, so that it imports this very package


class OutOfBoundsError(Exception):
    """A piece of work that took more time or memory than it may, or ended its process."""


class BoundedProcess:
    """The process, started by the first piece of work and again after each that ended it."""

    def __init__(self, worker: str, *, seconds: float, most_bytes: int) -> None:
        """Name the work.

        Args:
            worker: `module:function` of the function that does it: JSON object -> JSON object.
            seconds: computing time for one piece of it: where a machine is busy, it is not the work that takes long.
            most_bytes: address space of the process.
        """
        self._worker, self._seconds, self._most_bytes = worker, seconds, most_bytes
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the worker makes of a JSON object.

        Raises:
            OutOfBoundsError: it took too much.
        """
        asked = json.dumps(dict(question)).encode() + b"\n"
        with self._lock:
            line = self._asked(asked)
            if not line.endswith(b"\n"):
                self.close()
                raise OutOfBoundsError(
                    f"more than {self._seconds:g} seconds or {self._most_bytes >> 20:,} MiB of memory"
                )
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _asked(self, line: bytes) -> bytes:
        if self._process is None:
            self._process = self._start()
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin, "a pipe"
        assert stdout, "a pipe"
        try:
            stdin.write(line)
            stdin.flush()
        except OSError:  # it ended before
            return b""
        return stdout.readline()

    def _start(self) -> subprocess.Popen[bytes]:
        atexit.register(self.close)
        return subprocess.Popen(
            [sys.executable, "-c", _CODE, self._worker, str(self._seconds), str(self._most_bytes)],
            cwd=_ABOVE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        atexit.unregister(self.close)
        if process is None:
            return
        process.kill()
        process.communicate()


def serve(worker: str, seconds: str, most_bytes: str) -> None:
    """Answer every line of standard input: what the process runs (see `BoundedProcess`)."""
    module, _, name = worker.partition(":")
    work: Callable[[dict[str, Any]], Mapping[str, Any]] = getattr(import_module(module), name)
    _limit_memory(int(most_bytes))
    out, sys.stdout = sys.stdout.buffer, sys.stderr  # what a library prints is no reply
    for line in sys.stdin.buffer:
        _alarm(float(seconds))
        reply = work(json.loads(line))
        _alarm(0)
        out.write(json.dumps(reply).encode() + b"\n")
        out.flush()


def _limit_memory(most_bytes: int) -> None:
    with contextlib.suppress(ImportError, OSError, ValueError):  # no such limits on Windows, not this one on macOS
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))


def _alarm(seconds: float) -> None:
    """Have the system kill this process after so much computing, in the middle of a call too; 0 takes that back."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


__all__ = ["BoundedProcess", "OutOfBoundsError", "serve"]
