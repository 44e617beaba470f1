"""Shards on disk: the encoded passages of a corpus, a fixed number of them per file.

Encoding a corpus takes hours, so finished work must outlive the process. A shard is a numeric file and, written after
it, a small JSON seal: the hash of the passages, of the encoder, and of the bytes of the file. A shard without a seal
is corrupt, one whose seal does not match is stale, and both are encoded again.

A shard can be minutes of work, so its finished batches are saved every few seconds, in sealed parts of the same format
that are joined to the shard. Batches do not depend on when they are saved or on which worker encodes them, so a
killed call, several workers and one undisturbed process leave the same bytes.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import orjson

from ragtasks.errors import BenchmarkFileError, CacheError
from ragtasks.files import file_hash, write_atomically
from ragtasks.progress import Progress
from ragtasks.records import Passage
from retrieval_cache.retrievers.protocol import parts_of

_LOGGER = logging.getLogger(__name__)
_SAVE_SECONDS = 5.0
"""Maximum work that a killed call loses, in addition to one batch."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A corpus whose shards are complete."""

    ids: tuple[str, ...]
    """Passage ids in the order of the corpus, which is the order of the rows over all shards."""
    paths: tuple[Path, ...]
    """The shards, in order."""
    n_truncated: int
    """Passages that were longer than the encoder reads."""


@dataclass(frozen=True, slots=True)
class _Seal:
    passages: str
    encoder: str
    dimension: int
    n_truncated: int
    sha256: str
    positions: tuple[int, ...] = ()
    """Of a part: the places in the shard of its rows; () for a whole shard."""


Encode = Callable[[Sequence[Passage]], bytes]
"""Returns the numeric file of a shard."""


class RowFormat(Protocol):
    """How rows are stored: an array or a sparse matrix with a row a passage."""

    def stacked(self, rows: Sequence[Any]) -> Any:
        """Return rows one below the other; at least one."""

    def written(self, rows: Any) -> bytes:
        """Return the numeric file of rows."""

    def read(self, path: Path) -> Any:
        """Return the rows of a numeric file."""


class BatchEncoder(RowFormat, Protocol):
    """Encodes a shard batch by batch."""

    def batches(self, passages: Sequence[Passage]) -> tuple[list[list[int]], set[int]]:
        """Return the places in a shard that are encoded together, and the places of passages that are cut."""

    def encode(self, passages: Sequence[Passage]) -> Any:
        """Return the rows of a batch.

        Raises:
            CacheError: the encoder gives numbers that are not finite.
        """


@dataclass(frozen=True)
class ShardFolder:
    """The shards of one corpus under one encoder."""

    folder: Path
    """Holds nothing else."""
    suffix: str
    """Of the numeric files, such as `npy`."""
    encoder: str
    dimension: int
    size: int
    """Passages in a shard; the last one may hold fewer."""

    def fill(self, passages: Iterable[Passage], encode: Encode | BatchEncoder, progress: Progress) -> Filled:
        """Return the shards of a corpus; those that are missing are encoded."""
        self.clean()
        ids: list[str] = []
        for number, shard in enumerate(chunks(passages, self.size)):
            if not self.is_finished(number, shard):
                if callable(encode):
                    seal_path(self._path(number)).unlink(missing_ok=True)
                    self._write(self._path(number), encode(shard), _passages_hash(shard))
                else:
                    self.save_batches(number, shard, encode, _from(len(ids), progress))
                    self.join(number, shard, encode)
            ids.extend(passage.passage_id for passage in shard)
            progress("encode passages", len(ids), None)
        return self.filled(ids)

    def is_finished(self, number: int, shard: Sequence[Passage]) -> bool:
        """Return whether a shard is on disk, whole, and of these passages and this encoder."""
        seal = _seal_of(self._path(number))
        if seal is None or (seal.passages, seal.encoder) != (_passages_hash(shard), self.encoder):
            return False
        return _whole(seal, self._path(number))

    def save_batches(
        self,
        number: int,
        shard: Sequence[Passage],
        encoder: BatchEncoder,
        told: Callable[[int], None] = lambda _: None,
        share: tuple[int, int] = (0, 1),
    ) -> None:
        """Save the parts of a shard that are not on disk yet."""
        sealed_with = _passages_hash(shard)
        saved = {position for _, seal in self._parts(number, sealed_with) for position in seal.positions}
        batches, cut = encoder.batches(shard)
        # Other batch sizes may have saved a batch in part.
        missing = ([place for place in batch if place not in saved] for batch in batches[share[0] :: share[1]])
        waiting = [batch for batch in missing if batch]
        rows: list[Any] = []
        positions: list[int] = []
        last = time.monotonic()
        for done, batch in enumerate(waiting, start=1):
            rows.append(encoder.encode([shard[position] for position in batch]))
            positions += batch
            if time.monotonic() - last >= _SAVE_SECONDS or done == len(waiting):
                part = encoder.written(encoder.stacked(rows))
                path = self.folder / f"part-{number:06d}-{positions[0]:06d}.{self.suffix}"
                self._write(path, part, sealed_with, len(cut.intersection(positions)), tuple(positions))
                saved.update(positions)
                rows, positions, last = [], [], time.monotonic()
            told(len(saved.union(positions)))

    def join(self, number: int, shard: Sequence[Passage], rows: RowFormat) -> None:
        """Join the parts of a shard, and remove them."""
        parts = self._parts(number, _passages_hash(shard))
        places = np.array([place for _, seal in parts for place in seal.positions], np.int64)
        order = np.argsort(places)
        if not np.array_equal(places[order], np.arange(len(shard))):
            raise CacheError(
                "vectors on disk",
                where=f"{self.folder}, parts of shard {number}",
                expected=f"{len(shard)} passages",
                found=f"{len(places)} of them, in {len(parts)} whole files",
                next_step="call again: what is missing is encoded",
            )
        joined = rows.stacked([rows.read(path) for path, _ in parts])[order]
        seal_path(self._path(number)).unlink(missing_ok=True)
        n_truncated = sum(seal.n_truncated for _, seal in parts)
        self._write(self._path(number), rows.written(joined), _passages_hash(shard), n_truncated)
        for path in self.folder.glob(f"part-{number:06d}-*"):
            path.unlink(missing_ok=True)

    def _write(
        self, path: Path, content: bytes, passages: str, n_truncated: int = 0, positions: tuple[int, ...] = ()
    ) -> None:
        seal = _Seal(passages, self.encoder, self.dimension, n_truncated, write_atomically(path, content), positions)
        sealed = {name: value for name, value in asdict(seal).items() if value != ()}
        write_atomically(seal_path(path), orjson.dumps(sealed, option=orjson.OPT_SORT_KEYS))

    def _parts(self, number: int, passages: str) -> list[tuple[Path, _Seal]]:
        """Return the parts of a shard, without those that are corrupt or of other passages or another encoder."""
        found = []
        for path in sorted(self.folder.glob(f"part-{number:06d}-*.{self.suffix}")):
            seal = _seal_of(path)
            if seal is not None and (seal.passages, seal.encoder) == (passages, self.encoder) and _whole(seal, path):
                found.append((path, seal))
        return found

    def filled(self, ids: Sequence[str]) -> Filled:
        """Return the finished shards of a corpus with these ids; files of a longer corpus and parts are removed."""
        n_shards = math.ceil(len(ids) / self.size)
        for path in self.folder.glob("shard-*"):
            if int(path.stem.removeprefix("shard-")) >= n_shards:
                path.unlink(missing_ok=True)
        for path in self.folder.glob("part-*"):
            path.unlink(missing_ok=True)
        paths = tuple(map(self._path, range(n_shards)))
        return Filled(tuple(ids), paths, sum(seal.n_truncated for seal in map(_seal_of, paths) if seal is not None))

    def clean(self) -> None:
        """Make the folder, and remove partial files of killed calls."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for part in self.folder.glob("*.part"):
            part.unlink(missing_ok=True)
        for path in sorted(self.folder.glob("shard-*.json")):
            seal = _seal_of(path)
            if seal is not None and seal.dimension != self.dimension:
                raise CacheError(
                    "vectors on disk",
                    where=str(path),
                    expected=f"{self.dimension} dimensions, as the encoder has",
                    found=f"{seal.dimension} dimensions: another encoder made them",
                    next_step="name that encoder, or remove the folder and index again",
                )

    def _path(self, number: int) -> Path:
        return self.folder / f"shard-{number:06d}.{self.suffix}"


Fill = Callable[[Mapping[str, Any], ShardFolder, Iterable[Passage], Progress], Filled]
"""Returns the shards of a corpus, as `ShardFolder.fill` does; the first argument makes the same retriever elsewhere."""


@runtime_checkable
class WorkersMaker(Protocol):
    """Functions that encode a corpus on other machines."""

    def __call__(self, line: str) -> Fill:
        """Return the function that encodes a corpus; nothing is connected yet.

        Args:
            line: the kind of workers, and what follows it: `KIND[:ADDRESS][,option=value]`.

        Raises:
            ConfigurationError: the line cannot be read.
        """


@runtime_checkable
class EncodesCorpus(Protocol):
    """A retriever that encodes passages."""

    def encode_with(self, fill: Fill | None = None, place: Place | None = None) -> bool:
        """Set the function that makes the vectors of the corpus and their folder; return whether `fill` makes any."""


Place = Callable[[Mapping[str, Any]], AbstractContextManager[Path]]
"""Description of an encoder -> folder of its vectors of the corpus, for one process at a time."""


def encode_with(retriever: object, fill: Fill | None = None, place: Place | None = None) -> bool:
    """Return whether a retriever, or one that it searches with, lets `fill` make vectors of its corpus."""
    taken = [part.encode_with(fill, place) for part in parts_of(retriever) if isinstance(part, EncodesCorpus)]
    return any(taken)


def seal_path(path: Path) -> Path:
    """Return the path of the seal of a numeric file."""
    return path.with_suffix(".json")


def _seal_of(path: Path) -> _Seal | None:
    try:
        return _Seal(**orjson.loads(seal_path(path).read_bytes()))
    except FileNotFoundError:
        return None
    except (orjson.JSONDecodeError, TypeError):
        _LOGGER.warning("%s: not the seal that was written; its vectors are made again", seal_path(path))
        return None


def _whole(seal: _Seal, path: Path) -> bool:
    """Return whether a numeric file has the bytes that were sealed; a warning names one that does not."""
    is_whole = path.is_file() and file_hash(path) == seal.sha256
    if not is_whole:
        _LOGGER.warning("%s: missing, or other bytes than were written; its vectors are made again", path)
    return is_whole


def _from(done: int, progress: Progress) -> Callable[[int], None]:
    return lambda n: progress("encode passages", done + n, None)


def chunks(passages: Iterable[Passage], size: int) -> Iterator[list[Passage]]:
    """Yield the passages of each shard."""
    iterator = iter(passages)
    while chunk := list(itertools.islice(iterator, size)):
        for passage in chunk:
            if not passage.text.strip():
                raise BenchmarkFileError(
                    "corpus",
                    where=f"passage {passage.passage_id!r}",
                    expected="a text",
                    found="none",
                    next_step="remove the passage from the corpus",
                )
        yield chunk


def _passages_hash(passages: Sequence[Passage]) -> str:
    digest = hashlib.sha256()
    for passage in passages:
        digest.update(orjson.dumps([passage.passage_id, passage.title, passage.text]) + b"\n")
    return digest.hexdigest()
