"""A benchmark to hold in one's hands: tasks, the passages of each setting, relevance judgements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ragtasks.benchmarks import Benchmark, benchmark_folder, contexts_for, open_benchmark, retrieval_side
from ragtasks.environment import data_folder, run_store
from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.files import OFFICIAL
from ragtasks.metrics import by_query
from ragtasks.records import Answerability, Passage, Setting, Task
from ragtasks.reports.rendering import Format, render
from ragtasks.tables import Cell, Section, Table


@dataclass(frozen=True, repr=False)
class LoadedBenchmark:
    """A benchmark whose files were read; printed, it is a table of its tasks."""

    source: Benchmark
    """What its module read."""
    data: str | None = None
    """`sample`, a folder, or None for the data folder."""

    @property
    def name(self) -> str:
        """Short name, such as `mtrag`."""
        return self.source.name

    @property
    def label(self) -> str:
        """Name for tables; says `sample` where it is one."""
        return self.source.label

    @property
    def is_sample(self) -> bool:
        """Whether this is the small benchmark that ships with ragtasks: its scores are not benchmark scores."""
        return self.source.is_sample

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Every task, in the order of the file."""
        return self.source.tasks

    @cached_property
    def qrels(self) -> Mapping[str, Mapping[str, int]]:
        """Query id -> passage id -> relevance (relevant from 1 on), read when first asked for.

        Raises:
            BenchmarkFileError: the judgements are missing or broken.
            ConfigurationError: the benchmark has none.
        """
        side, root = retrieval_side(self.name), self.source.root
        return by_query(qrel for domain in side.domains_of(self.tasks) for qrel in side.load_qrels(root, domain))

    def passages(self, setting: str, run: str = OFFICIAL) -> Mapping[str, tuple[Passage, ...]]:
        """Return task id -> the passages that the tasks of a setting are given, in order.

        Args:
            setting: `reference`, `reference_rag` or `full_rag`.
            run: name of a stored run; default: the passages that the benchmark publishes.

        Raises:
            BenchmarkFileError: the published passages are missing or broken.
            CacheError: no such run, or one that was made for other data.
            ConfigurationError: an unknown setting, or one that the benchmark does not have.
        """
        return contexts_for(self.source, setting_named(setting), run, run_store()).passages

    def __repr__(self) -> str:
        """Return its label and how many tasks it has."""
        return f"<{type(self).__name__} {self.label}: {len(self.tasks)} tasks>"

    def __str__(self) -> str:
        """Return a table of its tasks by domain and answerability."""
        counts = Counter((task.domain, task.answerability) for task in self.tasks)
        labels = [label for label in Answerability if any(own is label for _, own in counts)]
        rows: tuple[tuple[Cell, ...], ...] = tuple(
            (domain, *(counts[domain, label] for label in labels), sum(counts[domain, label] for label in labels))
            for domain in dict.fromkeys(task.domain for task in self.tasks)
        )
        table = Table("Tasks", ("domain", *(label.value for label in labels), "all"), rows)
        n_conversations = len({task.conversation_id for task in self.tasks})
        provenance = {"tasks": str(len(self.tasks)), "conversations": str(n_conversations)}
        return render([Section(self.label, provenance, (table,))], Format.MARKDOWN)


def load_benchmark(name: str, data: str | Path | None = None) -> LoadedBenchmark:
    """Return a benchmark, with its tasks read.

    Args:
        name: such as `mtrag`; the README lists them.
        data: `sample`, or a folder with the files; default: the data folder (RAGTASKS_DATA, or where `ragtasks fetch`
            puts them).

    Raises:
        BenchmarkFileError: the files are missing or broken.
        ConfigurationError: an unknown benchmark.
    """
    named = None if data is None else str(data)
    folder = benchmark_folder(name, named, data_folder()).resolve()
    return LoadedBenchmark(open_benchmark(name, folder), named)


def setting_named(name: str) -> Setting:
    """Return the setting of a name.

    Raises:
        ConfigurationError: there is none.
    """
    known = [setting.value for setting in Setting]
    if name not in known:
        raise ConfigurationError(f"unknown setting {name!r}: {close_matches(name, known)}")
    return Setting(name)


__all__ = ["LoadedBenchmark", "load_benchmark", "setting_named"]
