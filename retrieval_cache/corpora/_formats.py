"""Rows of a corpus, whatever container they are in: one pass, a bounded piece at a time.

The container is chosen by name alone, never by a look at the content:

- `hf:NAME[#CONFIG][:SPLIT]`: a dataset of the Hugging Face hub, streamed (split `train` where none is named);
- `*.jsonl` or `*.json`, plain or with `.gz`, `.zst` or `.zip` (a zip with one file) behind it: JSON lines;
- `*.parquet`;
- a folder with `state.json`: one split that `datasets` saved to disk;
- a folder with `corpus.jsonl` (or `.gz`, `.zst`, `.zip`): BEIR, whose queries and qrels beside it are not looked at;
- any other folder: all its files of the kinds above, in the order of their names, as the shards of one corpus.

Lines of retrieval results (`query` and `candidates`) are the passages of their candidates, each once.

A broken line is handed on as a reason in place of a row, and so is the place where a corrupt file stops.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ragtasks.errors import BenchmarkFileError, ConfigurationError
from retrieval_cache.corpora._columnar import HUB, hub_rows, parquet_rows, saved_rows
from retrieval_cache.corpora._containers import SPLIT_FILE, Fields, Placed, unusable
from retrieval_cache.corpora._json_rows import COMPRESSION, json_rows

_BEIR = "corpus.jsonl"
_JSON_LINES = tuple(stem + ending for stem in (".jsonl", ".json") for ending in COMPRESSION)
_KINDS = (*_JSON_LINES, ".parquet")


def placed_rows(location: str, fields: Fields) -> Iterator[Placed]:
    """Yield the rows of a corpus with their places, in its own order, in constant memory.

    Args:
        location: as listed in the module's description.
        fields: columns that a columnar container reads; others are left on the disk.

    Raises:
        BenchmarkFileError: nothing is there.
        ConfigurationError: the name is of no known kind, or a folder does not say which of its files to read.
    """
    if location.startswith(HUB):
        yield from hub_rows(location, fields)
        return
    path = Path(location)
    if not path.exists():
        raise BenchmarkFileError(unusable(location, "a file or folder", "nothing", "check the path"))
    if path.is_dir() and (path / SPLIT_FILE).is_file():
        yield from saved_rows(path, fields)
        return
    for file in _files(path):
        yield from parquet_rows(file, fields) if file.suffix == ".parquet" else json_rows(file)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        if _kind(path):
            return [path]
        raise ConfigurationError(unusable(str(path), f"a name that ends in {', '.join(_KINDS)}", path.name, "rename"))
    beir = [path / f"{_BEIR}{ending}" for ending in COMPRESSION if (path / f"{_BEIR}{ending}").is_file()]
    files = beir or sorted(file for file in path.iterdir() if file.is_file() and _kind(file))
    if not files:
        found = ", ".join(sorted(entry.name for entry in path.iterdir())[:5]) or "an empty folder"
        expected = f"{_BEIR}, a dataset split saved to disk, or shards ({', '.join(_KINDS)})"
        raise BenchmarkFileError(unusable(str(path), expected, found, "name the file or the split's folder"))
    if len(beir) > 1 or len({_kind(file) for file in files}) > 1:
        found = ", ".join(file.name for file in files[:5])
        raise ConfigurationError(unusable(str(path), "one corpus, its shards of one kind", found, "name the file"))
    return files


def _kind(path: Path) -> str:
    """Return the known ending of a name, the longest that fits, or nothing."""
    return max((kind for kind in _KINDS if path.name.endswith(kind)), key=len, default="")


def shards_of(location: str) -> list[Path]:
    """Return the files of a folder of JSON-lines shards, in the order of their names; [] for any other corpus."""
    path = Path(location)
    if location.startswith(HUB) or not path.is_dir() or (path / SPLIT_FILE).is_file():
        return []
    if any((path / f"{_BEIR}{ending}").is_file() for ending in COMPRESSION):
        return []
    files = _files(path)
    return files if _kind(files[0]) in _JSON_LINES else []


__all__ = ["placed_rows", "shards_of"]
