"""Retrievers by a model's vectors, dense and sparse: encoding, its files, exact search."""

from retrieval_cache.retrievers.encoded._dense import DenseRetriever
from retrieval_cache.retrievers.encoded._encoders import (
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
from retrieval_cache.retrievers.encoded._exact import ExactIndex
from retrieval_cache.retrievers.encoded._vectors import (
    Encoded,
    Fill,
    Filled,
    Place,
    ShardFolder,
    chunks,
    encode_with,
)

__all__ = [
    "BATCH_TOKENS",
    "DenseRetriever",
    "Encoded",
    "ExactIndex",
    "Fill",
    "Filled",
    "Place",
    "ShardFolder",
    "chunks",
    "count_truncated",
    "described_name",
    "encode_with",
    "length_batches",
    "library_versions",
    "load_model",
    "model_hash",
    "passage_text",
    "read_lengths",
    "set_max_length",
    "token_lengths",
]
