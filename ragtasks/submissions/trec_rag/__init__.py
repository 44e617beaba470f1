"""TREC RAG submissions: answer files built and checked, nuggets created, answers of any system scored."""

from ragtasks.submissions.trec_rag._answer import CitedAnswer, answer_of, write_rows
from ragtasks.submissions.trec_rag._check import check_answers, read_answers
from ragtasks.submissions.trec_rag._check_2025 import row_2025
from ragtasks.submissions.trec_rag._export import benchmark_of, build_answers, logged_responses
from ragtasks.submissions.trec_rag._labelled import (
    assigned_runs,
    assigned_runs_official,
    labelled_tables,
    supported_runs,
    write_labelled,
)
from ragtasks.submissions.trec_rag._nuggets import create_nuggets, pool, write_nuggets
from ragtasks.submissions.trec_rag._score import first_cited, score_answers, with_nuggets, write_scores

__all__ = [
    "CitedAnswer",
    "answer_of",
    "assigned_runs",
    "assigned_runs_official",
    "benchmark_of",
    "build_answers",
    "check_answers",
    "create_nuggets",
    "first_cited",
    "labelled_tables",
    "logged_responses",
    "pool",
    "read_answers",
    "row_2025",
    "score_answers",
    "supported_runs",
    "with_nuggets",
    "write_labelled",
    "write_nuggets",
    "write_rows",
    "write_scores",
]
