"""Evaluations compared in pairs: models in each setting, or the settings of each model.

Only evaluations that were scored alike are compared (data and its version, encoder, IDK detector, judges); others stand
in sections of their own. Where they were asked otherwise (prompts, answer length), the heading says whose.
Items are tasks, and their clusters are the conversations that they were cut from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.logs import Evaluation, Row, asked_otherwise, comparable_evaluations, heading, scored_on
from ragtasks.records import Setting
from ragtasks.reports.tables import missing_from
from ragtasks.statistics import Column, Comparisons, compare_columns
from ragtasks.suites import suite_named

MODEL, SETTING = "model", "setting"
PAPER_METRICS = ("rl_f", "rb_llm", "rb_alg", "ans_acc")
"""What is compared where nothing is named: the scores of the MTRAG paper's Table 5 that the evaluations have."""

_ORDER = {setting.value: place for place, setting in enumerate(Setting)}


@dataclass(frozen=True, slots=True)
class _Part:
    """The rows of one model in one setting."""

    context: str
    """What they were scored on and with, and what else differs from the rows that they are compared with."""
    suite: str
    """Name of the suite of metrics."""
    setting: str
    """The setting."""
    model: str
    """Name for the tables."""
    rows: Mapping[str, Row]
    """Task id -> row."""
    n_tasks: int | None
    """Tasks that the setting has, where these are fewer."""


def compare_evaluations(
    evaluations: Sequence[Evaluation], *, metrics: Sequence[str] = (), by: str = MODEL, baseline: str | None = None
) -> Comparisons:
    """Return every column's mean, and the difference of every pair.

    Evaluations of one model are put together first (see `merge_evaluations`).

    Args:
        evaluations: as from `read_evaluations`.
        metrics: names; none: `PAPER_METRICS`, or where there are none of these, the suite's first.
        by: `model` compares models in each setting, `setting` the settings of each model.
        baseline: the model (or setting) that all others are compared with; None: every pair.

    Raises:
        ConfigurationError: an unknown name, or nothing that could be compared.
    """
    if by not in {MODEL, SETTING}:
        raise ConfigurationError(f"unknown way to compare {by!r}: {close_matches(by, (MODEL, SETTING))}")
    _check(evaluations, metrics)
    named = list(dict.fromkeys(metrics))
    columns = [column for part in _parts(evaluations) for column in _columns(part, named or _usual(part), by)]
    return compare_columns(columns, baseline)


def _check(evaluations: Sequence[Evaluation], metrics: Sequence[str]) -> None:
    """Refuse metrics that are unknown, or have nothing to pair because they are of all responses together."""
    offered = {metric.name: metric for evaluation in evaluations for metric in evaluation.metrics}
    for name in metrics:
        if name not in offered:
            known = [other for other, metric in offered.items() if metric.aggregate is None]
            raise ConfigurationError(f"unknown metric {name!r}: {close_matches(name, known)}")
        if offered[name].aggregate is not None:
            raise ConfigurationError(f"metric {name!r} is of all responses together and has no value of one to compare")


def _usual(part: _Part) -> Sequence[str]:
    """Return what is compared where nothing is named: `PAPER_METRICS`, or the first that the responses have."""
    given = {name for row in part.rows.values() for name in row.values}
    known = [item.name for item in suite_named(part.suite).metrics if item.aggregate is None and item.name in given]
    return [name for name in PAPER_METRICS if name in known] or known[:1]


def _parts(evaluations: Sequence[Evaluation]) -> list[_Part]:
    """Return the parts in the order of what compares, settings and evaluations."""
    parts = []
    for alike in comparable_evaluations(evaluations):
        context, suite = _context(alike), alike[0].suite
        rows_of: dict[tuple[str, str], dict[str, Row]] = {}
        for evaluation in alike:
            for row in evaluation.rows:
                rows_of.setdefault((row.setting, evaluation.model), {})[row.task_id] = row
        offered = {(setting, item.model): n for item in alike for setting, n in item.n_tasks.items()}
        own = [
            _Part(context, suite, *key, rows, missing_from(list(rows.values()), offered.get(key)))
            for key, rows in rows_of.items()
        ]
        parts += sorted(own, key=lambda part: (_ORDER.get(part.setting, len(_ORDER)), part.setting))
    return parts


def _context(alike: Sequence[Evaluation]) -> str:
    """Return what evaluations that compare share, and where they were asked otherwise, as a heading."""
    return heading(alike[0].kind[0], {**scored_on(alike[0]), **asked_otherwise(alike)})


def _columns(part: _Part, metrics: Sequence[str], by: str) -> Iterator[Column]:
    """Yield a column for each metric that the rows know, if only as unscored."""
    group, name = (part.setting, part.model) if by == MODEL else (part.model, part.setting)
    known = {metric.name: metric for metric in suite_named(part.suite).metrics}
    for metric in metrics:
        if any(metric in row.values for row in part.rows.values()):
            yield Column(
                context=part.context,
                group=group,
                metric=metric,
                name=name,
                values={task_id: row.values.get(metric) for task_id, row in part.rows.items()},
                cluster_of={task_id: row.conversation_id for task_id, row in part.rows.items()},
                bounds=known[metric].bounds,
                higher_is_better=known[metric].higher_is_better,
                n_offered=part.n_tasks,
            )


__all__ = ["MODEL", "PAPER_METRICS", "SETTING", "compare_evaluations"]
