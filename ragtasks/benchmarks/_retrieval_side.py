"""How the corpora and relevance judgements of a benchmark are read; its module has one of these as `RETRIEVAL`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ragtasks.files import Run
from ragtasks.records import Passage, Qrel, Task


@dataclass(frozen=True, slots=True)
class RetrievalSide:
    """How one benchmark's retrieval files are read; every function takes the benchmark's folder and a domain."""

    domains: tuple[str, ...]
    """Short names of the corpora; none where the tasks say which there are."""
    corpus_file: Callable[[Path, str], Path]
    """The file that holds a corpus."""
    load_qrels: Callable[[Path, str], tuple[Qrel, ...]]
    """Relevance judgements of a domain."""
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


__all__ = ["RetrievalSide"]
