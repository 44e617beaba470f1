"""Rows of columnar containers: Parquet, splits that datasets saved to disk, datasets of the hub."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import orjson

from ragtasks.errors import BenchmarkFileError
from retrieval_cache.corpora._containers import BLOCK, CORRUPT, SPLIT_FILE, Fields, Placed, unusable

HUB = "hf:"
_ROWS_AT_ONCE = 512


def parquet_rows(path: Path, fields: Fields) -> Iterator[Placed]:
    """Yield the rows of a Parquet file."""
    import pyarrow.parquet

    source, number = f"{path}, row", 0
    try:
        # Without these two, whole row groups are fetched ahead, and a file may be a single one.
        with pyarrow.parquet.ParquetFile(path, buffer_size=BLOCK, pre_buffer=False) as file:
            columns = _columns(file.schema_arrow.names, fields)
            batches = file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=columns)
            rows = chain.from_iterable(batch.to_pylist() for batch in batches)
            for number, row in enumerate(rows, start=1):
                yield source, number, row
    except CORRUPT as error:
        yield source, number + 1, f"the file cannot be read on from here: {error}"


def saved_rows(path: Path, fields: Fields) -> Iterator[Placed]:
    """Yield the rows of a saved split, as plain values of its Arrow files.

    `datasets` itself would open whatever file the folder names, and, for a column of pictures, whatever address.
    """
    import pyarrow

    source, number = f"{path}, row", 0
    files = _saved_files(path)
    try:
        for file in files:
            with pyarrow.memory_map(str(file)) as mapped, pyarrow.ipc.open_stream(mapped) as batches:
                columns = _columns(batches.schema.names, fields) or batches.schema.names
                for row in chain.from_iterable(batch.select(columns).to_pylist() for batch in batches):
                    number += 1
                    yield source, number, row
    except CORRUPT as error:
        yield source, number + 1, f"the dataset cannot be read on from here: {error}"


def _saved_files(path: Path) -> list[Path]:
    """Return the Arrow files of a saved split, which lie in its folder."""
    try:
        names = [item["filename"] for item in orjson.loads((path / SPLIT_FILE).read_bytes())["_data_files"]]
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


def hub_rows(location: str, fields: Fields) -> Iterator[Placed]:
    """Yield the rows of a dataset of the hub, streamed; `location` is `hf:NAME[#CONFIG][:SPLIT]`."""
    from datasets import load_dataset

    rest, _, split = location.removeprefix(HUB).partition(":")
    name, _, config = rest.partition("#")
    try:
        dataset = load_dataset(name, config or None, split=split or "train", streaming=True)
    except (*CORRUPT, ImportError) as error:
        message = unusable(
            location, "hf:NAME[#CONFIG][:SPLIT] of a reachable dataset", str(error), "check name, split and network"
        )
        raise BenchmarkFileError(message) from error
    yield from dataset_rows(dataset, f"{location}, row", fields)


def dataset_rows(dataset: Any, source: str, fields: Fields) -> Iterator[Placed]:
    number = 0
    try:
        if dataset.column_names:
            dataset = dataset.select_columns(_columns(dataset.column_names, fields) or dataset.column_names)
        # Row by row, `datasets` is several times slower.
        rows = chain.from_iterable(_turned(batch) for batch in dataset.iter(batch_size=_ROWS_AT_ONCE))
        for number, row in enumerate(rows, start=1):
            yield source, number, row
    except CORRUPT as error:
        yield source, number + 1, f"the dataset cannot be read on from here: {error}"


def _turned(columns: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch that is held as columns."""
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))


def _columns(names: Iterable[str], fields: Fields) -> list[str] | None:
    """Return the columns to read; all of them (None) where a needed one is not there, so that errors can name them."""
    known = list(names)
    has_text = not {fields.text, fields.segment, fields.body}.isdisjoint(known)
    whole = has_text and any(name in known for name in fields.passage_id)
    return [name for name in known if name in fields.names()] if whole else None


__all__ = ["HUB", "hub_rows", "parquet_rows", "saved_rows"]
