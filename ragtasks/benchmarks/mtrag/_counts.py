"""What a complete copy of the files holds: the official counts, or those that a sample brings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from ragtasks.files import Violations, broken_statistics, sample_statistics
from ragtasks.records import Task

UNCOUNTED: Mapping[str, int] = {}
"""Stands for numbers that nobody published: they are not checked. Any other mapping is, an empty one too."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How many records a complete copy has; loading fails where a file differs."""

    tasks: int
    """Lines of reference.jsonl, and of RAG.jsonl where there is one."""
    by_domain: Mapping[str, int] = field(default_factory=lambda: UNCOUNTED)
    """Tasks of each domain."""
    by_answerability: Mapping[str, int] = field(default_factory=lambda: UNCOUNTED)
    """Tasks of each answerability."""
    conversations: int = 0
    """Different conversations; 0 where they are not counted."""


def edition_of(root: Path, commit: str, counts: Counts) -> tuple[bool, str, Counts]:
    """Return (is sample, revision, counts) of the copy under `root`; only a sample brings its own statistics.

    Args:
        root: folder of the benchmark's files.
        commit: revision of the official files.
        counts: what the official files hold.

    Raises:
        BenchmarkFileError: the statistics of a sample are broken.
    """
    statistics = sample_statistics(root)
    if statistics is None:
        return False, commit, counts
    try:
        Counts(**statistics["counts"])  # refuses what it does not know, as the next line does other types
        own = TypeAdapter(Counts).validate_python(statistics["counts"])
        for name in ("by_domain", "by_answerability"):
            if getattr(counts, name) is not UNCOUNTED and getattr(own, name) is UNCOUNTED:
                raise LookupError(name)
    except (LookupError, TypeError, ValueError) as error:
        raise broken_statistics(root, "version, counts", error) from error
    return True, statistics["version"], own


def check_counts(tasks: tuple[Task, ...], counts: Counts, violations: Violations) -> None:
    if len(tasks) != counts.tasks:
        violations.add(0, f"{counts.tasks} tasks", len(tasks))
        return
    n_conversations = len({task.conversation_id for task in tasks})
    if counts.conversations not in {0, n_conversations}:
        violations.add(0, f"{counts.conversations} conversations", n_conversations)
    by_domain = dict(Counter(task.domain for task in tasks))
    if counts.by_domain is not UNCOUNTED and by_domain != dict(counts.by_domain):
        violations.add(0, f"tasks by domain {dict(counts.by_domain)}", by_domain)
    by_answerability = dict(Counter(task.answerability.value for task in tasks))
    if counts.by_answerability is not UNCOUNTED and by_answerability != dict(counts.by_answerability):
        violations.add(0, f"tasks by answerability {dict(counts.by_answerability)}", by_answerability)


__all__ = ["UNCOUNTED", "Counts", "check_counts", "edition_of"]
