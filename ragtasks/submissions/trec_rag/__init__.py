"""TREC RAG for who takes part: answer files built and checked, nuggets made, answers of any system scored."""

from ragtasks.submissions.trec_rag._build import benchmark_of, build_answers, logged_responses
from ragtasks.submissions.trec_rag._check import (
    Answer,
    answer_of,
    check_answers,
    check_answers_2025,
    read_answers,
    read_answers_2025,
    row_2025,
    write_rows,
)
from ragtasks.submissions.trec_rag._score import (
    assigned_runs,
    assigned_runs_official,
    create_nuggets,
    first_cited,
    labelled_tables,
    pool,
    score_answers,
    supported_runs,
    with_nuggets,
    write_labelled,
    write_nuggets,
    write_scores,
)

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
