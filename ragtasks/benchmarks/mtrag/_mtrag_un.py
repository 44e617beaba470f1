"""MTRAG-UN: 507 published tasks on MTRAG's four corpora (Rosenthal et al. 2026), one conversation each.

Its questions are those that MTRAG has few of: unanswerable, underspecified, dependent on the conversation. The file
has MTRAG's rows with the key `answerability` in lower case and short collection names. Only the reference setting is
published; the paper's two further domains are not.

The file leaks: an unanswerable task has no passages, an answerable or partial one always has some.
"""

from __future__ import annotations

import functools
from pathlib import Path

from ragtasks.benchmarks._definition import (
    Benchmark,
    BenchmarkDefinition,
    RetrievalSide,
    check_domain,
    reference_contexts,
)
from ragtasks.benchmarks.mtrag import _benchmark as mtrag_retrieval
from ragtasks.benchmarks.mtrag._benchmark import MTRAG_UN_SOURCE
from ragtasks.benchmarks.mtrag._rows import DOMAINS, Counts, edition_of, read_tasks
from ragtasks.records import Qrel

OFFICIAL_COUNTS = Counts(
    tasks=507,
    by_domain={"clapnq": 142, "fiqa": 77, "govt": 157, "cloud": 131},
    by_answerability={"ANSWERABLE": 285, "UNANSWERABLE": 97, "UNDERSPECIFIED": 78, "PARTIAL": 47},
)
"""Counted in the official file; the paper's 666 tasks include two domains that are not published."""

_TASK_FILE = "mtragun-human/generation_tasks/reference.jsonl"
_QRELS = "mtragun-human/retrieval_tasks/qrels"
_SAMPLE_CORPORA = "mtrag"


def load(root: Path) -> Benchmark:
    """Return the benchmark whose files lie under `root` (a checkout, a fetched copy, or the sample)."""
    is_sample, revision, counts = edition_of(root, MTRAG_UN_SOURCE.commit, OFFICIAL_COUNTS)
    tasks = read_tasks(root / _TASK_FILE, "mtrag_un", counts)
    read_contexts = functools.partial(reference_contexts, "mtrag_un", "mtrag_un_reference", tasks)
    return Benchmark("mtrag_un", root, is_sample, revision, "answerability", tasks, read_contexts)


def load_qrels(root: Path, domain: str) -> tuple[Qrel, ...]:
    """Return the relevance judgements of one domain, in the order of the file (851 over the official four)."""
    check_domain(domain, DOMAINS)
    return mtrag_retrieval.read_qrels(root / _QRELS / f"{domain}.tsv", "mtrag_un")


def corpus_file(root: Path, domain: str) -> Path:
    """Return the file that holds the corpus of a domain: MTRAG's, which lies below the same folder.

    The two samples are folders of their own, side by side, and only MTRAG's has the corpora.
    """
    is_sample = edition_of(root, MTRAG_UN_SOURCE.commit, OFFICIAL_COUNTS)[0]
    return mtrag_retrieval.corpus_file(root.parent / _SAMPLE_CORPORA if is_sample else root, domain)


RETRIEVAL = RetrievalSide(DOMAINS, corpus_file, load_qrels, document_of=mtrag_retrieval.document_of)
"""Corpora and relevance judgements."""

DEFINITION = BenchmarkDefinition(MTRAG_UN_SOURCE, load, RETRIEVAL)
