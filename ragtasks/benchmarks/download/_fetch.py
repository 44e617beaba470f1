"""Get a benchmark's official files, over HTTP or from a checkout, and prove that they are the pinned bytes.

A file comes into being beside its final name, is checked as a whole, and only then renamed: what is there under its
final name is whole and right, whenever the process is killed. Running again goes on where it stopped.
"""

from __future__ import annotations

import shutil
import urllib.parse
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ragtasks.benchmarks.download._checksums import (
    FileState,
    FileStatus,
    RecordedSum,
    examine,
    read_record,
    write_record,
)
from ragtasks.benchmarks.download._files import only_writer, storing
from ragtasks.benchmarks.download._progress import ProgressCallback, shown
from ragtasks.benchmarks.download._sources import Source, SourceFile, locate
from ragtasks.benchmarks.download._transfer import Download, Limits
from ragtasks.errors import FetchError, clear_error
from ragtasks.files import publish
from ragtasks.secrets import masked_text

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
    """Return what was downloaded; afterwards every file of the groups is there with the right checksum.

    Args:
        source: the table of files.
        data_dir: the data folder, or a checkout of the repository, which is then completed in place. A file with a
            wrong checksum is replaced.
        groups: which files; no group, no request.
        base_url: a mirror to ask instead of the source's own address.
        progress: called with (path, bytes so far, total bytes or None); None draws a bar on a terminal.
        timeout_seconds: longest silence of the server.
        retries: further attempts for each file after an error that may pass.
        backoff_seconds: wait before the first retry, doubled each time.

    Raises:
        FetchError: a file cannot be had or stored, or has other bytes than it should. Files before it stay.
        ConfigurationError: a group that the source does not have.
    """
    files = source.in_groups(groups)
    address = _checked_address(base_url or source.base_url)
    limits = Limits(timeout_seconds, retries, backoff_seconds)
    root = locate(source, data_dir)
    with only_writer(root), shown(progress, files) as advance:
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

    Args:
        source: the table of files.
        checkout: a checkout of the repository, or the folder that holds one.
        data_dir: as in `fetch`.
        groups: which files.
        progress: as in `fetch`.

    Raises:
        FetchError: files of the checkout are missing or wrong (all are named), or cannot be copied.
        ConfigurationError: a group that the source does not have.
    """
    files = source.in_groups(groups)
    origin, root = locate(source, checkout), locate(source, data_dir)
    _refuse_violations(source, origin, files, read_record(root))
    with only_writer(root), shown(progress, files) as advance:
        work = _Work(source, root, advance)
        for file in files:
            work.copy(file, origin)
    return work.report()


def verify(source: Source, data_dir: Path, groups: Iterable[str] | None = None) -> tuple[FileState, ...]:
    """Return the state of each file of the groups, of all groups for None; writes nothing.

    Raises:
        FetchError: a file, or the record of checksums, is there and cannot be read.
        ConfigurationError: a group that the source does not have.
    """
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
            clear_error(
                "wrong bytes for a benchmark file; they were thrown away",
                where=f"{state.file.path} from {origin}",
                expected=f"the file of {self.source.repository} at commit {self.source.commit[:12]}",
                found=state.detail,
                next_step="fetch again; or take the files from a checkout of the repository (with its Git-LFS files)",
            )
        )


def _checked_address(base_url: str) -> str:
    """Return a base URL that ends in a slash, or raise FetchError where it is none of HTTP's."""
    parts = urllib.parse.urlsplit(base_url)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise FetchError(
            clear_error(
                "cannot fetch from this base URL",
                where=repr(masked_text(base_url)),
                expected="an address that starts with https:// or http://",
                found=f"scheme {parts.scheme!r}",
                next_step="correct the address; files on this machine are taken from a checkout instead",
            )
        )
    return base_url.rstrip("/") + "/"


def _refuse_violations(
    source: Source, origin: Path, files: Iterable[SourceFile], record: dict[str, RecordedSum]
) -> None:
    """Raise one FetchError that names every file of a checkout that is missing or wrong."""
    states = [examine(source, file, origin / file.path, record) for file in files]
    violations = [state for state in states if state.status in (FileStatus.MISSING, FileStatus.WRONG)]
    if not violations:
        return
    raise FetchError(
        clear_error(
            "the checkout does not hold the benchmark files; nothing was copied",
            where=str(origin),
            expected=f"the files of {source.repository} at commit {source.commit}",
            found="".join(f"\n    {state.file.path}: {state.status.value} ({state.detail})" for state in violations),
            next_step=f"check out commit {source.commit[:12]} (with its Git-LFS files), or fetch over the network",
        )
    )


__all__ = ["DEFAULT_GROUPS", "FetchReport", "FileState", "FileStatus", "adopt", "fetch", "locate", "verify"]
