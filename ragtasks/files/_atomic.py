"""Atomic file writes: a killed process leaves either the complete file or no file.

Other modules write such files with the functions of this module.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import orjson

from ragtasks.errors import CacheError

_PART = f".ragtasks-{hashlib.sha256(platform.node().encode()).hexdigest()[:8]}-"
_LONGEST_NAME = 200  # bytes; file systems allow 255
_ANOTHER = "another process holds it"


def write_atomically(path: Path, content: bytes) -> str:
    """Write a file atomically and return the sha256 of its content.

    A target that is not a regular file, such as a device or a pipe, is written in place.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(path) as file:
                file.write(content)
    except OSError as error:
        raise CacheError(f"cannot write {path}: {error.strerror or error}") from error
    return hashlib.sha256(content).hexdigest()


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Yield a temporary file in the folder of `path`. It replaces `path` if the block ends without an error."""
    _remove_parts(path.parent.absolute())
    name = path.name if len(os.fsencode(path.name)) < _LONGEST_NAME else canonical_hash(path.name)
    part = path.with_name(f"{name}{_PART}{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            yield file
        publish(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@functools.cache  # once per process, since a folder may contain many files
def _remove_parts(folder: Path) -> None:
    """Remove the temporary files that killed processes of this machine left in a folder."""
    for part in folder.glob(f"*{_PART}*.part") if os.name == "posix" else ():  # Windows: os.kill ends the process
        with suppress(OSError, ValueError):
            try:
                os.kill(int(part.name.split(_PART)[-1].removesuffix(".part")), 0)
            except ProcessLookupError:
                part.unlink()


def publish(part: Path, target: Path) -> None:
    """Sync a complete file to disk and rename it to its final name in one step."""
    with part.open("r+b") as file:
        os.fsync(file.fileno())
    part.replace(target)
    with suppress(OSError):  # not every file system can sync a folder
        handle = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def lock_holders(path: Path) -> str:
    """Return a text about the process that locks a database file. Process ids are known only on Linux."""
    lock_files = (path.with_name(path.name + ending) for ending in ("", "-wal", "-shm"))
    try:
        inodes = {str(file.stat().st_ino) for file in lock_files if file.exists()}
        locks = [line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines()]
    except (OSError, ValueError):
        return _ANOTHER
    # `1: POSIX  ADVISORY  WRITE 4711 08:01:131080 128 128`. Waiting processes have `->` before the type.
    holders = {cells[4] for cells in locks if len(cells) == 8 and cells[5].rpartition(":")[2] in inodes}
    other_processes = sorted(holders - {str(os.getpid())}, key=int)
    return f"process {', '.join(other_processes)} holds it" if other_processes else _ANOTHER


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Lock a database against other writers for the block. Commit at its end, or roll back on any exception."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def file_hash(path: Path) -> str:
    """Return the sha256 of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 16):
            digest.update(block)
    return digest.hexdigest()


def canonical_hash(value: Any) -> str:
    """Return the sha256 of a JSON value, the same for every order of its keys."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()
