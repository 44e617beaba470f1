"""TREC RAG: topics, runs, relevance judgements, segments, nuggets, support."""

from ragtasks.benchmarks.trec_rag._benchmark import MAX_WORDS, NARRATIVES
from ragtasks.benchmarks.trec_rag._contexts import N_PASSAGES, has_segments, load_segments
from ragtasks.benchmarks.trec_rag._files import SEGMENT_ID, read_narratives
from ragtasks.benchmarks.trec_rag._nuggets import (
    Assignment,
    TopicNuggets,
    nugget_rows,
    read_assignments,
    read_nuggets,
)
from ragtasks.benchmarks.trec_rag._support import SupportJudgement, read_support
from ragtasks.benchmarks.trec_rag._track import topic_task

__all__ = [
    "MAX_WORDS",
    "NARRATIVES",
    "N_PASSAGES",
    "SEGMENT_ID",
    "Assignment",
    "SupportJudgement",
    "TopicNuggets",
    "has_segments",
    "load_segments",
    "nugget_rows",
    "read_assignments",
    "read_narratives",
    "read_nuggets",
    "read_support",
    "topic_task",
]
