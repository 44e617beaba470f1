"""Corpora: passages streamed and checked, repeated ones found, documents cut."""

from retrieval_cache.corpora._corpora import (
    DEFAULT_FIELDS,
    PassageSource,
    corpora_tables,
    deduplicate_corpus,
    describe_corpus,
    describe_duplicates,
    open_source,
    passage_of,
    read_corpus,
    segment_corpus,
    segment_corpus_by_sentences,
)
from retrieval_cache.corpora._near_duplicates import near_duplicates
from retrieval_cache.corpora._segmenting import (
    WORD,
    Tokenizer,
    encoder_tokenizer,
    plain_tokenizer,
    segment,
    sentence_spans,
    sentence_windows,
)

__all__ = [
    "DEFAULT_FIELDS",
    "WORD",
    "PassageSource",
    "Tokenizer",
    "corpora_tables",
    "deduplicate_corpus",
    "describe_corpus",
    "describe_duplicates",
    "encoder_tokenizer",
    "near_duplicates",
    "open_source",
    "passage_of",
    "plain_tokenizer",
    "read_corpus",
    "segment",
    "segment_corpus",
    "segment_corpus_by_sentences",
    "sentence_spans",
    "sentence_windows",
]
