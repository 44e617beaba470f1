"""TREC RAG for who takes part: answer files built and checked, nuggets made, answers of any system scored."""

from ragtasks.submissions.trec_rag._build import BENCHMARK, build_answers, logged_responses
from ragtasks.submissions.trec_rag._check import check_answers, read_answers
from ragtasks.submissions.trec_rag._create_nuggets import create_nuggets, pool, write_nuggets
from ragtasks.submissions.trec_rag._score import first_cited, score_answers, with_nuggets, write_scores

__all__ = [
    "BENCHMARK",
    "build_answers",
    "check_answers",
    "create_nuggets",
    "first_cited",
    "logged_responses",
    "pool",
    "read_answers",
    "score_answers",
    "with_nuggets",
    "write_nuggets",
    "write_scores",
]
