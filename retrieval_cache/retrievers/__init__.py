"""Retrievers: each in a module of its own, all behind the protocol in `protocol`."""

from retrieval_cache.retrievers._dense import DenseRetriever
from retrieval_cache.retrievers._encoders import (
    BATCH_TOKENS,
    count_truncated,
    described_name,
    length_batches,
    library_versions,
    load_model,
    model_hash,
    passage_text,
    read_lengths,
    set_max_length,
    token_lengths,
)
from retrieval_cache.retrievers._fusion import DEPTH as FUSION_DEPTH
from retrieval_cache.retrievers._fusion import HybridRetriever, reciprocal_rank_fusion
from retrieval_cache.retrievers._protocol import (
    Progress,
    Retriever,
    RetrieverFactory,
    Value,
    canonical,
    no_progress,
    refused,
    searched,
    statistics_of,
    value_of,
    wanted_passages,
)
from retrieval_cache.retrievers._run_file import LEFT_OUT
from retrieval_cache.retrievers._vectors import Encoded, Fill, Filled, Place, ShardFolder, chunks, encode_with
from retrieval_cache.retrievers.bm25 import ANALYSERS, K1, NAMES, B, indexed_text, term_lister

__all__ = [
    "ANALYSERS",
    "BATCH_TOKENS",
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
    "Place",
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
    "length_batches",
    "library_versions",
    "load_model",
    "model_hash",
    "no_progress",
    "passage_text",
    "read_lengths",
    "reciprocal_rank_fusion",
    "refused",
    "searched",
    "set_max_length",
    "statistics_of",
    "term_lister",
    "token_lengths",
    "value_of",
    "wanted_passages",
]
