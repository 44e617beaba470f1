"""One results file as entries: means and provenance of each model, benchmark and setting, without the responses.

Where entries are to be ranked they come with intervals, and with the scores by the one metric that ranks them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import benchmark_names
from ragtasks.files import parse_json
from ragtasks.logs import UNKNOWN, Evaluation, Row, provenance_of, read_evaluations, value_at
from ragtasks.metrics import Metric
from ragtasks.reports.tables import EMPTY, missing_from
from ragtasks.statistics import Column, cluster, estimate_means

_PAPER_METRICS = ("rl_f", "rb_llm", "rb_alg", "ans_acc")  # of the MTRAG paper's Table 5
SAMPLE = " (sample)"
"""How a benchmark's label ends where it is the shipped sample."""


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of one metric over the responses that it could score."""

    value: float | None
    """The mean; None where no response is scored, or where it cannot be had from what was logged."""
    n_scored: int
    """Responses with a value."""
    n: int
    """Responses."""
    n_tasks: int | None = None
    """Tasks that the setting has, where fewer were evaluated; None where none is missing."""
    low: float | None = None
    """Lower end of its 95 % interval over conversations; None where there is none, or none was asked for."""
    high: float | None = None
    """Upper end of it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One model on one benchmark in one setting."""

    source: Path
    """The results file."""
    time: datetime | None
    """When the evaluation began; None where the results do not say."""
    model: str
    """Name for the tables."""
    metrics: tuple[Metric, ...]
    """The metrics that it has, in the order of their suite."""
    means: Mapping[str, Mean]
    """Metric -> its mean."""
    unscored: Mapping[str, Mapping[str, int]]
    """Metric -> reason -> responses without a value for it."""
    n: int
    """Responses."""
    provenance: Mapping[str, str]
    """What the scores rest on: the fields of `ragtasks.logs.provenance_of`."""
    n_tasks: int | None = None
    """Tasks that the setting has, where fewer were evaluated; None where none is missing, or nobody knows."""
    ranking: Column | None = None
    """Task by task, its first metric that has a value and a better direction; None where none was asked for."""

    @property
    def benchmark(self) -> str:
        """Label of the benchmark, which says `sample` where it is one."""
        return self.provenance["benchmark"]

    @property
    def title(self) -> str:
        """Label of the benchmark, with the suite where that is no benchmark's: the same tasks, other metrics."""
        suite = self.provenance["suite"]
        return self.benchmark if suite in benchmark_names() else f"{self.benchmark}, {suite}"

    @property
    def setting(self) -> str:
        """The setting."""
        return self.provenance["setting"]

    @property
    def is_sample(self) -> bool:
        """Whether its scores are not benchmark scores."""
        return self.benchmark.endswith(SAMPLE)

    @property
    def has_empty(self) -> bool:
        """Whether any response is without text."""
        return EMPTY in self.means and bool(self.means[EMPTY].value)

    @property
    def main_metrics(self) -> tuple[Metric, ...]:
        """The paper's metrics that it has, else its suite's first; and `empty` where any response is."""
        own = tuple(metric for metric in self.metrics if metric.name in _PAPER_METRICS) or self.metrics[:1]
        return (*own, *(metric for metric in self.metrics if metric.name == EMPTY and self.has_empty))


def entries_of(path: Path, *, is_ranked: bool = False) -> tuple[list[Entry], set[Path]]:
    """Return the entries of a results file, settings in its order, and the sample files that they were read from.

    Args:
        path: the results file.
        is_ranked: whether entries come with intervals and with the scores that rank them.

    Raises:
        RagtasksError: it is broken, is not of ragtasks, or has a task more than once in a setting.
        OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError: JSON of another shape.
    """
    evaluations = read_evaluations([path])
    results = parse_json(path.read_bytes())
    entries = [entry for item in evaluations for entry in _entries(item, results, is_ranked=is_ranked)]
    return entries, {sample for evaluation in evaluations for sample in evaluation.samples.values()}


def _entries(evaluation: Evaluation, results: Mapping[str, Any], *, is_ranked: bool) -> Iterator[Entry]:
    rows_of: dict[str, list[Row]] = {}
    for row in evaluation.rows:
        rows_of.setdefault(row.setting, []).append(row)
    for setting, rows in rows_of.items():
        tasks = _tasks(evaluation, setting, results)
        n_tasks = missing_from(rows, evaluation.n_tasks.get(setting))
        means = {metric.name: _mean(metric, rows, tasks, results) for metric in evaluation.metrics}
        kept = {name: replace(mean, n_tasks=n_tasks) for name, mean in means.items() if mean is not None}
        if is_ranked:
            kept = _with_intervals(kept, evaluation.metrics, rows)
        yield Entry(
            source=evaluation.source,
            time=_time(results),
            model=evaluation.model,
            metrics=tuple(metric for metric in evaluation.metrics if metric.name in kept),
            means=kept,
            unscored={name: _reasons(name, rows) for name in kept},
            n=len(rows),
            provenance=provenance_of(evaluation, tasks, rows, results),
            n_tasks=n_tasks,
            ranking=_ranking(evaluation, kept, rows) if is_ranked else None,
        )


def _with_intervals(means: Mapping[str, Mean], metrics: Sequence[Metric], rows: Sequence[Row]) -> dict[str, Mean]:
    """Return the means, those that are of tasks with their intervals."""
    conversations = [row.conversation_id for row in rows]
    own = [metric for metric in metrics if metric.name in means and metric.aggregate is None]
    columns = [cluster([row.values.get(metric.name) for row in rows], conversations, metric.bounds) for metric in own]
    ends = {metric.name: found for metric, found in zip(own, estimate_means(columns), strict=True)}
    return {
        name: replace(mean, low=ends[name].low, high=ends[name].high) if name in ends else mean
        for name, mean in means.items()
    }


def _ranking(evaluation: Evaluation, means: Mapping[str, Mean], rows: Sequence[Row]) -> Column | None:
    directed = (item for item in evaluation.metrics if item.higher_is_better is not None and item.aggregate is None)
    metric = next((item for item in directed if item.name in means and means[item.name].value is not None), None)
    if metric is None:
        return None
    return Column(
        context="",
        group="",
        metric=metric.name,
        name=evaluation.model,
        values={row.task_id: row.values.get(metric.name) for row in rows},
        cluster_of={row.task_id: row.conversation_id for row in rows},
        bounds=metric.bounds,
        higher_is_better=metric.higher_is_better,
    )


def _tasks(evaluation: Evaluation, setting: str, results: Mapping[str, Any]) -> list[str]:
    """Return the harness tasks of a setting; where the results do not say which, all of the evaluation."""
    setting_of = {task: value_at(results, "configs", task, "dataset_kwargs", "setting") for task in evaluation.samples}
    return [task for task, value in setting_of.items() if value == setting] or list(evaluation.samples)


def _mean(metric: Metric, rows: Sequence[Row], tasks: Sequence[str], results: Mapping[str, Any]) -> Mean | None:
    """Return the mean of a metric, None where the rows do not know it.

    The harness's own means of groups weigh with all documents instead of the scored ones, so they are not used.
    """
    if metric.aggregate is not None:
        return _of_all(metric.name, len(rows), tasks, results)
    values = [row.values[metric.name] for row in rows if metric.name in row.values]
    scored = [value for value in values if value is not None]
    return Mean(sum(scored) / len(scored) if scored else None, len(scored), len(values)) if values else None


def _of_all(name: str, n: int, tasks: Sequence[str], results: Mapping[str, Any]) -> Mean | None:
    """Return a score of all responses together, as the harness computed it; of several harness tasks there is none."""
    scores = [value_at(results, "results", task) or {} for task in tasks]
    found = [value for own in scores for key, value in own.items() if key.partition(",")[0] == name]
    if not found:
        return None
    value = found[0] if len(tasks) == 1 and isinstance(found[0], float | int) else None
    return Mean(value, n if value is not None else 0, n)


def _reasons(name: str, rows: Iterable[Row]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in rows:
        if row.values.get(name, 0) is None:
            reason = str(row.unscored.get(name, UNKNOWN))
            counts[reason] = counts.get(reason, 0) + 1
    return counts


def _time(results: Mapping[str, Any]) -> datetime | None:
    began = results.get("date")
    try:
        return datetime.fromtimestamp(began, timezone.utc).replace(microsecond=0) if began else None
    except (TypeError, ValueError, OverflowError, OSError):
        return None


__all__ = ["SAMPLE", "Entry", "Mean", "entries_of"]
