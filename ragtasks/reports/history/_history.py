"""The evaluations that lie in a folder: one entry for each model, benchmark and setting of a results file.

An entry keeps means and provenance and lets the responses go, so that a folder of many evaluations is listed in little
memory. A file that cannot be read is no reason to see none of the others: it is kept with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from ragtasks.benchmarks import benchmark_names
from ragtasks.errors import BenchmarkFileError, ConfigurationError, RagtasksError, clear_error, close_matches
from ragtasks.records import Setting
from ragtasks.reports.history._entries import SAMPLE, Entry, entries_of

_RESULTS = re.compile(r"results_(?P<time>.+)\.json")
_SAMPLES = re.compile(r"samples_.+_(?P<time>[^_]+)\.jsonl")
_READ = (".json", ".jsonl")
_LONGEST_REASON = 300
# JSON that is not what it should be can fail anywhere in its reading: in a listing that is a reason, not an end.
_BROKEN = (RagtasksError, OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that holds no evaluation that could be read."""

    path: Path
    """The file."""
    reason: str
    """Why it was left out, in one line."""


@dataclass(frozen=True, slots=True)
class History:
    """What lies in a folder."""

    entries: tuple[Entry, ...]
    """By time, then file, then setting as in the file; those without a time first."""
    skipped: tuple[Skipped, ...]
    """The other files that look like results or logged samples, by name."""


def read_history(folder: Path, *, is_ranked: bool = False) -> History:
    """Return the evaluations below a folder (or in one results file), and what there is beside them.

    Args:
        folder: where they lie.
        is_ranked: whether entries come with intervals and the scores that rank them, as a leaderboard needs.

    Raises:
        BenchmarkFileError: there is no such folder or file.
    """
    files = _files(folder)
    entries: list[Entry] = []
    skipped: list[Skipped] = []
    used: set[Path] = set()
    for path in files:
        if _RESULTS.fullmatch(path.name) is None:
            continue
        try:
            found, samples = entries_of(path, is_ranked=is_ranked)
        except _BROKEN as error:
            skipped.append(Skipped(path, _reason(error, folder)))
        else:
            entries += found
            used |= samples | {path}
    skipped += _foreign(files, used, {item.path for item in skipped})
    return History(tuple(sorted(entries, key=_order)), tuple(sorted(skipped, key=lambda item: str(item.path))))


def read_file(path: Path) -> tuple[Entry, ...]:
    """Return the entries of one results file, or of a folder with one.

    Raises:
        BenchmarkFileError: there is none, or several, or it cannot be read; the message says why.
    """
    files = [file for file in _files(path) if _RESULTS.fullmatch(file.name)]
    if len(files) != 1:
        raise _nothing(path, f"{len(files)} of them: {', '.join(map(str, files))}" if files else "none")
    try:
        return tuple(entries_of(files[0])[0])
    except RagtasksError:
        raise
    except _BROKEN as error:
        raise _nothing(files[0], f"{type(error).__name__}: {error}") from error


def _files(folder: Path) -> list[Path]:
    """Return the files in a folder that may belong to an evaluation, by name; or the one that is given."""
    if not folder.exists():
        raise _nothing(folder, "nothing")
    files = [folder] if folder.is_file() else sorted(path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if path.suffix in _READ]


def select_entries(
    entries: Iterable[Entry],
    *,
    benchmark: str | None = None,
    model: str | None = None,
    setting: str | None = None,
    since: str | None = None,
) -> list[Entry]:
    """Return the entries that fit everything that is given, in order.

    Args:
        entries: as from `read_history`.
        benchmark: name, with or without ` (sample)`.
        model: part of the name, upper or lower case.
        setting: name.
        since: day or time (ISO 8601; UTC unless it says otherwise). Entries without a time do not fit.

    Raises:
        ConfigurationError: `since` is no day or time, or a benchmark or setting that is neither known nor in an entry.
    """
    entries = list(entries)
    _check("benchmark", benchmark, {*benchmark_names(), *(entry.benchmark for entry in entries)})
    _check("setting", setting, {*(item.value for item in Setting), *(entry.setting for entry in entries)})
    start = None if since is None else _start(since)
    return [
        entry
        for entry in entries
        if benchmark in {None, entry.benchmark, entry.benchmark.removesuffix(SAMPLE)}
        and (model is None or model.casefold() in entry.model.casefold())
        and setting in {None, entry.setting}
        and (start is None or (entry.time is not None and entry.time >= start))
    ]


def _check(what: str, name: str | None, known: set[str]) -> None:
    if name is not None and name not in {*known, *(other.removesuffix(SAMPLE) for other in known)}:
        raise ConfigurationError(f"unknown {what} {name!r}: {close_matches(name, known)}")


def _start(text: str) -> datetime:
    try:
        given = datetime.fromisoformat(text)
    except ValueError as error:
        message = f"--since {text!r}: no day or time; write 2026-01-31 or 2026-01-31T09:00"
        raise ConfigurationError(message) from error
    return given if given.tzinfo else given.replace(tzinfo=timezone.utc)


def _order(entry: Entry) -> tuple[str, str]:
    return (entry.time.isoformat() if entry.time else "", str(entry.source))


def _foreign(files: Iterable[Path], used: set[Path], named: set[Path]) -> Iterator[Skipped]:
    """Yield the files that belong to no results file: neither to one that was used nor to one that was named."""
    for path in files:
        match = _SAMPLES.fullmatch(path.name)
        results = path.with_name(f"results_{match['time']}.json") if match else None
        if path in used or path in named or results in named:
            continue
        if results is None:
            yield Skipped(path, "no results file of the harness (results_*.json)")
        elif results in used:
            yield Skipped(path, "logged samples of a task that is not of ragtasks")
        else:
            yield Skipped(path, "logged samples without their results file")


def _reason(error: Exception, folder: Path) -> str:
    """Return an error in one line of bounded length, which is the same wherever the folder lies."""
    text = " ".join(str(error).replace(f"{folder}/", "").split())
    line = text if isinstance(error, RagtasksError) else f"broken: {type(error).__name__}: {text}"
    return line if len(line) <= _LONGEST_REASON else line[: _LONGEST_REASON - 3] + "..."


def _nothing(path: Path, found: str) -> BenchmarkFileError:
    next_step = "name the folder that was given as --output_path, or one results file in it"
    return BenchmarkFileError(
        clear_error(
            "results", where=str(path), expected="a results file of the harness", found=found, next_step=next_step
        )
    )


__all__ = ["History", "Skipped", "read_file", "read_history", "select_entries"]
