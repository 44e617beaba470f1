"""Shards on disk: the encoded passages of a corpus, a fixed number per file.

Encoding a corpus takes hours, so finished work must survive the process. A shard is a numeric file and a small JSON
seal written after it, with the hashes of the passages, the encoder, and the bytes of the file. A shard without a seal
is corrupt, a shard with another seal is stale, and both are encoded again.

A shard can take minutes, so finished batches are saved every few seconds, in sealed parts of the same format that are
later joined. Batches do not depend on when they are saved or on the worker, so a killed call, several workers and one
uninterrupted process produce the same bytes.
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
"""Maximum seconds of work that a killed call loses, in addition to one batch."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A corpus whose shards are complete."""

    ids: tuple[str, ...]
    """Passage ids in the order of the corpus, which is the order of the rows over all shards."""
    paths: tuple[Path, ...]
    """The shards, in order."""
    n_truncated: int
    """Number of truncated passages."""


@dataclass(frozen=True, slots=True)
class _Seal:
    passages: str
    encoder: str
    dimension: int
    n_truncated: int
    sha256: str
    positions: tuple[int, ...] = ()
    """For a part, the positions of its rows in the shard; () for a complete shard."""


Encode = Callable[[Sequence[Passage]], bytes]
"""Function that returns the numeric file of a shard."""


class RowFormat(Protocol):
    """Storage format of rows: an array or a sparse matrix with one row per passage."""

    def stacked(self, rows: Sequence[Any]) -> Any:
        """Return the concatenation of arrays by row; at least one array."""

    def written(self, rows: Any) -> bytes:
        """Return the numeric file of rows."""

    def read(self, path: Path) -> Any:
        """Return the rows in a numeric file."""


class BatchEncoder(RowFormat, Protocol):
    """Encodes a shard batch by batch."""

    def batches(self, passages: Sequence[Passage]) -> tuple[list[list[int]], set[int]]:
        """Return the positions in a shard of the passages encoded together, and the positions of truncated passages."""

    def encode(self, passages: Sequence[Passage]) -> Any:
        """Return the rows of a batch.

        Raises:
            CacheError: the encoder returned numbers that are not finite.
        """


@dataclass(frozen=True)
class ShardFolder:
    """The shards of one corpus under one encoder."""

    folder: Path
    """Folder for the shards only."""
    suffix: str
    """Suffix of the numeric files, such as `npy`."""
    encoder: str
    dimension: int
    size: int
    """Passages per shard; the last shard may have fewer."""

    def fill(self, passages: Iterable[Passage], encode: Encode | BatchEncoder, progress: Progress) -> Filled:
        """Return the shards of a corpus; missing shards are encoded."""
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
        """Return whether a complete shard of these passages and this encoder is on disk."""
        return self._seal(self._path(number), _passages_hash(shard)) is not None

    def save_batches(
        self,
        number: int,
        shard: Sequence[Passage],
        encoder: BatchEncoder,
        report: Callable[[int], None] = lambda _: None,
        share: tuple[int, int] = (0, 1),
    ) -> None:
        """Save the parts of a shard that are not on disk yet."""
        sealed_with = _passages_hash(shard)
        saved = {position for _, seal in self._parts(number, sealed_with) for position in seal.positions}
        batches, cut = encoder.batches(shard)
        # Calls with other batch sizes may have saved a part of a batch.
        missing = ([row for row in batch if row not in saved] for batch in batches[share[0] :: share[1]])
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
            report(len(saved.union(positions)))

    def join(self, number: int, shard: Sequence[Passage], rows: RowFormat) -> None:
        """Join the parts of a shard and remove them."""
        parts = self._parts(number, _passages_hash(shard))
        positions = np.array([row for _, seal in parts for row in seal.positions], np.int64)
        order = np.argsort(positions)
        if not np.array_equal(positions[order], np.arange(len(shard))):
            raise CacheError(
                "vectors on disk",
                where=f"{self.folder}, parts of shard {number}",
                expected=f"{len(shard)} passages",
                found=f"{len(positions)} passages in {len(parts)} intact files",
                next_step="call again; missing shards are encoded",
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
        """Return the parts of a shard, except corrupt parts and those of other passages or encoders."""
        paths = sorted(self.folder.glob(f"part-{number:06d}-*.{self.suffix}"))
        return [(path, seal) for path in paths if (seal := self._seal(path, passages)) is not None]

    def _seal(self, path: Path, passages: str) -> _Seal | None:
        """Return the seal of a numeric file, if it is of these passages and this encoder, and the file is intact."""
        seal = _seal_of(path)
        if seal is None or (seal.passages, seal.encoder) != (passages, self.encoder):
            return None
        if path.is_file() and file_hash(path) == seal.sha256:
            return seal
        _LOGGER.warning("%s: missing or changed; its vectors are computed again", path)
        return None

    def filled(self, ids: Sequence[str]) -> Filled:
        """Return the finished shards of a corpus with these ids. Parts and files of a longer corpus are removed."""
        n_shards = math.ceil(len(ids) / self.size)
        for path in self.folder.glob("shard-*"):
            if int(path.stem.removeprefix("shard-")) >= n_shards:
                path.unlink(missing_ok=True)
        for path in self.folder.glob("part-*"):
            path.unlink(missing_ok=True)
        paths = tuple(map(self._path, range(n_shards)))
        return Filled(tuple(ids), paths, sum(seal.n_truncated for seal in map(_seal_of, paths) if seal is not None))

    def clean(self) -> None:
        """Create the folder, and remove partial files of killed calls."""
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
"""Function that returns the shards of a corpus, as `ShardFolder.fill`. Its first argument creates the retriever in
another process.
"""


@runtime_checkable
class WorkersMaker(Protocol):
    """Functions that encode a corpus on other machines."""

    def __call__(self, line: str) -> Fill:
        """Return the function that encodes a corpus, without connecting yet.

        Args:
            line: type and options of the workers: `KIND[:ADDRESS][,option=value]`.

        Raises:
            ConfigurationError: an invalid line.
        """


@runtime_checkable
class EncodesCorpus(Protocol):
    """A retriever that encodes passages."""

    def encode_with(self, fill: Fill | None = None, place: Place | None = None) -> bool:
        """Set the function that encodes the corpus and the folder of its vectors; return whether `fill` is used."""


Place = Callable[[Mapping[str, Any]], AbstractContextManager[Path]]
"""Description of an encoder -> folder of its vectors of the corpus, locked for one process."""


def encode_with(retriever: object, fill: Fill | None = None, place: Place | None = None) -> bool:
    """Return whether a retriever, or a retriever it uses, encodes its corpus with `fill`."""
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
        _LOGGER.warning("%s: invalid seal; its vectors are computed again", seal_path(path))
        return None


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
