"""Rows of JSON lines, plain or compressed."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any, cast

import orjson

from ragtasks.files import bounded_lines, has_candidates, retrieved_topic
from retrieval_cache.corpora._containers import BLOCK, CORRUPT, Placed, Row

COMPRESSION = {"": None, ".gz": "gzip", ".zst": "zstd", ".zip": "zip"}


def json_rows(path: Path) -> Iterator[Placed]:
    """Yield the objects of a file of JSON lines, and in the place of retrieval results their passages."""
    source = f"{path}, line"
    seen: set[str] = set()
    for number, line in raw_lines(path):
        row = line if isinstance(line, str) else parsed(line)
        if has_candidates(row):
            yield from ((source, number, found) for found in _candidate_rows(cast("dict[str, Any]", row), seen))
        else:
            yield source, number, row


def _candidate_rows(row: dict[str, Any], seen: set[str]) -> Iterator[Row]:
    """Yield the passages of a topic's candidates that no topic before it had; they are noted in `seen`."""
    try:
        candidates = retrieved_topic(row).candidates
    except ValueError as error:
        yield f"retrieval results need {error}"
        return
    for candidate in candidates:
        if candidate.passage_id not in seen:
            seen.add(candidate.passage_id)
            yield {**candidate.doc, "docid": candidate.passage_id}


def raw_lines(path: Path) -> Iterator[tuple[int, bytes | str]]:
    """Yield number and bytes of each line of a file that is not blank, and where it stops to be readable, the reason.

    Args:
        path: JSON lines, plain or compressed; blank lines are passed over, as at the end of many files.
    """
    number = 0
    try:
        with _opened(path) as stream:
            for number, line in enumerate(bounded_lines(stream), start=1):
                if not line.isspace():
                    yield number, line
    except CORRUPT as error:
        yield number + 1, f"the file cannot be read on from here: {error}"


def parsed(line: bytes) -> Row:
    """Return the object on a line, or why there is none."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return f"not JSON ({error}): {_start(line.decode(errors='replace'))}"
    return row if isinstance(row, dict) else f"not a JSON object: {_start(repr(row))}"


def _start(text: str) -> str:
    return repr(text[:57] + "..." if len(text) > 60 else text.rstrip())


def _opened(path: Path) -> AbstractContextManager[IO[bytes]]:
    compression = COMPRESSION.get(path.suffix)
    return _zip_member(path) if compression == "zip" else _stream(path, compression)


@contextmanager
def _stream(path: Path, compression: str | None) -> Iterator[IO[bytes]]:
    """Open a file through pyarrow: unlike other readers of zstd it notices a stream that was cut off."""
    import pyarrow

    with pyarrow.input_stream(str(path), compression=compression) as raw:
        yield io.BufferedReader(raw, BLOCK)


@contextmanager
def _zip_member(path: Path) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(path) as archive:
        names = [info.filename for info in archive.infolist() if not info.is_dir()]
        if len(names) != 1:
            raise ValueError(f"expected a zip with one file, found {len(names)}: {', '.join(names[:3])}")
        with archive.open(names[0]) as member:
            yield io.BufferedReader(cast(io.RawIOBase, member), BLOCK)


__all__ = ["COMPRESSION", "json_rows", "parsed", "raw_lines"]
