"""What a family of benchmarks, or another package, declares of each benchmark."""

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
    """How one benchmark is found and read."""

    source: Source
    """Its official files; its `name` is what a user types."""
    load: Callable[[Path], Benchmark]
    """Folder -> benchmark. A file that is missing or broken is a `BenchmarkFileError`."""
    retrieval: RetrievalSide | None = None
    """How its retrieval files are read; None where it has none."""
    sample: Path | None = None
    """Folder with a small benchmark of the same format that ships with the code; None: one of ours, or none."""
    tables: Callable[[Benchmark], Sequence[Table]] | None = None
    """Benchmark -> what `describe` shows of its files beyond its tasks; None: nothing."""
    answers: Callable[[Benchmark], Sequence[RepairedAnswer]] | None = None
    """Benchmark -> the answers of its conversations beside what a model wrote first; None: nothing is published."""

    def __post_init__(self) -> None:
        kinds = (
            isinstance(self.source, Source),
            callable(self.load),
            self.retrieval is None or isinstance(self.retrieval, RetrievalSide),
            self.sample is None or isinstance(self.sample, Path),
            self.tables is None or callable(self.tables),
            self.answers is None or callable(self.answers),
        )
        if not all(kinds):
            fields = "source: Source, load: callable, retrieval: RetrievalSide or None, sample: Path or None"
            raise ConfigurationError(f"BenchmarkDefinition({fields}, tables and answers: callable or None)")


class RepairedAnswer(NamedTuple):
    """One answer of a benchmark's conversations, as people left it."""

    domain: str
    conversation: int
    text: str
    draft: str | None
    """What the model wrote; None where nobody changed it."""


# What a benchmark module hands to the rest of ragtasks, whatever its files look like.


@dataclass(frozen=True)
class Benchmark:
    """The tasks of one benchmark and where they were read from."""

    name: str
    """Short name, such as `mtrag`."""
    root: Path
    is_sample: bool
    """Whether this is the small benchmark that ships with ragtasks: its scores are not benchmark scores."""
    revision: str
    """Commit of the official files, or the version of the sample."""
    answerability_key: str
    """How the files spell the key of the answerability label: the official scripts read one spelling only."""
    tasks: tuple[Task, ...]
    read_contexts: Callable[[Setting], Contexts]
    """Passages that the benchmark itself publishes for a setting."""
    suite: str = "mtrag"
    """Module of `ragtasks.suites` that scores responses to it."""
    n_passages: int = 5
    """How many retrieved passages a task is given."""
    copy: str = ""
    """Which one is meant where a name means many, such as everybody's own data; empty elsewhere."""
    belongs: Callable[[Task, Setting], bool] = lambda _task, _setting: True
    has_own_domains: bool = False
    """Whether each domain is a set of tasks of its own that is never averaged with the others."""

    def count_tasks(self, setting: Setting, domains: Iterable[str], *, conversational: bool) -> dict[str, int]:
        """Return domain -> tasks that an evaluation of a setting has if it leaves none out.

        Args:
            setting: what is evaluated.
            domains: those that it has tasks of. The others count too, unless every domain is a set of its own.
            conversational: whether conversational tasks take part.
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
        """Name for tables and reports; says `sample` where it is one, and which copy where there are many."""
        name = f"{self.name}: {self.copy}" if self.copy else self.name
        return f"{name} (sample)" if self.is_sample else name


# How the corpora and relevance judgements of a benchmark are read; its module has one of these as `RETRIEVAL`.


@dataclass(frozen=True, slots=True)
class RetrievalSide:
    """How one benchmark's retrieval files are read; every function takes the benchmark's folder and a domain."""

    domains: tuple[str, ...]
    """Short names of the corpora; none where the tasks say which there are."""
    corpus_file: Callable[[Path, str], Path]
    load_qrels: Callable[[Path, str], tuple[Qrel, ...]]
    load_rewrites: Callable[[Path, str], Mapping[str, str]] | None = None
    """Query id -> rewritten question, where the benchmark publishes some; None elsewhere."""
    load_facts: Callable[[Path, str], Mapping[str, tuple[str, ...]]] | None = None
    """Task id -> facts that passages must hold, where the benchmark's own scores count those; None elsewhere."""
    load_rankings: Callable[[Path], Mapping[str, tuple[Passage, ...]]] | None = None
    """Task id -> all passages that are published for it, best first; None: those of the setting `full_rag` are all."""
    rankings_name: Callable[[Path], str] | None = None
    """What tables call the rankings of `load_rankings`; None: `official`, as of published ones."""
    load_results: Callable[[Path], tuple[Mapping[str, tuple[str, ...]], Mapping[str, tuple[str, ...]]]] | None = None
    """Result file of its own script -> (item -> texts, best first; item -> facts); None: it writes no such file."""
    load_run: Callable[[Path], Run] | None = None
    """Task id -> the published ranking by its scores, where the benchmark publishes them; None: the order is all."""
    document_of: Callable[[str], str] | None = None
    """Id of a passage -> id of the document that it was cut from; None where ids do not say it."""

    def domains_of(self, tasks: Iterable[Task]) -> tuple[str, ...]:
        """Return the domains of some tasks, in the order of `domains`, or of the tasks where that is empty."""
        present = dict.fromkeys(task.domain for task in tasks)
        return tuple(domain for domain in self.domains or present if domain in present)


def reference_contexts(benchmark: str, task_name: str, tasks: Sequence[Task], setting: Setting) -> Contexts:
    """Return the reference passages of every task of a benchmark that publishes no others."""
    if setting is Setting.REFERENCE:
        return Contexts("official", setting, {task.task_id: task.references for task in tasks})
    raise ConfigurationError(
        f"retrieved passages of {benchmark}",
        where=f"setting {setting.value}",
        expected="a run of your own: none is published",
        found="no run",
        next_step=f"`ragtasks retrieve --benchmark {benchmark} --retriever bm25 --name mine`, then `--run mine`; "
        f"or take {task_name}",
    )


def reference_qrels(load: Callable[[Path], Benchmark], root: Path, domain: str) -> tuple[Qrel, ...]:
    """Return the reference passages of each task as relevant, of a benchmark with one corpus."""
    del domain
    return tuple(Qrel(task.task_id, passage.passage_id, 1) for task in load(root).tasks for passage in task.references)


def has_references(task: Task, setting: Setting) -> bool:
    """Return whether a task has a part in a setting: one without reference passages has none to be given."""
    return setting is not Setting.REFERENCE or bool(task.references)


def check_domain(domain: str, known: Sequence[str]) -> None:
    """Raise an error for a domain that a benchmark does not have."""
    if domain not in known:
        raise ConfigurationError(f"unknown domain {domain!r}: {close_matches(domain, known)}")


# Files derived from official ones, such as passages cut from documents: made once, stored in `<root>/derived/`.

FOLDER = "derived"
"""Folder below that of a benchmark's files."""


def derived_file(root: Path, name: str, make: Callable[[], Iterable[dict[str, Any]]]) -> Path:
    """Return the derived file of a name, made now where it is not there; it is whole or not there at all."""
    path = root / FOLDER / name
    if path.is_file():
        return path
    rows = make()
    with storing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as file:
            file.writelines(orjson.dumps(row) + b"\n" for row in rows)
    return path


# Official files: that they are there, and how many records they must have.

AnyCounts = TypeVar("AnyCounts")


def official_file(path: Path, title: str, benchmark: str) -> Path:
    """Return the path of an official file, which is there."""
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
    """Return (is sample, revision, counts) of the copy under `root`; only a sample brings its own statistics.

    `read` makes counts of what the sample says, and refuses what it does not know.
    """
    statistics = sample_statistics(root)
    if statistics is None:
        return False, commit, counts
    try:
        return True, statistics["version"], read(statistics["counts"])
    except (LookupError, TypeError, ValueError) as error:
        raise broken_statistics(root, "version, counts", error) from error


# Questions of somebody's own: in any language, and in no folder.


def with_languages(
    tasks: Iterable[Task], given: Mapping[str, str], answers: Mapping[str, str] = MappingProxyType({})
) -> tuple[Task, ...]:
    """Return tasks that know their conversation's language: the one that is given, else detected.

    A conversation that is too short to detect has the language of most others. If that is English, a task with letters
    beyond ASCII is `UNKNOWN`, unless its target and answer are detected as English. So is a task of an English
    conversation whose target or answer is in another script. Nothing is noted of English.

    Args:
        tasks: of whole conversations.
        given: conversation id -> ISO 639-1 code, for those whose language the data say.
        answers: task id -> answer, where there are answers already.
    """
    chosen = tuple(tasks)
    texts: dict[str, list[str]] = {}
    for task in chosen:
        texts.setdefault(task.conversation_id, []).extend((task.question, task.target))
    found = {name: given.get(name) or language_of(" ".join(parts)) for name, parts in texts.items()}
    usual = Counter(filter(None, found.values())).most_common(1)

    def code_of(task: Task) -> str:
        own, texts = found[task.conversation_id], (task.target, answers.get(task.task_id, ""))
        code = own or (usual[0][0] if usual else ENGLISH)
        if code != ENGLISH:
            return code
        is_english = ENGLISH in (own, language_of(" ".join(texts)))
        by_script = any(map(is_foreign, texts)) if is_english else settled(UNKNOWN, task.question, *texts) != ENGLISH
        return UNKNOWN if by_script else ENGLISH

    return tuple(
        task if (code := code_of(task)) == ENGLISH else replace(task, extra={**task.extra, LANGUAGE: code})
        for task in chosen
    )


ROWS = "rows"
"""Name of the benchmark and of the suite of rows of one's own."""


def rows_benchmark(tasks: Iterable[Task]) -> Benchmark:
    """Return the benchmark that some questions are; it lies in no folder, and its passages are those of the answers."""
    chosen = tuple(tasks)
    asked = [
        [task.task_id, task.conversation_id, task.question, *(variant.target for variant in task.variants)]
        for task in chosen
    ]
    return Benchmark(ROWS, Path(), False, canonical_hash(asked)[:16], "", chosen, _no_contexts, suite=ROWS)


def _no_contexts(setting: Setting) -> Contexts:
    raise ConfigurationError(f"rows of your own have no published passages, for {setting.value} or any other setting")
