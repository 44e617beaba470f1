"""Official files: got whole over HTTP or from a checkout, and proved by checksum.

A file comes into being beside its final name, is checked as a whole, and only then renamed: what is there under its
final name is whole and right, whenever the process is killed. Running again goes on where it stopped.
"""

from __future__ import annotations

import base64
import errno
import http.client
import json
import os
import re
import shutil
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.progress import Progress as Bar

from ragtasks.benchmarks.sources import Source, SourceFile, digest, git_blob, locate
from ragtasks.errors import FetchError, masked_text
from ragtasks.files import publish, written_aside
from ragtasks.progress import Progress

# Fetched, taken from a checkout, or only looked at.

DEFAULT_GROUPS = ("tasks",)


@dataclass(frozen=True, slots=True)
class FetchReport:
    """What a fetch did; each path is in exactly one of the first four tuples."""

    root: Path
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
    progress: Progress | None = None,
    limits: Limits | None = None,
) -> FetchReport:
    """Return what was downloaded; afterwards every file of the groups is there with the right checksum."""
    files = source.in_groups(groups)
    address = _checked_address(base_url or source.base_url)
    root = locate(source, data_dir)
    with only_writer(root), progress_callback(progress, files) as advance:
        work = _Work(source, root, advance)
        for file in files:
            work.download(file, address, limits or Limits())
    return work.report()


def adopt(
    source: Source,
    checkout: Path,
    data_dir: Path,
    *,
    groups: Iterable[str] = DEFAULT_GROUPS,
) -> FetchReport:
    """Return what was copied from a checkout; afterwards every file of the groups is there with the right checksum.

    All files of the checkout are checked before the first is copied. Where checkout and data folder are the same
    place, nothing is copied and only unknown checksums are recorded.
    """
    files = source.in_groups(groups)
    origin, root = locate(source, checkout), locate(source, data_dir)
    _refuse_problems(source, origin, files, read_record(root))
    with only_writer(root), progress_callback(None, files) as advance:
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
    advance: Progress
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
        if state.status is not FileStatus.UNKNOWN or state.checksum is None:
            return
        self.record[state.file.path] = RecordedSum(self.source.commit, state.checksum, size, origin)
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
    WRONG = "wrong checksum"
    """Other bytes than they should be, or a stand-in such as a Git-LFS pointer."""
    UNKNOWN = "present, checksum unknown"
    """There is a file, and nothing to compare it with."""


@dataclass(frozen=True, slots=True)
class FileState:
    """The state of one file of a source."""

    file: SourceFile
    path: Path
    status: FileStatus
    detail: str
    checksum: str | None
    """Checksum of the bytes there, or git's id; None where there are none or their size alone condemns them."""


@dataclass(frozen=True, slots=True)
class RecordedSum:
    """The checksum of a file as it was first had."""

    commit: str
    """Commit of the source it was fetched for."""
    sha256: str
    n_bytes: int
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
    if file.sha256 is not None or file.git_blob is not None:
        return file.sha256 or file.git_blob, f"the official one at commit {source.commit[:12]}"
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
        kind, found = ("sha256", digest(path)) if file.git_blob is None else ("git blob", git_blob(path))
    if expected is None:
        return FileState(file, path, FileStatus.UNKNOWN, _unknown(source, file, record), found)
    if found != expected:
        return FileState(
            file, path, FileStatus.WRONG, stand_in or f"{kind} {found} instead of {expected}, {basis}", found
        )
    return FileState(file, path, FileStatus.OK, f"{kind} {found}, {basis}", found)


def _unknown(source: Source, file: SourceFile, record: dict[str, RecordedSum]) -> str:
    """Return why there is nothing to compare with."""
    entry = record.get(file.path)
    if entry is None:
        return "no official checksum is known and none was recorded yet"
    return f"recorded for commit {entry.commit[:12]}, not for {source.commit[:12]}"


# One file over HTTP into a `.part` file: resumed where the server can, retried in a bounded way, never guessed at.
# A broken connection leaves the `.part` file as it is, a true prefix of the file; the next attempt, in this process or
# a later one, asks for the rest with a Range header. Whether the bytes are the right ones is for the caller to check.

_CHUNK = 1 << 16
_RANGE = re.compile(r"bytes (?P<first>[0-9]+)-[0-9]+/(?P<total>[0-9]+)")
_RANGE_NOT_SATISFIABLE = 416
_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}
_LONGEST_WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how often a download tries."""

    timeout_seconds: float = 30.0
    """Longest silence of the server."""
    retries: int = 4
    """Further attempts after the first one, for errors that may pass."""
    backoff_seconds: float = 1.0
    """Wait before the first retry; doubled each time."""


class _BrokenError(Exception):
    """A error of the transport that may pass; `wait_seconds` is what the server asked for, if it did."""

    def __init__(self, found: str, wait_seconds: float = 0.0) -> None:
        super().__init__(found)
        self.wait_seconds = wait_seconds


class Download:
    """The transfer of one file; `n_received` and `resumed` tell how it went."""

    def __init__(self, url: str, part: Path, file: SourceFile, limits: Limits, progress: Progress) -> None:
        self._address = url
        self.url = masked_text(url)
        self.part = part
        self.file = file
        self.limits = limits
        self.progress = progress
        self.n_received = 0
        self.resumed = False

    def run(self) -> None:
        """Leave the whole file, as the server has it, in the `.part` file."""
        for attempt in range(self.limits.retries + 1):
            try:
                self._attempt()
                return
            except _BrokenError as problem:
                if attempt == self.limits.retries:
                    raise self._error(
                        "download failed",
                        found=f"{problem} (attempt {attempt + 1} of {self.limits.retries + 1})",
                        next_step="check the network, then fetch again; it resumes where it stopped",
                    ) from problem
                wait_seconds = max(problem.wait_seconds, self.limits.backoff_seconds * 2**attempt)
                time.sleep(min(wait_seconds, _LONGEST_WAIT_SECONDS))

    def _attempt(self) -> None:
        """Ask for what is missing and store what comes."""
        offset = self._size()
        if self.file.n_bytes is not None and offset >= self.file.n_bytes:
            if offset == self.file.n_bytes:
                self.resumed = True
                return
            self._discard()
            offset = 0
        try:
            response = self._open(offset)
        except urllib.error.HTTPError as error:
            with error:
                if error.code == _RANGE_NOT_SATISFIABLE and offset and self._complete_at(offset, error):
                    return
                raise self._refusal(error) from error
        with response:
            self._receive(response, offset)

    def _open(self, offset: int) -> http.client.HTTPResponse:
        """Return the server's answer to a request for the bytes from `offset` on."""
        # A compressed answer would have other bytes and another length than the file.
        headers = {"User-Agent": f"ragtasks/{version('ragtasks')}", "Accept-Encoding": "identity"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
        address, authorization = _split_address(self._address)
        request = urllib.request.Request(address, headers=headers)
        if authorization:
            # A redirect would carry any other header to another host.
            request.add_unredirected_header("Authorization", authorization)
        try:
            response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=self.limits.timeout_seconds)
        except urllib.error.HTTPError:
            raise
        except (OSError, http.client.HTTPException) as error:
            cause = error.reason if isinstance(error, urllib.error.URLError) else error
            if isinstance(cause, ssl.SSLCertVerificationError):
                raise self._error(
                    "the server's certificate is not trusted",
                    found=str(cause),
                    next_step="check the proxy and the installed certificates",
                ) from error
            raise _BrokenError(self._describe(cause)) from error
        return response

    def _receive(self, response: http.client.HTTPResponse, offset: int) -> None:
        """Store the body of an answer, behind what is there or instead of it."""
        coding = response.headers.get("Content-Encoding", "identity")
        if coding != "identity":
            raise self._error(
                "the server compresses the file",
                found=f"Content-Encoding {coding}",
                next_step="fetch from another base URL",
            )
        start, total = self._placement(response, offset)
        if total is None and self.file.n_bytes is None and not response.chunked:
            raise self._error(
                "the server does not say how long the file is",
                found="neither Content-Length nor chunks, so that a cut-off file would pass for a whole one",
                next_step="fetch from another base URL",
            )
        self._refuse_surplus(total)
        self.resumed = start > 0
        size = self._store(response, start, total)
        expected = self.file.n_bytes if total is None else total
        if expected is not None and size < expected:
            raise _BrokenError(f"the connection broke off after {size} of {expected} bytes")

    def _placement(self, response: http.client.HTTPResponse, offset: int) -> tuple[int, int | None]:
        """Return (first byte that the body holds, size of the whole file or None where the server does not say)."""
        if response.status != http.client.PARTIAL_CONTENT:
            length = response.headers.get("Content-Length", "")
            return 0, int(length) if length.isdecimal() else None
        match = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if match is None or int(match["first"]) != offset:
            self._discard()
            raise _BrokenError(f"another range than bytes={offset}-: {response.headers.get('Content-Range')!r}")
        return offset, int(match["total"])

    def _store(self, response: http.client.HTTPResponse, start: int, total: int | None) -> int:
        """Write the body from byte `start` on; return the size reached, which may be too small."""
        size = start
        with storing(self.part), self.part.open("ab" if start else "wb") as out:
            self.progress(self.file.path, size, total)
            while (total is None or size < total) and (block := self._read(response)):
                out.write(block)
                size += len(block)
                self.n_received += len(block)
                self.progress(self.file.path, size, total)
                if self.file.n_bytes is not None and size > self.file.n_bytes:
                    break
        self._refuse_surplus(size)
        return size

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        """Return the next bytes, empty at the end of the body or of the connection."""
        try:
            return response.read1(_CHUNK)
        except (OSError, http.client.HTTPException) as error:
            raise _BrokenError(self._describe(error)) from error

    def _complete_at(self, offset: int, error: urllib.error.HTTPError) -> bool:
        """Return whether a refused range means that everything is there; start anew where it does not."""
        if error.headers.get("Content-Range") == f"bytes */{offset}":
            self.resumed = True
            return True
        self._discard()
        raise _BrokenError(f"HTTP {error.code} for the range bytes={offset}-") from error

    def _refusal(self, error: urllib.error.HTTPError) -> Exception:
        """Return what an HTTP error status means: an error that may pass, or an end."""
        found = f"HTTP {error.code} {error.reason}"
        if error.code in _TRANSIENT:
            wait = error.headers.get("Retry-After", "")
            return _BrokenError(found, float(wait) if wait.isdecimal() else 0.0)
        return self._error(
            "the server does not have the file" if error.code in {404, 410} else "the server refuses the file",
            found=found,
            next_step="check the base URL; or take the files from a checkout of the repository",
        )

    def _refuse_surplus(self, size: int | None) -> None:
        """Raise where the server sends more than the pinned file, and drop what came: it is another file."""
        if size is None or self.file.n_bytes is None or size <= self.file.n_bytes:
            return
        self._discard()
        raise self._error(
            "the server sends another file",
            found=f"{size} bytes or more",
            next_step="check the base URL; or take the files from a checkout of the repository",
        )

    def _describe(self, error: object) -> str:
        """Return what went wrong with the connection, in words."""
        if isinstance(error, TimeoutError):
            return f"the server was silent for {self.limits.timeout_seconds:g} seconds"
        return f"no connection, or a broken one: {type(error).__name__}: {error}"

    def _size(self) -> int:
        """Return the bytes that have arrived so far."""
        with storing(self.part):
            return self.part.stat().st_size if self.part.exists() else 0

    def _discard(self) -> None:
        """Remove what has arrived."""
        with storing(self.part):
            self.part.unlink(missing_ok=True)

    def _error(self, what: str, *, found: str, next_step: str) -> FetchError:
        """Return the one shape of error of this module."""
        size = "the file" if self.file.n_bytes is None else f"{self.file.n_bytes} bytes"
        where = f"{self.file.path} from {self.url}"
        return FetchError(what, where=where, expected=size, found=found, next_step=next_step)


def _split_address(address: str) -> tuple[str, str]:
    """Return an address without user and password, and the header that says them; "" where there are none."""
    parts = urllib.parse.urlsplit(address)
    credentials, at, host = parts.netloc.rpartition("@")
    if not at:
        return address, ""
    encoded = base64.b64encode(urllib.parse.unquote(credentials).encode()).decode()
    return urllib.parse.urlunsplit(parts._replace(netloc=host)), f"Basic {encoded}"


# Progress of long transfers: the caller's callback, else a bar on a terminal, else nothing.


@contextmanager
def progress_callback(
    progress: Progress | None, files: Iterable[SourceFile], console: Console | None = None
) -> Iterator[Progress]:
    """Yield the callback that a transfer reports to."""
    if progress is not None:
        yield progress
        return
    console = console or Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    totals = {file.path: file.n_bytes or 0 for file in files}
    done: dict[str, int] = {}
    with Bar(*columns, console=console, disable=not console.is_terminal) as bar:
        row = bar.add_task("", total=sum(totals.values()))

        def advance(path: str, n_done: int, n_total: int | None) -> None:
            """Bring the bar to the bytes of all files so far."""
            done[path] = n_done
            totals[path] = max(n_total or 0, totals.get(path, 0), n_done)
            name = path.rsplit("/", 1)[-1]
            bar.update(row, description=name, completed=sum(done.values()), total=sum(totals.values()))

        yield advance


# What fetching needs of a file system: checksums, whole files only, one writer at a time, errors in plain words.

if sys.platform != "win32":
    import fcntl

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_LFS_HEAD = b"version https://git-lfs.github.com/spec/"
_PAGE_HEADS = (b"<!doctype html", b"<html")


def impostor(path: Path) -> str | None:
    """Return what a file is where it only stands in for the real one (Git-LFS pointer, web page), else None."""
    with path.open("rb") as file:
        head = file.read(256)
    if head.startswith(_LFS_HEAD):
        return "a Git-LFS pointer, not the file that it points to"
    if head.lstrip().lower().startswith(_PAGE_HEADS):
        return "a web page (a proxy or a login page may have answered)"
    return None


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """Turn what the file system refuses while `path` is written or read into a FetchError."""
    try:
        yield
    except OSError as error:
        full = error.errno in _NO_ROOM
        raise FetchError(
            "the disk is full" if full else "cannot use a file of the data folder",
            where=str(path),
            expected="room for the whole file" if full else "a folder and a file that can be read and written",
            found=error.strerror or str(error),
            next_step="free some space and fetch again; it resumes where it stopped"
            if full
            else "check the permissions, or choose another data folder",
        ) from error


@contextmanager
def only_writer(root: Path) -> Iterator[None]:
    """Make the data folder and hold it against other fetches; a process that dies lets go of it."""
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
                "another fetch is at work",
                where=str(root),
                expected="one writer at a time",
                found="the folder is held by another process",
                next_step="wait for the other fetch to end, then try again",
            ) from error
        except OSError:
            return
