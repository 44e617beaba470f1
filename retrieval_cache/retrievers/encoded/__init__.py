"""Retrievers by a model's vectors, dense and sparse: encoding, its files, exact search."""

from retrieval_cache.retrievers.encoded._dense import DenseRetriever
from retrieval_cache.retrievers.encoded._encoders import (
    count_truncated,
    described_name,
    library_versions,
    load_model,
    model_hash,
    passage_text,
    set_max_length,
    token_lengths,
)
from retrieval_cache.retrievers.encoded._exact import ExactIndex
from retrieval_cache.retrievers.encoded._vectors import Encoded, Fill, Filled, ShardFolder, chunks, encode_with

__all__ = [
    "DenseRetriever",
    "Encoded",
    "ExactIndex",
    "Fill",
    "Filled",
    "ShardFolder",
    "chunks",
    "count_truncated",
    "described_name",
    "encode_with",
    "library_versions",
    "load_model",
    "model_hash",
    "passage_text",
    "set_max_length",
    "token_lengths",
]
