"""Retrievers: each in a module of its own, all behind `protocol`, which other packages implement too."""

from retrieval_cache.retrievers.protocol import Progress, Retriever, no_progress

__all__ = ["Progress", "Retriever", "no_progress"]
