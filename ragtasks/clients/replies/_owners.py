"""Who holds claims in a reply cache: an owner's name says which process it is, so that nobody waits for the dead.

A process that was killed cannot let go of what it claims. Where it ran on this machine the system knows that it is
gone; elsewhere, and where the system cannot tell, its silence does (`LIFE_SECONDS`).
"""

from __future__ import annotations

import os
import platform
import uuid
from contextlib import suppress
from functools import cache
from pathlib import Path

_HERE: set[str] = set()
"""The owners of this process that hold claims now."""
_ENDED = {"Z", "X"}
"""How Linux marks a process that has ended and whose parent has not asked for its status."""


def begin_owner() -> str:
    """Return the name of a new owner of this process: machine, process and a unique part."""
    name = f"{_machine()}/{os.getpid()}/{uuid.uuid4().hex}"
    _HERE.add(name)
    return name


def end_owner(name: str) -> None:
    """Say that an owner holds nothing any more, also where the cache could not be told."""
    _HERE.discard(name)


def is_gone(name: str) -> bool:
    """Return whether an owner is known to have ended; False where nobody here can know."""
    machine, _, rest = name.rpartition("/")[0].rpartition("/")
    if machine != _machine() or not rest.isdecimal():
        return False
    return name not in _HERE if int(rest) == os.getpid() else not _runs(int(rest))


def _runs(process: int) -> bool:
    if os.name != "posix":
        return True  # signal 0 ends a process on Windows
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # another user's
    try:
        line = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
        state = line.rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return True  # a system without such files
    return state not in _ENDED


@cache
def _machine() -> str:
    """Return what processes share that see each other: this boot of the machine, this space of process numbers."""
    parts = [platform.node()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(parts).replace("/", " ")


__all__ = ["begin_owner", "end_owner", "is_gone"]
