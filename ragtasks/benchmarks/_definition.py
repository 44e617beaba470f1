"""Definition of a benchmark, as declared by a benchmark family or another package."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import orjson

from ragtasks.benchmarks.download import storing
from ragtasks.benchmarks.sources import Source
from ragtasks.errors import BenchmarkFileError, ConfigurationError, close_matches
from ragtasks.files import Run, atomic_file, broken_statistics, canonical_hash, sample_statistics
from ragtasks.languages import ENGLISH, UNKNOWN, is_foreign, language_of, settled
from ragtasks.records import LANGUAGE, Answerability, Contexts, Passage, Qrel, Setting, Task
from ragtasks.tables import Table


@dataclass(frozen=True, slots=True)
class BenchmarkDefinition:
    """How to download and read one benchmark."""

    source: Source
    """Official files; its `name` is the name that users type."""
    load: Callable[[Path], Benchmark]
    """Folder -> benchmark. Raises BenchmarkFileError for a missing or invalid file."""
    retrieval: RetrievalSide | None = None
    """How to read the retrieval files; None without retrieval files."""
    sample: Path | None = None
    """Folder with a small benchmark of the same format; None: the sample in ragtasks for a built-in benchmark."""
    tables: Callable[[Benchmark], Sequence[Table]] | None = None
    """Benchmark -> further tables for `describe`; None without further tables."""
    answers: Callable[[Benchmark], Sequence[RepairedAnswer]] | None = None
    """Benchmark -> the answers in its conversations, each with the model's draft; None if drafts are not published."""

    def __post_init__(self) -> None:
        checks = (
            isinstance(self.source, Source),
            callable(self.load),
            self.retrieval is None or isinstance(self.retrieval, RetrievalSide),
            self.sample is None or isinstance(self.sample, Path),
            self.tables is None or callable(self.tables),
            self.answers is None or callable(self.answers),
        )
        if not all(checks):
            fields = "source: Source, load: callable, retrieval: RetrievalSide or None, sample: Path or None"
            raise ConfigurationError(f"BenchmarkDefinition({fields}, tables and answers: callable or None)")


class RepairedAnswer(NamedTuple):
    """An answer in a benchmark's conversations, as edited by annotators."""

    domain: str
    conversation: int
    text: str
    draft: str | None
    """The model's original answer; None if it was not edited."""


# The records of a benchmark, independent of its file format.


@dataclass(frozen=True)
class Benchmark:
    """The tasks of one benchmark and the folder they were read from."""

    name: str
    """Short name, such as `mtrag`."""
    root: Path
    is_sample: bool
    """Whether this is the small benchmark in the package. Scores on it are not benchmark scores."""
    revision: str
    """Commit of the official files, or version of the sample."""
    answerability_key: str
    """Spelling of the answerability key in the files: the official scripts accept only one spelling."""
    tasks: tuple[Task, ...]
    read_contexts: Callable[[Setting], Contexts]
    """Setting -> passages published by the benchmark itself."""
    suite: str = "mtrag"
    """Module of `ragtasks.suites` that scores responses."""
    n_passages: int = 5
    """Number of retrieved passages in a prompt."""
    copy: str = ""
    """Name of the data if many data sets share `name`, such as users' own folders; otherwise empty."""
    belongs: Callable[[Task, Setting], bool] = lambda _task, _setting: True
    has_own_domains: bool = False
    """Whether each domain is a separate set of tasks that is never averaged with the others."""

    def count_tasks(self, setting: Setting, domains: Iterable[str], *, conversational: bool) -> dict[str, int]:
        """Return domain -> number of tasks in a complete evaluation of a setting.

        Args:
            setting: the evaluated setting.
            domains: domains with evaluated tasks. All other domains are counted too, unless `has_own_domains`.
            conversational: whether conversational tasks are included.
        """
        counts: dict[str, int] = {}
        for task in self.tasks:
            counts[task.domain] = counts.get(task.domain, 0) + (
                self.belongs(task, setting)
                and (conversational or task.answerability is not Answerability.CONVERSATIONAL)
            )
        wanted = set(domains) if self.has_own_domains else set(counts)
        return {domain: n for domain, n in counts.items() if n and domain in wanted}

    @property
    def label(self) -> str:
        """Name for tables and reports, with the name of the data set and a mark for samples."""
        name = f"{self.name}: {self.copy}" if self.copy else self.name
        return f"{name} (sample)" if self.is_sample else name


# Corpora, relevance judgements and published rankings of a benchmark.


@dataclass(frozen=True, slots=True)
class RetrievalSide:
    """How to read the retrieval files of one benchmark.

    A `Path` is the folder of the benchmark, except in `load_results`. The `str` next to it is a domain.
    """

    domains: tuple[str, ...]
    """Short names of the corpora; empty if the tasks define the domains."""
    corpus_file: Callable[[Path, str], Path]
    load_qrels: Callable[[Path, str], tuple[Qrel, ...]]
    load_rewrites: Callable[[Path, str], Mapping[str, str]] | None = None
    """Query id -> rewritten question; None if the benchmark publishes no rewrites."""
    load_facts: Callable[[Path, str], Mapping[str, tuple[str, ...]]] | None = None
    """Task id -> facts that retrieved passages must contain; None if the benchmark's own scores do not count facts."""
    load_rankings: Callable[[Path], Mapping[str, tuple[Passage, ...]]] | None = None
    """Task id -> all published passages, best first; None if the setting `full_rag` already contains all of them."""
    rankings_name: Callable[[Path], str] | None = None
    """Name of the rankings of `load_rankings` in tables; None: `official`, for published rankings."""
    load_results: Callable[[Path], tuple[Mapping[str, tuple[str, ...]], Mapping[str, tuple[str, ...]]]] | None = None
    """Result file of the official script -> (item -> texts, best first; item -> facts); None without such files."""
    load_run: Callable[[Path], Run] | None = None
    """Task id -> published ranking with scores; None if only the order is published."""
    document_of: Callable[[str], str] | None = None
    """Passage id -> id of its document; None if passage ids do not contain it."""

    def domains_of(self, tasks: Iterable[Task]) -> tuple[str, ...]:
        """Return the domains of the tasks, in the order of `domains` or, if that is empty, of the tasks."""
        occurring = dict.fromkeys(task.domain for task in tasks)
        return tuple(domain for domain in self.domains or occurring if domain in occurring)


def reference_contexts(benchmark: str, task_name: str, tasks: Sequence[Task], setting: Setting) -> Contexts:
    """Return the reference passages of every task, for benchmarks that publish no other passages."""
    if setting is Setting.REFERENCE:
        return Contexts("official", setting, {task.task_id: task.references for task in tasks})
    raise ConfigurationError(
        f"retrieved passages of {benchmark}",
        where=f"setting {setting.value}",
        expected="your own run: none is published",
        found="no run",
        next_step=f"`ragtasks retrieve --benchmark {benchmark} --retriever bm25 --name mine`, then `--run mine`; "
        f"or use {task_name}",
    )


def reference_qrels(load: Callable[[Path], Benchmark], root: Path, domain: str) -> tuple[Qrel, ...]:
    """Return the reference passages of each task as relevant, for a benchmark with a single corpus."""
    del domain
    return tuple(Qrel(task.task_id, passage.passage_id, 1) for task in load(root).tasks for passage in task.references)


def has_references(task: Task, setting: Setting) -> bool:
    """Return whether a task is part of a setting: tasks without reference passages are not part of `reference`."""
    return setting is not Setting.REFERENCE or bool(task.references)


def check_domain(domain: str, domains: Sequence[str]) -> None:
    """Raise ConfigurationError for an unknown domain."""
    if domain not in domains:
        raise ConfigurationError(f"unknown domain {domain!r}: {close_matches(domain, domains)}")


# Files derived from official files, such as passages cut from documents. They are created once in `<root>/derived/`.

FOLDER = "derived"


def derived_file(root: Path, name: str, make: Callable[[], Iterable[dict[str, Any]]]) -> Path:
    """Return the path of a derived file. It is created atomically if it is missing."""
    path = root / FOLDER / name
    if path.is_file():
        return path
    rows = make()
    with storing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as file:
            file.writelines(orjson.dumps(row) + b"\n" for row in rows)
    return path


# Existence and record counts of official files.

AnyCounts = TypeVar("AnyCounts")


def official_file(path: Path, title: str, benchmark: str) -> Path:
    """Return the path of an official file. Raises BenchmarkFileError if it is missing."""
    if path.is_file():
        return path
    raise BenchmarkFileError(
        f"{title} data",
        where=str(path),
        expected="the official file",
        found="no file",
        next_step=f"run `ragtasks data fetch {benchmark}`, or name another folder by --data or "
        "RAGTASKS_DATA (lm_eval: --metadata data=FOLDER)",
    )


def read_edition(
    root: Path, commit: str, counts: AnyCounts, read: Callable[[Any], AnyCounts]
) -> tuple[bool, str, AnyCounts]:
    """Return (is sample, revision, counts) of the copy under `root`. Only a sample contains its own statistics.

    `read` validates the counts in the sample's statistics.
    """
    statistics = sample_statistics(root)
    if statistics is None:
        return False, commit, counts
    try:
        return True, statistics["version"], read(statistics["counts"])
    except (LookupError, TypeError, ValueError) as error:
        raise broken_statistics(root, "version, counts", error) from error


# Users' own questions. They may be in any language, and `rows_benchmark` has no folder.


def with_languages(
    tasks: Iterable[Task], languages: Mapping[str, str], answers: Mapping[str, str] = MappingProxyType({})
) -> tuple[Task, ...]:
    """Return the tasks with the language of their conversation, either given or detected.

    A conversation that is too short for detection gets the most frequent language. If that is English, a task with
    letters beyond ASCII is `UNKNOWN`, unless its target and answer are detected as English. A task of an English
    conversation is `UNKNOWN` too if its target or answer uses another script. English tasks are returned unchanged.

    Args:
        tasks: tasks of complete conversations.
        languages: conversation id -> ISO 639-1 code, if the data state it.
        answers: task id -> answer, if answers exist.
    """
    task_list = tuple(tasks)
    texts: dict[str, list[str]] = {}
    for task in task_list:
        texts.setdefault(task.conversation_id, []).extend((task.question, task.target))
    codes = {name: languages.get(name) or language_of(" ".join(parts)) for name, parts in texts.items()}
    most_frequent = Counter(filter(None, codes.values())).most_common(1)

    def code_of(task: Task) -> str:
        own_code, texts = codes[task.conversation_id], (task.target, answers.get(task.task_id, ""))
        code = own_code or (most_frequent[0][0] if most_frequent else ENGLISH)
        if code != ENGLISH:
            return code
        is_english = ENGLISH in (own_code, language_of(" ".join(texts)))
        by_script = any(map(is_foreign, texts)) if is_english else settled(UNKNOWN, task.question, *texts) != ENGLISH
        return UNKNOWN if by_script else ENGLISH

    return tuple(
        task if (code := code_of(task)) == ENGLISH else replace(task, extra={**task.extra, LANGUAGE: code})
        for task in task_list
    )


ROWS = "rows"
"""Name of the benchmark and of the suite for users' own rows."""


def rows_benchmark(tasks: Iterable[Task]) -> Benchmark:
    """Return a benchmark of single questions. It has no folder. Passages come with the answers."""
    task_list = tuple(tasks)
    content = [
        [task.task_id, task.conversation_id, task.question, *(variant.target for variant in task.variants)]
        for task in task_list
    ]
    return Benchmark(ROWS, Path(), False, canonical_hash(content)[:16], "", task_list, _no_contexts, suite=ROWS)


def _no_contexts(setting: Setting) -> Contexts:
    raise ConfigurationError(f"rows of your own have no published passages, for {setting.value} or any other setting")
