"""Sources of official benchmark files: repositories, paths and checksums. This module sends no requests.

A source is one commit of one public repository. A file is pinned to its official checksum or git blob id if either is
known. Otherwise both are None, and later downloads must match the first.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ragtasks.errors import ConfigurationError, FetchError, close_matches
from ragtasks.tables import markdown_table


@dataclass(frozen=True, slots=True)
class SourceFile:
    """An official file."""

    path: str
    """Path in the repository and below the data folder, separated by `/`."""
    sha256: str | None
    """Official checksum in lower-case hex; None if unknown."""
    n_bytes: int | None
    """Official size in bytes; None if unknown."""
    group: str
    """Purpose of the file. Files are downloaded by group."""
    git_blob: str | None = None
    """Git blob id of the official bytes, if known while the checksum is not."""
    base_url: str | None = None
    """Prefix of the file's URL; None for the prefix of its source."""

    def __post_init__(self) -> None:
        _refuse_unsafe(self.path)


def source_files(table: Path) -> tuple[SourceFile, ...]:
    """Return the files listed in a CSV, one per line. Empty fields are unknown."""
    with table.open(encoding="utf-8", newline="") as lines:
        return tuple(
            SourceFile(
                row["path"],
                row["sha256"] or None,
                int(row["n_bytes"]) if row["n_bytes"] else None,
                row["group"],
                row.get("git_blob") or None,
            )
            for row in csv.DictReader(lines)
        )


@dataclass(frozen=True, slots=True)
class Source:
    """One commit of a repository, and the files that a benchmark needs from it."""

    name: str
    """Name that users type, such as `mtrag`."""
    folder: str
    """Destination folder below the data folder."""
    marker: str
    """A folder or file in every checkout of the repository. A data folder with it is used as a checkout."""
    repository: str
    commit: str
    base_url: str
    """Prefix of a file's URL; the path is appended."""
    files: tuple[SourceFile, ...]
    """All files, with distinct paths; empty for users' own files."""

    def __post_init__(self) -> None:
        _refuse_unsafe(self.folder)
        _refuse_unsafe(self.marker)

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups in the order of their first file."""
        return tuple(dict.fromkeys(file.group for file in self.files))

    def in_groups(self, groups: Iterable[str] | None) -> tuple[SourceFile, ...]:
        """Return the files of the named groups in table order, or all files for None."""
        if groups is None:
            return self.files
        if not self.files:
            raise ConfigurationError(f"{self.name}: its files are your own, so there is nothing to fetch or verify")
        names = (groups,) if isinstance(groups, str) else tuple(groups)
        unknown = [name for name in names if name not in self.groups]
        if unknown:
            raise ConfigurationError(
                "unknown group of files",
                where=f"{self.name}: {', '.join(unknown)}",
                expected=f"one of {', '.join(self.groups)}",
                found=", ".join(unknown),
                next_step=close_matches(unknown[0], self.groups),
            )
        return tuple(file for file in self.files if file.group in names)


def locate(source: Source, data_dir: Path) -> Path:
    """Return the folder of the source's files, which may not exist yet."""
    if not source.files:
        return data_dir
    return data_dir if (data_dir / source.marker).exists() else data_dir / source.folder


def changed_files(source: Source, root: Path) -> tuple[str, ...]:
    """Return the paths under `root` of first-group files whose bytes are not the official ones.

    Evaluations read the first group. Missing files and files without a known checksum are not listed.
    """
    files = source.in_groups(source.groups[:1])
    return tuple(
        file.path for file in files if (root / file.path).is_file() and not _is_official(file, root / file.path)
    )


def _is_official(file: SourceFile, path: Path) -> bool:
    if file.n_bytes not in (None, path.stat().st_size):
        return False
    if file.git_blob is not None:
        return git_blob(path) == file.git_blob
    return file.sha256 in (None, digest(path))


def listing(sources: Iterable[Source]) -> list[str]:
    """Return a table of the downloads: each source's groups with number of files and, if known, size."""
    rows = [
        [source.name, group, str(len(files)), _size([file.n_bytes for file in files])]
        for source in sources
        for group in source.groups
        for files in [source.in_groups([group])]
    ]
    table = markdown_table(["benchmark", "group", "files", "megabytes"], rows, right=[False, False, True, True])
    return [
        *table,
        "",
        "`ragtasks data fetch BENCHMARK` downloads `tasks`; --group GROUP, repeatable, downloads others.",
    ]


def _size(n_bytes: Sequence[int | None]) -> str:
    known_sizes = [n for n in n_bytes if n is not None]
    return f"{sum(known_sizes) / 1e6:,.1f}" if len(known_sizes) == len(n_bytes) else "-"


def _refuse_unsafe(path: str) -> None:
    """Raise FetchError unless `path` is a plain relative path.

    A colon marks a drive on Windows, and a backslash is a separator there. Both are refused on every system.
    """
    parts = path.split("/")
    plain = not any(part in {"", ".", ".."} for part in parts) and not set(path) & set("\\:\0")
    if not plain or PurePosixPath(path).is_absolute():
        raise FetchError(
            "unsafe path in a table of benchmark files",
            where=repr(path),
            expected="a relative path with / between its parts and without . or ..",
            found="a path that could lead out of the data folder",
            next_step="correct the table; nothing was fetched",
        )


_BLOCK = 1 << 20


def digest(path: Path) -> str:
    """Return the sha256 of a file in lower-case hex."""
    return _hash_file(hashlib.sha256(), path)


def git_blob(path: Path) -> str:
    """Return the git blob id of a file."""
    return _hash_file(hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False), path)


def _hash_file(checksum: Any, path: Path) -> str:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            checksum.update(block)
    return str(checksum.hexdigest())
