"""One file of text, Markdown, HTML or PDF to a title and a text: the formats, and whoever reads them.

A file that cannot be read is an `UnreadableFileError` with a reason for people; the caller goes on with the next one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO

from ragtasks.errors import MissingExtraError, RagtasksError

_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_BLANK_LINES = re.compile(r"\n{3,}")
_PURPOSE = "reading documents"


class UnreadableFileError(RagtasksError):
    """A file that holds no text to be had; the message says why."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """What a file says."""

    text: str
    """The text without control characters; never blank."""
    title: str = ""
    """Its title, empty where the format has none or the file does not say it."""
    encoding: str = ""
    """The encoding that was guessed; empty where the bytes say it themselves (UTF-8, a byte order mark, PDF)."""


def extract(content: bytes, suffix: str) -> Extracted:
    """Return the text of a file.

    Args:
        content: its bytes.
        suffix: ending of its name in small letters, one of `READERS`.

    Raises:
        UnreadableFileError: no text can be had from it.
        MissingExtraError: the extra `synthesis` is not installed.
    """
    found = READERS[suffix](content)
    text = _BLANK_LINES.sub("\n\n", _CONTROL.sub("", found.text.replace("\r\n", "\n").replace("\r", "\n"))).strip()
    if not text:
        raise UnreadableFileError("no text in it" + (": scanned pages need OCR first" if suffix == ".pdf" else ""))
    return Extracted(text, " ".join(_CONTROL.sub(" ", found.title).split()), found.encoding)


def _plain(content: bytes) -> Extracted:
    text, encoding = _decoded(content)
    return Extracted(text, "", encoding)


def _markdown(content: bytes) -> Extracted:
    text, encoding = _decoded(content)
    heading = _HEADING.search(text)
    return Extracted(text, heading[1] if heading else "", encoding)


def _html(content: bytes) -> Extracted:
    """Return what trafilatura takes for the content of a page, else all of its text."""
    try:
        import trafilatura
    except ImportError as error:
        raise MissingExtraError("trafilatura", "synthesis", _PURPOSE) from error
    source, encoding = _decoded(content)
    with _quiet("trafilatura"):
        try:
            text = trafilatura.extract(source, include_comments=False, favor_recall=True) or trafilatura.html2txt(
                source
            )
            metadata = trafilatura.extract_metadata(source)
        except Exception as error:
            raise UnreadableFileError(f"broken HTML: {type(error).__name__}") from error
    return Extracted(text or "", (metadata.title or "") if metadata else "", encoding)


def _pdf(content: bytes) -> Extracted:
    try:
        import pypdf
    except ImportError as error:
        raise MissingExtraError("pypdf", "synthesis", _PURPOSE) from error
    with _quiet("pypdf"):
        try:
            reader = pypdf.PdfReader(BytesIO(content))
            pages = [page.extract_text() for page in reader.pages]
            title = (reader.metadata.title if reader.metadata else None) or ""
        except pypdf.errors.FileNotDecryptedError:
            raise UnreadableFileError("an encrypted PDF: remove its password first") from None
        except Exception as error:
            raise UnreadableFileError(f"broken PDF: {type(error).__name__}") from error
    return Extracted("\n\n".join(pages), title)


READERS: Mapping[str, Callable[[bytes], Extracted]] = {
    ".txt": _plain,
    ".md": _markdown,
    ".markdown": _markdown,
    ".html": _html,
    ".htm": _html,
    ".pdf": _pdf,
}
"""Ending of a file's name -> its reader."""


def _decoded(content: bytes) -> tuple[str, str]:
    """Return (text, guessed encoding): UTF-8 or as a mark says, else what charset-normalizer finds most likely."""
    for mark, encoding in _BOMS:
        if content.startswith(mark):
            return content.decode(encoding, errors="replace"), ""
    if b"\x00" in content:
        raise UnreadableFileError("bytes that are no text")
    try:
        return content.decode("utf-8"), ""
    except UnicodeDecodeError:
        return _guessed(content)


def _guessed(content: bytes) -> tuple[str, str]:
    try:
        from charset_normalizer import from_bytes
    except ImportError as error:
        raise MissingExtraError("charset-normalizer", "synthesis", _PURPOSE) from error
    best = from_bytes(content).best()
    if best is None:
        raise UnreadableFileError("no single encoding fits its bytes: save it as UTF-8")
    return str(best), best.encoding


@contextmanager
def _quiet(logger: str) -> Iterator[None]:
    """Keep a library's remarks on broken files to itself: the reason of an unreadable one is reported by us."""
    named = logging.getLogger(logger)
    before, named.disabled = named.disabled, True
    try:
        yield
    finally:
        named.disabled = before


__all__ = ["READERS", "Extracted", "UnreadableFileError", "extract"]
