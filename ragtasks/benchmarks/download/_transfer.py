"""One file over HTTP into a `.part` file: resumed where the server can, retried in a bounded way, never guessed at.

A broken connection leaves the `.part` file as it is, a true prefix of the file; the next attempt, in this process or
a later one, asks for the rest with a Range header. Whether the bytes are the right ones is for the caller to check.
"""

from __future__ import annotations

import base64
import http.client
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from ragtasks.benchmarks.download._files import SourceFile, storing
from ragtasks.errors import FetchError, masked_text

_BLOCK = 1 << 16
_RANGE = re.compile(r"bytes (?P<first>[0-9]+)-[0-9]+/(?P<total>[0-9]+)")
_RANGE_NOT_SATISFIABLE = 416
_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}
_LONGEST_WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how often a download tries."""

    timeout_seconds: float
    """Longest silence of the server."""
    retries: int
    """Further attempts after the first one, for errors that may pass."""
    backoff_seconds: float
    """Wait before the first retry; doubled each time."""


class _BrokenError(Exception):
    """A error of the transport that may pass; `wait_seconds` is what the server asked for, if it did."""

    def __init__(self, found: str, wait_seconds: float = 0.0) -> None:
        super().__init__(found)
        self.wait_seconds = wait_seconds


class Download:
    """The transfer of one file; `n_received` and `resumed` tell how it went."""

    def __init__(self, url: str, part: Path, file: SourceFile, limits: Limits, progress: ProgressCallback) -> None:
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
            return response.read1(_BLOCK)
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

ProgressCallback = Callable[[str, int, int | None], None]
"""Called with (path of the file, its bytes so far, its total bytes or None where not known yet)."""


@contextmanager
def progress_callback(
    progress: ProgressCallback | None, files: Iterable[SourceFile], console: Console | None = None
) -> Iterator[ProgressCallback]:
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
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        row = bar.add_task("", total=sum(totals.values()))

        def advance(path: str, n_done: int, n_total: int | None) -> None:
            """Bring the bar to the bytes of all files so far."""
            done[path] = n_done
            totals[path] = max(n_total or 0, totals.get(path, 0), n_done)
            name = path.rsplit("/", 1)[-1]
            bar.update(row, description=name, completed=sum(done.values()), total=sum(totals.values()))

        yield advance
