"""Users' own benchmarks: a folder with conversations and passages, read, checked and ranked."""

from ragtasks.benchmarks.custom._benchmark import (
    DEFINITION,
    RETRIEVAL,
    SOURCE,
    corpus_file,
    load,
    load_qrels,
    load_rankings,
    load_rewrites,
)
from ragtasks.benchmarks.custom._check import check_folder
from ragtasks.benchmarks.custom._folder import (
    CONVERSATIONS,
    PASSAGES,
    REWRITE,
    labelled_conversations,
    read_folder,
    rewrites_of,
)

__all__ = [
    "CONVERSATIONS",
    "DEFINITION",
    "PASSAGES",
    "RETRIEVAL",
    "REWRITE",
    "SOURCE",
    "check_folder",
    "corpus_file",
    "labelled_conversations",
    "load",
    "load_qrels",
    "load_rankings",
    "load_rewrites",
    "read_folder",
    "rewrites_of",
]
