"""Your own benchmark: a folder with conversations and passages in the format of `task_yamls/custom/README.md`.

Every user turn is one task. `retrieved.trec` is what the tasks of `full_rag` are given; where there is none, a plain
BM25 searches at once, so that a folder of two files can be run. Relevant is what `qrels.tsv` says, else the references.
"""

from __future__ import annotations

import functools
import hashlib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtasks.benchmarks._benchmark import Benchmark
from ragtasks.benchmarks._definition import BenchmarkDefinition
from ragtasks.benchmarks._derived import derived_file
from ragtasks.benchmarks._retrieval_side import RetrievalSide
from ragtasks.benchmarks.custom import _search as _custom_search
from ragtasks.benchmarks.custom._judged import RETRIEVED, read_qrels, read_retrieved
from ragtasks.benchmarks.custom._lines import FolderViolations, Violation
from ragtasks.benchmarks.custom._rows import CONVERSATIONS, PASSAGES, Corpus, read_passages, read_tasks, rewrites_of
from ragtasks.benchmarks.download import Source
from ragtasks.errors import ConfigurationError
from ragtasks.files import SAMPLE_STATISTICS
from ragtasks.records import Answerability, Contexts, Passage, Qrel, Setting, Task

SOURCE = Source("custom", "custom", CONVERSATIONS, "", "", "", files=())
"""No file comes from anywhere else."""

N_PASSAGES = 5
"""Retrieved passages that a task is given."""

_ANSWERED = (Answerability.ANSWERABLE, Answerability.PARTIAL)
_DEPTH = 100
_DERIVED_VERSION = 1
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Folder:
    """What a folder holds, in records."""

    root: Path
    """The folder."""
    tasks: tuple[Task, ...]
    """One for each user turn, in the order of the file."""
    corpus: Corpus
    """The passages."""
    qrels: tuple[Qrel, ...] | None
    """Judgements; None without a file of them."""
    retrieved: Mapping[str, tuple[str, ...]] | None
    """Task id -> passage ids, best first; None without a file of them."""

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains of the tasks, in the order of the file."""
        return tuple(dict.fromkeys(task.domain for task in self.tasks))

    @property
    def referring(self) -> tuple[Task, ...]:
        """The tasks that can be given their reference passages: all but questions with an answer that name none."""
        return tuple(task for task in self.tasks if _belongs(task, Setting.REFERENCE))

    def judgements(self) -> tuple[Qrel, ...]:
        """Return what is relevant: the judgements, else every reference."""
        if self.qrels is not None:
            return self.qrels
        return tuple(Qrel(task.task_id, item.passage_id, 1) for task in self.tasks for item in task.references)


def read_folder(root: Path) -> tuple[Folder, tuple[Violation, ...]]:
    """Return what a folder holds and everything that is wrong with it; with errors, the former is not to be used."""
    violations = FolderViolations(root)
    return _read(root, violations), violations.all()


def _read(root: Path, violations: FolderViolations) -> Folder:
    corpus = read_passages(root, violations)
    tasks = read_tasks(root, corpus, violations)
    by_id = {task.task_id: task for task in tasks}
    qrels = read_qrels(root, by_id, corpus, violations)
    return Folder(root, tasks, corpus, qrels, read_retrieved(root, by_id, corpus, violations))


@functools.lru_cache(maxsize=2)
def _checked(root: Path) -> Folder:
    """Return what a folder holds, read once for all that asks.

    Raises:
        BenchmarkFileError: anything is wrong with it.
    """
    violations = FolderViolations(root)
    folder = _read(root, violations)
    command = shlex.join(["ragtasks", "check", str(root)])
    violations.raise_if_any(f"run `{command}`, which lists every error; `data` names another folder")
    return folder


def load(root: Path) -> Benchmark:
    """Return the benchmark in a folder of your own, or the sample.

    Raises:
        BenchmarkFileError: anything is wrong with the files.
    """
    folder = _checked(root)
    is_sample = (root / SAMPLE_STATISTICS).is_file()
    return Benchmark(
        "custom",
        root,
        is_sample,
        _digest(root / CONVERSATIONS, root / PASSAGES)[:16],
        "answerability",
        folder.tasks,
        functools.partial(_read_contexts, folder),
        n_passages=N_PASSAGES,
        copy="" if is_sample else _NOT_IN_A_NAME.sub("-", root.resolve().name) or "root",
        belongs=_belongs,
    )


def _belongs(task: Task, setting: Setting) -> bool:
    """Return whether a task has a part in a setting: a question with an answer needs references to be given any."""
    return setting is not Setting.REFERENCE or bool(task.references) or task.answerability not in _ANSWERED


def _digest(*paths: Path) -> str:
    """Return a hash of whole files: what of a folder a stored run rests on."""
    return hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in paths)).hexdigest()


def _read_contexts(folder: Folder, setting: Setting) -> Contexts:
    """Return the passages of a setting: the references, or the first five of the folder's own ranking.

    Raises:
        ConfigurationError: `reference_rag`, which only MTRAG's kin have.
    """
    if setting is Setting.REFERENCE:
        return Contexts("references", setting, {task.task_id: task.references for task in folder.referring})
    if setting is Setting.REFERENCE_RAG:
        raise ConfigurationError("custom has no setting reference_rag: take custom_reference or custom_full_rag")
    rankings = _rankings(folder)
    shown = {task.task_id: rankings[task.task_id][:N_PASSAGES] for task in folder.tasks}
    return Contexts(_rankings_name(folder), setting, shown)


def _rankings_name(folder: Folder) -> str:
    return _custom_search.NAME if folder.retrieved is None else RETRIEVED


def _rankings(folder: Folder) -> dict[str, tuple[Passage, ...]]:
    """Return task id -> passages, best first: those of the folder's file, else those that a plain BM25 finds."""
    ids = _searched(folder) if folder.retrieved is None else folder.retrieved
    return {
        task.task_id: tuple(folder.corpus.passages[key] for key in ids.get(task.task_id, ())) for task in folder.tasks
    }


def _searched(folder: Folder) -> dict[str, tuple[str, ...]]:
    """Return task id -> passage ids that BM25 finds for the question, or for its standalone form where there is one."""
    queries = {task.task_id: task.question for task in folder.tasks} | dict(rewrites_of(folder.tasks))
    found: dict[str, tuple[str, ...]] = {}
    for domain in folder.domains:
        own = {task.task_id: queries[task.task_id] for task in folder.tasks if task.domain == domain}
        found |= _custom_search.search(own, folder.corpus.of_domain(domain), _DEPTH)
    return found


def corpus_file(root: Path, domain: str) -> Path:
    """Return the file with the passages of a domain, written below the folder where it is not there.

    Its name holds a hash of the passages, so a stale one is not found.

    Raises:
        BenchmarkFileError: as `load`.
        FetchError: the folder cannot be written.
    """
    folder = _checked(root)
    key = hashlib.sha256(b"%d:" % _DERIVED_VERSION + (root / PASSAGES).read_bytes()).hexdigest()[:12]
    return derived_file(root, f"{domain}-{key}.jsonl", lambda: _corpus_rows(folder.corpus.of_domain(domain)))


def _corpus_rows(passages: Iterable[Passage]) -> Iterator[dict[str, Any]]:
    for item in passages:
        yield {"_id": item.passage_id, "title": item.title, "text": item.text, "url": item.url}


def load_qrels(root: Path, domain: str) -> tuple[Qrel, ...]:
    """Return the judgements of the questions of one domain: those of `qrels.tsv`, else every reference.

    Raises:
        BenchmarkFileError: as `load`.
    """
    folder = _checked(root)
    own = {task.task_id for task in folder.tasks if task.domain == domain}
    return tuple(qrel for qrel in folder.judgements() if qrel.query_id in own)


def load_rewrites(root: Path, domain: str) -> dict[str, str]:
    """Return task id -> standalone form of the question, for the questions of one domain that have one.

    Raises:
        BenchmarkFileError: as `load`.
    """
    return dict(rewrites_of([task for task in _checked(root).tasks if task.domain == domain]))


def load_rankings(root: Path) -> dict[str, tuple[Passage, ...]]:
    """Return task id -> retrieved passages, best first: the folder's own, at most 100 where BM25 had to search.

    Raises:
        BenchmarkFileError: as `load`.
    """
    return _rankings(_checked(root))


RETRIEVAL = RetrievalSide(
    (),
    corpus_file,
    load_qrels,
    load_rewrites=load_rewrites,
    load_rankings=load_rankings,
    rankings_name=lambda root: _rankings_name(_checked(root)),
)
"""Corpora and judgements; the folder says what domains there are."""

DEFINITION = BenchmarkDefinition(SOURCE, load, RETRIEVAL)
"""What the registry lists."""

__all__ = [
    "DEFINITION",
    "N_PASSAGES",
    "RETRIEVAL",
    "SOURCE",
    "Folder",
    "corpus_file",
    "load",
    "load_qrels",
    "load_rankings",
    "load_rewrites",
    "read_folder",
]
