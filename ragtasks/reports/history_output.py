"""The evaluations of a folder as text: a list, one evaluation in full, and the differences of two.

Provenance comes first, then means. A difference of means is meaningful only if both have the same data, encoder, judges
and prompts; otherwise the causes are named. Other differences between the requests may be the purpose of the
comparison, and are listed too. Names come from files by anyone, so characters that a terminal would act on are escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ragtasks.errors import ConfigurationError, excerpt
from ragtasks.reports.history import Entry, Skipped
from ragtasks.results import CAUSES, REQUEST_FIELDS, SCORED_BY, UNKNOWN, causes_of
from ragtasks.tables import Value, cell_text, fixed, markdown_table, plain

SAMPLE_NOTE = "Scores on a sample are not benchmark scores."
_INTERVALS = "`ragtasks compare` adds intervals over conversations to the differences."
_SHORT = 8  # digits of a hash
_MOST_CHARACTERS = 60  # for a setting that differs
_CAUSE_OF = {field: cause for cause, fields in CAUSES.items() for field in fields}


@dataclass(frozen=True, slots=True)
class EntryPair:
    """Two entries to compare."""

    first: Entry
    second: Entry

    @property
    def fields(self) -> dict[str, tuple[str, str]]:
        """Field of provenance that differs -> its text in the first and in the second."""
        fields = {name: (text, self.second.provenance[name]) for name, text in self.first.provenance.items()}
        return {name: both for name, both in fields.items() if both[0] != both[1]}

    @property
    def means(self) -> dict[str, tuple[Value | None, Value | None]]:
        """Metric of either entry -> its mean in the first and in the second."""
        names = dict.fromkeys([*self.first.means, *self.second.means])
        return {name: (self.first.means.get(name), self.second.means.get(name)) for name in names}

    @property
    def causes(self) -> list[str]:
        """Causes of incomparable scores: `data`, `encoder`, `retriever`, `judges`, `prompts`. Empty if comparable."""
        return causes_of(self.fields)

    @property
    def request_fields(self) -> list[str]:
        """The fields of the requests that differ. The scores are still comparable."""
        return [name for name in self.fields if name in REQUEST_FIELDS]


@dataclass(frozen=True, slots=True)
class ResultsDiff:
    """Differences between two results files."""

    pairs: tuple[EntryPair, ...]
    """Benchmarks and settings of both files. If each file has only one, these two."""
    only_first: tuple[Entry, ...]
    """Entries that the second file does not have."""
    only_second: tuple[Entry, ...]

    @property
    def comparable(self) -> bool:
        """Whether all scores are comparable with their counterparts."""
        return not any(pair.causes for pair in self.pairs)


def diff_entries(first: Sequence[Entry], second: Sequence[Entry]) -> ResultsDiff:
    """Return the differences between the entries of two results files."""
    ours, theirs = (
        {(entry.benchmark, entry.provenance["suite"], entry.setting): entry for entry in entries}
        for entries in (first, second)
    )
    shared = [key for key in ours if key in theirs]
    if len(ours) == len(theirs) == 1:
        return ResultsDiff((EntryPair(first[0], second[0]),), (), ())
    if not shared:
        raise ConfigurationError(f"no benchmark and setting in common: {_names_of(first)} against {_names_of(second)}")
    return ResultsDiff(
        tuple(EntryPair(ours[key], theirs[key]) for key in shared),
        tuple(entry for key, entry in ours.items() if key not in theirs),
        tuple(entry for key, entry in theirs.items() if key not in ours),
    )


def _names_of(entries: Iterable[Entry]) -> str:
    return ", ".join(f"{entry.title} {entry.setting}" for entry in entries)


def render_list(entries: Sequence[Entry], folder: Path) -> str:
    """Return one line per evaluation, with paths relative to the folder."""
    header = ["time", "model", "benchmark", "setting", "run", "n", "scores", "encoder", "judges", "requests", "file"]
    rows = []
    for entry in entries:
        provenance, metrics = entry.provenance, entry.main_metrics
        scores = ", ".join(f"{metric.name} {mean_text(entry.means[metric.name])}" for metric in metrics)
        # Scores of our tasks contain the total; those of lm_eval tasks may have no meaning for missing documents.
        n = f"{entry.n} of {entry.n_tasks}" if entry.of_lm_eval and entry.n_tasks else str(entry.n)
        names = (time_text(entry), entry.model, entry.title, entry.setting, provenance["run"], n, scores)
        requests, file = provenance["requests"][:_SHORT], below(entry.source, folder)
        rows.append((*names, provenance["encoder"], provenance["judges"], requests, file))
    table = markdown_table(header, rows)
    notes = [SAMPLE_NOTE] if any(entry.is_sample for entry in entries) else []
    return "\n".join([*table, "", f"evaluations: {len(entries)}", *notes])


def render_skipped(skipped: Sequence[Skipped], folder: Path) -> str:
    """Return one line per skipped file with the reason. Empty without any."""
    lines = [f"  {plain(below(skipped_file.path, folder))}: {plain(skipped_file.reason)}" for skipped_file in skipped]
    return "\n".join([f"skipped files: {len(lines)}", *lines]) if lines else ""


def render_entries(entries: Iterable[Entry]) -> str:
    """Return scores and full provenance of each entry."""
    return "\n\n".join("\n".join(_entry(entry)) for entry in entries)


def render_differences(diff: ResultsDiff) -> str:
    """Return the differences of each pair, and whether the scores are comparable."""
    parts = ["\n".join(_pair(pair)) for pair in diff.pairs]
    for which, entries in (("first", diff.only_first), ("second", diff.only_second)):
        parts += [f"only in the {which}: {_title(entry)}" for entry in entries]
    return "\n\n".join([*parts, _INTERVALS])


def below(path: Path, folder: Path) -> str:
    """Return a path relative to a folder, or unchanged if it is outside the folder."""
    return path.relative_to(folder).as_posix() if path != folder and path.is_relative_to(folder) else str(path)


def mean_text(mean: Value | None) -> str:
    """Return a mean with its coverage if responses are unscored or tasks are missing. A dash without a mean."""
    if mean is None or mean.value is None:
        return UNKNOWN
    text = cell_text(replace(mean, low=None, high=None, n_tasks=None))
    as_zero = fixed(mean.with_missing_as_zero or 0.0)
    return f"{text} ({mean.missing}; {as_zero} with missing tasks as 0)" if mean.missing else text


def time_text(entry: Entry) -> str:
    """Return the start of an evaluation in UTC, to the minute."""
    return entry.time.strftime("%Y-%m-%d %H:%M") if entry.time else UNKNOWN


def _entry(entry: Entry) -> Iterator[str]:
    yield f"# {_title(entry)}"
    yield f"{time_text(entry)} UTC, {plain(str(entry.source))}"
    if entry.is_sample:
        yield SAMPLE_NOTE
    yield ""
    yield from markdown_table(
        ["metric", "mean", "n"], [[name, mean_text(m), str(m.n)] for name, m in entry.means.items()]
    )
    unscored = [(name, n, reason) for name, counts in entry.unscored.items() for reason, n in counts.items()]
    lines = [plain(f"  {name}: {n} {reason}") for name, n, reason in unscored]
    yield from ["", "unscored:", *lines] if lines else []
    yield ""
    # lm_eval tasks of others have few of these fields.
    fields = {name: text for name, text in entry.provenance.items() if not entry.of_lm_eval or text != UNKNOWN}
    widest = max(map(len, fields))
    yield from (f"{name.ljust(widest)}  {plain(value)}" for name, value in fields.items())


def _pair(pair: EntryPair) -> Iterator[str]:
    yield f"# {_title(pair.first)}  ->  {_title(pair.second)}"
    yield ""
    fields = {name: [excerpt(text, _MOST_CHARACTERS) for text in both] for name, both in pair.fields.items()}
    rows = [[_CAUSE_OF.get(name, ""), name, *both] for name, both in fields.items()]
    yield from markdown_table(["cause", "field", "first", "second"], rows) if rows else ["provenance: no differences"]
    yield ""
    rows = []
    for name, (first, second) in pair.means.items():
        values = (first and first.value, second and second.value)
        gap = UNKNOWN if None in values else fixed((values[1] or 0.0) - (values[0] or 0.0), signed=True)
        rows.append([name, mean_text(first), mean_text(second), gap])
    yield from markdown_table(["metric", "first", "second", "second - first"], rows)
    yield ""
    yield _verdict(pair)


def _verdict(pair: EntryPair) -> str:
    if pair.causes:
        return f"not comparable: different {', '.join(pair.causes)}"
    fields = [name for name in pair.request_fields if name != SCORED_BY]
    notes = [f"requested with different {', '.join(fields)}"] * bool(fields)
    notes += ["scored by different versions of ragtasks"] * (SCORED_BY in pair.request_fields)
    return f"comparable, but {' and '.join(notes)}" if notes else "comparable"


def _title(entry: Entry) -> str:
    return plain(f"{entry.model}: {entry.title}, {entry.setting}")
