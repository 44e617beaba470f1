"""The evaluations in a folder of results, with their means and provenance."""

from __future__ import annotations

import glob
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import benchmark_names
from ragtasks.errors import (
    BenchmarkFileError,
    ConfigurationError,
    RagtasksError,
    close_matches,
    excerpt,
    missing_path_error,
)
from ragtasks.files import canonical_hash, parse_json
from ragtasks.metrics import OTHER_SIDE, SIDES, Metric
from ragtasks.records import Setting
from ragtasks.reports.harness_comparison import harness_column, mismatch, names_in_groups
from ragtasks.reports.tables import COSTS, EMPTY, METRICS, checked_answers, column_of, estimate_of
from ragtasks.results import (
    DECISIVE,
    REQUEST_FIELDS,
    UNKNOWN,
    Evaluation,
    ScoredAnswer,
    Summary,
    TaskResults,
    groups_of_others,
    model_of_others,
    names_of_others,
    provenance_of,
    read_evaluations,
    read_harness_tasks,
    read_summaries,
    summaries_of,
    value_at,
)
from ragtasks.statistics import Column, mean_columns
from ragtasks.tables import Value

# The evaluations in a folder: one entry per model, benchmark and setting of a results file. An entry contains means and
# provenance without responses, so that many evaluations fit into little memory. An unreadable file does not hide the
# others: it is listed with the reason.

_RESULTS = re.compile(r"results_(?P<time>.+)\.json")
_SAMPLES = re.compile(r"samples_.+_(?P<time>[^_]+)\.jsonl")
_READ = (".json", ".jsonl")
_LONGEST_REASON = 300
_HASH_DIGITS = 16
# Malformed JSON can fail anywhere in its reading. A listing reports the reason and continues.
_BROKEN = (RagtasksError, OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file without a readable evaluation."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class History:
    """The evaluations in a folder."""

    entries: tuple[Entry, ...]
    """By time, then file, then setting as in the file. Entries without a time are first."""
    skipped: tuple[Skipped, ...]
    """Other files that look like results or logged samples, by name."""


def read_history(folder: Path, *, is_ranked: bool = False, cluster: str = "") -> History:
    """Return the evaluations below a folder or in one results file, and the skipped files.

    lm_eval tasks in groups are left out. `cluster` is the field of the documents of such tasks that names their
    clusters.
    """
    files = _files(folder)
    entries: list[Entry] = []
    skipped: list[Skipped] = []
    used: set[Path] = set()
    for path in files:
        if _RESULTS.fullmatch(path.name) is None:
            continue
        try:
            file_entries, samples = entries_of(path, is_ranked=is_ranked, cluster=cluster)
        except _BROKEN as error:
            skipped.append(Skipped(path, _reason(error, folder)))
        else:
            entries += [entry for entry in file_entries if not entry.is_in_group]
            used |= samples | {path}
    skipped += _foreign(files, used, {skipped_file.path for skipped_file in skipped})
    entries.sort(key=lambda entry: (entry.time.isoformat() if entry.time else "", str(entry.source)))
    return History(tuple(_with_basis(entries)), tuple(sorted(skipped, key=lambda skipped_file: str(skipped_file.path))))


def read_file(path: Path) -> tuple[Entry, ...]:
    """Return the entries of one results file, or of a folder with one.

    Raises:
        BenchmarkFileError: there is not exactly one results file, or it is unreadable.
    """
    file, _ = _only_results_file(path)
    try:
        return tuple(entries_of(file)[0])
    except RagtasksError:
        raise
    except _BROKEN as error:
        raise _results_error(file, f"{type(error).__name__}: {error}") from error


def files_of_results(path: Path) -> list[Path]:
    """Return one results file, or that of a folder, and its samples files."""
    file, time = _only_results_file(path)
    return [file, *sorted(file.parent.glob(f"samples_*_{glob.escape(time)}.jsonl"))]


def _only_results_file(path: Path) -> tuple[Path, str]:
    """Return the only results file at a path or in a folder, and the time in its name."""
    files = [(file, match["time"]) for file in _files(path) if (match := _RESULTS.fullmatch(file.name))]
    if len(files) != 1:
        found = f"{len(files)} results files: {', '.join(str(file) for file, _ in files)}" if files else "none"
        raise _results_error(path, found)
    return files[0]


def _files(folder: Path) -> list[Path]:
    """Return the files in a folder that may belong to an evaluation, by name, or the file itself."""
    if not folder.exists():
        raise missing_path_error("results", folder, "a folder of results, or a results file")
    files = [folder] if folder.is_file() else sorted(path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if path.suffix in _READ]


def select_entries(
    entries: Sequence[Entry],
    *,
    benchmark: str | None = None,
    model: str | None = None,
    setting: str | None = None,
) -> list[Entry]:
    """Return the entries that match all filters, in order."""
    _check("benchmark", benchmark, {*benchmark_names(), *(entry.benchmark for entry in entries)})
    _check("setting", setting, {*(member.value for member in Setting), *(entry.setting for entry in entries)})
    return [
        entry
        for entry in entries
        if benchmark in {None, entry.benchmark, entry.benchmark.removesuffix(SAMPLE)}
        and (model is None or model.casefold() in entry.model.casefold())
        and setting in {None, entry.setting}
    ]


def _check(field: str, name: str | None, names: set[str]) -> None:
    if name is not None and name not in {*names, *(known_name.removesuffix(SAMPLE) for known_name in names)}:
        raise ConfigurationError(f"unknown {field} {name!r}: {close_matches(name, names)}")


def _foreign(files: Iterable[Path], used: set[Path], named: set[Path]) -> Iterator[Skipped]:
    """Yield the files without a used or skipped results file."""
    for path in files:
        match = _SAMPLES.fullmatch(path.name)
        results = path.with_name(f"results_{match['time']}.json") if match else None
        if path in used or path in named or results in named:
            continue
        if results is None:
            yield Skipped(path, "not a results file of the harness (results_*.json)")
        elif results in used:
            yield Skipped(path, "logged samples of a task of another package")
        else:
            yield Skipped(path, "logged samples without their results file")


def _reason(error: Exception, folder: Path) -> str:
    """Return an error as one line of bounded length, without the path of the folder."""
    text = " ".join(str(error).replace(f"{folder}/", "").split())
    line = text if isinstance(error, RagtasksError) else f"broken: {type(error).__name__}: {text}"
    return excerpt(line, _LONGEST_REASON)


def _results_error(path: Path, found: str) -> BenchmarkFileError:
    next_step = "name the folder of --output_path, or one results file in it"
    return BenchmarkFileError(
        "results", where=str(path), expected="a results file of the harness", found=found, next_step=next_step
    )


# One results file as entries: means and provenance per model, benchmark and setting, without responses. Ranked entries
# also have intervals, and the values of the metric that ranks them.

_LISTED = ("rl_f", "rb_llm", "rb_alg", "ans_acc", *(side.name for side in SIDES))
"""The metrics of the MTRAG paper's Table 5, and the two sides of the last one."""
SAMPLE = " (sample)"
"""End of a benchmark's label if it is the shipped sample."""
GROUP = "tasks of the group"
"""Field of provenance of a group of lm_eval tasks."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One model on one benchmark in one setting."""

    source: Path
    time: datetime | None
    """Start of the evaluation, or None if the results have no time."""
    model: str
    metrics: tuple[Metric, ...]
    """The metrics of the entry, in the order of their suite."""
    means: Mapping[str, Value]
    unscored: Mapping[str, Mapping[str, int]]
    """Metric -> reason -> responses without a value for it."""
    n: int
    provenance: Mapping[str, str]
    """Basis of the scores: the fields of `ragtasks.results.provenance_of`."""
    n_tasks: int | None = None
    """Number of tasks in the setting if fewer were evaluated. None if all were evaluated or the number is unknown."""
    ranking: Column | None = None
    """Values by task of the first metric with values and a better direction. None without ranking."""
    costs: Mapping[str, Column] = field(default_factory=dict)
    """Cost of a front -> values by task, if entries are ranked and any answer has it."""
    implausible: tuple[str, ...] = ()
    """Results of the plausibility checks, one per text, if entries are ranked."""
    of_lm_eval: bool = False
    """Whether it is a task or group of lm_eval that is not of ragtasks. Its setting is the number of examples."""
    is_in_group: bool = False
    """Whether it is an lm_eval task that belongs to a group of the same results."""
    harness_task: TaskResults | None = None
    """The lm_eval task with its values by document, if entries are ranked."""
    basis: str = ""
    """Model of the first entry of the same lm_eval task, and why it is not comparable with that. Empty if it is."""

    @property
    def benchmark(self) -> str:
        """Label of the benchmark, with `sample` for a sample."""
        return self.provenance["benchmark"]

    @property
    def title(self) -> str:
        """Label of the benchmark, with the suite if it is not the benchmark's own."""
        suite = self.provenance["suite"]
        name = self.benchmark.partition(" ")[0].rstrip(":")
        return self.benchmark if suite in {name, *benchmark_names()} else f"{self.benchmark}, {suite}"

    @property
    def setting(self) -> str:
        """Name of the setting."""
        return self.provenance["setting"]

    @property
    def is_sample(self) -> bool:
        """Whether the entry is of a sample, so that its scores are not benchmark scores."""
        return self.benchmark.endswith(SAMPLE)

    @property
    def has_empty(self) -> bool:
        """Whether any response has no text."""
        return EMPTY in self.means and bool(self.means[EMPTY].value)

    @property
    def main_metrics(self) -> tuple[Metric, ...]:
        """The paper's metrics with the sides of `ans_acc`, or the suite's first; and `empty` if a response is empty."""
        chosen = tuple(metric for metric in self.metrics if metric.name in _LISTED) or self.metrics[:1]
        return (*chosen, *(metric for metric in self.metrics if metric.name == EMPTY and self.has_empty))


def entries_of(path: Path, *, is_ranked: bool = False, cluster: str = "") -> tuple[list[Entry], set[Path]]:
    """Return the entries of a results file, settings in its order, and the samples files that were read."""
    if is_ranked:
        evaluations = read_evaluations([path], skip_others=True)
        summarized = [(evaluation, summaries_of(evaluation.rows)) for evaluation in evaluations]
    else:
        summarized = read_summaries(path)
    results = parse_json(path.read_bytes())
    entries = [
        entry
        for evaluation, summaries in summarized
        for entry in _entries(evaluation, summaries, results, is_ranked=is_ranked)
    ]
    samples = {sample for evaluation, _ in summarized for sample in evaluation.samples.values()}
    others, other_samples = _entries_of_others(path, results, is_ranked=is_ranked, cluster=cluster)
    if not summarized and not others:
        raise _results_error(path, "no numbers of lm_eval tasks")
    return [*entries, *others], samples | other_samples


def _entries(
    evaluation: Evaluation, summaries: Mapping[str, Summary], results: Mapping[str, Any], *, is_ranked: bool
) -> Iterator[Entry]:
    for setting, summary in summaries.items():
        tasks, metrics_of = evaluation.tasks_in(setting), summary.metrics
        n_tasks = evaluation.n_tasks.get(setting)
        n_tasks = n_tasks if n_tasks is not None and summary.n < n_tasks else None
        means = {metric.name: _mean(metric, summary, tasks, results) for metric in evaluation.metrics}
        counted = {name: replace(mean, n_tasks=n_tasks) for name, mean in means.items() if mean is not None}
        rows = [row for row in evaluation.rows if row.setting == setting]
        for metric in evaluation.metrics if is_ranked else ():
            if metric.name in counted and metric.aggregate is None:
                estimate = estimate_of(rows, metric.name, metric.bounds)
                counted[metric.name] = replace(counted[metric.name], low=estimate.low, high=estimate.high)
        yield Entry(
            source=evaluation.source,
            time=_time(results),
            model=evaluation.model,
            metrics=tuple(metric for metric in evaluation.metrics if metric.name in counted),
            means=counted,
            unscored={name: dict(metrics_of[name].unscored) if name in metrics_of else {} for name in counted},
            n=summary.n,
            provenance=provenance_of(evaluation, tasks, summary, results),
            n_tasks=n_tasks,
            ranking=_ranking(evaluation, counted, rows) if is_ranked else None,
            costs={name: column_of(rows, METRICS[name], evaluation.model) for name in COSTS if name in counted}
            if is_ranked
            else {},
            implausible=tuple(check.description for check in checked_answers(rows).summary),
        )


def _ranking(evaluation: Evaluation, means: Mapping[str, Value], rows: Sequence[ScoredAnswer]) -> Column | None:
    metrics = [metric for metric in evaluation.metrics if metric.name not in METRICS]
    directed = (metric for metric in metrics if metric.higher_is_better is not None and metric.aggregate is None)
    ranking_metric = next(
        (metric for metric in directed if metric.name in means and means[metric.name].value is not None), None
    )
    return None if ranking_metric is None else column_of(rows, ranking_metric, evaluation.model)


def _mean(metric: Metric, summary: Summary, tasks: Sequence[str], results: Mapping[str, Any]) -> Value | None:
    """Return the mean of a metric, or None if the responses do not have the metric.

    The harness weights its own means of groups by all documents instead of scored ones, so they are not used.
    """
    if metric.aggregate is not None:
        return _aggregate(metric.name, summary.n, tasks, results)
    if metric.is_balanced:
        return _balanced(summary)
    metric_summary = summary.metrics.get(metric.name)
    if metric_summary is None:
        return None
    n = metric_summary.n - metric_summary.unscored.get(OTHER_SIDE, 0)
    return Value(metric_summary.mean, metric_summary.n_scored, n)


def _balanced(summary: Summary) -> Value | None:
    """Return the balanced mean, without a value if a side has none; None for summaries of earlier versions."""
    sides = [summary.metrics[metric.name] for metric in SIDES if metric.name in summary.metrics]
    if len(sides) < 2:
        return None
    means = [side.mean for side in sides if side.mean is not None]
    value = sum(means) / 2 if len(means) == 2 else None
    return Value(value, sum(side.n_scored for side in sides) if value is not None else 0, summary.n)


def _aggregate(name: str, n: int, tasks: Sequence[str], results: Mapping[str, Any]) -> Value | None:
    """Return a score over all responses together, as the harness computed it; without a value for several tasks."""
    scores = [score for task in tasks for score in (value_at(results, "results", task) or {}).items()]
    values = [value for key, value in scores if key.partition(",")[0] == name]
    if not values:
        return None
    value = values[0] if len(tasks) == 1 and isinstance(values[0], float | int) else None
    return Value(value, n if value is not None else 0, n)


def _time(results: Mapping[str, Any]) -> datetime | None:
    began = results.get("date")
    try:
        return datetime.fromtimestamp(began, timezone.utc).replace(microsecond=0) if began else None
    except (TypeError, ValueError, OverflowError, OSError):
        return None


# lm_eval tasks of others as entries: the numbers of the results file. Ranked entries also have the values of the first
# metric that has any, from the logged samples.


def _entries_of_others(
    path: Path, results: Mapping[str, Any], *, is_ranked: bool, cluster: str
) -> tuple[list[Entry], set[Path]]:
    """Return the groups and tasks of others in a results file, groups first, and the samples files of the tasks."""
    names = names_of_others(results)
    groups = groups_of_others(results)
    has_own = len(names) < len(results["configs"])
    try:
        read = read_harness_tasks([path], cluster=cluster) if is_ranked and names else []
    except BenchmarkFileError:
        if not has_own:
            raise
        read = []  # without samples, which our tasks in the file do not need
    tasks = {task.name: task for task in read}
    members_of = {**groups, **{name: [name] for name in names}}
    entries = [_entry_of_task(path, results, name, own, tasks.get(name)) for name, own in members_of.items()]
    entries = [entry for entry in entries if entry.means]
    in_groups = names_in_groups({entry.benchmark: groups.get(entry.benchmark, ()) for entry in entries})
    entries = [replace(entry, is_in_group=entry.benchmark in in_groups) for entry in entries]
    match = _RESULTS.fullmatch(path.name)
    return entries, {path.with_name(f"samples_{name}_{match['time'] if match else ''}.jsonl") for name in names}


def _entry_of_task(
    path: Path, results: Mapping[str, Any], name: str, members: Sequence[str], task: TaskResults | None
) -> Entry:
    reported = {key: value for key, value in (value_at(results, "results", name) or {}).items() if "," in key}
    sizes = [(value_at(results, "n-samples", member) or {}) for member in members]
    n, n_offered = (sum(size.get(key) or 0 for size in sizes) for key in ("effective", "original"))
    n = n or (len(task.documents) if task else 0)  # earlier versions write no sizes
    metrics, means = [], {}
    for key, value in reported.items():
        metric, _, filter_name = key.partition(",")
        is_score = isinstance(value, float | int) and math.isfinite(value) and metric != "bypass"  # of --predict_only
        if metric.endswith("_stderr") or not is_score:
            continue
        full = metric if filter_name == "none" else key
        found = task.metrics.get(full) if task else None
        direction = found.higher_is_better if found else value_at(results, "higher_is_better", name, metric)
        description = f"`{metric}` of lm_eval" + (f" after the filter `{filter_name}`" if filter_name != "none" else "")
        metrics.append(Metric(full, description, direction if isinstance(direction, bool) else None))
        means[full] = Value(value, n, n)
    columns = _columns_of(task, metrics)
    for key, mean in zip(columns, mean_columns(list(columns.values())), strict=True):
        means[key] = replace(means[key], low=mean.estimate.low, high=mean.estimate.high)
    directed = [metric.name for metric in metrics if metric.name in columns and metric.higher_is_better is not None]
    return Entry(
        source=path,
        time=_time(results),
        model=model_of_others(results),
        metrics=tuple(sorted(metrics, key=lambda metric: bool(columns) and metric.name not in columns)),
        means=means,
        unscored={},
        n=n,
        provenance=_provenance_of_task(results, name, members, n),
        n_tasks=n_offered if n < n_offered else None,
        ranking=columns[directed[0]] if directed else None,
        of_lm_eval=True,
        harness_task=task,
    )


def _columns_of(task: TaskResults | None, metrics: Iterable[Metric]) -> dict[str, Column]:
    """Return metric -> its values by document."""
    found = [] if task is None else [task.metrics[metric.name] for metric in metrics if metric.name in task.metrics]
    return {metric.name: harness_column(task, metric, task.name) for metric in found if task and not metric.refused}


def _provenance_of_task(results: Mapping[str, Any], name: str, members: Sequence[str], n: int) -> dict[str, str]:
    """Return the basis of the scores of a task or group. The hash is that of its documents, prompts and targets."""
    hashes = [str(value_at(results, "task_hashes", member)) for member in members]
    shots = dict.fromkeys(str(value_at(results, "n-shot", member)) for member in members)
    generation = [value_at(results, "configs", member, "generation_kwargs") for member in members]
    template = value_at(results, "chat_template_sha")
    known = {
        "benchmark": name,
        "data revision": f"version {value_at(results, 'versions', name)}",
        "suite": name.partition(" ")[0].rstrip(":"),
        "setting": f"{', '.join(shots)}-shot",
        "tasks": f"{n} ({canonical_hash(hashes)[:_HASH_DIGITS]})",
        "system instruction": value_at(results, "system_instruction"),
        "model": model_of_others(results),
        "chat template applied": "yes" if template else "no",
        "chat template": template,
        "generation options": json.dumps(generation[0], sort_keys=True) if any(generation) else None,
        "limit": value_at(results, "config", "limit"),
        GROUP: ", ".join(members) if list(members) != [name] else None,
        "harness version": value_at(results, "lm_eval_version"),
        "transformers version": value_at(results, "transformers_version"),
        "git commit": value_at(results, "git_hash"),
    }
    fields = dict.fromkeys((*DECISIVE, "run", "requests", *REQUEST_FIELDS), UNKNOWN)
    return fields | {field: str(text) for field, text in known.items() if text not in (None, "")}


def _with_basis(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the entries with their basis, which is equal for comparable results of an lm_eval task only."""
    bases: dict[str, list[Entry]] = {}
    for entry in entries:
        task = entry.harness_task
        if task is None:
            yield entry
            continue
        known = bases.setdefault(entry.benchmark, [])
        reasons = [mismatch(first.harness_task, task) for first in known if first.harness_task]
        number = reasons.index("") if "" in reasons else len(reasons)
        basis = f"{known[0].model}: {reasons[0].partition('. Next step')[0]}" if number else ""
        if number == len(reasons):
            known.append(replace(entry, basis=basis))
        first = known[number]
        shared = {field: first.provenance[field] for field in DECISIVE}
        if number:
            shared["tasks"] += f" #{number + 1}"
        yield replace(entry, basis=basis, provenance={**entry.provenance, **shared})
