"""Extractiveness and length as the official scripts compute them: what they report of an answer beside its scores."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragtasks.metrics.lexical._rouge import rouge_l_batch

_NO_WORD = re.compile(r"[^\w\s]")


def extractiveness(response: str, passages: Sequence[str]) -> float | None:
    """Return how far the response is a copy of a passage, 0 to 1: the largest value over the passages; None for none.

    1 where a passage stands in the response whole, punctuation, case and blanks apart, else ROUGE-L.

    Source: `Extractiveness_RougeL` of the official `run_algorithmic.py` at cc5b1d4, which keeps one value a passage. It
    looks for the passage in the response, although the names of its arguments say the reverse, so a sentence that was
    copied from a longer passage is not 1. It then strips HTML, of which punctuation has left nothing.
    """
    if not passages:
        return None
    answer, shown = _stripped(response), [_stripped(passage) for passage in passages]
    overlaps = rouge_l_batch([answer] * len(shown), shown)
    return max(
        1.0 if text.replace(" ", "") in answer.replace(" ", "") else overlap
        for text, overlap in zip(shown, overlaps, strict=True)
    )


def _stripped(text: str) -> str:
    return _NO_WORD.sub("", text.replace("\n", " ")).lower()


__all__ = ["extractiveness"]
