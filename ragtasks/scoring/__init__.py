"""Responses to scores, in one pass over all of them; it knows no harness."""

from ragtasks.scoring._failures import record_failure, take_failures
from ragtasks.scoring._judge import Place, rescore, scored_row
from ragtasks.scoring._scoring import ResponseScorer, ScoredResponse, given_metrics, shared_scorer

__all__ = [
    "Place",
    "ResponseScorer",
    "ScoredResponse",
    "given_metrics",
    "record_failure",
    "rescore",
    "scored_row",
    "shared_scorer",
    "take_failures",
]
