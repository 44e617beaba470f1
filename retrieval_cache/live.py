"""Searches for questions that somebody asks now: nothing of them is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from ragtasks.benchmarks import Benchmark, retrieval_side
from ragtasks.clients import Secrets, no_secrets
from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.progress import progress_bars
from ragtasks.records import Passage
from retrieval_cache.corpora import open_source
from retrieval_cache.indexes import domain_retriever
from retrieval_cache.queries import LLM_REWRITE, select_queries
from retrieval_cache.retrievers import searched
from retrieval_cache.spec import parse
from retrieval_cache.stage import DEPTH
from retrieval_cache.store import RunStore

_QUERY = "question"


def searcher(
    benchmark: Benchmark, domain: str | None, line: str, store: Path, secrets: Secrets = no_secrets
) -> Callable[[str], tuple[Passage, ...]]:
    """Return what finds passages for a question, best first, as many as the benchmark shows to models.

    The corpus is held in memory, so that a question costs a search and nothing else.
    """
    known = retrieval_side(benchmark.name).domains_of(benchmark.tasks)
    chosen = domain or next(iter(known), "")
    if chosen not in known:
        raise ConfigurationError(f"unknown domain {chosen!r}: {close_matches(chosen, known)}")
    search = searcher_of_many(benchmark, chosen, line=line, store=store, secrets=secrets)
    return lambda question: search({_QUERY: question})[_QUERY]


def searcher_of_many(
    benchmark: Benchmark, domain: str, *, line: str, store: Path, secrets: Secrets = no_secrets
) -> Callable[[Mapping[str, str]], dict[str, tuple[Passage, ...]]]:
    """Return what finds passages for many queries at once: query id -> text, to query id -> passages, best first.

    A ranking is made as deep as that of a stored run, which fusion and reranking depend on, so that the same text finds
    the same passages.
    """
    runs = RunStore(store)
    with progress_bars() as progress:
        retriever = domain_retriever(benchmark, domain, partial(parse, line, secrets, runs.replies), runs, progress)
        location = str(retrieval_side(benchmark.name).corpus_file(benchmark.root, domain))
        source = open_source(location, lambda: None, runs.index_folder, progress)
        passages = {passage.passage_id: passage for passage in source.passages()}

    def search(queries: Mapping[str, str]) -> dict[str, tuple[Passage, ...]]:
        found = searched(retriever, dict(queries), DEPTH)
        return {
            name: tuple(passages[ranked.passage_id] for ranked in found[name][: benchmark.n_passages])
            for name in queries
        }

    return search


def checked_form(form: str, *, has_rewriter: bool) -> str:
    """Return the name of a query form that can be had of a conversation that goes on now."""
    if has_rewriter != (form == LLM_REWRITE):
        raise ConfigurationError(
            f"queries {form!r} and a rewriter: {LLM_REWRITE!r} needs one, and no other form takes one"
        )
    if form != LLM_REWRITE:
        select_queries((), form)
    return form
