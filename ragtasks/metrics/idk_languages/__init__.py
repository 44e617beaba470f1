"""Refusals in other languages than English: tables of words by meaning, and weights that were learned."""

from ragtasks.metrics.idk_languages._learned import WEIGHTS, Weights, grams_of
from ragtasks.metrics.idk_languages._meanings import Clause, clauses_in, meanings_of
from ragtasks.metrics.idk_languages._reading import classify, read
from ragtasks.metrics.idk_languages._tables import LANGUAGES, TABLES, table_of

__all__ = [
    "LANGUAGES",
    "TABLES",
    "WEIGHTS",
    "Clause",
    "Weights",
    "classify",
    "clauses_in",
    "grams_of",
    "meanings_of",
    "read",
    "table_of",
]
