"""Means over rows and slices of rows, standard errors, incomplete evaluations and baselines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ragtasks.files import CLOSED_BOOK, OFFICIAL
from ragtasks.metrics import ANS_ACC, BALANCED_ANS_ACC, DECLINED, SIDES, Metric
from ragtasks.records import Answerability, Setting
from ragtasks.results import Evaluation, ScoredAnswer, bare_model_name, value_at
from ragtasks.scoring import CheckedAnswers
from ragtasks.statistics import (
    CONVERSATIONS,
    UNBOUNDED,
    Balance,
    Column,
    Estimate,
    Mean,
    Repeatability,
    estimate_mean,
    mean_columns,
    repeatability,
    shared_error,
)
from ragtasks.tables import Cell, NamedValues, Slice, Table, Value, slices_of

EMPTY = "empty"
"""Name of the metric with the share of responses without text."""


def by_setting(
    evaluations: Sequence[Evaluation], is_selected: Callable[[ScoredAnswer], bool] = lambda _: True
) -> Iterator[tuple[tuple[str, str], list[ScoredAnswer]]]:
    """Yield (setting, model) with its selected rows, settings in their order. Models without such rows are left out."""
    for setting in Setting:
        for evaluation in evaluations:
            if rows := [row for row in evaluation.rows if row.setting == setting.value and is_selected(row)]:
                yield (setting.value, evaluation.model), rows


def is_undefined(row: ScoredAnswer, metric: Metric) -> bool:
    """Return whether a response has no value of a metric by the metric's definition, so that no score is missing."""
    has_this_reason = bool(metric.undefined_reason) and row.unscored.get(metric.name) == metric.undefined_reason
    is_undefined_here = has_this_reason or row.task.answerability in metric.undefined_on
    return is_undefined_here and row.values.get(metric.name) is None


def has_values(rows: Iterable[ScoredAnswer], metric: str) -> bool:
    """Return whether any row has a value of a metric."""
    return any(row.values.get(metric) is not None for row in rows)


def valued_metrics(rows: Iterable[ScoredAnswer]) -> set[str]:
    """Return the metrics with a value in any row."""
    return {name for row in rows for name, value in row.values.items() if value is not None}


def metric_columns(
    names: Iterable[str], metrics: Mapping[str, Metric]
) -> dict[str, Callable[[Sequence[ScoredAnswer]], Cell]]:
    """Return metric -> function for its mean over rows, for those of the names that are in `metrics`."""
    return {
        name: partial(score_cell, name=name, metrics=metrics)
        for name in names
        if name in metrics or (name == BOTH_SIDES and ANS_ACC.name in metrics)
    }


def checked_answers(rows: Iterable[ScoredAnswer], location: str = "") -> CheckedAnswers:
    """Return the results of the plausibility checks, for the rows that were checked."""
    return CheckedAnswers(
        location, tuple((row.task.task_id, row.implausible) for row in rows if row.implausible is not None)
    )


def plain_mean(values: Sequence[float | None]) -> Value:
    """Return the mean of the scored values, without an interval."""
    numbers = [value for value in values if value is not None]
    return Value(math.fsum(numbers) / len(numbers) if numbers else None, len(numbers), len(values))


def mean_of(
    rows: Sequence[ScoredAnswer],
    metric: str,
    bounds: tuple[float, float] = UNBOUNDED,
    *,
    n_absent: int = 0,
    n_tasks: int | None = None,
) -> Value:
    """Return a metric's mean over some rows. Its interval stays within the bounds of the metric's values.

    If some of the rows were judged again and complete judgings shift, the interval includes the shift.
    """
    estimate = estimate_of(rows, metric, bounds, n_absent=n_absent)
    cell = replace(estimate.cell, n_tasks=n_tasks)
    if metric == BALANCED_ANS_ACC.name or not any(row.again for row in rows):
        return cell
    return repeatability_of(rows, metric, estimate, bounds).widened(cell, estimate.standard_error, bounds)


def estimate_of(
    rows: Sequence[ScoredAnswer], metric: str, bounds: tuple[float, float], *, n_absent: int = 0
) -> Estimate:
    """Return a metric's mean over some rows, with its interval over their conversations."""
    if metric == BALANCED_ANS_ACC.name:
        (mean,) = mean_columns([column_of(rows, BALANCED_ANS_ACC, "")])
        return mean.estimate
    undefined_on = next((side.undefined_on for side in SIDES if side.name == metric), frozenset())
    rows = [row for row in rows if row.task.answerability not in undefined_on]
    values = [row.values.get(metric) for row in rows] + [None] * n_absent
    n_scored = sum(value is not None for value in values)
    extra = shared_error((row.moves[metric] for row in rows if metric in row.moves), n_scored)
    return estimate_mean(values, [row.task.conversation_id for row in rows] + [""] * n_absent, bounds, extra)


BOTH_SIDES = " / ".join(side.name for side in SIDES)
"""Head of the column that shows both sides of answerability accuracy."""


def score_cell(
    rows: Sequence[ScoredAnswer], name: str, metrics: Mapping[str, Metric], *, n_tasks: int | None = None
) -> Cell:
    """Return the mean of a metric over some rows, or both sides of answerability accuracy for `BOTH_SIDES`."""
    if name == BOTH_SIDES:
        return NamedValues({side.name: mean_of(rows, side.name, side.bounds) for side in SIDES})
    return mean_of(rows, name, metrics[name].bounds, n_tasks=n_tasks)


def with_sides(names: Iterable[str], metrics: Mapping[str, Metric]) -> list[str]:
    """Return names of columns with `BOTH_SIDES` after answerability accuracy, as far as metrics have values."""
    sided = [[name, BOTH_SIDES] if name == ANS_ACC.name and name in metrics else [name] for name in names]
    return [name for columns in sided for name in columns]


_CLASSES = ("answerable", "unanswerable")


def _class_of(row: ScoredAnswer) -> str:
    """Return the class of a task in a balanced mean."""
    return _CLASSES[row.task.answerability not in DECLINED.undefined_on]


def repeatability_of(
    rows: Sequence[ScoredAnswer], metric: str, estimate: Estimate, bounds: tuple[float, float]
) -> Repeatability:
    """Return the repeatability of a metric's mean. Some of the rows must have been judged again."""
    repeated = [row for row in rows if row.again]
    n = min(len(row.again) for row in repeated)
    judgings = [[row.values.get(metric) for row in repeated]]
    judgings += [[row.again[index].get(metric) for row in repeated] for index in range(n)]
    return repeatability(judgings, [row.task.conversation_id for row in repeated], estimate, bounds)


def column_of(
    rows: Sequence[ScoredAnswer],
    metric: Metric,
    name: str,
    *,
    group: str = "",
    context: str = "",
    n_offered: int | None = None,
) -> Column:
    """Return a metric's values by task, with their conversations as clusters."""
    return Column(
        context=context,
        group=group,
        metric=metric.name,
        name=name,
        values={row.task.task_id: row.values.get(metric.name) for row in rows},
        cluster_of={row.task.task_id: row.task.conversation_id for row in rows},
        note=_RECALIBRATED if any(metric.name in row.moves for row in rows) else "",
        moves={row.task.task_id: row.moves[metric.name] for row in rows if metric.name in row.moves},
        bounds=metric.bounds,
        higher_is_better=metric.higher_is_better,
        n_offered=n_offered,
        balance=Balance(_CLASSES, {row.task.task_id: _class_of(row) for row in rows}) if metric.is_balanced else None,
    )


_RECALIBRATED = (
    "its judge changed: scores are mapped to its earlier scale by the anchors, and intervals include the error of the "
    "mapping"
)


def empty_note(metrics: Iterable[Metric]) -> str:
    """Return the note about empty responses. `EMPTY` must be one of the metrics."""
    described = {metric.name: metric.description for metric in metrics}
    return f"Some responses are empty; `{EMPTY}`: {described[EMPTY]}."


# Slices of tasks: one value of one dimension each, as in the MTRAG paper's Table 16 and Figures 3, 9 and 10.

_MOST_TURNS = 30  # a table of more turns is too long to read


_TURNS: Mapping[str, Callable[[ScoredAnswer], tuple[str | int, ...]]] = {
    "turn": lambda row: ("first" if row.task.turn == 1 else "later",),
    "turn by turn": lambda row: (row.task.turn,),
}
DIMENSIONS: Mapping[str, Callable[[ScoredAnswer], tuple[str | int, ...]]] = {
    "answerability": lambda row: (row.task.answerability.value,),
    **_TURNS,
    "domain": lambda row: (row.task.domain,),
    "question type": lambda row: row.task.question_types,
    "multi-turn type": lambda row: (row.task.multi_turn,),
    # Matters if a benchmark has no passages for exactly its unanswerable tasks: an empty list then reveals them.
    "passages": lambda row: ("some" if len(row.response.passages) else "none",),
}
"""Dimension -> labels of a row."""


def row_slices(
    rows: Sequence[ScoredAnswer], dimensions: Mapping[str, Callable[[ScoredAnswer], tuple[str | int, ...]]] = DIMENSIONS
) -> Iterator[Slice[ScoredAnswer]]:
    """Yield all rows, then every slice of each dimension with several values; single turns only if they are few."""
    has_few_turns = len({row.task.turn for row in rows}) <= _MOST_TURNS
    return slices_of(
        rows, {name: labels_of for name, labels_of in dimensions.items() if has_few_turns or name != "turn by turn"}
    )


def turn_slices(rows: Sequence[ScoredAnswer]) -> Iterator[Slice[ScoredAnswer]]:
    """Yield all rows, first and later turns, then each turn."""
    return row_slices(rows, _TURNS)


# Evaluations with fewer tasks than their setting. Leaving tasks out changes a mean: without its unanswerable tasks, a
# model that never refuses leads. Such an evaluation is listed after the complete ones. Each score shows its number of
# tasks, and a table counts each missing task as 0.

_NOTE = (
    "Some evaluations have fewer tasks than their setting. They are listed last and are not comparable with complete "
    "ones. Here each missing task counts as 0."
)


def missing_tasks(evaluations: Sequence[Evaluation]) -> dict[tuple[str, str], int]:
    """Return (setting, model) -> number of tasks in the setting, for the systems without rows of some of them.

    A baseline derived from labels has no such number. It gets the largest number of the other evaluations.
    """
    counts = {(setting, evaluation.model): n for evaluation in evaluations for setting, n in evaluation.n_tasks.items()}
    largest: dict[str, int] = {}
    for (setting, _), n in counts.items():
        largest[setting] = max(n, largest.get(setting, 0))
    return {
        system: n_tasks
        for system, rows in by_setting(evaluations)
        if (n_tasks := missing_from(rows, counts.get(system, largest.get(system[0])))) is not None
    }


def missing_from(rows: Sequence[ScoredAnswer], n_offered: int | None) -> int | None:
    """Return the number of tasks in the setting; None if no rows are missing, or the number is unknown."""
    return n_offered if n_offered is not None and len(rows) < n_offered else None


def as_zero_table(overview: Table, metrics: Sequence[Metric]) -> list[Table]:
    """Return the scores of incomplete evaluations in the first table, with missing tasks as 0; [] without any."""
    names = {metric.name for metric in metrics if metric.higher_is_better and metric.bounds[0] == 0}
    indices = [index for index, name in enumerate(overview.columns) if name in names]
    rows = []
    for row in overview.rows:
        cells = [cell for index in indices if isinstance(cell := row[index], Value)]
        if cells and cells[0].missing:
            scores = [Value(cell.with_missing_as_zero, cell.n_scored, cell.n_scored) for cell in cells]
            rows.append((row[0], row[1], cells[0].missing.removesuffix(" tasks"), *scores))
    if not rows:
        return []
    columns = ("setting", "model", "tasks", *(overview.columns[index] for index in indices))
    return [Table("Evaluations with missing tasks", columns, tuple(rows), _NOTE)]


# The two standard errors of a mean side by side: over conversations, and by the formula of lm_eval.

_ERROR_COLUMNS = ("metric", "mean", "stderr", "harness stderr", "n", "reason for no interval")
_UNCERTAINTY_NOTE = (
    "stderr: standard error over conversations. harness stderr: by the formula of lm_eval, which assumes independent "
    "{items}. It is too small if the {items} of one conversation are correlated."
)


def error_table(evaluations: Sequence[Evaluation], metrics: Sequence[Metric]) -> Table:
    """Return one row per setting, model and metric with values: its mean and standard errors."""
    missing = missing_tasks(evaluations)
    columns = [
        column_of(rows, metric, model, group=setting, n_offered=missing.get((setting, model)))
        for (setting, model), rows in by_setting(evaluations)
        for metric in metrics
        if has_values(rows, metric.name)
    ]
    return means_table("Standard errors", mean_columns(columns), "setting", "model", "tasks")


def means_table(  # noqa: PLR0917 (as the words of the table)
    title: str,
    means: Sequence[Mean],
    group: str,
    name: str,
    items: str,
    units: str = CONVERSATIONS,
    note: str = "",
) -> Table:
    """Return one row per column of scores: mean, interval or the reason for a missing one, standard errors.

    `units` names the clusters. `note` replaces the explanation of the standard errors.
    """
    rows: list[tuple[Cell, ...]] = []
    for mean in means:
        column, estimate = mean.column, mean.estimate
        n = estimate.n_values
        errors = (Value(error, n, n) for error in (estimate.standard_error, estimate.independent_error))
        names = (column.group, column.name, column.metric_text)
        rows.append((*names, mean.cell, *errors, n, estimate.n_clusters, estimate.reason))
    columns = (group, name, *_ERROR_COLUMNS[:5], units, *_ERROR_COLUMNS[5:])
    return Table(title, columns, tuple(rows), note or _UNCERTAINTY_NOTE.format(items=items))


# Null baselines: the scores of systems without skill. ragtasks' own models (`ragtasks-...`) are last in every table.
# Two baselines are derived from the labels without a run: a system that always refuses, and a system that refuses if
# and only if it has no passages.

CONDITIONED = ("rb_alg", "rb_llm", "rl_f", "ans_acc")
"""Metrics whose value for a refusal follows from the task's label (MTRAG paper, section 6.3.3)."""

_PREFIX = "ragtasks-"
_RIGHT_REFUSAL = {
    Answerability.UNANSWERABLE: 1.0,
    Answerability.ANSWERABLE: 0.0,
    Answerability.PARTIAL: 0.0,
    Answerability.UNDERSPECIFIED: 0.0,
}


@dataclass(frozen=True, slots=True)
class _Rule:
    """A baseline whose scores are derived from labels."""

    name: str
    model: str
    """The ragtasks model with the same behavior. In a setting with such an evaluation, the rule is left out."""
    values: Callable[[ScoredAnswer], dict[str, float | None]]
    """Row -> metric -> value."""
    reads_passages: bool = False
    """Whether the scores depend on the passages. Such a rule does not apply to runs without passages."""


def _always(row: ScoredAnswer) -> dict[str, float | None]:
    refusal = _RIGHT_REFUSAL.get(row.task.answerability)
    label = None if row.task.answerability is Answerability.UNDERSPECIFIED else refusal  # accuracy is undefined here
    return {**dict.fromkeys(CONDITIONED, refusal), "ans_acc": label}


def _on_empty(row: ScoredAnswer) -> dict[str, float | None]:
    """Return the accuracy of refusing without passages. The quality of the other answers is unknown."""
    if row.task.answerability not in _RIGHT_REFUSAL or row.task.answerability is Answerability.UNDERSPECIFIED:
        return {}
    return {"ans_acc": float(bool(row.response.passages) != (row.task.answerability is Answerability.UNANSWERABLE))}


_RULES = (
    _Rule("refuse always (from the labels)", "ragtasks-refuse", _always),
    _Rule("refuse on empty (from the labels)", "ragtasks-refuse-on-empty", _on_empty, reads_passages=True),
)


def is_baseline(model: str) -> bool:
    """Return whether a model is a ragtasks baseline or a baseline derived from labels."""
    return model.startswith(_PREFIX) or any(rule.name == model for rule in _RULES)


def with_baselines(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Return evaluations of one kind, models first, then baselines, then the derived baselines that were not run.

    Derived baselines are added only for metrics that are conditioned on answerability.
    """
    return [*sorted(evaluations, key=lambda evaluation: is_baseline(evaluation.model)), *_ruled(evaluations)]


def _ruled(evaluations: Sequence[Evaluation]) -> Iterator[Evaluation]:
    first = evaluations[0]
    if not any(metric.name == CONDITIONED[0] for metric in first.metrics):
        return
    retrieved = [evaluation for evaluation in evaluations if CLOSED_BOOK not in _runs(evaluation)]
    ran = {(bare_model_name(evaluation), row.setting) for evaluation in retrieved for row in evaluation.rows}
    tasks, with_passages = _tasks(evaluations), _tasks(retrieved)
    names = {name for evaluation in evaluations for row in evaluation.rows[:1] for name in row.values}
    for rule in _RULES:
        applicable = with_passages if rule.reads_passages else tasks
        rows = []
        for row in applicable.values():
            if (rule.model, row.setting) not in ran:
                scores = {name: value for name, value in rule.values(row).items() if name in names}
                rows.append(ScoredAnswer(row.response, row.setting, scores))
        if rows:
            yield replace(first, model=rule.name, rows=tuple(rows), provenance={}, samples={})


def _tasks(evaluations: Sequence[Evaluation]) -> dict[tuple[str, str], ScoredAnswer]:
    """Return (setting, task id) -> a row of the task, preferably with the benchmark's own passages."""
    by_run = sorted(
        evaluations, key=lambda evaluation: (CLOSED_BOOK not in _runs(evaluation), OFFICIAL in _runs(evaluation))
    )
    return {(row.setting, row.task.task_id): row for evaluation in by_run for row in evaluation.rows}


def _runs(evaluation: Evaluation) -> set[str]:
    """Return the names of the runs with its passages."""
    return {value_at(provenance, "configuration", "run") or OFFICIAL for provenance in evaluation.provenance.values()}


def missing_baselines(evaluations: Sequence[Evaluation]) -> str:
    """Return a line about the null baselines that need a run, and their commands. Empty if none is missing."""
    names = {evaluation.model for evaluation in evaluations}
    commands = []
    if f"{_PREFIX}oracle" not in map(bare_model_name, evaluations):
        commands.append("the ceiling (`ragtasks run --model ragtasks-oracle ...`)")
    if not any("closed_book" in name for name in names):
        commands.append("a model without passages (`ragtasks run --run closed_book ...`)")
    return f"Not evaluated: {'; '.join(commands)}." if commands else ""
