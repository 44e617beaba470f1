"""Rerankers: a first retriever names candidates, a slower and better model orders them."""

from retrieval_cache.rerankers._cross_encoder import CrossEncoderReranker, RerankedRetriever
from retrieval_cache.rerankers._listwise import Connect, listwise_retriever

__all__ = [
    "Connect",
    "CrossEncoderReranker",
    "RerankedRetriever",
    "listwise_retriever",
]
