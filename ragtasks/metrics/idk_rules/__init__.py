"""Rules that read from an English response alone whether it says that it does not know."""

from ragtasks.metrics.idk_rules._classifying import classify

__all__ = ["classify"]
