"""A user's own templates, filled in by another process that cannot take all memory or run for ever."""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MOST_BYTES = 1 << 30
"""Address space of the process."""
MOST_CHARACTERS = 4_000_000
"""Length of a filled-in template: more than any model reads."""
SECONDS = 10.0
"""Time for one template, which takes milliseconds."""

_CODE = """
import sys
from ragtasks.templates._worker import main
main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
"""
_ABOVE = Path(__file__).resolve().parents[2]  # its folder, so that it imports this very package


class TemplateProcessError(Exception):
    """A template that was not filled in; `line` is known for syntax errors."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class TemplateProcess:
    """The process, started by the first template and again after each that ended it."""

    def __init__(self, *, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def fill_in(self, source: str, fields: Mapping[str, Any]) -> str:
        """Return the filled-in template.

        Args:
            source: the Jinja text.
            fields: what it may name; plain JSON values.

        Raises:
            TemplateProcessError: an error of the template, or more memory, time or text than it may take.
        """
        asked = json.dumps({"source": source, "fields": dict(fields)}).encode() + b"\n"
        with self._lock:
            line = self._asked(asked)
            if not line.endswith(b"\n"):
                self.close()
                raise TemplateProcessError(f"more than {self._seconds:g} seconds or {MOST_BYTES >> 20:,} MiB of memory")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise TemplateProcessError(reply["error"], reply["line"])
        return str(reply["text"])

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
        limits = map(str, (MOST_BYTES, MOST_CHARACTERS, self._seconds))
        atexit.register(self.close)
        return subprocess.Popen(
            [sys.executable, "-c", _CODE, *limits],
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


USERS = TemplateProcess()
"""The one for all templates of a user in this process."""

__all__ = ["USERS", "TemplateProcess", "TemplateProcessError"]
