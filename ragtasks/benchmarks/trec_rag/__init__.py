"""TREC RAG: topics, runs, relevance judgements, segments, nuggets, support."""

from ragtasks.benchmarks.trec_rag._benchmark import (
    MAX_WORDS,
    N_PASSAGES,
    has_segments,
    load_qrels,
    load_segments,
    topic_task,
)
from ragtasks.benchmarks.trec_rag._files import SEGMENT_ID, read_narratives
from ragtasks.benchmarks.trec_rag._nuggets import (
    Assignment,
    Grade,
    Importance,
    Nugget,
    TopicNuggets,
    read_assignments,
    read_nuggets,
)
from ragtasks.benchmarks.trec_rag._support import Support, SupportJudgement, read_support

__all__ = [
    "MAX_WORDS",
    "N_PASSAGES",
    "SEGMENT_ID",
    "Assignment",
    "Grade",
    "Importance",
    "Nugget",
    "Support",
    "SupportJudgement",
    "TopicNuggets",
    "has_segments",
    "load_qrels",
    "load_segments",
    "read_assignments",
    "read_narratives",
    "read_nuggets",
    "read_support",
    "topic_task",
]
