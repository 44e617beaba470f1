"""Runs judged: scores by query, the tables of the papers."""

from retrieval_cache.evaluation._evaluation import Evaluation, evaluate
from retrieval_cache.evaluation._evidence import evidence_table, foreign_passages
from retrieval_cache.evaluation._table import RetrievalReport, render_report
from retrieval_cache.evaluation._tables import PAPER_BENCHMARK, report_evaluations

__all__ = [
    "PAPER_BENCHMARK",
    "Evaluation",
    "RetrievalReport",
    "evaluate",
    "evidence_table",
    "foreign_passages",
    "render_report",
    "report_evaluations",
]
