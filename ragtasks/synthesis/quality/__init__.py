"""How good synthetic dialogues are, as far as counting says it."""

from ragtasks.synthesis.quality._tables import quality_section

__all__ = ["quality_section"]
