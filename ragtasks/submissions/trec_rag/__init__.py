"""TREC RAG for who takes part: answer files built and checked, nuggets made, answers of any system scored."""

from ragtasks.submissions.trec_rag._answers import Answer, answer_of, write_rows
from ragtasks.submissions.trec_rag._build import benchmark_of, build_answers, logged_responses
from ragtasks.submissions.trec_rag._check import check_answers, read_answers
from ragtasks.submissions.trec_rag._check_2025 import check_answers_2025, read_answers_2025, row_2025
from ragtasks.submissions.trec_rag._create_nuggets import create_nuggets, pool, write_nuggets
from ragtasks.submissions.trec_rag._labels import (
    assigned_runs,
    assigned_runs_official,
    labelled_tables,
    supported_runs,
    write_labelled,
)
from ragtasks.submissions.trec_rag._score import first_cited, score_answers, with_nuggets, write_scores

__all__ = [
    "Answer",
    "answer_of",
    "assigned_runs",
    "assigned_runs_official",
    "benchmark_of",
    "build_answers",
    "check_answers",
    "check_answers_2025",
    "create_nuggets",
    "first_cited",
    "labelled_tables",
    "logged_responses",
    "pool",
    "read_answers",
    "read_answers_2025",
    "row_2025",
    "score_answers",
    "supported_runs",
    "with_nuggets",
    "write_labelled",
    "write_nuggets",
    "write_rows",
    "write_scores",
]
