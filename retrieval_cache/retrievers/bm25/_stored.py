"""What the lexical retrievers keep on disk, and how: a folder that is whole or not there, with its ids beside it.

Scores come back as row numbers; `ids.json` turns them into passage ids and says what the index was built as.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from ragtasks.errors import CacheError, clear_error
from ragtasks.files import Ranked, Run, in_rank_order, write_atomically
from ragtasks.records import Passage
from retrieval_cache.retrievers._protocol import Progress
from retrieval_cache.retrievers.bm25._analysers import indexed_text

if TYPE_CHECKING:
    import numpy as np

_IDS = "ids.json"
_EVERY = 5000
"""Passages between two calls of the progress callback."""


@contextmanager
def built_whole(folder: Path) -> Iterator[Path]:
    """Yield an empty folder to build in; once the block has ended well, it is `folder`.

    A killed build leaves `<folder>.part`, which the next build empties. The caller sees to it that there is one
    build at a time.

    Raises:
        CacheError: the disk is full or cannot be written to.
    """
    part = folder.with_name(f"{folder.name}.part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        yield part
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(part, folder)  # noqa: PTH105  Path.replace is the same call, but reads as if of a file
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        raise unwritable(folder, error) from error


def unwritable(folder: Path, error: Exception) -> CacheError:
    """Return the one error for a disk that takes no more."""
    return CacheError(
        clear_error(
            "index",
            where=str(folder),
            expected="room and permission to write",
            found=str(error),
            next_step="free some space, then call again: it is built anew",
        )
    )


def write_ids(folder: Path, description: Mapping[str, Any], ids: Sequence[str]) -> None:
    """Write the passage id of every row, and what the index was built as."""
    write_atomically(folder / _IDS, orjson.dumps({"built_as": description, "ids": ids}))


def read_ids(folder: Path, description: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the passage id of every row, or None where there is no whole index built just like this."""
    try:
        content = orjson.loads((folder / _IDS).read_bytes())
        return tuple(content["ids"]) if content["built_as"] == description else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_or_built(
    folder: Path, description: Mapping[str, Any], build: Callable[[Path], tuple[str, ...]]
) -> tuple[str, ...]:
    """Return the passage id of every row of the whole index in `folder`, built first where there is none.

    Args:
        folder: of the index.
        description: what it must be built as.
        build: empty folder -> ids, after writing the index there.

    Raises:
        CacheError: the disk is full or cannot be written to.
    """
    ids = read_ids(folder, description)
    if ids is None:
        with built_whole(folder) as part:
            ids = build(part)
    return ids


def searched(
    name: str, queries: Mapping[str, str], ranked: Callable[[str], tuple[Ranked, ...]], progress: Progress
) -> Run:
    """Return what `ranked` finds for the text of each query, and tell `progress` after each."""
    run: dict[str, tuple[Ranked, ...]] = {}
    for query_id, text in queries.items():
        run[query_id] = ranked(text)
        progress(f"search {name}", len(run), len(queries))
    return run


def texts_with_ids(passages: Iterable[Passage], ids: list[str], what: str, progress: Progress) -> Iterator[str]:
    """Yield the indexed text of every passage, add its id to `ids`, and tell `progress`.

    A passage without a word is kept, and matches nothing: official corpora have such, and its row counts in the
    statistics as it does in Elasticsearch.
    """
    for passage in passages:
        ids.append(passage.passage_id)
        yield indexed_text(passage)
        if len(ids) % _EVERY == 0:
            progress(what, len(ids), None)
    progress(what, len(ids), len(ids))


def not_indexed(name: str) -> CacheError:
    """Return the error of a search before `index`."""
    return CacheError(f"{name}: search was called before index; next step: index the corpus first")


def best(scores: np.ndarray[Any, Any], ids: Sequence[str], k: int) -> tuple[Ranked, ...]:
    """Return the best `k` passages whose score is not 0, in rank order; the cut follows the rule for ties too.

    Args:
        scores: one for each row, as 32-bit floats, higher is better.
        ids: passage id of each row.
        k: most passages to return.
    """
    import numpy as np

    rows = np.flatnonzero(scores)
    if len(rows) > k:
        cut = np.partition(scores[rows], len(rows) - k)[len(rows) - k]
        rows = rows[scores[rows] >= cut]
    return in_rank_order(Ranked(ids[row], float(scores[row])) for row in rows.tolist())[:k]


__all__ = [
    "best",
    "built_whole",
    "not_indexed",
    "read_ids",
    "read_or_built",
    "searched",
    "texts_with_ids",
    "unwritable",
    "write_ids",
]
