"""Existing distributed engines behind the same protocol, for corpora that outgrow one machine."""

__all__ = []
