"""Rows of a corpus in any container: one pass, in bounded memory.

The container is chosen by name, never by content:

- `hf:NAME[#CONFIG][:SPLIT]`: a dataset of the Hugging Face hub, streamed (default split `train`);
- `*.jsonl` or `*.json`, plain or with suffix `.gz`, `.zst` or `.zip` (a zip with one file): JSON lines;
- `*.parquet`;
- a folder with `state.json`: one split saved to disk by `datasets`;
- a folder with `corpus.jsonl` (or `.gz`, `.zst`, `.zip`): BEIR, without its queries and qrels;
- any other folder: all its files of these types, sorted by name, as the shards of one corpus.

Lines of retrieval results (`query` and `candidates`) contribute the passages of their candidates, each once.

A broken line yields a problem instead of a row, and so does the position at which a corrupt file ends.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

import orjson

from ragtasks.errors import BenchmarkFileError, ConfigurationError, clear_error
from ragtasks.files import bounded_lines, has_candidates, parquet_rows, retrieved_topic

# Rows of JSON lines, plain or compressed.

COMPRESSION = {"": None, ".gz": "gzip", ".zst": "zstd", ".zip": "zip"}


def json_rows(path: Path) -> Iterator[Placed]:
    """Yield the objects in a file of JSON lines; for retrieval results, their passages."""
    source = f"{path}, line"
    seen_ids: set[str] = set()
    for number, line in raw_lines(path):
        row = line if isinstance(line, str) else parsed(line)
        if has_candidates(row):
            yield from (
                (source, number, candidate) for candidate in _candidate_rows(cast("dict[str, Any]", row), seen_ids)
            )
        else:
            yield source, number, row


def _candidate_rows(row: dict[str, Any], seen_ids: set[str]) -> Iterator[Row]:
    """Yield the passages of a topic's candidates that are not in `seen`, and add them to it."""
    try:
        candidates = retrieved_topic(row).candidates
    except ValueError as error:
        yield f"retrieval results need {error}"
        return
    for candidate in candidates:
        if candidate.passage_id not in seen_ids:
            seen_ids.add(candidate.passage_id)
            yield {**candidate.doc, "docid": candidate.passage_id}


def raw_lines(path: Path) -> Iterator[tuple[int, bytes | str]]:
    """Yield number and bytes of each nonblank line; for an unreadable rest, the problem."""
    number = 0
    try:
        with _opened(path) as stream:
            for number, line in enumerate(bounded_lines(stream), start=1):
                if not line.isspace():
                    yield number, line
    except CORRUPT as error:
        yield number + 1, f"unreadable from here: {error}"


def parsed(line: bytes) -> Row:
    """Return the object on a line, or the problem."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return f"not JSON ({error}): {_start(line.decode(errors='replace'))}"
    return row if isinstance(row, dict) else f"not a JSON object: {_start(repr(row))}"


def _start(text: str) -> str:
    return repr(text[:57] + "..." if len(text) > 60 else text.rstrip())


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, decompressed. pyarrow detects a truncated zstd stream, unlike other readers."""
    import pyarrow

    compression = COMPRESSION.get(path.suffix)
    with ExitStack() as stack:
        if compression == "zip":
            archive = stack.enter_context(zipfile.ZipFile(path))
            names = [info.filename for info in archive.infolist() if not info.is_dir()]
            if len(names) != 1:
                raise ValueError(f"expected a zip with one file, found {len(names)}: {', '.join(names[:3])}")
            raw = stack.enter_context(archive.open(names[0]))
        else:
            raw = stack.enter_context(pyarrow.input_stream(str(path), compression=compression))
        yield io.BufferedReader(cast("io.RawIOBase", raw), BLOCK)


_BEIR = "corpus.jsonl"
_JSON_LINES = tuple(stem + ending for stem in (".jsonl", ".json") for ending in COMPRESSION)
_SUFFIXES = (*_JSON_LINES, ".parquet")


def placed_rows(location: str) -> Iterator[Placed]:
    """Yield the rows of a corpus with their positions, in order, in constant memory."""
    if location.startswith(HUB):
        yield from hub_rows(location)
        return
    path = Path(location)
    if not path.exists():
        raise BenchmarkFileError(unusable(location, "a file or folder", "nothing", "check the path"))
    if path.is_dir() and (path / SPLIT_FILE).is_file():
        yield from _numbered(f"{path}, row", _saved_rows(_saved_files(path)))
        return
    for file in _files(path):
        is_parquet = file.suffix == ".parquet"
        yield from _numbered(f"{file}, row", parquet_rows(file, _columns)) if is_parquet else json_rows(file)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        if _suffix(path):
            return [path]
        raise ConfigurationError(
            unusable(str(path), f"a name that ends in {', '.join(_SUFFIXES)}", path.name, "rename")
        )
    beir = [path / f"{_BEIR}{ending}" for ending in COMPRESSION if (path / f"{_BEIR}{ending}").is_file()]
    files = beir or sorted(file for file in path.iterdir() if file.is_file() and _suffix(file))
    if not files:
        entries = ", ".join(sorted(entry.name for entry in path.iterdir())[:5]) or "an empty folder"
        expected = f"{_BEIR}, a dataset split saved to disk, or shards ({', '.join(_SUFFIXES)})"
        raise BenchmarkFileError(unusable(str(path), expected, entries, "name the file or the split's folder"))
    if len(beir) > 1 or len({_suffix(file) for file in files}) > 1:
        entries = ", ".join(file.name for file in files[:5])
        raise ConfigurationError(unusable(str(path), "one corpus with shards of one type", entries, "name the file"))
    return files


def _suffix(path: Path) -> str:
    """Return the longest known suffix of a name, or ""."""
    return max((suffix for suffix in _SUFFIXES if path.name.endswith(suffix)), key=len, default="")


def shards_of(location: str) -> list[Path]:
    """Return the files of a folder of JSON-lines shards, sorted by name; [] for any other corpus."""
    path = Path(location)
    if location.startswith(HUB) or not path.is_dir() or (path / SPLIT_FILE).is_file():
        return []
    if any((path / f"{_BEIR}{ending}").is_file() for ending in COMPRESSION):
        return []
    files = _files(path)
    return files if _suffix(files[0]) in _JSON_LINES else []


# Rows of columnar containers: Parquet, splits saved by `datasets`, datasets of the hub.

HUB = "hf:"
_ROWS_AT_ONCE = 512


def _numbered(source: str, rows: Iterable[Row]) -> Iterator[Placed]:
    """Yield rows with their numbers; for a corrupt container, the problem at its position."""
    number = 0
    try:
        for number, row in enumerate(rows, start=1):
            yield source, number, row
    except CORRUPT as error:
        yield source, number + 1, f"unreadable from here: {error}"


def _saved_rows(files: Sequence[Path]) -> Iterator[Row]:
    """Yield the rows of a saved split as plain values of its Arrow files.

    `datasets` itself would open any file named in the folder and, for a column of images, any address.
    """
    import pyarrow

    for file in files:
        with pyarrow.memory_map(str(file)) as mapped, pyarrow.ipc.open_stream(mapped) as batches:
            columns = _columns(batches.schema.names) or batches.schema.names
            yield from chain.from_iterable(batch.select(columns).to_pylist() for batch in batches)


def _saved_files(path: Path) -> list[Path]:
    """Return the Arrow files of a saved split, all in its folder."""
    try:
        names = [entry["filename"] for entry in orjson.loads((path / SPLIT_FILE).read_bytes())["_data_files"]]
        outside = [name for name in names if Path(name).name != name]
        if outside:
            raise ValueError(f"a file outside of the folder, {outside[0]!r:.120}")
        files = [path / name for name in names]
        missing = [file.name for file in files if not file.is_file()]
        if missing or not files:
            raise ValueError(f"no {missing[0]}" if missing else "no file")
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = unusable(str(path), "a split as `datasets` saves it", str(error), "save it again")
        raise BenchmarkFileError(message) from error
    return files


def hub_rows(location: str) -> Iterator[Placed]:
    """Yield the rows of a streamed dataset of the hub; `location` is `hf:NAME[#CONFIG][:SPLIT]`."""
    from datasets import load_dataset

    name_and_config, _, split = location.removeprefix(HUB).partition(":")
    name, _, config = name_and_config.partition("#")
    try:
        dataset = load_dataset(name, config or None, split=split or "train", streaming=True)
    except (*CORRUPT, ImportError) as error:
        message = unusable(
            location, "hf:NAME[#CONFIG][:SPLIT] of a reachable dataset", str(error), "check name, split and network"
        )
        raise BenchmarkFileError(message) from error
    yield from _numbered(f"{location}, row", dataset_rows(dataset))


def dataset_rows(dataset: Any) -> Iterator[Row]:
    """Yield the rows of a streamed dataset."""
    if dataset.column_names:
        dataset = dataset.select_columns(_columns(dataset.column_names) or dataset.column_names)
    # In batches, because row by row `datasets` is several times slower.
    for columns in dataset.iter(batch_size=_ROWS_AT_ONCE):
        for values in zip(*columns.values(), strict=True):
            yield dict(zip(columns, values, strict=True))


def _columns(names: Iterable[str]) -> list[str] | None:
    """Return the columns to read; None (all) if a required column is missing, so that errors can list the columns."""
    column_names = list(names)
    has_required = not {*TEXT_FIELDS}.isdisjoint(column_names) and not {*ID_FIELDS}.isdisjoint(column_names)
    return [name for name in column_names if name in _FIELDS] if has_required else None


# Shared by the readers: field names, rows with positions, exceptions of corrupt containers.

Row: TypeAlias = "Mapping[str, Any] | str"
"""Field -> value, or the problem at this position."""
Placed: TypeAlias = tuple[str, int, Row]
"""File and unit (such as `corpus.jsonl, line`), number from 1, row."""
SPLIT_FILE = "state.json"
"""File that marks a folder as one split saved by `datasets`."""
BLOCK = 1 << 20
CORRUPT = (OSError, EOFError, ValueError, RuntimeError, NotImplementedError, zlib.error, zipfile.BadZipFile)
"""Exceptions of pyarrow, zipfile and datasets for a corrupt, locked or unexpected container."""


ID_FIELDS = ("_id", "id", "docid")
"""Keys of a passage's id; the first that exists is used."""
TEXT_FIELDS = ("text", "segment", "body")
"""Keys of its text, likewise: `segment` for MS MARCO V2.1's segments, `body` for its documents."""
_FIELDS = {*ID_FIELDS, *TEXT_FIELDS, "title", "url"}


def unusable(where: str, expected: str, found: str, next_step: str) -> str:
    """Return the message for an unreadable corpus."""
    return clear_error("corpus", where=where, expected=expected, found=found, next_step=next_step)
