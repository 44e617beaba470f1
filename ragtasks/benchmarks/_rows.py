"""Reading JSON lines so that a whole file is checked before anything is said about it.

`Faults` collects what is wrong, line by line; one error lists it all. Rows are plain dicts until a benchmark module
turns them into records.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from ragtasks.errors import BenchmarkFileError

_MOST_SHOWN = 20


class Faults:
    """The faults of one file, and the one error that names them all."""

    def __init__(self, path: Path, what: str, next_step: str) -> None:
        self.path = path
        self._what = what
        self._next_step = next_step
        self._lines: list[str] = []

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, line: int, expected: str, found: object, task_id: str = "") -> None:
        """Note one fault; `line` counts from 1, and 0 stands for the file as a whole."""
        place = f"line {line}" if line else "file"
        task = f" ({task_id})" if task_id else ""
        self._lines.append(f"  {place}{task}: expected {expected}, found {_short(found)}")

    def raise_if_any(self) -> None:
        """Raise one error with every fault noted so far.

        Raises:
            BenchmarkFileError: at least one fault was noted.
        """
        if not self._lines:
            return
        shown = self._lines[:_MOST_SHOWN]
        if len(self._lines) > _MOST_SHOWN:
            shown.append(f"  and {len(self._lines) - _MOST_SHOWN} more")
        n_faults = f"{len(self._lines)} fault{'s' if len(self._lines) > 1 else ''}"
        message = "\n".join([f"{self._what}: {self.path}: {n_faults}", *shown, f"  next step: {self._next_step}"])
        raise BenchmarkFileError(message)


def _short(value: object) -> str:
    text = value if isinstance(value, str) and value.startswith("no ") else repr(value)
    return text if len(text) <= 120 else text[:117] + "..."


def parse_json(text: bytes) -> Any:
    """Return the parsed JSON; bare NaN, as some official files write it, becomes None.

    Raises:
        ValueError: not JSON (nor JSON with NaN), or not UTF-8.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text.decode("utf-8"), parse_constant=lambda _: None)


def json_lines(faults: Faults) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, object) of the file of `faults`; broken lines are noted there and left out.

    Raises:
        BenchmarkFileError: the file is missing or cannot be read.
    """
    try:
        content = faults.path.read_bytes()
    except OSError as error:
        faults.add(0, "a readable file", error.strerror or str(error))
        faults.raise_if_any()
        return
    if not content.strip():
        faults.add(0, "at least one line", "no line")
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = parse_json(line)
        except ValueError as error:
            faults.add(number, "one JSON object", str(error))
            continue
        if isinstance(row, dict):
            yield number, row
        else:
            faults.add(number, "one JSON object", row)


__all__ = ["Faults", "json_lines", "parse_json"]
