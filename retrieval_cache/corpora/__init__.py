"""Corpora: passages streamed and checked, repeated ones found, documents cut."""

from retrieval_cache.corpora._corpora import DEFAULT_FIELDS, passage_of, read_corpus
from retrieval_cache.corpora._passage_sources import PassageSource, open_source
from retrieval_cache.corpora._service import (
    deduplicate_corpus,
    describe_corpus,
    describe_duplicates,
    segment_corpus,
    segment_corpus_by_sentences,
)
from retrieval_cache.corpora._tables import corpora_tables

__all__ = [
    "DEFAULT_FIELDS",
    "PassageSource",
    "corpora_tables",
    "deduplicate_corpus",
    "describe_corpus",
    "describe_duplicates",
    "open_source",
    "passage_of",
    "read_corpus",
    "segment_corpus",
    "segment_corpus_by_sentences",
]
