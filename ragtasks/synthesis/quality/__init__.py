"""How good synthetic dialogues are, as far as counting and language models say it."""

from ragtasks.synthesis.quality._qrelscore import QRelScore, Relevance
from ragtasks.synthesis.quality._retrieval_tables import PAPER_FORMS, retrieval_tables
from ragtasks.synthesis.quality._tables import quality_section

__all__ = ["PAPER_FORMS", "QRelScore", "Relevance", "quality_section", "retrieval_tables"]
