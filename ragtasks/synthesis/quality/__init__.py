"""How good synthetic dialogues are, as far as counting and language models say it."""

from ragtasks.synthesis.quality._qrelscore import QRelScore, Relevance
from ragtasks.synthesis.quality._tables import quality_section

__all__ = ["QRelScore", "Relevance", "quality_section"]
