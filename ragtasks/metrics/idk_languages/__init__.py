"""Refusals in other languages than English: tables of words by meaning, weights that were learned, and from what."""

from ragtasks.metrics.idk_languages._learned import WEIGHTS, Weights, grams_of, is_word_or_two, weights_of
from ragtasks.metrics.idk_languages._meanings import Clause, clauses_in, meanings_of
from ragtasks.metrics.idk_languages._reading import certain_language, classify, read
from ragtasks.metrics.idk_languages._tables import (
    HELD_BACK,
    LANGUAGES,
    TABLES,
    Sentence,
    labelled_sentences,
    left_out,
    table_of,
)

__all__ = [
    "HELD_BACK",
    "LANGUAGES",
    "TABLES",
    "WEIGHTS",
    "Clause",
    "Sentence",
    "Weights",
    "certain_language",
    "classify",
    "clauses_in",
    "grams_of",
    "is_word_or_two",
    "labelled_sentences",
    "left_out",
    "meanings_of",
    "read",
    "table_of",
    "weights_of",
]
