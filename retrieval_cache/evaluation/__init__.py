"""Runs judged: scores by query, the tables of the papers."""

from retrieval_cache.evaluation._evaluation import (
    ALL,
    Evaluation,
    check_metric,
    check_overlap,
    columns_of,
    evaluate,
    evidence_table,
    foreign_passages,
    result_files_table,
)
from retrieval_cache.evaluation._tables import (
    PAPER_BENCHMARK,
    coverage_notes,
    report_evaluations,
    some,
)

__all__ = [
    "ALL",
    "PAPER_BENCHMARK",
    "Evaluation",
    "check_metric",
    "check_overlap",
    "columns_of",
    "coverage_notes",
    "evaluate",
    "evidence_table",
    "foreign_passages",
    "report_evaluations",
    "result_files_table",
    "some",
]
