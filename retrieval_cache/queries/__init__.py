"""Query forms: what of a conversation is sent to a retriever."""

from retrieval_cache.queries._forms import (
    LLM_REWRITE,
    SEPARATOR,
    Queries,
    build_queries,
    fused_queries,
    select_queries,
)
from retrieval_cache.queries._rewriting import MIN_REWRITTEN, rewrite_queries
from retrieval_cache.queries._trained import (
    REWRITE,
    Recipe,
    TrainedRewriter,
    encoded,
    load_language_model,
    source_text,
    write_recipe,
)

__all__ = [
    "LLM_REWRITE",
    "MIN_REWRITTEN",
    "REWRITE",
    "SEPARATOR",
    "Queries",
    "Recipe",
    "TrainedRewriter",
    "build_queries",
    "encoded",
    "fused_queries",
    "load_language_model",
    "rewrite_queries",
    "select_queries",
    "source_text",
    "write_recipe",
]
