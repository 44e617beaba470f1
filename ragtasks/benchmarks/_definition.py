"""What a family of benchmarks, or another package, declares of each benchmark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragtasks.benchmarks._benchmark import Benchmark
from ragtasks.benchmarks._retrieval_side import RetrievalSide
from ragtasks.benchmarks.download import Source
from ragtasks.errors import ConfigurationError
from ragtasks.tables import Table


@dataclass(frozen=True, slots=True)
class BenchmarkDefinition:
    """How one benchmark is found and read.

    Raises:
        ConfigurationError: a field of another kind.
    """

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

    def __post_init__(self) -> None:
        kinds = (
            isinstance(self.source, Source),
            callable(self.load),
            self.retrieval is None or isinstance(self.retrieval, RetrievalSide),
            self.sample is None or isinstance(self.sample, Path),
            self.tables is None or callable(self.tables),
        )
        if not all(kinds):
            fields = "source: Source, load: callable, retrieval: RetrievalSide or None, sample: Path or None"
            raise ConfigurationError(f"BenchmarkDefinition({fields}, tables: callable or None)")


__all__ = ["BenchmarkDefinition"]
