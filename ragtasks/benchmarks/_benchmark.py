"""What a benchmark module hands to the rest of ragtasks, whatever its files look like."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ragtasks.records import Answerability, Contexts, Setting, Task


def _always(_task: Task, _setting: Setting) -> bool:
    return True


@dataclass(frozen=True)
class Benchmark:
    """The tasks of one benchmark and where they were read from."""

    name: str
    """Short name, such as `mtrag`."""
    root: Path
    """Folder that holds the files."""
    is_sample: bool
    """Whether this is the small benchmark that ships with ragtasks: its scores are not benchmark scores."""
    revision: str
    """Commit of the official files, or the version of the sample."""
    answerability_key: str
    """How the files spell the key of the answerability label: the official scripts read one spelling only."""
    tasks: tuple[Task, ...]
    """Every task, in the order of the file."""
    read_contexts: Callable[[Setting], Contexts]
    """Passages that the benchmark itself publishes for a setting."""
    suite: str = "mtrag"
    """Module of `ragtasks.suites` that scores responses to it."""
    n_passages: int = 5
    """How many retrieved passages a task is given."""
    copy: str = ""
    """Which one is meant where a name means many, such as everybody's own data; empty elsewhere."""
    belongs: Callable[[Task, Setting], bool] = _always
    """Whether a task is one of a setting."""
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


__all__ = ["Benchmark"]
