"""Shared by the four readers: datasets of the Hugging Face hub, and expected numbers of records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ragtasks.benchmarks import Benchmark, official_file, read_edition, reference_contexts
from ragtasks.benchmarks.sources import Source, SourceFile
from ragtasks.files import Problems
from ragtasks.records import Task

PACKAGE = Path(__file__).resolve().parent


def hub_source(name: str, folder: str, dataset: str, commit: str, *files: SourceFile, marker: str = "data") -> Source:
    """Return the files of a dataset of the Hugging Face hub."""
    address = f"https://huggingface.co/datasets/{dataset}"
    return Source(name, folder, marker, address, commit, f"{address}/resolve/{commit}/", files)


@dataclass(frozen=True, slots=True)
class Sizes:
    """The expected number of records in a file."""

    conversations: int
    tasks: int | None
    """None if it is not published."""

    @staticmethod
    def of(raw: Mapping[str, int]) -> Sizes:
        """Return the numbers in a sample's own statistics."""
        return Sizes(**raw)


def check_sizes(tasks: Sequence[Task], sizes: Sizes, problems: Problems) -> None:
    """Raise the problems of a file, or an error for another number of conversations or tasks."""
    problems.raise_if_any()
    n_tasks = None if sizes.tasks is None else len(tasks)
    actual = Sizes(len({task.conversation_id for task in tasks}), n_tasks)
    if actual != sizes:
        problems.add(0, str(sizes), actual)
    problems.raise_if_any()


def load_tasks(root: Path, source: Source, sizes: Sizes, read: Callable[[Problems], Iterable[Task]]) -> Benchmark:
    """Return the benchmark with a single file in `root`. `read` yields its tasks and records its errors."""
    name, title = source.name, source.folder
    is_sample, revision, sizes = read_edition(root, source.commit, sizes, Sizes.of)
    file = official_file(root / source.files[0].path, title, name)
    problems = Problems(file, f"{title} file", "fetch the file again, or correct it")
    tasks = tuple(read(problems))
    check_sizes(tasks, sizes, problems)
    contexts = partial(reference_contexts, name, f"{name}_reference", tasks)
    return Benchmark(name, root, is_sample, revision, "answerability", tasks, contexts, suite=name)
