"""Users' own benchmarks: every user turn is a task.

`full_rag` uses the rankings in `retrieved.trec`. Without that file, BM25 ranks the passages, so two files are enough
for an evaluation. Relevance comes from `qrels.tsv` or, without that file, from the references.
"""

from __future__ import annotations

import functools
import hashlib
import re
import shlex
from collections import Counter
from pathlib import Path

from ragtasks.benchmarks._bm25 import BUILT_IN_RUN, bm25_rankings
from ragtasks.benchmarks._definition import Benchmark, BenchmarkDefinition, RetrievalSide, derived_file
from ragtasks.benchmarks.custom._folder import (
    CONVERSATIONS,
    PASSAGES,
    RETRIEVED,
    Folder,
    belongs,
    read_folder,
    rewrites_of,
)
from ragtasks.benchmarks.sources import Source
from ragtasks.errors import ConfigurationError, missing_path_error
from ragtasks.files import SAMPLE_STATISTICS, listed_error
from ragtasks.languages import settled
from ragtasks.records import Contexts, Passage, Qrel, Setting

SOURCE = Source("custom", "custom", CONVERSATIONS, "", "", "", files=())
"""A source without files to download."""

N_PASSAGES = 5
"""Number of retrieved passages in a prompt."""

_DEPTH = 100
_DERIVED_VERSION = 1
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@functools.lru_cache(maxsize=2)
def _valid_folder(root: Path) -> Folder:
    """Return the content of a folder, cached. Raises BenchmarkFileError with its errors."""
    if not root.is_dir():
        raise missing_path_error("your own data", root, "a folder")
    folder, errors = read_folder(root)
    if errors:
        command = shlex.join(["ragtasks", "check", str(root)])
        next_step = f"run `{command}`, which lists every error; `data` names another folder"
        raise listed_error(f"your own files in {root}", errors, next_step)
    return folder


def load(root: Path) -> Benchmark:
    """Return the benchmark in a user's folder, or the sample."""
    folder = _valid_folder(root)
    is_sample = (root / SAMPLE_STATISTICS).is_file()
    hashes = (hashlib.sha256((root / name).read_bytes()).digest() for name in (CONVERSATIONS, PASSAGES))
    return Benchmark(
        "custom",
        root,
        is_sample,
        hashlib.sha256(b"".join(hashes)).hexdigest()[:16],
        "answerability",
        folder.tasks,
        functools.partial(_read_contexts, folder),
        n_passages=N_PASSAGES,
        copy="" if is_sample else _NOT_IN_A_NAME.sub("-", root.resolve().name) or "root",
        belongs=belongs,
    )


def _read_contexts(folder: Folder, setting: Setting) -> Contexts:
    """Return the passages of a setting: the references, or the first five of the folder's ranking."""
    if setting is Setting.REFERENCE:
        return Contexts("references", setting, {task.task_id: task.references for task in folder.referring})
    if setting is Setting.REFERENCE_RAG:
        raise ConfigurationError("custom has no setting reference_rag: use custom_reference or custom_full_rag")
    rankings = _rankings(folder)
    contexts = {task.task_id: rankings[task.task_id][:N_PASSAGES] for task in folder.tasks}
    return Contexts(_rankings_name(folder), setting, contexts)


def _rankings_name(folder: Folder) -> str:
    return BUILT_IN_RUN if folder.retrieved is None else RETRIEVED


def _rankings(folder: Folder) -> dict[str, tuple[Passage, ...]]:
    """Return task id -> passages, best first, from the folder's file or from BM25."""
    ids = _bm25_ids(folder) if folder.retrieved is None else folder.retrieved
    return {
        task.task_id: tuple(folder.corpus.passages[key] for key in ids.get(task.task_id, ())) for task in folder.tasks
    }


def _bm25_ids(folder: Folder) -> dict[str, tuple[str, ...]]:
    """Return task id -> passage ids from a BM25 search for the standalone question or, without it, the question."""
    queries = {task.task_id: task.question for task in folder.tasks} | dict(rewrites_of(folder.tasks))
    rankings: dict[str, tuple[str, ...]] = {}
    for domain in folder.domains:
        tasks = [task for task in folder.tasks if task.domain == domain]
        texts = {task.task_id: queries[task.task_id] for task in tasks}
        languages = (settled(task.language, queries[task.task_id]) for task in tasks)
        ((language, _),) = Counter(languages).most_common(1)
        rankings |= bm25_rankings(texts, folder.corpus.of_domain(domain), _DEPTH, language)
    return rankings


def corpus_file(root: Path, domain: str) -> Path:
    """Return the file with the passages of a domain, created below the folder if it is missing.

    Its name contains a hash of the passages, so an outdated file is not reused.
    """
    folder = _valid_folder(root)
    key = hashlib.sha256(b"%d:" % _DERIVED_VERSION + (root / PASSAGES).read_bytes()).hexdigest()[:12]
    rows = (
        {"_id": passage.passage_id, "title": passage.title, "text": passage.text, "url": passage.url}
        for passage in folder.corpus.of_domain(domain)
    )
    return derived_file(root, f"{domain}-{key}.jsonl", lambda: rows)


def load_qrels(root: Path, domain: str) -> tuple[Qrel, ...]:
    """Return the judgements for the questions of a domain, from `qrels.tsv` or from the references."""
    folder = _valid_folder(root)
    task_ids = {task.task_id for task in folder.tasks if task.domain == domain}
    return tuple(qrel for qrel in folder.judgements() if qrel.query_id in task_ids)


def load_rewrites(root: Path, domain: str) -> dict[str, str]:
    """Return task id -> standalone form, for the questions of a domain that have one."""
    return dict(rewrites_of(tuple(task for task in _valid_folder(root).tasks if task.domain == domain)))


def load_rankings(root: Path) -> dict[str, tuple[Passage, ...]]:
    """Return task id -> retrieved passages, best first; at most 100 if BM25 retrieves them."""
    return _rankings(_valid_folder(root))


RETRIEVAL = RetrievalSide(
    (),
    corpus_file,
    load_qrels,
    load_rewrites=load_rewrites,
    load_rankings=load_rankings,
    rankings_name=lambda root: _rankings_name(_valid_folder(root)),
)
"""Corpora and judgements; the folder defines the domains."""

DEFINITION = BenchmarkDefinition(SOURCE, load, RETRIEVAL)
