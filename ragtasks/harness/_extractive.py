"""The extractive baseline: the sentences of the passages that share most with the question, word for word.

It uses no model, so it needs no download and always answers the same. A system that does not beat it does not read.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

_WORD = re.compile(r"[a-z0-9]+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_FUNCTION_WORDS = frozenset(
    _WORD.findall(
        "a about all also am an and any are as at be because been but by can could did do does for from get had has"
        " have he her his how i if in into is it its just like me more my no not now of ok on one only or our out"
        " please she should so some tell than that the their them then there these they this to too up us was we well"
        " were what when where which who why will with would you your"
    )
)
N_SENTENCES = 3
"""Sentences in an answer."""
MIN_SHARE = 0.1
"""Smallest share of the question's weight that the best sentence must have: below it the baseline refuses."""


def extract_answer(question: str, passages: Sequence[str]) -> str | None:
    """Return the best sentences in the order of the passages, or None where none fits the question.

    A sentence's score is the summed inverse sentence frequency of the question's content words in it, as a share of
    the question's whole weight; equal scores go to the earlier sentence.

    Args:
        question: the last user message.
        passages: texts, best first.
    """
    sentences = [part.strip() for text in passages for part in _SENTENCE_END.split(text) if _words(part)]
    words_of = [_words(sentence) for sentence in sentences]
    weights = _weights(_words(question), words_of)
    total = math.fsum(weights.values())
    if not sentences or not total:
        return None
    # Exact sums: words stand in sets, whose order differs from process to process, and equal scores must stay equal.
    scores = [math.fsum(weights.get(word, 0.0) for word in words) / total for words in words_of]
    best = sorted(range(len(sentences)), key=lambda index: (-scores[index], index))[:N_SENTENCES]
    if scores[best[0]] < MIN_SHARE:
        return None
    return " ".join(sentences[index] for index in sorted(best) if scores[index] > 0)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower())) - _FUNCTION_WORDS


def _weights(question: frozenset[str], sentences: Sequence[frozenset[str]]) -> dict[str, float]:
    """Return word -> inverse sentence frequency, for the words of the question."""
    counts = Counter(word for words in sentences for word in words)
    return {word: math.log(1 + len(sentences) / (1 + counts[word])) for word in sorted(question)}


__all__ = ["MIN_SHARE", "N_SENTENCES", "extract_answer"]
