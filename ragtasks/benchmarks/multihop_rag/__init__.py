"""MultiHop-RAG: articles, queries, chunks, and which passages hold a fact."""

from ragtasks.benchmarks.multihop_rag._fact_search import compact

__all__ = [
    "compact",
]
