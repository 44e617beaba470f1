"""Runs judged: scores by query, the tables of the papers."""

from retrieval_cache.evaluation._coverage import coverage_notes, some
from retrieval_cache.evaluation._evaluation import Evaluation, check_overlap, evaluate
from retrieval_cache.evaluation._evidence import evidence_table, foreign_passages, result_files_table
from retrieval_cache.evaluation._paper import PAPER_BENCHMARK
from retrieval_cache.evaluation._table import RetrievalReport, render_report
from retrieval_cache.evaluation._tables import report_evaluations

__all__ = [
    "PAPER_BENCHMARK",
    "Evaluation",
    "RetrievalReport",
    "check_overlap",
    "coverage_notes",
    "evaluate",
    "evidence_table",
    "foreign_passages",
    "render_report",
    "report_evaluations",
    "result_files_table",
    "some",
]
