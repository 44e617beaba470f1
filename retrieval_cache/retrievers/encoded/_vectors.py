"""Shards on disk: what an encoder made of the passages, a fixed number of them to a file.

Encoding a corpus takes hours, so every finished shard has to outlive the process. A shard is one numeric file and,
written after it, a small JSON seal: the hash of the passages that went in, of the encoder, and of the bytes that came
out. A shard without a seal is corrupt, one whose seal does not fit is stale, and both are encoded again; so a killed
call and an undisturbed one leave the same bytes.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import orjson

from ragtasks.errors import BenchmarkFileError, CacheError, clear_error
from ragtasks.files import write_atomically
from ragtasks.records import Passage
from retrieval_cache.retrievers._protocol import Progress


@dataclass(frozen=True, slots=True)
class Encoded:
    """What an encoder returns for one shard."""

    content: bytes
    """The numeric file, whole."""
    n_truncated: int = 0
    """Passages that were longer than the encoder reads."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A corpus whose shards are all on disk."""

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


Encode = Callable[[Sequence[Passage], Callable[[int], None]], Encoded]
"""Called with the passages of a shard and a function that is told how many of them are done."""


@dataclass(frozen=True)
class ShardFolder:
    """The shards of one corpus under one encoder."""

    folder: Path
    """Holds nothing else."""
    suffix: str
    """Of the numeric files, such as `npy`."""
    encoder: str
    """Hash of everything that decides the vectors."""
    dimension: int
    """Width of the vectors."""
    size: int
    """Passages in a shard; the last one may hold fewer."""

    def fill(self, passages: Iterable[Passage], encode: Encode, progress: Progress) -> Filled:
        """Return the shards of a corpus, encoding those that are not on disk yet.

        Args:
            passages: read once, a shard at a time; an empty corpus has no shards.
            encode: makes one shard.
            progress: told of the passages that are done.

        Raises:
            BenchmarkFileError: a passage has no text.
            CacheError: the folder holds vectors of another width, or the disk is full.
        """
        self.clean()
        ids: list[str] = []
        for number, shard in enumerate(chunks(passages, self.size)):
            if not self.is_finished(number, shard):
                self.make(number, shard, encode, _from(len(ids), progress))
            ids.extend(passage.passage_id for passage in shard)
            progress("encode passages", len(ids), None)
        return self.filled(ids)

    def is_finished(self, number: int, shard: Sequence[Passage]) -> bool:
        """Return whether a shard is on disk, whole, and of these passages and this encoder."""
        seal = self._read_seal(number)
        if seal is None or (seal.passages, seal.encoder) != (_passages_hash(shard), self.encoder):
            return False
        return self._whole(seal, number)

    def make(self, number: int, shard: Sequence[Passage], encode: Encode, told: Callable[[int], None]) -> None:
        """Encode a shard and write it.

        Raises:
            CacheError: the disk is full.
        """
        self._seal_path(number).unlink(missing_ok=True)
        encoded = encode(shard, told)
        sha256 = write_atomically(self._path(number), encoded.content)
        seal = _Seal(_passages_hash(shard), self.encoder, self.dimension, encoded.n_truncated, sha256)
        write_atomically(self._seal_path(number), orjson.dumps(asdict(seal), option=orjson.OPT_SORT_KEYS))

    def filled(self, ids: Sequence[str]) -> Filled:
        """Return the shards, all of them finished, of a corpus with these ids; what is behind them goes."""
        n_shards = math.ceil(len(ids) / self.size)
        self._remove_after(n_shards)
        seals = (self._read_seal(number) for number in range(n_shards))
        n_truncated = sum(seal.n_truncated for seal in seals if seal is not None)
        return Filled(tuple(ids), tuple(self._path(number) for number in range(n_shards)), n_truncated)

    def _whole(self, seal: _Seal, number: int) -> bool:
        try:
            with self._path(number).open("rb") as file:
                return _file_hash(file.read) == seal.sha256
        except FileNotFoundError:
            return False

    def clean(self) -> None:
        """Make the folder, and remove what killed calls left half written.

        Raises:
            CacheError: it holds vectors of another width.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        for part in self.folder.glob("shard-*.part"):
            part.unlink(missing_ok=True)
        for path in sorted(self.folder.glob("shard-*.json")):
            seal = _parse_seal(path)
            if seal is not None and seal.dimension != self.dimension:
                message = clear_error(
                    "vectors on disk",
                    where=str(path),
                    expected=f"{self.dimension} dimensions, as the encoder has",
                    found=f"{seal.dimension} dimensions: another encoder made them",
                    next_step="name that encoder, or remove the folder and index again",
                )
                raise CacheError(message)

    def _remove_after(self, n_shards: int) -> None:
        """Remove shards that a longer corpus left behind."""
        for path in self.folder.glob("shard-*"):
            if int(path.stem.removeprefix("shard-")) >= n_shards:
                path.unlink(missing_ok=True)

    def _read_seal(self, number: int) -> _Seal | None:
        return _parse_seal(self._seal_path(number))

    def _path(self, number: int) -> Path:
        return self.folder / f"shard-{number:06d}.{self.suffix}"

    def _seal_path(self, number: int) -> Path:
        return self.folder / f"shard-{number:06d}.json"


Fill = Callable[[Mapping[str, Any], ShardFolder, Iterable[Passage], Progress], Filled]
"""Returns the shards of a corpus, as `ShardFolder.fill` does; the first argument makes the same retriever elsewhere."""


@runtime_checkable
class EncodesCorpus(Protocol):
    """A retriever that encodes passages, or may have one inside."""

    def encode_with(self, fill: Fill) -> bool:
        """Let `fill` make the vectors of the corpus; return False where there are none to make."""


def encode_with(retriever: object, fill: Fill) -> bool:
    """Return whether a retriever lets `fill` make vectors of its corpus."""
    return isinstance(retriever, EncodesCorpus) and retriever.encode_with(fill)


def _parse_seal(path: Path) -> _Seal | None:
    try:
        return _Seal(**orjson.loads(path.read_bytes()))
    except (FileNotFoundError, orjson.JSONDecodeError, TypeError):
        return None


def _file_hash(read: Callable[[int], bytes]) -> str:
    digest = hashlib.sha256()
    while block := read(1 << 20):
        digest.update(block)
    return digest.hexdigest()


def _from(done: int, progress: Progress) -> Callable[[int], None]:
    return lambda n: progress("encode passages", done + n, None)


def chunks(passages: Iterable[Passage], size: int) -> Iterator[list[Passage]]:
    """Yield the passages of each shard.

    Raises:
        BenchmarkFileError: a passage has no text.
    """
    iterator = iter(passages)
    while chunk := list(itertools.islice(iterator, size)):
        for passage in chunk:
            if not passage.text.strip():
                message = clear_error(
                    "corpus",
                    where=f"passage {passage.passage_id!r}",
                    expected="a text",
                    found="none",
                    next_step="remove the passage from the corpus",
                )
                raise BenchmarkFileError(message)
        yield chunk


def _passages_hash(passages: Sequence[Passage]) -> str:
    digest = hashlib.sha256()
    for passage in passages:
        digest.update(orjson.dumps([passage.passage_id, passage.title, passage.text]) + b"\n")
    return digest.hexdigest()


__all__ = ["Encoded", "EncodesCorpus", "Fill", "Filled", "ShardFolder", "chunks", "encode_with"]
