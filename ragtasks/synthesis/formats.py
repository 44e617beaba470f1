"""Extraction of title and text from a text, Markdown, HTML or PDF file.

An unreadable file raises `UnreadableFileError` with the reason; the caller continues with the next file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ragtasks.errors import MissingExtraError, RagtasksError
from ragtasks.files import BoundedProcess, OutOfBoundsError, UnreadablePdfError, pdf_text
from ragtasks.requirements import importing, silenced

_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_HEADING = re.compile(r"^#{1,6}[ \t]+(\S.{0,500})", re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_BLANK_LINES = re.compile(r"\n{3,}")
_PURPOSE = "reading documents"
# Enough for the title of a page. Searching a complete page for its date takes four seconds per megabyte.
_HEAD_CHARACTERS = 200_000


MOST_SECONDS = 60.0
"""Time limit per file, in seconds."""
MOST_MEMORY = 4 << 30
"""Maximum address space of the process that reads files, in bytes."""


class UnreadableFileError(RagtasksError):
    """A file without extractable text; the message states the reason."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """Extracted contents of a file."""

    text: str
    """The text without control characters; never blank."""
    title: str = ""
    """Title; empty if the format or the file has none."""
    encoding: str = ""
    """Guessed encoding; empty if the bytes determine it (UTF-8, a byte order mark, PDF)."""


class FileReader:
    """Reads files; HTML and PDF in a separate process, since a page can use all memory, or a minute per megabyte."""

    def __init__(self, most_seconds: float = MOST_SECONDS) -> None:
        self._process = BoundedProcess(
            "ragtasks.synthesis.formats:extract_file", seconds=most_seconds, most_bytes=MOST_MEMORY
        )

    def read(self, path: Path) -> Extracted:
        """Return the text of a file whose extension is in `READERS`."""
        suffix = path.suffix.lower()
        if suffix not in _COSTLY:
            return extract(path.read_bytes(), suffix)
        try:
            reply = self._process.ask({"path": str(path.absolute()), "suffix": suffix})
        except OutOfBoundsError as error:
            raise UnreadableFileError(f"{error} to read it: split it, or save its text as .txt") from None
        if "missing" in reply:
            raise MissingExtraError(reply["missing"], "synthesis", _PURPOSE)
        if "unreadable" in reply:
            raise UnreadableFileError(reply["unreadable"])
        return Extracted(**reply)

    def close(self) -> None:
        """End the process."""
        self._process.close()


def extract(content: bytes, suffix: str) -> Extracted:
    """Return the title and text of a file's bytes."""
    extracted = READERS[suffix](content)
    text = _BLANK_LINES.sub("\n\n", _CONTROL.sub("", extracted.text.replace("\r\n", "\n").replace("\r", "\n"))).strip()
    if not text:
        raise UnreadableFileError("no text in it" + (": scanned pages need OCR first" if suffix == ".pdf" else ""))
    return Extracted(text, " ".join(_CONTROL.sub(" ", extracted.title).split()), extracted.encoding)


def extract_file(request: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of `Extracted` for a file (`path`, `suffix`), or `unreadable` or `missing` with the reason."""
    try:
        return asdict(extract(Path(request["path"]).read_bytes(), request["suffix"]))
    except MissingExtraError as error:
        return {"missing": str(getattr(error.__cause__, "name", ""))}
    except UnreadableFileError as error:
        return {"unreadable": str(error)}
    except OSError as error:
        return {"unreadable": error.strerror or str(error)}
    except MemoryError:
        return {"unreadable": f"more than {MOST_MEMORY >> 20:,} MiB of memory to read it"}


def _plain(content: bytes) -> Extracted:
    text, encoding = _decoded(content)
    return Extracted(text, "", encoding)


def _markdown(content: bytes) -> Extracted:
    text, encoding = _decoded(content)
    heading = _HEADING.search(text)
    return Extracted(text, heading[1].rstrip(" \t#") if heading else "", encoding)


def _html(content: bytes) -> Extracted:
    """Return the main content of a page as detected by trafilatura, or else all of its text."""
    with importing("trafilatura", "synthesis", _PURPOSE):
        import trafilatura
    source, encoding = _decoded(content)
    with silenced("trafilatura"):
        try:
            text = trafilatura.extract(source, include_comments=False, favor_recall=True) or trafilatura.html2txt(
                source
            )
            metadata = trafilatura.extract_metadata(source[:_HEAD_CHARACTERS])
        except Exception as error:
            raise UnreadableFileError(f"broken HTML: {type(error).__name__}") from error
    return Extracted(text or "", (metadata.title or "") if metadata else "", encoding)


def _pdf(content: bytes) -> Extracted:
    try:
        pages, title = pdf_text(content, "synthesis", _PURPOSE)
    except UnreadablePdfError as error:
        raise UnreadableFileError(str(error)) from error
    return Extracted("\n\n".join(pages), title)


READERS: Mapping[str, Callable[[bytes], Extracted]] = {
    ".txt": _plain,
    ".md": _markdown,
    ".markdown": _markdown,
    ".html": _html,
    ".htm": _html,
    ".pdf": _pdf,
}
"""File extension -> reader."""
_COSTLY = frozenset({".html", ".htm", ".pdf"})


def _decoded(content: bytes) -> tuple[str, str]:
    """Return (text, guessed encoding): UTF-8 or by the byte order mark, else the most likely by charset-normalizer."""
    for mark, encoding in _BOMS:
        if content.startswith(mark):
            return content.decode(encoding, errors="replace"), ""
    if b"\x00" in content:
        raise UnreadableFileError("binary content")
    try:
        return content.decode("utf-8"), ""
    except UnicodeDecodeError:
        return _guessed(content)


def _guessed(content: bytes) -> tuple[str, str]:
    with importing("charset-normalizer", "synthesis", _PURPOSE):
        from charset_normalizer import from_bytes
    best = from_bytes(content).best()
    if best is None:
        raise UnreadableFileError("no single encoding fits its bytes: save it as UTF-8")
    return str(best), best.encoding
