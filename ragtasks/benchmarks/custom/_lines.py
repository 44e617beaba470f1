"""The lines of files that people write themselves, and what is wrong with them: every error, with its file and line.

The official files are made by programs, so one expected shape is enough there. What is typed or exported by hand goes
wrong in other ways (another encoding, a key twice, a misspelt key), and each is named here for itself. The mark that
some editors put before UTF-8 is no error: it is read as if it were not there.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragtasks.errors import close_matches
from ragtasks.files import bounded_lines, listed_error

_BOM = b"\xef\xbb\xbf"
_WIDE_BOMS = (b"\xff\xfe", b"\xfe\xff")
_LONGEST_SHOWN = 80


@dataclass(frozen=True, slots=True, order=True)
class Violation:
    """One thing that is wrong."""

    file: str
    """Name of the file."""
    line: int
    """Its line, from 1; 0 for the file as a whole."""
    text: str
    """What is wrong."""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.text}"


class FolderViolations:
    """What is wrong with the files of one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._found: list[Violation] = []

    def add(self, file: str, line: int, text: str) -> None:
        """Note one error; line 0 means the file as a whole."""
        self._found.append(Violation(file, line, text))

    def all(self) -> tuple[Violation, ...]:
        """Return every error, those of a file in the order of its lines."""
        return tuple(sorted(self._found, key=lambda violation: (violation.file, violation.line)))

    def raise_if_any(self, next_step: str) -> None:
        """Raise one error with the first errors, and how many there are.

        Raises:
            BenchmarkFileError: at least one error was noted.
        """
        if self._found:
            raise listed_error(f"files of your own in {self.root}", [str(item) for item in self.all()], next_step)


@dataclass(frozen=True, slots=True)
class Item:
    """One JSON object with its place; its readers note what is wrong and return something harmless in its stead."""

    violations: FolderViolations
    """Where errors are noted."""
    file: str
    """Name of the file."""
    line: int
    """Its line."""
    content: Mapping[str, Any]
    """The object. A key whose value is null counts as missing where it may be."""
    place: str = ""
    """What of the line is meant, such as `turn 2`."""
    only: Collection[str] = field(default=(), repr=False)
    """Keys that it may have."""

    def __post_init__(self) -> None:
        for key in self.content:
            if key not in self.only:
                self.note(f"unknown key {shown(key)}: {close_matches(key, self.only)}")

    def note(self, text: str) -> None:
        """Note an error of this object."""
        self.violations.add(self.file, self.line, f"{self.place}: {text}" if self.place else text)

    def expected(self, what: str, value: object) -> None:
        """Note that something else was expected."""
        self.note(f"expected {what}, found {shown(value)}")

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text that says something; without `default` it must be there."""
        value = self.content.get(key)
        if value is None and default is not None:
            return default
        if key not in self.content:
            self.note(f"no {key!r}")
        elif not isinstance(value, str) or not value.strip():
            self.expected(f"{key!r} as a text that is not blank", value)
        else:
            return value
        return ""

    def name(self, key: str) -> str:
        """Return an id: a text without white space, since a run's line is cut there."""
        value = self.text(key)
        if value and value.split() != [value]:
            self.expected(f"{key!r} without white space", value)
            return ""
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts, each once; a text alone is a list of one, and nothing is an empty one."""
        value = self.content.get(key)
        values = [] if value is None else [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(item, str) and item.strip() for item in values):
            self.expected(f"{key!r} as a list of texts", value)
            return ()
        for repeated in sorted({item for item in values if values.count(item) > 1}):
            self.note(f"{shown(repeated)} stands twice in {key!r}")
        return tuple(dict.fromkeys(values))


def json_objects(path: Path, violations: FolderViolations) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, object) of a file of JSON lines; all that is no object is noted and left out."""
    for number, text, is_corrupt in text_lines(path, violations):
        try:
            value = _parsed(text)
        except ValueError as error:
            corrupt = "the file breaks off inside this line: " if is_corrupt else ""
            violations.add(path.name, number, f"{corrupt}expected one JSON object, found {error}")
            continue
        if isinstance(value, dict):
            yield number, value
        else:
            violations.add(path.name, number, f"expected one JSON object, found {shown(value)}")


def text_lines(path: Path, violations: FolderViolations) -> Iterator[tuple[int, str, bool]]:
    """Yield (line number from 1, text, whether the line has no end) of each line that is not blank and is UTF-8."""
    for number, line in enumerate(_raw_lines(path, violations), start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            violations.add(
                path.name, number, f"expected UTF-8, found byte {line[error.start]:#04x} at {error.start + 1}"
            )
            continue
        if text.strip():
            yield number, text.rstrip("\r\n"), not line.endswith((b"\n", b"\r"))


def _raw_lines(path: Path, violations: FolderViolations) -> Iterator[bytes]:
    """Yield the lines of a file without a byte order mark; nothing after noting that it cannot be used.

    A carriage return ends a line too: some editors write no line feed.
    """
    number = n_filled = 0
    try:
        with path.open("rb") as stream:
            for ended in bounded_lines(stream):
                first = number == 0
                if first and ended.startswith(_WIDE_BOMS):
                    violations.add(path.name, 1, "expected UTF-8, found UTF-16: save the file as UTF-8")
                    return
                for line in ended.removeprefix(_BOM if first else b"").splitlines(keepends=True):
                    number += 1
                    n_filled += bool(line.strip())
                    yield line
    except FileNotFoundError:
        others = sorted(file.name for file in path.parent.glob("*") if file.is_file()) if path.parent.is_dir() else []
        found = f"; there: {', '.join(others)}" if others else ""
        violations.add(path.name, 0, f"no such file{found}")
    except OSError as error:
        violations.add(path.name, 0, f"cannot be read: {error.strerror or error}")
    except ValueError as error:
        violations.add(path.name, number + 1, f"expected one JSON object, found {error}")
    else:
        if not n_filled:
            violations.add(path.name, 0, "the file is empty")


def _parsed(text: str) -> Any:
    """Return the parsed JSON.

    Raises:
        ValueError: not JSON, a key twice, NaN, nested too deeply, or half of a surrogate pair.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number)
    except RecursionError as error:
        raise ValueError("JSON that is nested too deeply") from error
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError("half of a surrogate pair, which no file can hold") from error
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        raise ValueError(f"the key {shown(twice[0])} twice in one object")
    return found


def _no_number(name: str) -> None:
    raise ValueError(f"{name}, which is not JSON")


def shown(value: object) -> str:
    """Return a value for a message, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."


def plural(number: int, noun: str) -> str:
    """Return a count with its noun, such as `2 errors`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


__all__ = ["FolderViolations", "Item", "Violation", "json_objects", "plural", "shown", "text_lines"]
