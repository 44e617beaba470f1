"""What fetching needs of a file system: checksums, whole files only, one writer at a time, errors in plain words."""

from __future__ import annotations

import errno
import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ragtasks.errors import FetchError, clear_error

if sys.platform != "win32":
    import fcntl

_BLOCK = 1 << 20
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_LFS_HEAD = b"version https://git-lfs.github.com/spec/"
_PAGE_HEADS = (b"<!doctype html", b"<html")


def digest(path: Path) -> str:
    """Return the sha256 of a whole file in lower-case hex.

    Raises:
        OSError: the file cannot be read.
    """
    sha256 = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            sha256.update(block)
    return sha256.hexdigest()


def impostor(path: Path) -> str | None:
    """Return what a file is where it only stands in for the real one (Git-LFS pointer, web page), else None.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(256)
    if head.startswith(_LFS_HEAD):
        return "a Git-LFS pointer, not the file that it points to"
    if head.lstrip().lower().startswith(_PAGE_HEADS):
        return "a web page (a proxy or a login page may have answered)"
    return None


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """Turn what the file system refuses while `path` is written or read into a FetchError.

    Raises:
        FetchError: no room is left, or the folder or file cannot be used.
    """
    try:
        yield
    except OSError as error:
        full = error.errno in _NO_ROOM
        raise FetchError(
            clear_error(
                "the disk is full" if full else "cannot use a file of the data folder",
                where=str(path),
                expected="room for the whole file" if full else "a folder and a file that can be read and written",
                found=error.strerror or str(error),
                next_step="free some space and fetch again; what has arrived is kept and resumed"
                if full
                else "check the permissions, or choose another data folder",
            )
        ) from error


@contextmanager
def only_writer(root: Path) -> Iterator[None]:
    """Make the data folder and hold it against other fetches; a process that dies lets go of it.

    Raises:
        FetchError: another process is writing there, or the folder cannot be made.
    """
    with storing(root):
        root.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":
        yield
        return
    with storing(root):
        handle = os.open(root, os.O_RDONLY)
    try:
        _lock(handle, root)
        yield
    finally:
        os.close(handle)


if sys.platform != "win32":

    def _lock(handle: int, root: Path) -> None:
        """Lock an open folder, or raise FetchError where another process has.

        Some network file systems cannot lock a folder; there the fetch goes on without.
        """
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FetchError(
                clear_error(
                    "another fetch is at work",
                    where=str(root),
                    expected="one writer at a time",
                    found="the folder is held by another process",
                    next_step="wait for the other fetch to end, then try again",
                )
            ) from error
        except OSError:
            return


__all__ = ["digest", "impostor", "only_writer", "storing"]
