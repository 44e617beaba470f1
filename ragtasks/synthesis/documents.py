"""From files to passages: text of every format, each document once, passages without near-duplicates."""

from __future__ import annotations

import hashlib
import logging
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any

from ragtasks.clients import Progress, no_progress
from ragtasks.errors import ConfigurationError, MissingExtraError, RagtasksError
from ragtasks.files import BoundedProcess, OutOfBoundsError
from ragtasks.records import Passage
from ragtasks.requirements import importing
from retrieval_cache import Tokenizer, encoder_tokenizer, near_duplicates, plain_tokenizer, segment, sentence_windows

# One file of text, Markdown, HTML or PDF to a title and a text: the formats, and whoever reads them.
# A file that cannot be read is an `UnreadableFileError` with a reason for people; the caller goes on with the next
# one.

_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_HEADING = re.compile(r"^#{1,6}[ \t]+(\S.{0,500})", re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_BLANK_LINES = re.compile(r"\n{3,}")
_PURPOSE = "reading documents"
_HEAD_CHARACTERS = 200_000  # where a page says its title; looking for its date costs four seconds a megabyte


MOST_SECONDS = 60.0
"""Time for one file."""
MOST_MEMORY = 4 << 30
"""Address space of the process that reads files."""


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


class FileReader:
    """Reads files; HTML and PDF in another process, as a page can take all memory, or a minute for each megabyte."""

    def __init__(self, most_seconds: float = MOST_SECONDS) -> None:
        self._process = BoundedProcess(
            "ragtasks.synthesis.documents:worked", seconds=most_seconds, most_bytes=MOST_MEMORY
        )

    def read(self, path: Path) -> Extracted:
        """Return the text of a file whose ending is one of `READERS`."""
        suffix = path.suffix.lower()
        if suffix not in _COSTLY:
            return extract(path.read_bytes(), suffix)
        try:
            found = self._process.ask({"path": str(path.absolute()), "suffix": suffix})
        except OutOfBoundsError as error:
            raise UnreadableFileError(f"{error} to read it: split it, or save its text as .txt") from None
        if "missing" in found:
            raise MissingExtraError(found["missing"], "synthesis", _PURPOSE)
        if "unreadable" in found:
            raise UnreadableFileError(found["unreadable"])
        return Extracted(**found)

    def close(self) -> None:
        """End the process."""
        self._process.close()


def extract(content: bytes, suffix: str) -> Extracted:
    """Return the text of a file."""
    found = READERS[suffix](content)
    text = _BLANK_LINES.sub("\n\n", _CONTROL.sub("", found.text.replace("\r\n", "\n").replace("\r", "\n"))).strip()
    if not text:
        raise UnreadableFileError("no text in it" + (": scanned pages need OCR first" if suffix == ".pdf" else ""))
    return Extracted(text, " ".join(_CONTROL.sub(" ", found.title).split()), found.encoding)


def worked(asked: Mapping[str, str]) -> dict[str, Any]:
    """Return the parts of `Extracted` of a file (`path`, `suffix`), else `unreadable` or `missing` with the reason."""
    try:
        return asdict(extract(Path(asked["path"]).read_bytes(), asked["suffix"]))
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
    """Return what trafilatura takes for the content of a page, else all of its text."""
    with importing("trafilatura", "synthesis", _PURPOSE):
        import trafilatura
    source, encoding = _decoded(content)
    with _quiet("trafilatura"):
        try:
            text = trafilatura.extract(source, include_comments=False, favor_recall=True) or trafilatura.html2txt(
                source
            )
            metadata = trafilatura.extract_metadata(source[:_HEAD_CHARACTERS])
        except Exception as error:
            raise UnreadableFileError(f"broken HTML: {type(error).__name__}") from error
    return Extracted(text or "", (metadata.title or "") if metadata else "", encoding)


def _pdf(content: bytes) -> Extracted:
    with importing("pypdf", "synthesis", _PURPOSE):
        import pypdf
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
_COSTLY = frozenset({".html", ".htm", ".pdf"})


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
    with importing("charset-normalizer", "synthesis", _PURPOSE):
        from charset_normalizer import from_bytes
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


# The documents of a folder, and what of it is none: every file is either read or named with its reason.

DOMAIN = "custom"
"""Domain of every document where folders are not domains, and of those in no folder where they are."""
MOST_BYTES = 50_000_000
"""Largest file that is read."""
MOST_BYTES_OF = {".html": 10_000_000, ".htm": 10_000_000}
"""Ending -> largest file that is read, where it takes four seconds a megabyte."""

_NOT_IN_DOMAIN = re.compile(r"[^a-z0-9_-]+")
_LONGEST_DOMAIN = 64


@dataclass(frozen=True, slots=True)
class Document:
    """One document."""

    document_id: str
    """Its path below the folder, without white space; each once."""
    domain: str
    title: str
    """Its title, else the name of its file."""
    text: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that takes no part, and why."""

    what: str
    """Such as a file's path, a passage's id, a dialogue's id."""
    reason: str


@dataclass(frozen=True, slots=True)
class Documents:
    """What a folder holds."""

    documents: tuple[Document, ...]
    """In the order of their ids; at least one."""
    left_out: tuple[LeftOut, ...]
    """Files that could not be read, or that repeat another, and links that lead out of the folder."""
    others: Counter[str]
    """Ending -> number of files that are no documents."""
    guessed: Counter[str]
    """Encoding -> number of documents whose encoding was guessed."""


def read_documents(
    root: Path,
    *,
    folders_are_domains: bool = False,
    most_bytes: int = MOST_BYTES,
    most_seconds: float = MOST_SECONDS,
    progress: Progress = no_progress,
) -> Documents:
    """Return every document below a folder; hidden files and folders are not looked at, nothing outside is read."""
    if not root.is_dir():
        raise _no_documents(root, "no such folder")
    files = [path for path in sorted(root.rglob("*")) if _is_taken(path) and not _is_hidden(path, root)]
    reader = FileReader(most_seconds)
    reading = _Reading(root, folders_are_domains, most_bytes, reader)
    with closing(reader):
        for done, path in enumerate(files):
            progress(f"read documents\t{path.name}", done, len(files))
            reading.take(path)
    progress("read documents", len(files), len(files))
    if not reading.documents:
        raise _no_documents(root, reading.summary(len(files)))
    return Documents(tuple(reading.documents), tuple(reading.left_out), reading.others, reading.guessed)


def _is_taken(path: Path) -> bool:
    mode = path.lstat().st_mode
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def _is_hidden(path: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(root).parts)


def _no_documents(root: Path, found: str) -> ConfigurationError:
    return ConfigurationError(
        "documents",
        where=str(root),
        expected=f"a folder with files that end in {', '.join(READERS)} and hold text",
        found=found,
        next_step="put documents there, or name another folder",
    )


class _Reading:
    """The documents found so far."""

    def __init__(self, root: Path, folders_are_domains: bool, most_bytes: int, reader: FileReader) -> None:
        self._root, self._folders_are_domains, self._most_bytes = root, folders_are_domains, most_bytes
        self._reader, self._inside = reader, root.resolve()
        self.documents: list[Document] = []
        self.left_out: list[LeftOut] = []
        self.others: Counter[str] = Counter()
        self.guessed: Counter[str] = Counter()
        self._by_text: dict[bytes, str] = {}
        self._ids: set[str] = set()

    def take(self, path: Path) -> None:
        suffix = path.suffix.lower()
        name = path.relative_to(self._root).as_posix()
        try:
            if path.is_symlink():
                self._check_link(path)
            if suffix not in READERS:
                self.others[suffix or "no ending"] += 1
                return
            self._check_size(path, suffix)
            self._add(name, path, self._reader.read(path))
        except (UnreadableFileError, OSError) as error:
            self.left_out.append(LeftOut(name, getattr(error, "strerror", None) or str(error)))

    def _check_link(self, path: Path) -> None:
        """Refuse a link that a folder of somebody else's may have brought: to files of this machine, or to nothing."""
        try:
            target = path.resolve(strict=True)
        except (OSError, RuntimeError):  # before Python 3.13, a circle of links is a RuntimeError
            raise UnreadableFileError("a link that leads nowhere") from None
        if not target.is_relative_to(self._inside):
            raise UnreadableFileError("a link out of the folder, not followed: copy what it leads to into the folder")
        if not target.is_file():
            raise UnreadableFileError("a link to something else than a file, not followed")

    def _check_size(self, path: Path, suffix: str) -> None:
        size = path.stat().st_size
        most = min(self._most_bytes, MOST_BYTES_OF.get(suffix, self._most_bytes))
        if size > most:
            raise UnreadableFileError(
                f"{size:,} bytes, and {suffix} files of up to {most:,} are read: split it"
                + (", or raise the limit" if most == self._most_bytes else ", or save its text as .txt")
            )

    def _add(self, name: str, path: Path, found: Extracted) -> None:
        digest = hashlib.sha256(" ".join(found.text.split()).encode("utf-8", "replace")).digest()
        if digest in self._by_text:
            raise UnreadableFileError(f"the same text as {self._by_text[digest]}")
        self._by_text[digest] = name
        if found.encoding:
            self.guessed[found.encoding] += 1
        text = found.text.encode("utf-8", "replace").decode()
        self.documents.append(Document(self._free_id(name), self._domain(name), found.title or path.stem, text))

    def _free_id(self, name: str) -> str:
        wanted = "_".join(name.split())
        taken = _first_free(wanted, self._ids)
        self._ids.add(taken)
        return taken

    def _domain(self, name: str) -> str:
        folder, slash, _ = name.partition("/")
        if not (self._folders_are_domains and slash):
            return DOMAIN
        return _NOT_IN_DOMAIN.sub("-", folder.lower()).strip("-_")[:_LONGEST_DOMAIN] or DOMAIN

    def summary(self, n_files: int) -> str:
        if not n_files:
            return "an empty folder"
        reasons = [f"{item.what}: {item.reason}" for item in self.left_out[:3]]
        others = [f"{n} {suffix}" for suffix, n in self.others.most_common(3)]
        return f"{n_files} files, none with text ({'; '.join([*reasons, *others])})"


def _first_free(wanted: str, taken: Set[str]) -> str:
    """Return a name, with a number behind it where it is taken."""
    names = (f"{wanted}~{number}" if number > 1 else wanted for number in count(1))
    return next(name for name in names if name not in taken)


# Documents cut into passages, by tokens (512, 100 shared) or by sentences (10, every 5), each near-duplicate once.
# Passages are cut by `retrieval_cache.corpora`, as corpora are: an id says where in the document a passage stands.

TOKENS, SHARED_TOKENS = 512, 100
THRESHOLD = 0.8
"""Least Jaccard similarity of passages that say nearly the same."""
SHINGLE_WORDS = 9
"""Words of a shingle, as TREC RAG removes near-duplicates."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How documents become passages."""

    unit: str = "tokens"
    """`tokens` or `sentences`: what is counted."""
    size: int = TOKENS
    """Most units in a passage."""
    stride: int = TOKENS - SHARED_TOKENS
    """Units from the start of a passage to the start of the next one."""
    tokenizer: str = ""
    """Name or folder of an encoder's tokeniser; empty for words and signs."""
    threshold: float = THRESHOLD
    """Least Jaccard similarity of near-duplicates, 0.5 to 1."""

    def __post_init__(self) -> None:
        """Refuse sizes that do not fit each other."""
        if self.unit not in ("tokens", "sentences"):
            raise ConfigurationError(f"passages are cut by tokens or sentences, found {self.unit!r}")
        if not 1 <= self.stride <= self.size:
            raise ConfigurationError(f"passages need 1 <= stride <= size, found stride {self.stride}, size {self.size}")


@dataclass(frozen=True, slots=True)
class DocumentPassage:
    """One passage and where it comes from."""

    passage: Passage
    """Id, text without the title, title."""
    document_id: str
    domain: str


def cut_documents(
    documents: Sequence[Document], cut: Cut, progress: Progress = no_progress
) -> tuple[list[DocumentPassage], list[LeftOut]]:
    """Return the passages that stay, in the order of the documents, and those that nearly repeat an earlier one.

    Near-duplicates are looked for within a domain; of a group the first passage stays.
    """
    pieces = partial(_by_sentences, cut) if cut.unit == "sentences" else _token_cutter(cut)
    cut_up: dict[str, list[DocumentPassage]] = {}
    for document in documents:
        found = (DocumentPassage(piece, document.document_id, document.domain) for piece in pieces(document))
        cut_up.setdefault(document.domain, []).extend(found)
    repeated: dict[str, str] = {}
    for found_in_domain in cut_up.values():
        repeated |= _repeated([item.passage for item in found_in_domain], cut.threshold, progress)
    kept = [item for items in cut_up.values() for item in items if item.passage.passage_id not in repeated]
    return kept, [LeftOut(name, f"nearly the same text as {first}") for name, first in repeated.items()]


def _token_cutter(cut: Cut) -> Callable[[Document], Iterator[Passage]]:
    tokenizer = encoder_tokenizer(cut.tokenizer) if cut.tokenizer else plain_tokenizer
    return partial(_by_tokens, cut, tokenizer)


def _by_tokens(cut: Cut, tokenizer: Tokenizer, document: Document) -> Iterator[Passage]:
    whole = Passage(document.document_id, document.text, document.title)
    return segment(whole, cut.size, cut.size - cut.stride, tokenizer, title_in_text=False)


def _by_sentences(cut: Cut, document: Document) -> Iterator[Passage]:
    for start, end in sentence_windows(document.text, cut.size, cut.stride):
        yield Passage(f"{document.document_id}-{start}-{end}", document.text[start:end], document.title)


def _repeated(passages: Sequence[Passage], threshold: float, progress: Progress) -> dict[str, str]:
    """Return id of a passage -> id of the first one that says nearly the same."""
    groups = near_duplicates(lambda: passages, threshold, progress, SHINGLE_WORDS).groups
    return {name: group.passage_ids[0] for group in groups for name in group.passage_ids[1:]}
