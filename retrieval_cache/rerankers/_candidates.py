"""What every reranker needs: a first retriever's candidates, and their passages where they can be read again.

The passages are kept in one file of JSON lines, found by id through their offsets, so that a corpus that does not fit
in memory can be reranked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

import orjson

from ragtasks.errors import CacheError, ConfigurationError, clear_error
from ragtasks.files import Run, written_aside
from ragtasks.records import Passage
from retrieval_cache.retrievers import Progress, Retriever, searched


class Candidates:
    """The first retriever of a reranker, and the passages that it names."""

    def __init__(self, first: Retriever, depth: int) -> None:
        """Put a limit on a retriever.

        Args:
            first: names the candidates.
            depth: candidates a query.

        Raises:
            ConfigurationError: `depth` is below 1.
        """
        if depth < 1:
            raise ConfigurationError(f"depth of a reranker must be at least 1, found {depth}")
        self.first = first
        self.depth = depth
        self._path: Path | None = None
        self._offsets: dict[str, int] = {}

    def index(self, passages: Iterable[Passage], folder: Path, progress: Progress) -> None:
        """Index the first retriever, and keep the passages.

        Raises:
            RagtasksError: what the first retriever raises.
            CacheError: the disk is full.
        """
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "passages.jsonl"
        for part in folder.glob("passages.jsonl*.part"):
            part.unlink(missing_ok=True)
        part = path.with_name(f"{path.name}.part")
        offsets: dict[str, int] = {}
        try:
            with written_aside(path, part) as file:
                recorded = _recorded(passages, file, offsets)
                self.first.index(recorded, folder / "first", progress)
                # A retriever that finds its index built reads no passage.
                deque(recorded, maxlen=0)
        except OSError as error:
            raise CacheError(f"cannot write {path}: {error.strerror or error}") from error
        self._path, self._offsets = path, offsets

    def search(self, name: str, queries: Mapping[str, str], k: int, progress: Progress) -> Run:
        """Return the first `depth` candidates of each query.

        Args:
            name: the reranking retriever, for messages.
            queries: query id -> text.
            k: passages that the reranker will return.
            progress: told of every step.

        Raises:
            CacheError: called before `index`.
            ConfigurationError: `k` is above `depth`, so that ranks beyond it would have no score.
            RagtasksError: as the first retriever.
        """
        if self._path is None:
            raise CacheError(f"{name} was asked to search before it had a corpus; call index first")
        if not 1 <= k <= self.depth:
            message = clear_error(
                name,
                where="k",
                expected=f"1 to {self.depth}, the candidates that are reranked",
                found=str(k),
                next_step=f"ask for fewer passages, or set depth to at least {max(k, 1)}",
            )
            raise ConfigurationError(message)
        return searched(self.first, queries, self.depth, progress)

    def passages(self, ids: Iterable[str]) -> list[Passage]:
        """Return the passages with these ids, in their order; call `index` before."""
        if self._path is None:
            raise CacheError("passages of candidates were asked for before index; next step: index the corpus first")
        with self._path.open("rb") as file:
            return [self._at(file, self._offsets[passage_id]) for passage_id in ids]

    def _at(self, file: IO[bytes], offset: int) -> Passage:
        file.seek(offset)
        return Passage(**orjson.loads(file.readline()))


def _recorded(passages: Iterable[Passage], file: IO[bytes], offsets: dict[str, int]) -> Iterator[Passage]:
    """Yield passages, each written to `file` first."""
    for passage in passages:
        offsets[passage.passage_id] = file.tell()
        file.write(orjson.dumps(passage) + b"\n")
        yield passage


__all__ = ["Candidates"]
