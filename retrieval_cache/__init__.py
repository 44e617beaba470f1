"""The precompute stage: from corpus, query form and retriever to a run, stored under the hash of what made it.

This is its one face: `ragtasks` calls what `__all__` names and nothing behind it, and the two meet again at the file
of a run. Each name is imported at its first use, because encoders, engines and indexes take seconds to import.
"""

import importlib
from typing import TYPE_CHECKING

__all__ = [
    "DEPTH",
    "LLM_REWRITE",
    "MIN_REWRITTEN",
    "REWRITE",
    "SAME_AS",
    "WORD",
    "CorpusSearcher",
    "DenseRetriever",
    "Place",
    "Queries",
    "RayBertScorer",
    "Recipe",
    "Retriever",
    "Rewriter",
    "RunStore",
    "StoredRun",
    "StoredSearches",
    "Tokenizer",
    "TrainedRewriter",
    "build_queries",
    "checked_form",
    "compare_runs",
    "corpora_tables",
    "deduplicate_corpus",
    "describe_corpus",
    "describe_duplicates",
    "diff_runs",
    "domain_retriever",
    "encoded",
    "encoder_tokenizer",
    "encoding_workers",
    "evaluate_runs",
    "fallbacks_of",
    "has_judgements",
    "judge_files",
    "judge_runs",
    "list_runs",
    "load_language_model",
    "load_model",
    "near_duplicates",
    "needs_model",
    "pairs_of_benchmark",
    "pairs_of_files",
    "parse",
    "passage_text",
    "plain_tokenizer",
    "ranking_named",
    "read_corpus",
    "read_run",
    "retrieve",
    "rewrite_queries",
    "searcher",
    "searcher_of_many",
    "segment",
    "segment_corpus",
    "segment_corpus_by_sentences",
    "select_queries",
    "sentence_spans",
    "sentence_windows",
    "served_encoders",
    "source_text",
    "spending_of",
    "statistics_of",
    "verify_run",
    "write_recipe",
]

_HOMES = {
    "corpora": (
        "WORD Tokenizer corpora_tables deduplicate_corpus describe_corpus describe_duplicates encoder_tokenizer "
        "near_duplicates plain_tokenizer read_corpus segment segment_corpus segment_corpus_by_sentences "
        "sentence_spans sentence_windows"
    ),
    "evaluation": "judge_files pairs_of_benchmark pairs_of_files ranking_named",
    "queries": (
        "LLM_REWRITE MIN_REWRITTEN REWRITE Queries Recipe TrainedRewriter build_queries encoded "
        "load_language_model needs_model rewrite_queries select_queries source_text write_recipe"
    ),
    "ray_workers": "RayBertScorer encoding_workers",
    "retrievers": "DenseRetriever Retriever load_model passage_text spending_of statistics_of",
    "service": (
        "CorpusSearcher Place Rewriter checked_form compare_runs evaluate_runs has_judgements judge_runs retrieve "
        "searcher searcher_of_many"
    ),
    "searches": "StoredSearches",
    "spec": "parse served_encoders",
    "stage": "DEPTH domain_retriever read_run",
    "store": "SAME_AS RunStore StoredRun diff_runs fallbacks_of list_runs verify_run",
}
"""Module -> the names that it gives."""

if TYPE_CHECKING:
    from retrieval_cache.corpora import (
        WORD,
        Tokenizer,
        corpora_tables,
        deduplicate_corpus,
        describe_corpus,
        describe_duplicates,
        encoder_tokenizer,
        near_duplicates,
        plain_tokenizer,
        read_corpus,
        segment,
        segment_corpus,
        segment_corpus_by_sentences,
        sentence_spans,
        sentence_windows,
    )
    from retrieval_cache.evaluation import judge_files, pairs_of_benchmark, pairs_of_files, ranking_named
    from retrieval_cache.queries import (
        LLM_REWRITE,
        MIN_REWRITTEN,
        REWRITE,
        Queries,
        Recipe,
        TrainedRewriter,
        build_queries,
        encoded,
        load_language_model,
        needs_model,
        rewrite_queries,
        select_queries,
        source_text,
        write_recipe,
    )
    from retrieval_cache.ray_workers import RayBertScorer, encoding_workers
    from retrieval_cache.retrievers import (
        DenseRetriever,
        Retriever,
        load_model,
        passage_text,
        spending_of,
        statistics_of,
    )
    from retrieval_cache.searches import StoredSearches
    from retrieval_cache.service import (
        CorpusSearcher,
        Place,
        Rewriter,
        checked_form,
        compare_runs,
        evaluate_runs,
        has_judgements,
        judge_runs,
        retrieve,
        searcher,
        searcher_of_many,
    )
    from retrieval_cache.spec import parse, served_encoders
    from retrieval_cache.stage import DEPTH, domain_retriever, read_run
    from retrieval_cache.store import SAME_AS, RunStore, StoredRun, diff_runs, fallbacks_of, list_runs, verify_run
else:

    def __getattr__(name: str) -> object:
        """Return a name of `__all__`, imported when it is first used (PEP 562)."""
        home = next((home for home, names in _HOMES.items() if name in names.split()), None)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"retrieval_cache.{home}"), name)

    def __dir__() -> list[str]:
        """Return the names of the module, those that are not imported yet included."""
        return sorted({*globals(), *__all__})
