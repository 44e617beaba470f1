"""What lies in a folder of results as text for a terminal: a list, one evaluation in full, and what differs.

Names come from files that anyone may have written, so what a terminal would act on is shown as an escape.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ragtasks.logs import CAUSES, UNKNOWN
from ragtasks.reports.history._diff import Difference, Differences
from ragtasks.reports.history._entries import Entry, Mean
from ragtasks.reports.history._history import Skipped
from ragtasks.tables import fixed, markdown_table, plain

SAMPLE_NOTE = "Scores on a sample are not benchmark scores."
_INTERVALS = "Differences without intervals: `ragtasks compare` gives them, over conversations."
_SHORT = 8
_CAUSE_OF = {field: cause for cause, fields in CAUSES.items() for field in fields}


def render_list(entries: Sequence[Entry], folder: Path) -> str:
    """Return one line an evaluation, with the files named below the folder."""
    header = ["time", "model", "benchmark", "setting", "run", "n", "scores", "encoder", "judges", "requests", "file"]
    table = markdown_table(header, [_line(entry, folder) for entry in entries])
    notes = [SAMPLE_NOTE] if any(entry.is_sample for entry in entries) else []
    return "\n".join([*table, "", f"evaluations: {len(entries)}", *notes])


def render_skipped(skipped: Sequence[Skipped], folder: Path) -> str:
    """Return one line a file that was left out, with the reason; empty where none was."""
    lines = [f"  {plain(below(item.path, folder))}: {plain(item.reason)}" for item in skipped]
    return "\n".join([f"skipped files: {len(lines)}", *lines]) if lines else ""


def render_entries(entries: Iterable[Entry]) -> str:
    """Return scores and full provenance of each entry."""
    return "\n\n".join("\n".join(_entry(entry)) for entry in entries)


def render_differences(found: Differences) -> str:
    """Return what differs, pair by pair, and whether the scores compare."""
    parts = ["\n".join(_pair(pair)) for pair in found.pairs]
    for which, entries in (("first", found.only_first), ("second", found.only_second)):
        parts += [f"only in the {which}: {_title(entry)}" for entry in entries]
    return "\n\n".join([*parts, _INTERVALS])


def below(path: Path, folder: Path) -> str:
    """Return a path as seen from a folder, unchanged where it is not in it."""
    return path.relative_to(folder).as_posix() if path != folder and path.is_relative_to(folder) else str(path)


def mean_text(mean: Mean | None) -> str:
    """Return a mean, with what it covers where a response is not scored or a task is missing; a dash where none is."""
    if mean is None or mean.value is None:
        return UNKNOWN
    covered = "" if mean.n_scored == mean.n else f" ({mean.n_scored}/{mean.n})"
    if mean.n_tasks is not None:
        as_zero = mean.value * mean.n_scored / (mean.n_scored + mean.n_tasks - mean.n)
        covered += f" ({mean.n} of {mean.n_tasks} tasks; {fixed(as_zero)} with the missing as 0)"
    return fixed(mean.value) + covered


def time_text(entry: Entry) -> str:
    """Return when an evaluation began, in UTC, to the minute."""
    return entry.time.strftime("%Y-%m-%d %H:%M") if entry.time else UNKNOWN


def _line(entry: Entry, folder: Path) -> list[str]:
    own = entry.provenance
    scores = ", ".join(f"{metric.name} {mean_text(entry.means[metric.name])}" for metric in entry.main_metrics)
    names = [time_text(entry), entry.model, entry.title, entry.setting, own["run"], str(entry.n), scores]
    return [*names, own["encoder"], own["judges"], own["requests"][:_SHORT], below(entry.source, folder)]


def _entry(entry: Entry) -> Iterator[str]:
    yield f"# {_title(entry)}"
    yield f"{time_text(entry)} UTC, {plain(str(entry.source))}"
    if entry.is_sample:
        yield SAMPLE_NOTE
    yield ""
    yield from markdown_table(
        ["metric", "mean", "n"], [[name, mean_text(m), str(m.n)] for name, m in entry.means.items()]
    )
    reasons = [f"  {name}: {n} {reason}" for name, own in entry.unscored.items() for reason, n in own.items()]
    yield from ["", "unscored:", *map(plain, reasons)] if reasons else []
    yield ""
    widest = max(map(len, entry.provenance))
    yield from (f"{name.ljust(widest)}  {plain(value)}" for name, value in entry.provenance.items())


def _pair(pair: Difference) -> Iterator[str]:
    yield f"# {_title(pair.first)}  ->  {_title(pair.second)}"
    yield ""
    rows = [[_CAUSE_OF.get(field.name, ""), field.name, field.first, field.second] for field in pair.fields]
    yield from markdown_table(["decides", "field", "first", "second"], rows) if rows else ["provenance: no difference"]
    yield ""
    means = [
        [item.metric, mean_text(item.first), mean_text(item.second), _signed(item.difference)] for item in pair.means
    ]
    yield from markdown_table(["metric", "first", "second", "second - first"], means)
    yield ""
    yield _verdict(pair)


def _verdict(pair: Difference) -> str:
    if pair.causes:
        return f"not comparable: other {', '.join(pair.causes)}"
    return f"comparable, but asked with other {', '.join(pair.asked)}" if pair.asked else "comparable"


def _title(entry: Entry) -> str:
    return plain(f"{entry.model}: {entry.title}, {entry.setting}")


def _signed(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    text = fixed(value)
    return f"+{text}" if float(text) > 0 else text


__all__ = [
    "SAMPLE_NOTE",
    "below",
    "mean_text",
    "render_differences",
    "render_entries",
    "render_list",
    "render_skipped",
    "time_text",
]
