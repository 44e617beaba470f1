"""Runs judged: scores by query, the tables of the papers."""

from retrieval_cache.evaluation._evaluation import (
    Evaluation,
    check_overlap,
    evaluate,
    evidence_table,
    foreign_passages,
    result_files_table,
)
from retrieval_cache.evaluation._tables import (
    PAPER_BENCHMARK,
    RetrievalReport,
    coverage_notes,
    render_report,
    report_evaluations,
    some,
)

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
