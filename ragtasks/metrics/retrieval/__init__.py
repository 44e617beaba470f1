"""Measures of rankings: trec_eval's, the official script's, MultiHop-RAG's."""

from ragtasks.metrics.retrieval._judged_run import JudgedRun
from ragtasks.metrics.retrieval._multihop_retrieval import DEPTH, EVIDENCE_METRICS, mean_evidence_scores
from ragtasks.metrics.retrieval._ranking import RANKED_BY, ranking_score
from ragtasks.metrics.retrieval._retrieval import (
    CUTOFFS,
    IBM_METRICS,
    RETRIEVAL_METRICS,
    RetrievalMetric,
    RunScores,
    by_query,
    retrieval_metric,
    score_run,
    score_run_ibm,
)

__all__ = [
    "CUTOFFS",
    "DEPTH",
    "EVIDENCE_METRICS",
    "IBM_METRICS",
    "RANKED_BY",
    "RETRIEVAL_METRICS",
    "JudgedRun",
    "RetrievalMetric",
    "RunScores",
    "by_query",
    "mean_evidence_scores",
    "ranking_score",
    "retrieval_metric",
    "score_run",
    "score_run_ibm",
]
