"""Scores of answers that cite: sentences with their citations, support, nuggets."""

from ragtasks.metrics.cited._citations import (
    SUPPORT_SCORES,
    citation_validity,
    cited_share,
    support_precision,
    support_recall,
    support_scores,
)
from ragtasks.metrics.cited._cited_answer import CitedSentence, n_words, parse_cited, within
from ragtasks.metrics.cited._nuggets import (
    NUGGET_SCORES,
    SUB_NARRATIVE_SCORES,
    nugget_scores,
    nugget_scores_official,
    scores_by_part,
    sub_narrative_scores,
)
from ragtasks.metrics.cited._sentences import sentence_ends

__all__ = [
    "NUGGET_SCORES",
    "SUB_NARRATIVE_SCORES",
    "SUPPORT_SCORES",
    "CitedSentence",
    "citation_validity",
    "cited_share",
    "n_words",
    "nugget_scores",
    "nugget_scores_official",
    "parse_cited",
    "scores_by_part",
    "sentence_ends",
    "sub_narrative_scores",
    "support_precision",
    "support_recall",
    "support_scores",
    "within",
]
