"""Where a benchmark's official files come from, and which files are the official ones: no behaviour of the network.

A source is one commit of one public repository. A file whose official checksum or git's id is known is pinned to it;
one of which neither is known says so with None, and is held to the bytes that were seen first.
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
    """One official file."""

    path: str
    """Path in the repository and below the data folder, with `/` between its parts."""
    sha256: str | None
    """Official checksum in lower-case hex, or None where it is not known to ragtasks."""
    n_bytes: int | None
    """Official size in bytes, or None where it is not known to ragtasks."""
    group: str
    """What the file is for; files are fetched by group."""
    git_blob: str | None = None
    """The id that git gives the official bytes, where the repository's tree is known and the checksum is not."""

    def __post_init__(self) -> None:
        _refuse_unsafe(self.path)


def source_files(table: Path) -> tuple[SourceFile, ...]:
    """Return the files that a CSV names, a line each; an empty field is what is not known."""
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
    """One commit of one repository, and the files of it that a benchmark needs."""

    name: str
    """What a user types, such as `mtrag`."""
    folder: str
    """Folder below the data folder that the files land in."""
    marker: str
    """A folder or file that every checkout of the repository has: where it is found, files are not moved or nested."""
    repository: str
    commit: str
    base_url: str
    """What a file's path is appended to."""
    files: tuple[SourceFile, ...]
    """All files, each path once; none where they are the user's own."""

    def __post_init__(self) -> None:
        _refuse_unsafe(self.folder)
        _refuse_unsafe(self.marker)

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups in the order in which the files name them first."""
        return tuple(dict.fromkeys(file.group for file in self.files))

    def in_groups(self, groups: Iterable[str] | None) -> tuple[SourceFile, ...]:
        """Return the files of the named groups in the order of the table; all of them for None."""
        if groups is None:
            return self.files
        if not self.files:
            raise ConfigurationError(f"{self.name}: the files are your own, there are none to fetch or verify")
        wanted = (groups,) if isinstance(groups, str) else tuple(groups)
        unknown = [name for name in wanted if name not in self.groups]
        if unknown:
            raise ConfigurationError(
                "unknown group of files",
                where=f"{self.name}: {', '.join(unknown)}",
                expected=f"one of {', '.join(self.groups)}",
                found=", ".join(unknown),
                next_step=close_matches(unknown[0], self.groups),
            )
        return tuple(file for file in self.files if file.group in wanted)


def locate(source: Source, data_dir: Path) -> Path:
    """Return the folder that holds the source's files, whether or not they are there yet."""
    if not source.files:
        return data_dir
    return data_dir if (data_dir / source.marker).exists() else data_dir / source.folder


def changed_files(source: Source, root: Path) -> tuple[str, ...]:
    """Return the paths of the files of the first group under `root` that are not the official bytes.

    That group is what evaluations read. A file that is not there, or of which ragtasks knows no checksum, is none.
    """
    files = source.in_groups(source.groups[:1])
    return tuple(file.path for file in files if (root / file.path).is_file() and not _may_be(file, root / file.path))


def _may_be(file: SourceFile, path: Path) -> bool:
    if file.n_bytes not in (None, path.stat().st_size):
        return False
    if file.git_blob is not None:
        return git_blob(path) == file.git_blob
    return file.sha256 in (None, digest(path))


def listing(sources: Iterable[Source]) -> list[str]:
    """Return what can be fetched: each source's groups with the number of files, and their size where it is known."""
    rows = [
        [source.name, group, str(len(files)), _size([file.n_bytes for file in files])]
        for source in sources
        for group in source.groups
        for files in [source.in_groups([group])]
    ]
    table = markdown_table(["benchmark", "group", "files", "megabytes"], rows, right=[False, False, True, True])
    return [*table, "", "ragtasks data fetch BENCHMARK brings `tasks`; --group GROUP, repeatable, brings others."]


def _size(n_bytes: Sequence[int | None]) -> str:
    known = [n for n in n_bytes if n is not None]
    return f"{sum(known) / 1e6:,.1f}" if len(known) == len(n_bytes) else "-"


def _refuse_unsafe(path: str) -> None:
    """Raise where `path` is not a plain relative path.

    A colon is a drive on Windows and a backslash a separator there; both are refused everywhere.
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
    """Return the sha256 of a whole file in lower-case hex."""
    return _fed(hashlib.sha256(), path)


def git_blob(path: Path) -> str:
    """Return the id that git gives a whole file."""
    return _fed(hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False), path)


def _fed(checksum: Any, path: Path) -> str:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            checksum.update(block)
    return str(checksum.hexdigest())
