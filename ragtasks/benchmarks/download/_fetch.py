"""Get a benchmark's official files, over HTTP or from a checkout, and prove that they are the pinned bytes.

A file comes into being beside its final name, is checked as a whole, and only then renamed: what is there under its
final name is whole and right, whenever the process is killed. Running again goes on where it stopped.
"""

from __future__ import annotations

import json
import shutil
import urllib.parse
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from ragtasks.benchmarks.download._files import Source, SourceFile, digest, impostor, locate, only_writer, storing
from ragtasks.benchmarks.download._transfer import Download, Limits, ProgressCallback, progress_callback
from ragtasks.errors import FetchError, masked_text
from ragtasks.files import publish, written_aside

DEFAULT_GROUPS = ("tasks",)


@dataclass(frozen=True, slots=True)
class FetchReport:
    """What a fetch did; each path is in exactly one of the first four tuples."""

    root: Path
    """Folder that holds the files."""
    downloaded: tuple[str, ...]
    """Paths downloaded from their first byte."""
    resumed: tuple[str, ...]
    """Paths whose download went on behind bytes that had arrived before."""
    copied: tuple[str, ...]
    """Paths copied from a checkout."""
    already_there: tuple[str, ...]
    """Paths that were there and right, so not asked for."""
    recorded: tuple[str, ...]
    """Paths without a known official checksum whose checksum was recorded now."""
    n_bytes: int
    """Bytes transferred."""

    def describe(self) -> str:
        """Return one line for people."""
        counts = f"{len(self.downloaded)} downloaded, {len(self.resumed)} resumed, {len(self.copied)} copied"
        there = f"{len(self.already_there)} already there, {len(self.recorded)} without an official checksum"
        return f"{counts}, {there} ({self.n_bytes / 1e6:.1f} MB) in {self.root}"


def fetch(
    source: Source,
    data_dir: Path,
    *,
    groups: Iterable[str] = DEFAULT_GROUPS,
    base_url: str | None = None,
    progress: ProgressCallback | None = None,
    timeout_seconds: float = 30.0,
    retries: int = 4,
    backoff_seconds: float = 1.0,
) -> FetchReport:
    """Return what was downloaded; afterwards every file of the groups is there with the right checksum."""
    files = source.in_groups(groups)
    address = _checked_address(base_url or source.base_url)
    limits = Limits(timeout_seconds, retries, backoff_seconds)
    root = locate(source, data_dir)
    with only_writer(root), progress_callback(progress, files) as advance:
        work = _Work(source, root, advance)
        for file in files:
            work.download(file, address, limits)
    return work.report()


def adopt(
    source: Source,
    checkout: Path,
    data_dir: Path,
    *,
    groups: Iterable[str] = DEFAULT_GROUPS,
    progress: ProgressCallback | None = None,
) -> FetchReport:
    """Return what was copied from a checkout; afterwards every file of the groups is there with the right checksum.

    All files of the checkout are checked before the first is copied. Where checkout and data folder are the same
    place, nothing is copied and only unknown checksums are recorded.
    """
    files = source.in_groups(groups)
    origin, root = locate(source, checkout), locate(source, data_dir)
    _refuse_problems(source, origin, files, read_record(root))
    with only_writer(root), progress_callback(progress, files) as advance:
        work = _Work(source, root, advance)
        for file in files:
            work.copy(file, origin)
    return work.report()


def verify(source: Source, data_dir: Path, groups: Iterable[str] | None = None) -> tuple[FileState, ...]:
    """Return the state of each file of the groups, of all groups for None; writes nothing."""
    root = locate(source, data_dir)
    record = read_record(root)
    return tuple(examine(source, file, root / file.path, record) for file in source.in_groups(groups))


@dataclass(slots=True)
class _Work:
    """One fetch into one folder, file by file."""

    source: Source
    root: Path
    advance: ProgressCallback
    record: dict[str, RecordedSum] = field(init=False)
    outcomes: dict[str, str] = field(default_factory=dict)
    recorded: list[str] = field(default_factory=list)
    n_bytes: int = 0

    def __post_init__(self) -> None:
        self.record = read_record(self.root)

    def download(self, file: SourceFile, address: str, limits: Limits) -> None:
        """Have one file over HTTP, unless it is there."""
        if self._is_there(file):
            return
        target, part = self._places(file)
        transfer = Download(address + urllib.parse.quote(file.path), part, file, limits, self.advance)
        try:
            transfer.run()
        finally:
            self.n_bytes += transfer.n_received
        self._accept(file, part, target, transfer.url)
        self.outcomes[file.path] = "resumed" if transfer.resumed else "downloaded"

    def copy(self, file: SourceFile, origin: Path) -> None:
        """Have one file from a checkout, unless it is there."""
        if self._is_there(file):
            return
        target, part = self._places(file)
        with storing(part):
            shutil.copyfile(origin / file.path, part)
            size = part.stat().st_size
        self._accept(file, part, target, str(origin))
        self.n_bytes += size
        self.outcomes[file.path] = "copied"

    def report(self) -> FetchReport:
        """Return what was done."""
        paths = {
            name: tuple(path for path, outcome in self.outcomes.items() if outcome == name)
            for name in ("downloaded", "resumed", "copied", "already_there")
        }
        return FetchReport(self.root, **paths, recorded=tuple(self.recorded), n_bytes=self.n_bytes)

    def _is_there(self, file: SourceFile) -> bool:
        """Return whether the file needs no transfer; record its checksum where none was known."""
        state = examine(self.source, file, self.root / file.path, self.record)
        # A sum recorded for another commit says that the file is that commit's: it must be had anew.
        fresh = state.status is FileStatus.UNKNOWN and file.path not in self.record
        if state.status is not FileStatus.OK and not fresh:
            return False
        size = state.path.stat().st_size
        self._remember(state, size, "the data folder, where it was found")
        self.outcomes[file.path] = "already_there"
        self.advance(file.path, size, size)
        return True

    def _places(self, file: SourceFile) -> tuple[Path, Path]:
        """Return (final path, `.part` path beside it); the latter names the commit, so that two are never mixed."""
        target = self.root / file.path
        with storing(target.parent):
            target.parent.mkdir(parents=True, exist_ok=True)
        return target, target.with_name(f"{target.name}.{self.source.commit[:8]}.part")

    def _accept(self, file: SourceFile, part: Path, target: Path, origin: str) -> None:
        """Give a transferred file its final name if its bytes are right; else remove it and raise."""
        state = examine(self.source, file, part, self.record)
        if state.status not in (FileStatus.OK, FileStatus.UNKNOWN):
            with storing(part):
                part.unlink(missing_ok=True)
            raise self._wrong(state, origin)
        size = part.stat().st_size
        with storing(target):
            publish(part, target)
        self._remember(state, size, origin)
        self.advance(file.path, size, size)

    def _remember(self, state: FileState, size: int, origin: str) -> None:
        """Record the checksum of a file that nothing was known about."""
        if state.status is not FileStatus.UNKNOWN or state.sha256 is None:
            return
        self.record[state.file.path] = RecordedSum(self.source.commit, state.sha256, size, origin)
        write_record(self.root, self.record)
        self.recorded.append(state.file.path)

    def _wrong(self, state: FileState, origin: str) -> FetchError:
        """Return the error for bytes that are not the file's."""
        return FetchError(
            "wrong bytes for a benchmark file; they were thrown away",
            where=f"{state.file.path} from {origin}",
            expected=f"the file of {self.source.repository} at commit {self.source.commit[:12]}",
            found=state.detail,
            next_step="fetch again; or take the files from a checkout of the repository (with its Git-LFS files)",
        )


def _checked_address(base_url: str) -> str:
    """Return a base URL that ends in a slash, or raise FetchError where it is none of HTTP's."""
    parts = urllib.parse.urlsplit(base_url)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise FetchError(
            "cannot fetch from this base URL",
            where=repr(masked_text(base_url)),
            expected="an address that starts with https:// or http://",
            found=f"scheme {parts.scheme!r}",
            next_step="correct the address; files on this machine are taken from a checkout instead",
        )
    return base_url.rstrip("/") + "/"


def _refuse_problems(source: Source, origin: Path, files: Iterable[SourceFile], record: dict[str, RecordedSum]) -> None:
    """Raise one FetchError that names every file of a checkout that is missing or wrong."""
    states = [examine(source, file, origin / file.path, record) for file in files]
    problems = [state for state in states if state.status in (FileStatus.MISSING, FileStatus.WRONG)]
    if not problems:
        return
    raise FetchError(
        "the checkout does not hold the benchmark files; nothing was copied",
        where=str(origin),
        expected=f"the files of {source.repository} at commit {source.commit}",
        found="".join(f"\n    {state.file.path}: {state.status.value} ({state.detail})" for state in problems),
        next_step=f"check out commit {source.commit[:12]} (with its Git-LFS files), or fetch over the network",
    )


# What a file on disk is worth: the official checksum where it is known, else the one that was seen first.
# Sums seen first live in one small JSON file in the data folder. An entry counts only for the commit that it was
# recorded for: with another pinned commit the file is fetched anew.

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
    """Return path -> recorded sum of a data folder; empty where nothing was recorded yet."""
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
            "cannot read the recorded checksums",
            where=str(path),
            expected=f"JSON of format {_FORMAT} as ragtasks writes it",
            found=f"{type(error).__name__}: {error}",
            next_step="delete this file; sums are then recorded anew from the files that are there",
        ) from error


def write_record(root: Path, record: dict[str, RecordedSum]) -> None:
    """Write the recorded sums of a data folder as a whole."""
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
        return entry.sha256, f"as {RECORD_NAME} says of {entry.origin}; delete that entry if the change is intended"
    return None, "no checksum is known"


def examine(source: Source, file: SourceFile, path: Path, record: dict[str, RecordedSum]) -> FileState:
    """Return the state of the bytes at `path`, compared with what `file` should be."""
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
