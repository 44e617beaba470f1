"""Results of lm_eval tasks of others as sides of a gate: what is tested, and when two sides match."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.metrics import Metric
from ragtasks.reports.harness_comparison import harness_column, mismatch, names_in_groups
from ragtasks.results import HarnessMetric, TaskResults
from ragtasks.statistics import Column

_OWN_MEANS = {"mean", "nanmean", "brier_score"}
"""Aggregations with a score for each document. With others, a document's value is its effect on the number."""


def metrics_of_tasks(tasks: Sequence[TaskResults]) -> dict[str, Metric]:
    """Return the metrics with values of documents and a better direction, with the bounds of all tasks."""
    metrics: dict[str, Metric] = {}
    for task in tasks:
        for name, found in task.metrics.items():
            if _obstacle(found):
                continue
            low, high = metrics[name].bounds if name in metrics else found.bounds
            bounds = (min(low, found.bounds[0]), max(high, found.bounds[1]))
            description = f"`{name}` of lm_eval"
            metrics[name] = Metric(name, description, higher_is_better=found.higher_is_better, bounds=bounds)
    return metrics


def _obstacle(metric: HarnessMetric) -> str:
    """Return why a metric is not tested. Empty if it is."""
    return metric.refused or ("no better direction is known" if metric.higher_is_better is None else "")


def chosen_tasks(tasks: Sequence[TaskResults], metric: str, named: Collection[str] = ()) -> list[TaskResults]:
    """Return the tasks and groups with a metric. The tasks of a group with the metric are left out unless named."""
    offering = [task for task in tasks if metric in task.metrics and not _obstacle(task.metrics[metric])]
    inside = names_in_groups({task.name: task.members for task in offering})
    return [task for task in offering if task.name in named or task.name not in inside]


def with_filters(margins: Mapping[str, float], offered: Collection[str]) -> dict[str, float]:
    """Return the margins by metric and filter, as `offered`. A metric without a filter stands for all its filters."""
    given = {name.removesuffix(",none"): margin for name, margin in margins.items()}
    expanded = {
        full: margin
        for name, margin in given.items()
        for full in ([other for other in offered if other.partition(",")[0] == name] or [name])
        if name not in offered
    }
    return expanded | {name: margin for name, margin in given.items() if name in offered}


def require_gated(tasks: Sequence[TaskResults], margins: Collection[str], named: Collection[str]) -> None:
    """Raise ConfigurationError for a metric without values of documents, or an unknown task."""
    for name in margins:
        refusals = [_obstacle(task.metrics[name]) for task in tasks if name in task.metrics]
        if refusals and all(refusals):
            raise ConfigurationError(f"gate: no test of {name}: {refusals[0]}. Next step: use a margin for another")
    names = [task.name for task in tasks]
    for name in named:
        if name not in names:
            raise ConfigurationError(f"--slice {name}: no task or group of these results: {close_matches(name, names)}")


def harness_pairs(
    candidate: Sequence[TaskResults], baseline: Sequence[TaskResults], metric: str, named: Collection[str]
) -> Iterator[tuple[str, Metric, tuple[Column, Column], frozenset[str], str]]:
    """Yield each chosen task and group with its metric, both sides, unchanged documents and name of the clusters.

    Both results must match. The sides are the values of the baseline and of the candidate for the same documents.
    """
    others = {task.name: task for task in candidate}
    for task in chosen_tasks(baseline, metric, named):
        other = others[task.name]
        clustered = other if other.cluster else task
        clusters = {item: document.cluster for item, document in clustered.documents.items()}
        before, after = (
            replace(harness_column(side, side.metrics[metric], task.name), cluster_of=clusters)
            for side in (task, other)
        )
        after = replace(after, values={item: after.values.get(item) for item in before.values})
        unchanged = {
            item
            for item, document in task.documents.items()
            if document.response and document.response == other.documents[item].response
        }
        if task.metrics[metric].aggregation not in _OWN_MEANS and len(unchanged) < len(task.documents):
            unchanged = set()
        units = f"clusters ({clustered.cluster})" if clustered.cluster else "documents"
        described = replace(metrics_of_tasks([task])[metric], bounds=task.metrics[metric].bounds)
        yield task.name, described, (before, after), frozenset(unchanged), units


def harness_mismatches(
    candidate: Sequence[TaskResults], baseline: Sequence[TaskResults], margins: Collection[str], named: Collection[str]
) -> tuple[list[str], list[str]]:
    """Return the differences that prevent a test, and those that do not."""
    others = {task.name: task for task in candidate}
    problems: dict[str, None] = {}
    notes: dict[str, None] = {}
    for metric in margins:
        for task in chosen_tasks(baseline, metric, named):
            other = others.get(task.name)
            if other is None:
                problems[f"task {task.name} is in the baseline only"] = None
            elif reason := mismatch(task, other):
                problems[f"{task.name}: {reason}"] = None
            elif metric not in other.metrics or _obstacle(other.metrics[metric]):
                problems[f"{metric} in {task.name} is in the baseline only"] = None
            elif len({task.metrics[metric].by_size, other.metrics[metric].by_size} - {None}) > 1:
                problems[f"{task.name}: weighted by documents on one side and by tasks on the other"] = None
            elif task.generation != other.generation:
                notes[f"differs: generation options in {task.name}"] = None
    names = {task.name for task in baseline}
    more = [task.name for task in candidate if task.name not in names]
    notes |= dict.fromkeys(f"not tested: task {name}, which the baseline does not have" for name in more)
    untested = [(metric, task) for metric in margins for task in baseline if metric in task.metrics]
    notes |= {
        f"not tested: {metric} in {task.name}: {why}": None
        for metric, task in untested
        if (why := _obstacle(task.metrics[metric]))
    }
    return list(problems), list(notes)
