"""Rules that read from an English response alone whether it says that it does not know."""

from ragtasks.metrics.idk_rules._classifying import classify, lacks_nothing, unreadable
from ragtasks.metrics.idk_rules._clauses import sentences_of

__all__ = ["classify", "lacks_nothing", "sentences_of", "unreadable"]
