"""Download of official files over HTTP, or copies from a checkout, verified by checksum.

A file is written to a `.part` file next to its final name, verified, and then renamed. A file under its final name is
therefore complete and correct, even if the process was killed. Another run resumes the download.
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
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from enum import Enum
from importlib.metadata import version
from pathlib import Path

from ragtasks.benchmarks.sources import Source, SourceFile, digest, git_blob, locate
from ragtasks.errors import FetchError, masked_text
from ragtasks.files import atomic_file, publish
from ragtasks.progress import Progress, progress_bars

# Commands: download, copy from a checkout, verify.

DEFAULT_GROUPS = ("tasks",)


@dataclass(slots=True)
class FetchReport:
    """The result of a fetch. Each path is in exactly one of the first four lists."""

    root: Path
    downloaded: list[str] = field(default_factory=list)
    """Paths downloaded from their first byte."""
    resumed: list[str] = field(default_factory=list)
    """Paths whose partial download was continued."""
    copied: list[str] = field(default_factory=list)
    """Paths copied from a checkout."""
    already_there: list[str] = field(default_factory=list)
    """Paths that were already correct, so no request was sent."""
    recorded: list[str] = field(default_factory=list)
    """Paths without a known official checksum whose checksum was recorded now."""
    n_bytes: int = 0

    def describe(self) -> str:
        """Return a summary line."""
        counts = f"{len(self.downloaded)} downloaded, {len(self.resumed)} resumed, {len(self.copied)} copied"
        unchanged = f"{len(self.already_there)} already there, {len(self.recorded)} without an official checksum"
        return f"{counts}, {unchanged} ({self.n_bytes / 1e6:.1f} MB) in {self.root}"


def fetch(
    source: Source,
    data_dir: Path,
    *,
    groups: Iterable[str] = DEFAULT_GROUPS,
    base_url: str | None = None,
    limits: Limits | None = None,
) -> FetchReport:
    """Download the files of the groups and return a report. Afterwards every file exists with the right checksum."""
    files = source.in_groups(groups)
    address = base_url or source.base_url
    parts = urllib.parse.urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise FetchError(
            "cannot fetch from this base URL",
            where=repr(masked_text(address)),
            expected="an address that starts with https:// or http://",
            found=f"scheme {parts.scheme!r}",
            next_step="correct the address; files on this machine are taken from a checkout instead",
        )
    root = locate(source, data_dir)
    with exclusive_writer(root), progress_bars() as progress:
        work = _Fetch(source, root)
        for file in files:
            prefix = base_url or file.base_url or source.base_url
            url = f"{prefix.rstrip('/')}/{urllib.parse.quote(file.path)}"
            work.download(file, url, limits or Limits(), progress)
    return work.report


def adopt(
    source: Source,
    checkout: Path,
    data_dir: Path,
    *,
    groups: Iterable[str] = DEFAULT_GROUPS,
) -> FetchReport:
    """Copy the files of the groups from a checkout and return a report. Afterwards every file has the right checksum.

    All files of the checkout are verified before the first copy. If checkout and data folder are equal, no file is
    copied and only unknown checksums are recorded.
    """
    files = source.in_groups(groups)
    origin, root = locate(source, checkout), locate(source, data_dir)
    record = read_record(root)
    states = [examine(source, file, origin / file.path, record) for file in files]
    problems = [state for state in states if state.status in (FileStatus.MISSING, FileStatus.WRONG)]
    if problems:
        raise FetchError(
            "the checkout does not contain the benchmark files; nothing was copied",
            where=str(origin),
            expected=f"the files of {source.repository} at commit {source.commit}",
            found="".join(f"\n    {state.file.path}: {state.status.value} ({state.detail})" for state in problems),
            next_step=f"check out commit {source.commit[:12]} (with its Git-LFS files), or fetch over the network",
        )
    with exclusive_writer(root):
        work = _Fetch(source, root)
        for file in files:
            work.copy(file, origin)
    return work.report


def verify(source: Source, data_dir: Path, groups: Iterable[str] | None = None) -> tuple[FileState, ...]:
    """Return the state of each file of the groups (None: all groups), without writing anything."""
    root = locate(source, data_dir)
    record = read_record(root)
    return tuple(examine(source, file, root / file.path, record) for file in source.in_groups(groups))


class _Fetch:
    def __init__(self, source: Source, root: Path) -> None:
        self._source = source
        self._record = read_record(root)
        self.report = FetchReport(root)

    def download(self, file: SourceFile, url: str, limits: Limits, progress: Progress) -> None:
        """Download a file, unless it exists."""
        if self._is_complete(file):
            return
        target, part = self._paths(file)
        transfer = Download(url, part, file, limits, progress)
        try:
            transfer.run()
        finally:
            self.report.n_bytes += transfer.n_received
        self._accept(file, part, target, transfer.url)
        (self.report.resumed if transfer.resumed else self.report.downloaded).append(file.path)

    def copy(self, file: SourceFile, origin: Path) -> None:
        """Copy a file from a checkout, unless it exists."""
        if self._is_complete(file):
            return
        target, part = self._paths(file)
        with storing(part):
            shutil.copyfile(origin / file.path, part)
        self.report.n_bytes += self._accept(file, part, target, str(origin))
        self.report.copied.append(file.path)

    def _is_complete(self, file: SourceFile) -> bool:
        """Return whether the file needs no transfer. An unknown checksum is recorded."""
        state = examine(self._source, file, self.report.root / file.path, self._record)
        # A checksum recorded for another commit means that the file belongs to that commit, so it is downloaded again.
        fresh = state.status is FileStatus.UNKNOWN and file.path not in self._record
        if state.status is not FileStatus.OK and not fresh:
            return False
        self._record_checksum(state, state.path.stat().st_size, "the data folder, where it was found")
        self.report.already_there.append(file.path)
        return True

    def _paths(self, file: SourceFile) -> tuple[Path, Path]:
        """Return (final path, `.part` path next to it).

        The `.part` name contains the commit, so that bytes of different commits are never mixed.
        """
        target = self.report.root / file.path
        with storing(target.parent):
            target.parent.mkdir(parents=True, exist_ok=True)
        return target, target.with_name(f"{target.name}.{self._source.commit[:8]}.part")

    def _accept(self, file: SourceFile, part: Path, target: Path, origin: str) -> int:
        """Rename a transferred file to its final name and return its size.

        Wrong bytes are removed and raise FetchError.
        """
        state = examine(self._source, file, part, self._record)
        if state.status not in (FileStatus.OK, FileStatus.UNKNOWN):
            with storing(part):
                part.unlink(missing_ok=True)
            raise FetchError(
                "wrong bytes for a benchmark file; they were discarded",
                where=f"{file.path} from {origin}",
                expected=f"the file of {self._source.repository} at commit {self._source.commit[:12]}",
                found=state.detail,
                next_step="fetch again; or take the files from a checkout of the repository (with its Git-LFS files)",
            )
        size = part.stat().st_size
        with storing(target):
            publish(part, target)
        self._record_checksum(state, size, origin)
        return size

    def _record_checksum(self, state: FileState, size: int, origin: str) -> None:
        if state.status is FileStatus.UNKNOWN and state.checksum is not None:
            self._record[state.file.path] = RecordedSum(self._source.commit, state.checksum, size, origin)
            write_record(self.report.root, self._record)
            self.report.recorded.append(state.file.path)


# Files are verified against the official checksum if it is known, otherwise against the first download. Checksums of
# first downloads are stored in a small JSON file in the data folder. An entry is valid only for its commit: if another
# commit is pinned, the file is downloaded again.

RECORD_NAME = "ragtasks-sums.json"
_FORMAT = 1


class FileStatus(str, Enum):
    """The result of verifying a file."""

    OK = "ok"
    """The bytes have the official or the recorded checksum."""
    MISSING = "missing"
    WRONG = "wrong checksum"
    """Wrong bytes, or a placeholder such as a Git-LFS pointer."""
    UNKNOWN = "present, checksum unknown"
    """The file exists, but there is no checksum to compare with."""


@dataclass(frozen=True, slots=True)
class FileState:
    """The verified state of a file of a source."""

    file: SourceFile
    path: Path
    status: FileStatus
    detail: str
    checksum: str | None
    """Checksum or git blob id of the bytes. None if the file is missing or its size is wrong."""


@dataclass(frozen=True, slots=True)
class RecordedSum:
    """The checksum of a file at its first download."""

    commit: str
    sha256: str
    n_bytes: int
    origin: str
    """Address or folder of origin."""


def read_record(root: Path) -> dict[str, RecordedSum]:
    """Return path -> recorded checksum of a data folder; {} without a record."""
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
            next_step="delete this file; checksums are then recorded again from the existing files",
        ) from error


def write_record(root: Path, record: dict[str, RecordedSum]) -> None:
    """Write the recorded checksums of a data folder atomically."""
    path = root / RECORD_NAME
    content = {"format": _FORMAT, "files": {name: asdict(entry) for name, entry in record.items()}}
    with storing(path), atomic_file(path) as file:
        file.write((json.dumps(content, indent=2, sort_keys=True) + "\n").encode())


def examine(source: Source, file: SourceFile, path: Path, record: dict[str, RecordedSum]) -> FileState:
    """Return the state of the file at `path`, compared with the expected `file`."""
    expected, entry = file.sha256 or file.git_blob, record.get(file.path)
    if expected is not None:
        basis = f"the official one at commit {source.commit[:12]}"
    elif entry is None:
        basis = "no official checksum is known and none was recorded yet"
    elif entry.commit != source.commit:
        basis = f"recorded for commit {entry.commit[:12]}, not for {source.commit[:12]}"
    else:
        expected = entry.sha256
        basis = f"recorded in {RECORD_NAME} from {entry.origin}; delete that entry if the change is intended"
    with storing(path):
        if not path.is_file():
            return FileState(file, path, FileStatus.MISSING, "no such file", None)
        placeholder = placeholder_type(path)
        if placeholder is not None and file.sha256 is None:
            return FileState(file, path, FileStatus.WRONG, placeholder, None)
        n_bytes = path.stat().st_size
        if file.n_bytes not in (None, n_bytes):
            detail = placeholder or f"{n_bytes} bytes instead of {file.n_bytes}"
            return FileState(file, path, FileStatus.WRONG, detail, None)
        algorithm, checksum = ("sha256", digest(path)) if file.git_blob is None else ("git blob", git_blob(path))
    if expected is None:
        return FileState(file, path, FileStatus.UNKNOWN, basis, checksum)
    if checksum != expected:
        detail = placeholder or f"{algorithm} {checksum} instead of {expected}, {basis}"
        return FileState(file, path, FileStatus.WRONG, detail, checksum)
    return FileState(file, path, FileStatus.OK, f"{algorithm} {checksum}, {basis}", checksum)


# Download of a file into a `.part` file, with resume if the server supports it and a limited number of retries. After a
# broken connection the `.part` file is a prefix of the file. The next attempt, in this or a later process, requests the
# remaining bytes with a Range header. The caller verifies the bytes.

_CHUNK = 1 << 16
_RANGE = re.compile(r"bytes (?P<first>[0-9]+)-[0-9]+/(?P<total>[0-9]+)")
_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}
_LONGEST_WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Timeout and retries of a download."""

    timeout_seconds: float = 30.0
    """Maximum seconds without data from the server."""
    retries: int = 4
    """Retries after the first attempt, for transient errors."""
    backoff_seconds: float = 1.0
    """Seconds before the first retry; doubled for each further retry."""


class _TransientError(Exception):
    """A transient error of the transport; `wait_seconds` is the server's Retry-After, or 0."""

    def __init__(self, found: str, wait_seconds: float = 0.0) -> None:
        super().__init__(found)
        self.wait_seconds = wait_seconds


class Download:
    """The transfer of one file. `n_received` and `resumed` describe its result."""

    def __init__(self, url: str, part: Path, file: SourceFile, limits: Limits, progress: Progress) -> None:
        self.url = masked_text(url)
        parts = urllib.parse.urlsplit(url)
        credentials, _, host = parts.netloc.rpartition("@")
        self._credentials = urllib.parse.unquote(credentials).encode()
        self._address = urllib.parse.urlunsplit(parts._replace(netloc=host))
        self.part = part
        self.file = file
        self.limits = limits
        self.progress = progress
        self.n_received = 0
        self.resumed = False

    def run(self) -> None:
        """Download the complete file into the `.part` file, with retries."""
        for attempt in range(self.limits.retries + 1):
            try:
                self._attempt()
                return
            except _TransientError as problem:
                if attempt == self.limits.retries:
                    raise self._error(
                        "download failed",
                        found=f"{problem} (attempt {attempt + 1} of {self.limits.retries + 1})",
                        next_step="check the network, then fetch again; it resumes where it stopped",
                    ) from problem
                wait_seconds = max(problem.wait_seconds, self.limits.backoff_seconds * 2**attempt)
                time.sleep(min(wait_seconds, _LONGEST_WAIT_SECONDS))

    def _attempt(self) -> None:
        """Request the missing bytes and store them."""
        with storing(self.part):
            offset = self.part.stat().st_size if self.part.exists() else 0
        if self.file.n_bytes is not None and offset > self.file.n_bytes:
            self._discard()
            offset = 0
        if offset == self.file.n_bytes:
            self.resumed = True
            return
        # A compressed response would differ from the file in bytes and length.
        headers = {"User-Agent": f"ragtasks/{version('ragtasks')}", "Accept-Encoding": "identity"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
        request = urllib.request.Request(self._address, headers=headers)
        if self._credentials:
            # A redirect would send any other header to another host.
            basic = base64.b64encode(self._credentials).decode()
            request.add_unredirected_header("Authorization", f"Basic {basic}")
        try:
            with self._connected():
                response = urllib.request.urlopen(request, timeout=self.limits.timeout_seconds)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error, offset) from error
        with response:
            self._receive(response, offset)

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Convert a connection failure to a transient error, unless the certificate is untrusted."""
        try:
            yield
        except urllib.error.HTTPError:
            raise
        except (OSError, http.client.HTTPException) as error:
            cause = error.reason if isinstance(error, urllib.error.URLError) else error
            if isinstance(cause, ssl.SSLCertVerificationError):
                step = "check the proxy and the installed certificates"
                raise self._error(
                    "the server's certificate is not trusted", found=str(cause), next_step=step
                ) from error
            problem = f"the connection failed: {type(cause).__name__}: {cause}"
            if isinstance(cause, TimeoutError):
                problem = f"the server was silent for {self.limits.timeout_seconds:g} seconds"
            raise _TransientError(problem) from error

    def _receive(self, response: http.client.HTTPResponse, offset: int) -> None:
        """Write the response body to the file, appending to existing bytes or replacing them."""
        coding = response.headers.get("Content-Encoding", "identity")
        length = response.headers.get("Content-Length", "")
        start, total = 0, int(length) if length.isdecimal() else None
        if response.status == http.client.PARTIAL_CONTENT:
            match = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
            if match is None or int(match["first"]) != offset:
                self._discard()
                raise _TransientError(f"not the range bytes={offset}-: {response.headers.get('Content-Range')!r}")
            start, total = offset, int(match["total"])
        another_url = "fetch from another base URL"
        if coding != "identity":
            raise self._error(
                "the server compresses the file", found=f"Content-Encoding {coding}", next_step=another_url
            )
        if total is None and self.file.n_bytes is None and not response.chunked:
            raise self._error(
                "the server does not report the size of the file",
                found="no Content-Length and no chunks, so a truncated file would look complete",
                next_step=another_url,
            )
        self._refuse_surplus(total)
        self.resumed = start > 0
        size = start
        with storing(self.part), self.part.open("ab" if start else "wb") as out:
            while total is None or size < total:
                with self._connected():
                    block = response.read1(_CHUNK)
                if not block:
                    break
                out.write(block)
                size += len(block)
                self.n_received += len(block)
                self._refuse_surplus(size)
                self.progress(f"{self.file.path}, kB", size // 1000, None if total is None else total // 1000)
        expected = self.file.n_bytes if total is None else total
        if expected is not None and size < expected:
            raise _TransientError(f"the connection broke off after {size} of {expected} bytes")

    def _refusal(self, error: urllib.error.HTTPError, offset: int) -> Exception:
        """Return the error for an HTTP status, transient or final."""
        problem = f"HTTP {error.code} {error.reason}"
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and offset:
            self._discard()
            return _TransientError(f"{problem} for the range bytes={offset}-")
        if error.code in _TRANSIENT:
            wait = error.headers.get("Retry-After", "")
            return _TransientError(problem, float(wait) if wait.isdecimal() else 0.0)
        return self._error(
            "the server does not have the file" if error.code in {404, 410} else "the server refuses the file",
            found=problem,
            next_step="check the base URL; or take the files from a checkout of the repository",
        )

    def _refuse_surplus(self, size: int | None) -> None:
        """Raise FetchError and discard the bytes if the server sends more than the pinned size: it is another file."""
        if size is not None and self.file.n_bytes is not None and size > self.file.n_bytes:
            self._discard()
            raise self._error(
                "the server sends another file",
                found=f"{size} bytes or more",
                next_step="check the base URL; or take the files from a checkout of the repository",
            )

    def _discard(self) -> None:
        with storing(self.part):
            self.part.unlink(missing_ok=True)

    def _error(self, title: str, *, found: str, next_step: str) -> FetchError:
        size = "the file" if self.file.n_bytes is None else f"{self.file.n_bytes} bytes"
        where = f"{self.file.path} from {self.url}"
        return FetchError(title, where=where, expected=size, found=found, next_step=next_step)


# File system operations of a fetch: placeholders, errors in plain words, one writer at a time.

if sys.platform != "win32":
    import fcntl

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_LFS_HEAD = b"version https://git-lfs.github.com/spec/"
_PAGE_HEADS = (b"<!doctype html", b"<html")


def placeholder_type(path: Path) -> str | None:
    """Return a description of a placeholder for the real file (Git-LFS pointer or web page); None for a real file."""
    with path.open("rb") as file:
        head = file.read(256)
    if head.startswith(_LFS_HEAD):
        return "a Git-LFS pointer, not the file that it points to"
    if head.lstrip().lower().startswith(_PAGE_HEADS):
        return "a web page (a proxy or a login page may have answered)"
    return None


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """Convert OSError while `path` is read or written to FetchError."""
    try:
        yield
    except OSError as error:
        full = error.errno in _NO_ROOM
        raise FetchError(
            "the disk is full" if full else "cannot use a file of the data folder",
            where=str(path),
            expected="room for the complete file" if full else "a folder and a file that can be read and written",
            found=error.strerror or str(error),
            next_step="free some space and fetch again; it resumes where it stopped"
            if full
            else "check the permissions, or choose another data folder",
        ) from error


@contextmanager
def exclusive_writer(root: Path) -> Iterator[None]:
    """Create the data folder and lock it against other fetches. The lock ends with the process.

    Some network file systems cannot lock a folder; the fetch continues there without a lock.
    """
    with storing(root):
        root.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":
        yield
        return
    with storing(root):
        handle = os.open(root, os.O_RDONLY)
    try:
        with suppress(OSError):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise FetchError(
                    "another fetch is running",
                    where=str(root),
                    expected="one writer at a time",
                    found="the folder is locked by another process",
                    next_step="wait for the other fetch to end, then try again",
                ) from error
        yield
    finally:
        os.close(handle)
