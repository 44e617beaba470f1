"""What is reviewed: a question and its answer in their conversation, with the passages that the answer rests on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ragtasks.benchmarks import open_benchmark
from ragtasks.files import canonical_hash
from ragtasks.records import Task

_VERSION_LENGTH = 16


@dataclass(frozen=True)
class Pair:
    """One question with its answer."""

    number: int
    """Its place in the benchmark, from 1."""
    task: Task
    """The question in its conversation, the answer, what it rests on."""

    @property
    def pair_id(self) -> str:
        """The id of its task."""
        return self.task.task_id

    @property
    def texts(self) -> dict[str, str]:
        """What may be edited: `question`, `standalone` (the question as it would stand alone) and `answer`."""
        standalone = str(self.task.extra.get("rewrite") or self.task.question)
        return {"question": self.task.question, "standalone": standalone, "answer": self.task.target}

    @cached_property
    def version(self) -> str:
        """Hash of what is shown of it; a decision on other texts does not count."""
        shown = {
            **self.texts,
            "answerability": self.task.answerability.value,
            "references": [[item.passage_id, item.text] for item in self.task.references],
        }
        return canonical_hash(shown)[:_VERSION_LENGTH]


def read_pairs(folder: Path) -> tuple[Pair, ...]:
    """Return the pairs of a benchmark in the custom format, in the order of its conversations.

    Raises:
        ConfigurationError: there is no such folder.
        BenchmarkFileError: its files are broken.
    """
    tasks = open_benchmark("custom", folder).tasks
    return tuple(Pair(number, task) for number, task in enumerate(tasks, start=1))


__all__ = ["Pair", "read_pairs"]
