"""Which words two texts share: the plain check that a text is about another one, and in its language."""

from __future__ import annotations

from retrieval_cache.corpora import WORD


def terms(text: str) -> frozenset[str]:
    """Return the distinct words of a text in small letters; Chinese, Japanese and Korean characters count singly."""
    return frozenset(WORD.findall(text.lower()))


def covered_share(text: str, source: str) -> float:
    """Return the share of a text's distinct words that stand in another text, 0 to 1; 0 for a text without words."""
    wanted = terms(text)
    return len(wanted & terms(source)) / len(wanted) if wanted else 0.0


__all__ = ["covered_share", "terms"]
