"""The process that fills in a user's own templates: it may use so much memory and time, and then it ends.

The sandbox keeps a template from code and files, and no rule inside one process bounds what is left: `'a' * 10**10`,
`x ~ x` forty times, nested loops, lists that hold themselves twice. So the operating system does.

A line of JSON comes in for each template (`source`, `fields`), a line of JSON goes out (`text`, or `error` and `line`).
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from typing import Any

from ragtasks.templates._jinja import described, fill_in


def main(most_bytes: int, most_characters: int, seconds: float) -> None:
    """Answer every line of standard input.

    Args:
        most_bytes: address space that this process may take.
        most_characters: length of a filled-in template.
        seconds: time for one template; past it, the process is killed, wherever it is.
    """
    _limit_memory(most_bytes)
    for line in sys.stdin.buffer:
        _alarm(seconds)
        reply = _reply(line, most_characters)
        _alarm(0)
        sys.stdout.buffer.write(json.dumps(reply).encode() + b"\n")
        sys.stdout.buffer.flush()


def _refuse_half_characters(text: str, fields: Any) -> None:
    """Refuse a half of a surrogate pair that the template itself made: what was handed over may hold one.

    Raises:
        UnicodeEncodeError: there is one.
    """
    try:
        json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    text.encode()


def _reply(line: bytes, most_characters: int) -> dict[str, Any]:
    asked = json.loads(line)
    try:
        text = fill_in(asked["source"], asked["fields"])
        _refuse_half_characters(text, asked["fields"])
    except MemoryError:
        return {"error": "more memory than a template may take", "line": None}
    except Exception as error:  # noqa: BLE001 (whatever a template ends in is for its user to know)
        message, number = described(error)
        return {"error": message, "line": number}
    if len(text) > most_characters:
        return {"error": f"a text of {len(text):,} characters; a prompt has {most_characters:,} at most", "line": None}
    return {"text": text}


def _limit_memory(most_bytes: int) -> None:
    with contextlib.suppress(ImportError, OSError, ValueError):  # no such limits on Windows, not this one on macOS
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))


def _alarm(seconds: float) -> None:
    """Have the system kill this process after some time, in the middle of a call too; 0 takes that back."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


__all__ = ["main"]
