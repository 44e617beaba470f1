"""Where the passages of a domain come from: a corpus that is surveyed, or the segments of a huge one that a run names.

Both are described before anything is searched, so that the key of a run holds what it was made over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from ragtasks.records import Passage
from retrieval_cache.corpora._corpora import read_corpus, survey_corpus
from retrieval_cache.corpora._formats import shards_of
from retrieval_cache.corpora._segment_source import SegmentSource
from retrieval_cache.retrievers import Progress, no_progress


class PassageSource(Protocol):
    """The passages that one domain is searched in."""

    def describe(self) -> dict[str, Any]:
        """Return what decides the passages, as JSON values."""

    def passages(self) -> Iterator[Passage]:
        """Yield the passages, in one order; may be called again."""


class WholeCorpus:
    """Every passage of a corpus, read and checked once before anything else."""

    def __init__(self, location: str, progress: Progress = no_progress) -> None:
        """Survey a corpus.

        Raises:
            RagtasksError: as `survey_corpus`.
        """
        # The official cloud corpus has three passages without text: there is nothing to find in them.
        self._location = location
        self._survey = survey_corpus(location, blank="skip", progress=progress)

    def describe(self) -> dict[str, Any]:
        """Return checksum and size."""
        return {"sha256": self._survey.checksum, "n_passages": self._survey.n_passages}

    def passages(self) -> Iterator[Passage]:
        """Yield the passages that have a text."""
        return read_corpus(self._location, blank="skip")


def open_source(
    location: str,
    named: Callable[[], frozenset[str] | None],
    folder_of: Callable[[str], Path],
    progress: Progress = no_progress,
) -> PassageSource:
    """Return the source at a location.

    A folder of JSON-lines shards of which the retriever names the passages beforehand is looked through for these;
    any other corpus is read whole.

    Args:
        location: as for `read_corpus`.
        named: gives the ids that the retriever may rank, None where it needs every passage; asked for shards only.
        folder_of: gives the folder for what is kept, by a hash.
        progress: told of every step.

    Raises:
        RagtasksError: the corpus or the retriever's file is missing or broken.
    """
    ids = named() if shards_of(location) else None
    return WholeCorpus(location, progress) if ids is None else SegmentSource(location, ids, folder_of, progress)


__all__ = ["PassageSource", "WholeCorpus", "open_source"]
