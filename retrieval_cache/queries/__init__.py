"""Query forms: what of a conversation is sent to a retriever."""

from retrieval_cache.queries._forms import LLM_REWRITE, SEPARATOR, Queries, build_queries, fused_queries
from retrieval_cache.queries._rewriting import MIN_REWRITTEN, rewrite_queries

__all__ = [
    "LLM_REWRITE",
    "MIN_REWRITTEN",
    "SEPARATOR",
    "Queries",
    "build_queries",
    "fused_queries",
    "rewrite_queries",
]
