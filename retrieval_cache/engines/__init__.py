"""Existing distributed engines behind the same protocol, for corpora that outgrow one machine."""

from retrieval_cache.engines._ray_encoding import encoding_workers

__all__ = ["encoding_workers"]
