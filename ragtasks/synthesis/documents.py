"""Documents of a folder: every file is read, or listed with the reason why it cannot be read."""

from __future__ import annotations

import hashlib
import re
import stat
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from ragtasks.errors import ConfigurationError
from ragtasks.progress import Progress, no_progress
from ragtasks.synthesis.formats import MOST_SECONDS, READERS, Extracted, FileReader, UnreadableFileError

DOMAIN = "custom"
"""Domain of all documents if folders are not domains, and of documents outside folders if they are."""
MOST_BYTES = 50_000_000
"""Largest file that is read."""
MOST_BYTES_OF = {".html": 10_000_000, ".htm": 10_000_000}
"""Extension -> largest file that is read, for formats that need four seconds per megabyte."""

_NOT_IN_DOMAIN = re.compile(r"[^a-z0-9_-]+")
_LONGEST_DOMAIN = 64


@dataclass(frozen=True, slots=True)
class Document:
    """A document with its domain and title."""

    document_id: str
    """Path below the folder, without whitespace; unique."""
    domain: str
    title: str
    """Title, or else the name of the file."""
    text: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An omitted file, passage or dialogue with the reason."""

    name: str
    """A file's path, a passage's id, a dialogue's id."""
    reason: str


@dataclass(frozen=True, slots=True)
class Documents:
    """Contents of a folder."""

    documents: tuple[Document, ...]
    """In the order of their ids; at least one."""
    left_out: tuple[LeftOut, ...]
    """Files that could not be read, duplicates, and links to targets outside the folder."""
    other_formats: Counter[str]
    """Extension -> number of files of other formats."""
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
    """Return all documents below a folder, without hidden files and folders; files outside are never read.

    Raises:
        ConfigurationError: no folder, or no file with text.
    """
    if not root.is_dir():
        raise _no_documents(root, "no such folder")
    file_types = (stat.S_IFREG, stat.S_IFLNK)
    visible = (path for path in sorted(root.rglob("*")) if "/." not in f"/{path.relative_to(root).as_posix()}")
    files = [path for path in visible if stat.S_IFMT(path.lstat().st_mode) in file_types]
    reader = FileReader(most_seconds)
    reading = _Reading(root, folders_are_domains, most_bytes, reader)
    with closing(reader):
        for done, path in enumerate(files):
            progress(f"read documents\t{path.name}", done, len(files))
            reading.take(path)
    progress("read documents", len(files), len(files))
    if not reading.documents:
        raise _no_documents(root, reading.summary(len(files)))
    return Documents(tuple(reading.documents), tuple(reading.left_out), reading.other_formats, reading.guessed)


def _no_documents(root: Path, found: str) -> ConfigurationError:
    return ConfigurationError(
        "documents",
        where=str(root),
        expected=f"a folder with files that end in {', '.join(READERS)} and contain text",
        found=found,
        next_step="add documents, or use another folder",
    )


class _Reading:
    """Documents read so far."""

    def __init__(self, root: Path, folders_are_domains: bool, most_bytes: int, reader: FileReader) -> None:
        self._root, self._folders_are_domains, self._most_bytes = root, folders_are_domains, most_bytes
        self._reader, self._inside = reader, root.resolve()
        self.documents: list[Document] = []
        self.left_out: list[LeftOut] = []
        self.other_formats: Counter[str] = Counter()
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
                self.other_formats[suffix or "no ending"] += 1
                return
            self._check_size(path, suffix)
            self._add(name, path, self._reader.read(path))
        except (UnreadableFileError, OSError) as error:
            self.left_out.append(LeftOut(name, getattr(error, "strerror", None) or str(error)))

    def _check_link(self, path: Path) -> None:
        """Raise UnreadableFileError for a broken link, or a link to a target outside the folder."""
        try:
            target = path.resolve(strict=True)
        except (OSError, RuntimeError):  # before Python 3.13, a circle of links is a RuntimeError
            raise UnreadableFileError("a broken link") from None
        if not target.is_relative_to(self._inside):
            raise UnreadableFileError(
                "a link to a target outside the folder, not followed: copy the target into the folder"
            )
        if not target.is_file():
            raise UnreadableFileError("a link whose target is not a file, not followed")

    def _check_size(self, path: Path, suffix: str) -> None:
        size = path.stat().st_size
        most = min(self._most_bytes, MOST_BYTES_OF.get(suffix, self._most_bytes))
        if size > most:
            raise UnreadableFileError(
                f"{size:,} bytes, above the limit of {most:,} for {suffix} files: split it"
                + (", or raise the limit" if most == self._most_bytes else ", or save its text as .txt")
            )

    def _add(self, name: str, path: Path, extracted: Extracted) -> None:
        digest = hashlib.sha256(" ".join(extracted.text.split()).encode("utf-8", "replace")).digest()
        if digest in self._by_text:
            raise UnreadableFileError(f"the same text as {self._by_text[digest]}")
        self._by_text[digest] = name
        if extracted.encoding:
            self.guessed[extracted.encoding] += 1
        text = extracted.text.encode("utf-8", "replace").decode()
        wanted = "_".join(name.split())
        numbered = (f"{wanted}~{number}" for number in count(2))
        document_id = next(candidate for candidate in chain([wanted], numbered) if candidate not in self._ids)
        self._ids.add(document_id)
        self.documents.append(Document(document_id, self._domain(name), extracted.title or path.stem, text))

    def _domain(self, name: str) -> str:
        folder, slash, _ = name.partition("/")
        if not (self._folders_are_domains and slash):
            return DOMAIN
        return _NOT_IN_DOMAIN.sub("-", folder.lower()).strip("-_")[:_LONGEST_DOMAIN] or DOMAIN

    def summary(self, n_files: int) -> str:
        if not n_files:
            return "an empty folder"
        reasons = [f"{omitted.name}: {omitted.reason}" for omitted in self.left_out[:3]]
        formats = [f"{n} {suffix}" for suffix, n in self.other_formats.most_common(3)]
        return f"{n_files} files, none with text ({'; '.join([*reasons, *formats])})"
