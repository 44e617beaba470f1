"""TREC RAG: topics, runs, relevance judgements, segments, nuggets."""

from ragtasks.benchmarks.trec_rag._benchmark import MAX_WORDS, N_PASSAGES, load_qrels, load_segments
from ragtasks.benchmarks.trec_rag._files import SEGMENT_ID
from ragtasks.benchmarks.trec_rag._nuggets import Grade, Importance, Nugget, TopicNuggets, read_nuggets

__all__ = [
    "MAX_WORDS",
    "N_PASSAGES",
    "SEGMENT_ID",
    "Grade",
    "Importance",
    "Nugget",
    "TopicNuggets",
    "load_qrels",
    "load_segments",
    "read_nuggets",
]
