"""Which part of the page each evaluation goes to, under which name, and what its losses are measured from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragtasks.logs import UNKNOWN, Evaluation, Group, Row, group_of, model_names
from ragtasks.metrics import Metric
from ragtasks.records import Setting

_WORDS = {"benchmark": "", "metrics": "suite", "encoder of BERTScore": "encoder", "IDK detector": "refusals found by"}


@dataclass(frozen=True, slots=True)
class Named:
    """An evaluation with logged samples, and its name on the page."""

    evaluation: Evaluation
    """As read."""
    model: str
    """Name of the model, as in the tables."""
    group: Group
    """What it may be compared with."""
    metric: Metric | None
    """The score that losses are of: the first asked for, else the suite's first, that any of the group has; None where
    none has.
    """
    references: Mapping[str, float | None]
    """Task id -> the model's score in the setting `reference`; empty where it was not evaluated there."""

    def loss(self, row: Row) -> float | None:
        """Return how much worse a response is than that to the reference passages; None where that is not known."""
        before, after = self.references.get(row.task_id), row.values.get(self.metric.name) if self.metric else None
        if self.metric is None or self.metric.higher_is_better is None or before is None or after is None:
            return None
        return before - after if self.metric.higher_is_better else after - before


def name_evaluations(evaluations: Sequence[Evaluation], metrics: Sequence[str] = ()) -> list[Named]:
    """Return the evaluations that have logged samples, named as in the tables, in the order given.

    See `ragtasks.logs.model_names`.

    Args:
        evaluations: as from `read_evaluations`.
        metrics: names of those that losses may be of, the first that a group has; empty, or none of them there: the
            suite's first.
    """
    names_of = zip(evaluations, model_names(evaluations), strict=True)
    named = [(evaluation, name, group_of(evaluation)) for evaluation, name in names_of if evaluation.samples]
    members: dict[Group, list[Evaluation]] = {}
    for evaluation, _, group in named:
        members.setdefault(group, []).append(evaluation)
    first = {group: _first_metric(own, metrics) for group, own in members.items()}
    references: dict[tuple[Group, str], dict[str, float | None]] = {}
    for evaluation, name, group in named:
        metric, own = first[group], references.setdefault((group, name), {})
        if metric is not None:
            rows = [row for row in evaluation.rows if row.setting == Setting.REFERENCE.value]
            own.update((row.task_id, row.values.get(metric.name)) for row in rows)
    return [Named(item, name, group, first[group], references[group, name]) for item, name, group in named]


def group_labels(groups: Sequence[Group]) -> dict[Group, str]:
    """Return what tells groups apart, in words: only where they differ, so nothing for a single one."""
    provenance = {group: {"benchmark": group[0][0], **dict(group[2])} for group in groups}
    names = dict.fromkeys(name for own in provenance.values() for name in own)
    differing = [name for name in names if len({own.get(name) for own in provenance.values()}) > 1]
    return {
        group: "; ".join(f"{_WORDS.get(name, name)} {own.get(name, UNKNOWN)}".strip() for name in differing)
        for group, own in provenance.items()
    }


def _first_metric(evaluations: Sequence[Evaluation], metrics: Sequence[str]) -> Metric | None:
    rows = [row for evaluation in evaluations for row in evaluation.rows]
    valued = {name for row in rows for name, value in row.values.items() if value is not None}
    present = {metric.name: metric for metric in evaluations[0].metrics if metric.name in valued}
    return next((present[name] for name in (*metrics, *present) if name in present), None)


__all__ = ["Group", "Named", "group_labels", "name_evaluations"]
