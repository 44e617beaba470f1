"""The files of one evaluation of the harness: results, and beside them a file of logged samples for each task.

A samples file that is missing or shortened would change every mean without a word, so all of them have to be there,
with as many lines as the results say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtasks.errors import BenchmarkFileError, clear_error

RUN_AGAIN = "run the evaluation again with --output_path DIR --log_samples"
"""The next step where files cannot be fixed."""

_TIME = re.compile(r"results_(?P<time>.+)\.json")
_BRING_ALL = f"bring all files that the evaluation wrote into one folder, or {RUN_AGAIN}"


@dataclass(frozen=True, slots=True)
class LoggedSamples:
    """The logged samples of one harness task."""

    path: Path
    """Their file."""
    n: int | None
    """Samples that the results say were logged; None where they do not say."""

    def require(self, n_found: int) -> None:
        """Refuse a file of more or fewer samples.

        Raises:
            BenchmarkFileError: it holds another number than was logged.
        """
        if self.n not in {None, n_found}:
            raise _error(self.path, f"{self.n} lines, as its results file says", str(n_found), _BRING_ALL)


def time_of(file: Path) -> str | None:
    """Return what stands in the names of the files of one evaluation; None where this is no results file."""
    match = _TIME.fullmatch(file.name)
    return match["time"] if match else None


def logged_samples(file: Path, results: Mapping[str, Any], tasks: Iterable[str]) -> dict[str, LoggedSamples]:
    """Return harness task -> its logged samples beside the results file.

    Args:
        file: the results file.
        results: its content.
        tasks: harness tasks of ours in it.

    Raises:
        BenchmarkFileError: the samples of any task are missing; all missing ones are named.
    """
    time = time_of(file)
    found = {
        task: LoggedSamples(file.with_name(f"samples_{task}_{time}.jsonl"), _n_logged(results, task)) for task in tasks
    }
    missing = [samples for samples in found.values() if not samples.path.is_file()]
    if time is None or len(missing) == len(found):
        raise _error(file, "logged samples of a ragtasks task beside it (samples_*.jsonl)", "none", RUN_AGAIN)
    if missing:
        named = ", ".join(f"no {item.path.name} (lines: {item.n or 'unknown'})" for item in missing)
        raise _error(file, "the logged samples of all its ragtasks tasks beside it", named, _BRING_ALL)
    return found


def value_at(found: Any, *keys: str) -> Any:
    """Return what stands in nested JSON objects under some keys; None where there is nothing."""
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _n_logged(results: Mapping[str, Any], task: str) -> int | None:
    number = value_at(results, "n-samples", task, "effective")
    return number if isinstance(number, int) else None


def _error(where: Path, expected: str, found: str, next_step: str) -> BenchmarkFileError:
    message = clear_error("results", where=str(where), expected=expected, found=found, next_step=next_step)
    return BenchmarkFileError(message)


__all__ = ["RUN_AGAIN", "LoggedSamples", "logged_samples", "time_of", "value_at"]
