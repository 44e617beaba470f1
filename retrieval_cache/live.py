"""Searches for questions that somebody asks now: nothing of them is stored."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from ragtasks.benchmarks import Benchmark, retrieval_side
from ragtasks.clients import Secrets, no_secrets
from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.progress import progress_bars
from ragtasks.records import Passage
from retrieval_cache.corpora import open_source
from retrieval_cache.indexes import domain_retriever
from retrieval_cache.spec import parse
from retrieval_cache.store import RunStore

_QUERY = "question"


def searcher(
    benchmark: Benchmark, domain: str | None, line: str, store: Path, secrets: Secrets = no_secrets
) -> Callable[[str], tuple[Passage, ...]]:
    """Return what finds passages for a question, best first, as many as the benchmark shows to models.

    The corpus is held in memory, so that a question costs a search and nothing else.

    Args:
        benchmark: whose corpus is searched.
        domain: which of its corpora; None: the first.
        line: the retriever, as for `ragtasks retrieve`.
        store: folder of indexes and replies.
        secrets: variable -> key of a server.

    Raises:
        RagtasksError: an unknown domain or retriever, missing files or libraries.
    """
    known = retrieval_side(benchmark.name).domains_of(benchmark.tasks)
    chosen = domain or next(iter(known), "")
    if chosen not in known:
        raise ConfigurationError(f"unknown domain {chosen!r}: {close_matches(chosen, known)}")
    runs = RunStore(store)
    with progress_bars() as progress:
        retriever = domain_retriever(benchmark, chosen, partial(parse, line, secrets, runs.replies), runs, progress)
        location = str(retrieval_side(benchmark.name).corpus_file(benchmark.root, chosen))
        source = open_source(location, lambda: None, runs.index_folder, progress)
        passages = {passage.passage_id: passage for passage in source.passages()}

    def search(question: str) -> tuple[Passage, ...]:
        found = retriever.search({_QUERY: question}, benchmark.n_passages)[_QUERY]
        return tuple(passages[ranked.passage_id] for ranked in found)

    return search


__all__ = ["searcher"]
