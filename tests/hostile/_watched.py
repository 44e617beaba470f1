"""Runs commands in one process that notes what each of them reaches for: connections, files, other programs, code.

A process of its own, as an audit hook stays for as long as a process lives. Cases come as JSON on standard input, what
was noted goes as JSON to standard output.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import traceback
from functools import cache
from pathlib import Path
from typing import Any

_CONNECTIONS = {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "urllib.Request"}
_PROGRAMS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn"}
# `ctypes.util.find_library`, by which libraries look for shared ones of the system when they are first imported.
_SYSTEM_PROGRAMS = {"/sbin/ldconfig"}
_DANGEROUS = {"os", "posix", "subprocess", "nt", "sys"}


class Watch:
    """The hook, and what it noted since the last case began."""

    def __init__(self, allowed: list[str], theirs: str) -> None:
        self._allowed, self._theirs = tuple(allowed), theirs
        self._below = tuple(f"{folder}{os.sep}" for folder in allowed)
        self.noted: list[str] = []

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in {"open", "sqlite3.connect"}:
            self._file(arguments[0])
        elif event in _CONNECTIONS:
            if "AF_UNIX" not in str(arguments[0]):
                self.noted.append(f"connection: {event} {arguments[1:] if event == 'socket.connect' else arguments}")
        elif event in _PROGRAMS and arguments[0] not in _SYSTEM_PROGRAMS:
            self.noted.append(f"program: {event} {arguments[:2]}")
        elif event == "import" and str(arguments[0]).startswith("planted"):
            self.noted.append(f"import: {arguments[0]}")
        elif event == "exec" and str(getattr(arguments[0], "co_filename", "")).startswith(self._theirs):
            self.noted.append(f"exec: {arguments[0].co_filename}")
        elif event == "pickle.find_class" and arguments[0].partition(".")[0] in _DANGEROUS:
            self.noted.append(f"pickle: {arguments}")

    def _file(self, name: object) -> None:
        if isinstance(name, (str, bytes)) and os.fsdecode(name) != ":memory:":
            path = os.path.abspath(os.fsdecode(name))  # noqa: PTH100 (as the system takes it: links are the user's own)
            if path not in self._allowed and not path.startswith(self._below):
                self.noted.append(f"file: {path}")


def _run(arguments: list[str]) -> tuple[int, str]:
    """Return (status, output) of one command; an error that is not one of ours is shown with its traceback."""
    from ragtasks.cli import main

    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main(arguments)
            status = 0
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else 1
        except Exception:  # noqa: BLE001 (a test says which case)
            status = -1
            traceback.print_exc()
    return status, said.getvalue()


def watched(allowed: list[str], theirs: str, cases: dict[str, list[str]]) -> dict[str, Any]:
    """Return name -> status, output and what was noted, of each case."""
    import lm_eval.evaluator
    import typer.main

    # All commands with their options, built once for all cases.
    typer.main.get_command = cache(typer.main.get_command)
    # The harness notes the commit of its folder, by a program of the system.
    lm_eval.evaluator.get_git_commit_hash = lambda: None
    watch = Watch(allowed, theirs)
    sys.addaudithook(watch)
    found = {}
    for name, arguments in cases.items():
        watch.noted = []
        status, output = _run(arguments)
        found[name] = {"status": status, "output": output, "noted": watch.noted}
    return found


if __name__ == "__main__":
    given = json.load(sys.stdin)
    result = watched(**given)
    Path(sys.argv[1]).write_text(json.dumps(result), encoding="utf-8")
