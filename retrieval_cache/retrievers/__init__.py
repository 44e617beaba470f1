"""Retrievers: each in a module of its own, all behind the protocol in `protocol`."""

from retrieval_cache.retrievers._canonical import Value, canonical, refused, value_of
from retrieval_cache.retrievers._fusion import DEPTH as FUSION_DEPTH
from retrieval_cache.retrievers._fusion import HybridRetriever, reciprocal_rank_fusion
from retrieval_cache.retrievers._protocol import (
    Progress,
    Retriever,
    RetrieverFactory,
    no_progress,
    statistics_of,
    wanted_passages,
)
from retrieval_cache.retrievers._run_file import LEFT_OUT
from retrieval_cache.retrievers.bm25 import ANALYSERS, K1, NAMES, B, indexed_text, term_lister
from retrieval_cache.retrievers.encoded import (
    DenseRetriever,
    Encoded,
    Fill,
    Filled,
    ShardFolder,
    chunks,
    count_truncated,
    described_name,
    encode_with,
    library_versions,
    load_model,
    model_hash,
    passage_text,
    set_max_length,
    token_lengths,
)

__all__ = [
    "ANALYSERS",
    "FUSION_DEPTH",
    "K1",
    "LEFT_OUT",
    "NAMES",
    "B",
    "DenseRetriever",
    "Encoded",
    "Fill",
    "Filled",
    "HybridRetriever",
    "Progress",
    "Retriever",
    "RetrieverFactory",
    "ShardFolder",
    "Value",
    "canonical",
    "chunks",
    "count_truncated",
    "described_name",
    "encode_with",
    "indexed_text",
    "library_versions",
    "load_model",
    "model_hash",
    "no_progress",
    "passage_text",
    "reciprocal_rank_fusion",
    "refused",
    "set_max_length",
    "statistics_of",
    "term_lister",
    "token_lengths",
    "value_of",
    "wanted_passages",
]
