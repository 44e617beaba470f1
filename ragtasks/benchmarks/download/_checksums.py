"""What a file on disk is worth: the official checksum where it is known, else the one that was seen first.

Sums seen first live in one small JSON file in the data folder. An entry counts only for the commit that it was
recorded for: with another pinned commit the file is fetched anew.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ragtasks.benchmarks.download._files import digest, impostor, storing
from ragtasks.benchmarks.download._sources import Source, SourceFile
from ragtasks.errors import FetchError, clear_error
from ragtasks.files import written_aside

RECORD_NAME = "ragtasks-sums.json"
_FORMAT = 1


class FileStatus(str, Enum):
    """What is known about one file of a source."""

    OK = "ok"
    """The bytes have the official checksum, or the one recorded when the file was first had."""
    MISSING = "missing"
    """There is no such file."""
    WRONG = "wrong checksum"
    """Other bytes than they should be, or a stand-in such as a Git-LFS pointer."""
    UNKNOWN = "present, checksum unknown"
    """There is a file, and nothing to compare it with."""


@dataclass(frozen=True, slots=True)
class FileState:
    """The state of one file of a source."""

    file: SourceFile
    """Which file."""
    path: Path
    """Where it is, or should be."""
    status: FileStatus
    """What is known about it."""
    detail: str
    """What was found, in words."""
    sha256: str | None
    """Checksum of the bytes there; None where there are none or their size alone condemns them."""


@dataclass(frozen=True, slots=True)
class RecordedSum:
    """The checksum of a file as it was first had."""

    commit: str
    """Commit of the source it was fetched for."""
    sha256: str
    """Lower-case hex."""
    n_bytes: int
    """Size in bytes."""
    origin: str
    """The address or folder that the bytes came from."""


def read_record(root: Path) -> dict[str, RecordedSum]:
    """Return path -> recorded sum of a data folder; empty where nothing was recorded yet.

    Raises:
        FetchError: the record is corrupt, or of a format that this version does not know.
    """
    path = root / RECORD_NAME
    with storing(path):
        if not path.is_file():
            return {}
        text = path.read_bytes()
    try:
        record = json.loads(text)
        if record["format"] != _FORMAT:
            raise ValueError(f"format {record['format']!r}")
        return {name: RecordedSum(**entry) for name, entry in record["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FetchError(
            clear_error(
                "cannot read the recorded checksums",
                where=str(path),
                expected=f"JSON of format {_FORMAT} as ragtasks writes it",
                found=f"{type(error).__name__}: {error}",
                next_step="delete this file; sums are then recorded anew from the files that are there",
            )
        ) from error


def write_record(root: Path, record: dict[str, RecordedSum]) -> None:
    """Write the recorded sums of a data folder as a whole.

    Raises:
        FetchError: the file system refuses.
    """
    path = root / RECORD_NAME
    files = {
        name: {"commit": entry.commit, "n_bytes": entry.n_bytes, "origin": entry.origin, "sha256": entry.sha256}
        for name, entry in sorted(record.items())
    }
    with storing(path), written_aside(path) as file:
        file.write((json.dumps({"format": _FORMAT, "files": files}, indent=2) + "\n").encode())


def _expected_sum(source: Source, file: SourceFile, record: dict[str, RecordedSum]) -> tuple[str | None, str]:
    """Return (checksum that the file must have or None, where that checksum comes from)."""
    if file.sha256 is not None:
        return file.sha256, f"the official one at commit {source.commit[:12]}"
    entry = record.get(file.path)
    if entry is not None and entry.commit == source.commit:
        return entry.sha256, f"as {RECORD_NAME} says of {entry.origin}; delete that entry if a change is meant"
    return None, "no checksum is known"


def examine(source: Source, file: SourceFile, path: Path, record: dict[str, RecordedSum]) -> FileState:
    """Return the state of the bytes at `path`, compared with what `file` should be.

    Raises:
        FetchError: the file is there and cannot be read.
    """
    expected, basis = _expected_sum(source, file, record)
    with storing(path):
        if not path.is_file():
            return FileState(file, path, FileStatus.MISSING, "no such file", None)
        stand_in = impostor(path)
        if stand_in is not None and file.sha256 is None:
            return FileState(file, path, FileStatus.WRONG, stand_in, None)
        n_bytes = path.stat().st_size
        if file.n_bytes not in (None, n_bytes):
            return FileState(
                file, path, FileStatus.WRONG, stand_in or f"{n_bytes} bytes instead of {file.n_bytes}", None
            )
        found = digest(path)
    if expected is None:
        return FileState(file, path, FileStatus.UNKNOWN, _unknown(source, file, record), found)
    if found != expected:
        return FileState(
            file, path, FileStatus.WRONG, stand_in or f"sha256 {found} instead of {expected}, {basis}", found
        )
    return FileState(file, path, FileStatus.OK, f"sha256 {found}, {basis}", found)


def _unknown(source: Source, file: SourceFile, record: dict[str, RecordedSum]) -> str:
    """Return why there is nothing to compare with."""
    entry = record.get(file.path)
    if entry is None:
        return "no official checksum is known and none was recorded yet"
    return f"recorded for commit {entry.commit[:12]}, not for {source.commit[:12]}"


__all__ = [
    "RECORD_NAME",
    "FileState",
    "FileStatus",
    "RecordedSum",
    "examine",
    "read_record",
    "write_record",
]
