"""The data table of a benchmark's corpora: documents and passages (MTRAG paper, Table 2)."""

from __future__ import annotations

from collections.abc import Sequence

from ragtasks.benchmarks import Benchmark, RetrievalSide, retrieval_side
from ragtasks.errors import BenchmarkFileError, ConfigurationError, FetchError
from ragtasks.progress import progress_bars
from ragtasks.tables import Cell, Table, Value
from retrieval_cache.corpora._corpora import read_corpus
from retrieval_cache.retrievers import Progress

_EVERY = 10_000
_COLUMNS = ("domain", "documents", "passages", "passages a document", "words a passage")


def corpora_tables(benchmark: Benchmark) -> Sequence[Table]:
    """Return one table with a row for each corpus that is there; () where the benchmark has none.

    Raises:
        BenchmarkFileError: a corpus is corrupt, or a passage cannot be used.
    """
    try:
        side = retrieval_side(benchmark.name)
    except ConfigurationError:
        return ()
    with progress_bars() as progress:
        rows = [_row(benchmark, side, domain, progress) for domain in side.domains_of(benchmark.tasks)]
    note = "Passages without text are left out. A dash: the corpus is not there, or its ids do not name documents."
    return (Table("Corpora", _COLUMNS, tuple(rows), note),)


def _row(benchmark: Benchmark, side: RetrievalSide, domain: str, progress: Progress) -> tuple[Cell, ...]:
    try:
        path = side.corpus_file(benchmark.root, domain)
    except (BenchmarkFileError, FetchError):
        return (domain, *["-"] * (len(_COLUMNS) - 1))
    documents: set[str] = set()
    n_passages = n_words = 0
    for passage in read_corpus(str(path), blank="skip"):
        n_passages += 1
        n_words += len(passage.text.split())
        if side.document_of:
            documents.add(side.document_of(passage.passage_id))
        if n_passages % _EVERY == 0:
            progress(f"corpus {domain}", n_passages, None)
    mean = Value(n_words / n_passages, n_passages, n_passages)
    if not documents:
        return domain, "-", n_passages, "-", mean
    return domain, len(documents), n_passages, Value(n_passages / len(documents), len(documents), len(documents)), mean


__all__ = ["corpora_tables"]
