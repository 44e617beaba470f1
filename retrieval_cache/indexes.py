"""One index a corpus and retriever, found again by the hash of both, whoever asks for it.

The stage searches with it for a run that it stores; an evaluation searches with it for queries that a model has just
written and that nobody will ask for again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from ragtasks.benchmarks import Benchmark, retrieval_side
from ragtasks.errors import ConfigurationError
from ragtasks.files import canonical_hash, write_atomically
from retrieval_cache.corpora import PassageSource, open_source
from retrieval_cache.retrievers import Progress, Retriever, encode_with, no_progress
from retrieval_cache.store import RunStore


def indexed(
    retriever: Retriever, source: PassageSource, store: RunStore, progress: Progress = no_progress
) -> Retriever:
    """Return a fresh retriever with a corpus in it; two processes that want the same index make it once."""
    encode_with(retriever, place=_vectors_of(source, store))
    corpus = source.describe()
    parts = {"name": retriever.name, "corpus": corpus, "retriever": dict(retriever.describe())}
    key = canonical_hash(parts)
    with store.only_builder(key):
        folder = store.index_folder(key)
        folder.mkdir(parents=True, exist_ok=True)
        retriever.index(source.passages(), folder, _with_total(progress, corpus))
    return retriever


def _with_total(progress: Progress, corpus: Mapping[str, Any]) -> Progress:
    """Return a callback that knows how many passages a corpus has: a retriever reads them one by one."""
    n_passages = corpus.get("n_passages", corpus.get("n_named"))

    def show(what: str, done: int, total: int | None) -> None:
        progress(what, done, n_passages if total is None else total)

    return show


def _vectors_of(source: PassageSource, store: RunStore) -> Callable[[Mapping[str, Any]], Any]:
    """Return where the vectors of a corpus lie: one folder an encoder, whichever retriever or engine reads them."""

    @contextmanager
    def place(made_by: Mapping[str, Any]) -> Iterator[Path]:
        made_of = {"corpus": source.describe(), "vectors": dict(made_by)}
        key = canonical_hash(made_of)
        folder = store.vectors_folder(key)
        with store.only_builder(key):
            if not (folder / "made_of.json").is_file():
                write_atomically(folder / "made_of.json", orjson.dumps(made_of, option=orjson.OPT_SORT_KEYS))
            yield folder

    return place


def domain_retriever(
    benchmark: Benchmark,
    domain: str,
    make_retriever: Callable[[], Retriever],
    store: RunStore,
    progress: Progress = no_progress,
) -> Retriever:
    """Return a retriever with the corpus of one domain of a benchmark in it, ready for any queries."""
    retriever = make_retriever()
    if retriever.name.startswith("run:"):
        raise ConfigurationError(f"retriever {retriever.name!r} has rankings of its own queries and finds no others")
    location = str(retrieval_side(benchmark.name).corpus_file(benchmark.root, domain))

    def report(what: str, done: int, total: int | None) -> None:
        progress(f"{domain}: {what}", done, total)

    source = open_source(location, lambda: None, store.index_folder, report)
    return indexed(retriever, source, store, report)
