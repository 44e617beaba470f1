"""BM25 in rank_bm25, the oracle that tests and benchmarks compare with; over a second a query from 300,000 passages on.

Its idf differs from Lucene's: the logarithm can be negative for terms in more than half of the passages, and is then
a quarter of the mean idf (ATIRE's variant, as that library has it). Scores may so be negative.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson

from ragtasks.errors import MissingExtraError
from ragtasks.files import Ranked, Run
from ragtasks.records import Passage
from retrieval_cache.retrievers._protocol import Progress, no_progress
from retrieval_cache.retrievers.bm25._analysers import ANALYSERS, term_lister
from retrieval_cache.retrievers.bm25._options import Bm25Options
from retrieval_cache.retrievers.bm25._stored import (
    best,
    not_indexed,
    read_or_built,
    searched,
    texts_with_ids,
    write_ids,
)

_FOLDER = "rank_bm25"
_TERMS = "terms.jsonl"


class RankBm25Retriever:
    """rank_bm25's BM25Okapi over one corpus, all of it in memory."""

    def __init__(self, k1: float = 1.2, b: float = 0.75, analyser: str = "english") -> None:
        """Set the parameters, as for `Bm25sRetriever`.

        Raises:
            ConfigurationError: a value out of range, or an unknown analyser.
            MissingExtraError: rank-bm25 or tantivy is not installed.
        """
        self._options = Bm25Options(k1, b, analyser)
        self._terms = term_lister(analyser)
        self._scorer_class = _okapi()
        self._ids: tuple[str, ...] = ()
        self._scorer: Any = None

    @property
    def name(self) -> str:
        """Such as `rank_bm25:k1=1.2,b=0.75`."""
        return self._options.name("rank_bm25")

    def describe(self) -> Mapping[str, Any]:
        """Return name, analyser, parameters and the versions of both libraries."""
        return {
            "retriever": "rank_bm25",
            "analyser": ANALYSERS[self._options.analyser],
            "k1": self._options.k1,
            "b": self._options.b,
            "rank-bm25": version("rank-bm25"),
            "tantivy": version("tantivy"),
        }

    def index(self, passages: Iterable[Passage], folder: Path, progress: Progress = no_progress) -> None:
        """Write the passages' terms to `folder`, or read those that are there, and count them.

        Raises:
            CacheError: the disk is full.
        """
        target = folder / _FOLDER
        ids = read_or_built(target, self.describe(), lambda part: self._written(passages, part, progress))
        with (target / _TERMS).open("rb") as lines:
            terms = [orjson.loads(line) for line in lines]
        # The library divides by the number of passages and of terms; without either nothing matches.
        self._scorer = self._scorer_class(terms, k1=self._options.k1, b=self._options.b) if any(terms) else False
        self._ids = ids

    def _written(self, passages: Iterable[Passage], folder: Path, progress: Progress) -> tuple[str, ...]:
        ids: list[str] = []
        with (folder / _TERMS).open("wb") as file:
            for text in texts_with_ids(passages, ids, f"index {self.name}", progress):
                file.write(orjson.dumps(self._terms(text)) + b"\n")
        write_ids(folder, self.describe(), ids)
        return tuple(ids)

    def search(self, queries: Mapping[str, str], k: int, progress: Progress = no_progress) -> Run:
        """Return the best `k` passages of each query; a query without a term in the corpus has none.

        Raises:
            CacheError: called before `index`.
        """
        if self._scorer is None:
            raise not_indexed(self.name)
        return searched(self.name, queries, lambda text: self._ranked(text, k), progress)

    def _ranked(self, text: str, k: int) -> tuple[Ranked, ...]:
        terms = self._terms(text)
        if not self._scorer or not terms or k < 1:
            return ()
        return best(self._scorer.get_scores(terms).astype("float32"), self._ids, k)


def _okapi() -> Any:
    try:
        from rank_bm25 import BM25Okapi
    except ImportError as error:
        raise MissingExtraError("rank-bm25", "retrieval", "the rank_bm25 retriever") from error
    return BM25Okapi


__all__ = ["RankBm25Retriever"]
