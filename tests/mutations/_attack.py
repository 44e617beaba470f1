"""One call of the command line in this process, and how it ended."""

from __future__ import annotations

import contextlib
import io
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ragtasks.cli import main
from ragtasks.errors import RagtasksError

SECONDS = 10
MOST_CHARACTERS = 6_000
"""Length of an error's text: more is cut with a count."""


class HangError(BaseException):
    """A call that took too long."""


@dataclass(frozen=True)
class Ending:
    """How a call ended."""

    kind: str
    """`accepted`, `refused`, `traceback` or `hang`."""
    output: str
    """What it printed, or the traceback."""


def call(what: Sequence[str] | Callable[[], None]) -> Ending:
    """Return how `ragtasks` ends with some arguments, or a part of it; nothing is kept from earlier calls."""
    forget()
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # as a terminal: what is no UTF-8 cannot be printed
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    try:
        with _limit(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            what() if callable(what) else main(list(what))
        status: Any = 0
    except RagtasksError as error:
        status = 1
        err.write(str(error))
    except SystemExit as stop:
        status = stop.code or 0
    except HangError:
        return Ending("hang", traceback.format_exc())
    except BaseException:  # noqa: BLE001 (whatever comes is what is looked for)
        return Ending("traceback", traceback.format_exc())
    said, error_text = _text(out), _text(err)
    text = said + error_text
    if "Traceback (most recent call last)" in text or status not in {0, 1, 2}:
        return Ending("traceback", text)
    if isinstance(what, Sequence) and len(error_text) > MOST_CHARACTERS + 200:
        return Ending("traceback", f"an error of {len(error_text)} characters: {error_text[:500]}")
    return Ending("refused" if status else "accepted", text)


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()


@contextlib.contextmanager
def _limit() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def forget() -> None:
    """Empty what this process keeps of files that it read."""
    for function in _kept():
        function.cache_clear()


def _kept() -> list[Any]:
    found = []
    for name, module in list(sys.modules.items()):
        if name.startswith(("ragtasks.benchmarks", "ragtasks.harness", "ragtasks.scoring", "retrieval_cache")):
            found += [one for one in vars(module).values() if hasattr(one, "cache_clear")]
    return found
