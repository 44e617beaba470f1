"""Which part of the page each evaluation goes to, under which name, and what its losses are measured from."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragtasks.metrics.metric import Metric
from ragtasks.records import Setting
from ragtasks.reports.results import Evaluation, Kind, Row

Group = tuple[Kind, str]
"""Kind and suite of evaluations: what may be compared."""


@dataclass(frozen=True, slots=True)
class Named:
    """An evaluation with logged samples, and its name on the page."""

    evaluation: Evaluation
    """As read."""
    model: str
    """Name of the model: `NAME #2` for a second answer to the same tasks."""
    group: Group
    """What it may be compared with."""
    metric: Metric | None
    """The figure that losses are of: the suite's first that any of the group has; None where none has."""
    references: Mapping[str, float | None]
    """Task id -> the model's figure in the setting `reference`; empty where it was not evaluated there."""

    def loss(self, row: Row) -> float | None:
        """Return how much worse a response is than that to the reference passages; None where that is not known."""
        before, after = self.references.get(row.task_id), row.values.get(self.metric.name) if self.metric else None
        if self.metric is None or before is None or after is None:
            return None
        return before - after if self.metric.higher_is_better else after - before


def name_evaluations(evaluations: Sequence[Evaluation]) -> list[Named]:
    """Return the evaluations that have logged samples, named as in the tables, in the order given.

    Evaluations of one model that share no task of a setting have one name; where they do, the later are `NAME #2`.
    """
    logged = [evaluation for evaluation in evaluations if evaluation.samples]
    names = _names(logged)
    metrics = {group: _first_metric(logged, group) for group in {_group(item) for item in logged}}
    references: dict[tuple[Group, str], dict[str, float | None]] = {}
    for evaluation, name in zip(logged, names, strict=True):
        metric = metrics[_group(evaluation)]
        own = references.setdefault((_group(evaluation), name), {})
        if metric is not None:
            rows = [row for row in evaluation.rows if row.setting == Setting.REFERENCE.value]
            own.update((row.task_id, row.values.get(metric.name)) for row in rows)
    return [
        Named(item, name, _group(item), metrics[_group(item)], references[_group(item), name])
        for item, name in zip(logged, names, strict=True)
    ]


def group_labels(groups: Sequence[Group]) -> dict[Group, str]:
    """Return what tells groups apart, in words: only where they differ, so nothing for a single one."""
    parts = {
        (kind, suite): (kind[0], f"suite {suite}", f"encoder {kind[1]}", f"refusals found by {kind[2]}")
        for kind, suite in groups
    }
    differing = [at for at in range(4) if len({own[at] for own in parts.values()}) > 1]
    return {group: "; ".join(own[at] for at in differing) for group, own in parts.items()}


def _names(evaluations: Sequence[Evaluation]) -> list[str]:
    taken: dict[tuple[Group, str], set[tuple[str, str]]] = {}
    names = []
    for evaluation in evaluations:
        own = {(row.setting, row.task_id) for row in evaluation.rows}
        for number in itertools.count(1):
            name = evaluation.model if number == 1 else f"{evaluation.model} #{number}"
            before = taken.setdefault((_group(evaluation), name), set())
            if before.isdisjoint(own):
                before |= own
                names.append(name)
                break
    return names


def _group(evaluation: Evaluation) -> Group:
    return evaluation.kind, evaluation.suite


def _first_metric(evaluations: Sequence[Evaluation], group: Group) -> Metric | None:
    own = [evaluation for evaluation in evaluations if _group(evaluation) == group]
    rows = [row for evaluation in own for row in evaluation.rows]
    present = {name for row in rows for name, value in row.values.items() if value is not None}
    return next((metric for metric in own[0].metrics if metric.name in present), None)


__all__ = ["Group", "Named", "group_labels", "name_evaluations"]
