"""Refusals in other languages than English: tables of phrases and of words by meaning, with weights for them."""

from ragtasks.metrics.idk_languages._meanings import WEIGHTS, Clause, Weights, clauses_in, features_of
from ragtasks.metrics.idk_languages._reading import classify, read
from ragtasks.metrics.idk_languages._tables import LANGUAGES, table_of

__all__ = ["LANGUAGES", "WEIGHTS", "Clause", "Weights", "classify", "clauses_in", "features_of", "read", "table_of"]
