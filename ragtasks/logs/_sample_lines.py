"""The one reader of files of logged samples: a line at a time, and one error for all that is wrong in a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtasks.files import Violations, json_lines
from ragtasks.logs._saved_results import RUN_AGAIN, LoggedSamples

_SAMPLE = "a sample of a ragtasks task"


@dataclass(frozen=True, slots=True)
class SampleLine:
    """One line of a file of logged samples."""

    number: int
    """Its number, from 1."""
    sample: dict[str, Any]
    """What stands there; its shape is not checked (`require_sample` does)."""
    violations: Violations
    """The errors of the file, raised behind its last line."""

    def refuse(self, error: Exception) -> None:
        """Note that this is no sample of ours, and why."""
        said = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        self.violations.add(self.number, _SAMPLE, said)


def sample_lines(logged: LoggedSamples) -> Iterator[SampleLine]:
    """Yield the lines of a file of logged samples; behind the last one, raise all errors that it has.

    Raises:
        BenchmarkFileError: the file cannot be read, holds a line that is not a JSON object or that was refused, or
            another number of lines than its results file says.
    """
    violations = Violations(logged.path, "logged samples", RUN_AGAIN)
    n_found = 0
    for number, sample in json_lines(violations):
        n_found += 1
        yield SampleLine(number, sample, violations)
    violations.raise_if_any()
    logged.require(n_found)


def samples_of(path: Path) -> Iterator[SampleLine]:
    """Yield the lines of a file that was read before, so that the number of its lines is known to be right.

    Raises:
        BenchmarkFileError: as `sample_lines`.
    """
    return sample_lines(LoggedSamples(path, None))


__all__ = ["SampleLine", "sample_lines", "samples_of"]
