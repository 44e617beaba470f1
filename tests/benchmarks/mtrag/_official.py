"""MTRAG's own files as tests read them: a corpus as the retrieval stage does, queries in the three published forms."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ragtasks.benchmarks import retrieval_side
from ragtasks.benchmarks.mtrag._benchmark import read_queries
from ragtasks.records import Passage
from retrieval_cache import read_corpus

RETRIEVAL = retrieval_side("mtrag")
DOMAINS = RETRIEVAL.domains
QUERY_FORMS = {"last_turn": "lastturn", "rewrite": "rewrite", "all_questions": "questions"}
"""Query form -> its name in the official file names."""


def official_passages(root: Path, domain: str) -> Iterator[Passage]:
    """Yield the passages with a text in the corpus of a domain."""
    yield from read_corpus(str(RETRIEVAL.corpus_file(root, domain)))


def official_queries(root: Path, domain: str, form: str) -> dict[str, str]:
    """Return query id -> text for a domain and query form."""
    return read_queries(root / "mtrag-human/retrieval_tasks" / domain / f"{domain}_{QUERY_FORMS[form]}.jsonl")
