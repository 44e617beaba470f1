"""Files derived from official ones, such as passages cut from documents: made once, stored in `<root>/derived/`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import orjson

from ragtasks.benchmarks.download import storing
from ragtasks.files import written_aside

FOLDER = "derived"
"""Folder below that of a benchmark's files."""


def derived_file(root: Path, name: str, make: Callable[[], Iterable[dict[str, Any]]]) -> Path:
    """Return the derived file of a name, made now where it is not there; it is whole or not there at all."""
    path = root / FOLDER / name
    if path.is_file():
        return path
    content = b"".join(orjson.dumps(row) + b"\n" for row in make())
    with storing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_aside(path) as file:
            file.write(content)
    return path
