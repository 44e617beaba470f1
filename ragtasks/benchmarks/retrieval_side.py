"""Which benchmarks have corpora and relevance judgements, and the functions that read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ragtasks.benchmarks import mtrag, mtrag_retrieval
from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.records import Qrel


@dataclass(frozen=True, slots=True)
class RetrievalSide:
    """How one benchmark's retrieval files are read; every function takes the benchmark's folder and a domain."""

    domains: tuple[str, ...]
    """Short names of the corpora."""
    corpus_file: Callable[[Path, str], Path]
    """The file that holds a corpus."""
    load_qrels: Callable[[Path, str], tuple[Qrel, ...]]
    """Relevance judgements of a domain."""


_SIDES = {
    "mtrag": RetrievalSide(mtrag.DOMAINS, mtrag_retrieval.corpus_file, mtrag_retrieval.load_qrels),
}


def retrieval_side(benchmark: str) -> RetrievalSide:
    """Return how a benchmark's retrieval files are read.

    Raises:
        ConfigurationError: it has none.
    """
    if benchmark not in _SIDES:
        raise ConfigurationError(f"no retrieval files for {benchmark!r}: {close_matches(benchmark, _SIDES)}")
    return _SIDES[benchmark]


__all__ = ["RetrievalSide", "retrieval_side"]
