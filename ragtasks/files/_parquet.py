"""Rows of Parquet files, a bounded piece at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

_BLOCK = 1 << 20
_ROWS_AT_ONCE = 512


def parquet_rows(
    path: Path, choose: Callable[[Sequence[str]], Sequence[str] | None] = lambda _names: None
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file, in columns chosen by name (None: all); a corrupt file raises as pyarrow does."""
    import pyarrow.parquet

    # Without these two, whole row groups are fetched ahead, and a file may be a single one.
    with pyarrow.parquet.ParquetFile(path, buffer_size=_BLOCK, pre_buffer=False) as file:
        batches = file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=choose(file.schema_arrow.names))
        yield from chain.from_iterable(batch.to_pylist() for batch in batches)
