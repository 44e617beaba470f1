"""Retrievers: one per module, with the interface in `protocol`, which other packages implement too."""

from ragtasks.progress import Progress, no_progress
from retrieval_cache.retrievers.protocol import Retriever

__all__ = ["Progress", "Retriever", "no_progress"]
