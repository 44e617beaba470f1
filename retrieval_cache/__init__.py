"""Precompute retrieval: from corpus, query form and retriever to a run, stored under the hash of its inputs.

`ragtasks` imports only the names in `__all__`. Encoders, engines and language models are imported lazily.
"""

from retrieval_cache.corpora.near_duplicates import near_duplicates
from retrieval_cache.corpora.passages import (
    corpora_tables,
    deduplicate_corpus,
    describe_corpus,
    describe_duplicates,
    read_corpus,
    segment_corpus,
    segment_corpus_by_sentences,
)
from retrieval_cache.corpora.segmenting import (
    WORD,
    Tokenizer,
    encoder_tokenizer,
    plain_tokenizer,
    segment,
    sentence_spans,
    sentence_windows,
)
from retrieval_cache.evaluation import judge_files, query_rows, retrieval_section, wrong_order_error
from retrieval_cache.pooling import pairs_of_benchmark, pairs_of_files
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
from retrieval_cache.rankings import ranking_named
from retrieval_cache.requirements import retrieval_requirements
from retrieval_cache.retrievers.dense import DenseRetriever
from retrieval_cache.retrievers.encoders import load_model, passage_text
from retrieval_cache.retrievers.protocol import Retriever, spending_of, statistics_of
from retrieval_cache.searches import StoredSearches
from retrieval_cache.service import (
    CorpusSearcher,
    Rewriter,
    Workspace,
    checked_form,
    compare_runs,
    evaluate_runs,
    has_judgements,
    judge_runs,
    retrieve,
    searcher,
    searcher_of_many,
)
from retrieval_cache.spec import parse
from retrieval_cache.stage import DEPTH, domain_retriever, read_run
from retrieval_cache.store import SAME_AS, RunStore, StoredRun, diff_runs, fallbacks_of, list_runs, verify_run

__all__ = [
    "DEPTH",
    "LLM_REWRITE",
    "MIN_REWRITTEN",
    "REWRITE",
    "SAME_AS",
    "WORD",
    "CorpusSearcher",
    "DenseRetriever",
    "Queries",
    "Recipe",
    "Retriever",
    "Rewriter",
    "RunStore",
    "StoredRun",
    "StoredSearches",
    "Tokenizer",
    "TrainedRewriter",
    "Workspace",
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
    "query_rows",
    "ranking_named",
    "read_corpus",
    "read_run",
    "retrieval_requirements",
    "retrieval_section",
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
    "source_text",
    "spending_of",
    "statistics_of",
    "verify_run",
    "write_recipe",
    "wrong_order_error",
]
