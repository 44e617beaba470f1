"""MTRAG-UN: 507 published tasks on MTRAG's four corpora (Rosenthal et al. 2026), each in its own conversation.

Its questions are of types that are rare in MTRAG: unanswerable, underspecified, dependent on the conversation. The file
has MTRAG's rows, but with the key `answerability` in lower case and short collection names. Only the reference setting
is published. The paper's two further domains are not.

The file leaks labels: an unanswerable task has no passages, while answerable and partial tasks always have some.
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
"""Counted in the official file. The paper's 666 tasks include two unpublished domains."""

_TASK_FILE = "mtragun-human/generation_tasks/reference.jsonl"
_QRELS = "mtragun-human/retrieval_tasks/qrels"
_SAMPLE_CORPORA = "mtrag"


def load(root: Path) -> Benchmark:
    """Return the benchmark with files under `root` (a checkout, a downloaded copy, or the sample)."""
    is_sample, revision, counts = edition_of(root, MTRAG_UN_SOURCE.commit, OFFICIAL_COUNTS)
    tasks = read_tasks(root / _TASK_FILE, "mtrag_un", counts)
    read_contexts = functools.partial(reference_contexts, "mtrag_un", "mtrag_un_reference", tasks)
    return Benchmark("mtrag_un", root, is_sample, revision, "answerability", tasks, read_contexts)


def load_qrels(root: Path, domain: str) -> tuple[Qrel, ...]:
    """Return the relevance judgements of one domain, in file order (851 in the official four)."""
    check_domain(domain, DOMAINS)
    return mtrag_retrieval.read_qrels(root / _QRELS / f"{domain}.tsv", "mtrag_un")


def corpus_file(root: Path, domain: str) -> Path:
    """Return the corpus file of a domain. It is MTRAG's, below the same folder.

    The two samples are separate folders with the same parent, and only MTRAG's contains the corpora.
    """
    is_sample = edition_of(root, MTRAG_UN_SOURCE.commit, OFFICIAL_COUNTS)[0]
    return mtrag_retrieval.corpus_file(root.parent / _SAMPLE_CORPORA if is_sample else root, domain)


RETRIEVAL = RetrievalSide(DOMAINS, corpus_file, load_qrels, document_of=mtrag_retrieval.document_of)
DEFINITION = BenchmarkDefinition(MTRAG_UN_SOURCE, load, RETRIEVAL)
