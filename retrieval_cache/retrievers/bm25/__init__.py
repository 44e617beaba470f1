"""Retrievers by words: BM25 of two libraries, over the same analysers and one way of storing an index."""

from retrieval_cache.retrievers.bm25._analysers import ANALYSERS, indexed_text, term_lister, text_analyser
from retrieval_cache.retrievers.bm25._bm25 import K1, NAMES, B, Bm25Retriever

__all__ = ["ANALYSERS", "K1", "NAMES", "B", "Bm25Retriever", "indexed_text", "term_lister", "text_analyser"]
