"""BM25 in bm25s, for baselines that set k1 and b, such as the 0.9 and 0.4 of TREC RAG.

Lucene's formula with exact passage lengths. It keeps a score for every term of every passage, so building takes
several times the time and memory of `bm25`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ragtasks.errors import ConfigurationError, MissingExtraError, clear_error, close_matches
from ragtasks.files import Ranked, Run
from ragtasks.records import Passage
from retrieval_cache.retrievers._protocol import Progress, no_progress
from retrieval_cache.retrievers.bm25._analysers import ANALYSERS, term_lister
from retrieval_cache.retrievers.bm25._stored import (
    best,
    not_indexed,
    read_or_built,
    searched,
    texts_with_ids,
    write_ids,
)

_FOLDER = "bm25s"


class Bm25sRetriever:
    """BM25 over one corpus with k1 and b as given; scores are 32-bit floats."""

    def __init__(self, k1: float = 1.2, b: float = 0.75, analyser: str = "english") -> None:
        """Set the parameters.

        Args:
            k1: how fast repetitions of a term saturate, 0 or more.
            b: how much a passage's length counts, 0 to 1.
            analyser: one of `analysers.ANALYSERS`.

        Raises:
            ConfigurationError: a value out of range, or an unknown analyser.
            MissingExtraError: bm25s or tantivy is not installed.
        """
        self._k1, self._b = _checked("k1", k1, 100.0), _checked("b", b, 1.0)
        if analyser not in ANALYSERS:
            raise ConfigurationError(f"unknown analyser {analyser!r}: {close_matches(str(analyser), ANALYSERS)}")
        self._analyser = analyser
        self._terms = term_lister(analyser)
        self._library = _bm25s()
        self._ids: tuple[str, ...] = ()
        self._scorer: Any = None

    @property
    def name(self) -> str:
        """Such as `bm25s:k1=0.9,b=0.4`; the analyser is in it where it is not the default."""
        analyser = "" if self._analyser == "english" else f",analyser={self._analyser}"
        return f"bm25s:k1={self._k1!r},b={self._b!r}{analyser}"

    def describe(self) -> Mapping[str, Any]:
        """Return name, analyser, parameters and the versions of both libraries."""
        return {
            "retriever": "bm25s",
            "analyser": ANALYSERS[self._analyser],
            "k1": self._k1,
            "b": self._b,
            "bm25s": version("bm25s"),
            "tantivy": version("tantivy"),
        }

    def index(self, passages: Iterable[Passage], folder: Path, progress: Progress = no_progress) -> None:
        """Build the index in `folder`, or open the whole one that is there; a killed build starts anew.

        Raises:
            CacheError: the disk is full.
        """
        target = folder / _FOLDER
        ids = read_or_built(target, self.describe(), lambda part: self._built(passages, part, progress))
        # bm25s cannot store an index without any term; such a corpus has no scorer and matches nothing.
        has_terms = (target / "params.index.json").is_file()
        self._scorer = self._library.BM25.load(str(target), mmap=True, show_progress=False) if has_terms else False
        self._ids = ids

    def _built(self, passages: Iterable[Passage], folder: Path, progress: Progress) -> tuple[str, ...]:
        """Write the index and its ids; terms are numbered in order, so equal corpora give equal files."""
        ids: list[str] = []
        numbers: dict[str, int] = {}
        rows = [
            array("i", (numbers.setdefault(term, len(numbers)) for term in self._terms(text)))
            for text in texts_with_ids(passages, ids, f"index {self.name}", progress)
        ]
        if numbers:
            scorer = self._library.BM25(k1=self._k1, b=self._b, method="lucene")
            tokenised = self._library.tokenization.Tokenized(ids=rows, vocab=numbers)
            scorer.index(tokenised, create_empty_token=False, show_progress=False)
            scorer.save(str(folder), show_progress=False)
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
        numbers = self._scorer.get_tokens_ids(self._terms(text)) if self._scorer else []
        return best(self._scorer.get_scores_from_ids(numbers), self._ids, k) if numbers and k > 0 else ()


def _checked(name: str, value: object, highest: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= highest:
        message = clear_error(
            "BM25",
            where=name,
            expected=f"a number from 0 to {highest:g}",
            found=repr(value),
            next_step="such as bm25s:k1=0.9,b=0.4",
        )
        raise ConfigurationError(message)
    return float(value)


def _bm25s() -> Any:
    try:
        import bm25s
    except ImportError as error:
        raise MissingExtraError("bm25s", "retrieval", "BM25 with its own k1 and b") from error
    return bm25s


__all__ = ["Bm25sRetriever"]
