"""Responses to scores, in one pass over all of them; it knows no harness."""

from ragtasks.scoring._asking import System, ask_endpoint, asked_of
from ragtasks.scoring._failures import record_failure, take_failures
from ragtasks.scoring._judge import Place, parsed_metadata, rescore
from ragtasks.scoring._live_retrieval import LiveRetrieval
from ragtasks.scoring._own_system import OwnScores, OwnSystem, score_own
from ragtasks.scoring._picking import Picked, pick_best
from ragtasks.scoring._ready_judge import ready_judge
from ragtasks.scoring._results_layout import scored_row
from ragtasks.scoring._scored_response import ScoredResponse
from ragtasks.scoring._scoring import ResponseScorer, given_metrics, shared_scorer

__all__ = [
    "LiveRetrieval",
    "OwnScores",
    "OwnSystem",
    "Picked",
    "Place",
    "ResponseScorer",
    "ScoredResponse",
    "System",
    "ask_endpoint",
    "asked_of",
    "given_metrics",
    "parsed_metadata",
    "pick_best",
    "ready_judge",
    "record_failure",
    "rescore",
    "score_own",
    "scored_row",
    "shared_scorer",
    "take_failures",
]
