"""Files that are whole or not there, whenever the process is killed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from ragtasks.errors import CacheError


def write_atomically(path: Path, content: bytes) -> str:
    """Write a file so that it is either whole or not there, and return the sha256 of its content.

    A target that is there and no file, such as a device or a pipe, is written to as it is.

    Raises:
        CacheError: it cannot be written; what was there is as it was.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content)
        else:
            _replace(path, content)
    except OSError as error:
        raise CacheError(f"cannot write {path}: {error.strerror or error}") from error
    return hashlib.sha256(content).hexdigest()


def _replace(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


__all__ = ["write_atomically"]
