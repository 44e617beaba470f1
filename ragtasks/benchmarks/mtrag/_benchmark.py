"""MTRAG: 110 conversations, 842 tasks, four domains (Katsis et al. 2025), from the official repository's layout.

The reference file holds the tasks with their reference passages; two more hold the passages of the other settings,
each for exactly the tasks that belong to it.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from ragtasks.benchmarks._benchmark import Benchmark
from ragtasks.benchmarks._definition import BenchmarkDefinition
from ragtasks.benchmarks._retrieval_side import RetrievalSide
from ragtasks.benchmarks.mtrag._counts import Counts, edition_of
from ragtasks.benchmarks.mtrag._repairs import tables
from ragtasks.benchmarks.mtrag._retrieval import corpus_file, document_of, load_qrels, load_rewrites
from ragtasks.benchmarks.mtrag._rows import (
    DOMAINS,
    domain_of,
    identity_of,
    passages_of,
    read_tasks,
    required_file,
    rows_of,
    unique_rows,
)
from ragtasks.benchmarks.mtrag._source import MTRAG_SOURCE
from ragtasks.files import Run, Violations, read_run
from ragtasks.records import Contexts, Passage, Setting, Task

SOURCE = MTRAG_SOURCE
"""The official files and the commit that they are pinned to."""

MAX_REFERENCES_FOR_RAG = 2
"""`reference_rag` keeps the tasks with at most this many reference passages (paper, section 6.1)."""

_TASK_FILES = {
    Setting.REFERENCE: "mtrag-human/generation_tasks/reference.jsonl",
    Setting.REFERENCE_RAG: "mtrag-human/generation_tasks/reference+RAG.jsonl",
    Setting.FULL_RAG: "mtrag-human/generation_tasks/RAG.jsonl",
}


def load_run(root: Path) -> Run:
    """Return the published rankings by their scores, which 37 of the 842 lists of passages do not follow.

    Raises:
        CacheError: the file is missing or broken.
    """
    return read_run(root / _TASK_FILES[Setting.FULL_RAG])


RETRIEVAL = RetrievalSide(DOMAINS, corpus_file, load_qrels, load_rewrites, load_run=load_run, document_of=document_of)
"""Corpora, relevance judgements, and what was retrieved for the paper."""

OFFICIAL_COUNTS = Counts(
    tasks=842,
    by_domain={"clapnq": 224, "fiqa": 199, "govt": 214, "cloud": 205},
    by_answerability={"ANSWERABLE": 709, "PARTIAL": 68, "UNANSWERABLE": 55, "CONVERSATIONAL": 10},
)
"""Paper, section 4.4 and Figure 2."""


def load(root: Path) -> Benchmark:
    """Return the benchmark whose files lie under `root` (a checkout, a fetched copy, or the sample).

    Raises:
        BenchmarkFileError: a file is missing, broken, or has other counts than it should.
    """
    is_sample, revision, counts = edition_of(root, SOURCE.commit, OFFICIAL_COUNTS)
    tasks = read_tasks(root / _TASK_FILES[Setting.REFERENCE], "mtrag", counts)
    read_contexts = functools.partial(_read_contexts, root, tasks)
    return Benchmark("mtrag", root, is_sample, revision, "Answerability", tasks, read_contexts, belongs=_belongs)


def _read_contexts(root: Path, tasks: tuple[Task, ...], setting: Setting) -> Contexts:
    """Return the published passages of a setting, for exactly the tasks that belong to it.

    Raises:
        BenchmarkFileError: the file is missing, broken, or covers other tasks than the setting has.
    """
    if setting is Setting.REFERENCE:
        return Contexts("official", setting, {task.task_id: task.references for task in tasks})
    rows, violations = rows_of(root / _TASK_FILES[setting], "mtrag")
    passages: dict[str, tuple[Passage, ...]] = {}
    for line, row in unique_rows(rows, violations):
        identity = identity_of(line, row, violations)
        if identity is not None:
            passages[identity[0]] = passages_of(line, row, violations)
    _check_coverage(passages.keys(), _expected_ids(tasks, setting), violations)
    violations.raise_if_any()
    return Contexts("official", setting, passages)


def _expected_ids(tasks: tuple[Task, ...], setting: Setting) -> set[str]:
    return {task.task_id for task in tasks if _belongs(task, setting)}


def _belongs(task: Task, setting: Setting) -> bool:
    return setting is not Setting.REFERENCE_RAG or len(task.references) <= MAX_REFERENCES_FOR_RAG


def _check_coverage(found: Any, expected: set[str], violations: Violations) -> None:
    for task_id in sorted(expected - set(found)):
        violations.add(0, "a line for this task", "no line", task_id)
    for task_id in sorted(set(found) - expected):
        violations.add(0, "only tasks of this setting", "a line for this task", task_id)


DEFINITION = BenchmarkDefinition(SOURCE, load, RETRIEVAL, tables=tables)
"""What the registry lists."""

__all__ = [
    "DEFINITION",
    "DOMAINS",
    "MAX_REFERENCES_FOR_RAG",
    "OFFICIAL_COUNTS",
    "RETRIEVAL",
    "SOURCE",
    "Counts",
    "domain_of",
    "load",
    "required_file",
]
