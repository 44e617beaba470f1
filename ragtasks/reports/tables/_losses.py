"""The loss of a metric from the reference passages to full RAG, by the error of the full-RAG turn.

Both settings ask the same questions, so the difference on a task that both scored is a loss of retrieval or of the
model's use of the passages. Each task is in exactly one class, and the classes add up to the total. Classes are the
turn errors of `ragtasks.metrics` and four more for turns without an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragtasks.metrics import TurnErrorKind, turn_error
from ragtasks.records import Answerability, IdkVerdict, Setting
from ragtasks.reports.tables._scores import is_baseline
from ragtasks.results import Evaluation, ScoredAnswer
from ragtasks.statistics import UNBOUNDED, estimate_mean
from ragtasks.tables import Cell, Table, Value, fixed

NOT_USED = "passages not used"
"""No turn error; the task is ANSWERABLE or PARTIAL, a reference passage was shown, and the score fell."""
NO_IDK = "no IDK verdict"
"""Without a verdict on refusal, half of the turn errors cannot be detected."""
OTHER = "other loss"
"""No turn error, and the score fell on a task without an answer or without reference passages."""
NO_LOSS = "no loss"
"""No turn error, and the score stayed or rose."""
CLASSES = (*(kind.label for kind in TurnErrorKind), NOT_USED, NO_IDK, OTHER, NO_LOSS)
"""All classes in display order."""

_LABELS = {kind.value: kind.label for kind in TurnErrorKind}
_HAVE_ANSWERS = (Answerability.ANSWERABLE, Answerability.PARTIAL)
_NEED_IDK = (*_HAVE_ANSWERS, Answerability.UNANSWERABLE)
N_EXAMPLES = 3
"""Number of tasks named as examples of a class or an error."""
_MAX_MODELS = 3  # in one sentence
TITLE = "Loss from reference to full_rag"
_COLUMNS = ("class", "tasks", "share", "contribution", "mean loss", "reference shown", "examples")
_LEGEND = (
    "A class is the error of the full_rag turn. Contribution: sum of the class's losses / all tasks; contributions add "
    "up to the total loss, and tasks whose score rose reduce it. Share and mean loss have no intervals. Reference "
    "shown: tasks with at least one reference passage in the prompt. Passages not used: no error, a reference passage "
    "was shown, and the score fell. Other loss: the score fell on a task without an answer or without reference "
    "passages. Examples: the tasks with the largest losses."
)


@dataclass(frozen=True, slots=True)
class _Loss:
    """A task that both settings scored."""

    row: ScoredAnswer
    """The full_rag response."""
    loss: float
    """Score with the reference passages minus score in full_rag; negative if full_rag is better."""
    name: str
    """One of `CLASSES`."""


@dataclass(frozen=True, slots=True)
class _ModelLosses:
    """The losses of a model."""

    model: str
    losses: tuple[_Loss, ...]
    """Tasks that both settings scored."""
    n_shared: int
    """Number of tasks in both settings, scored or not."""
    bounds: tuple[float, float]
    """Smallest and largest possible loss."""

    def of(self, name: str) -> list[_Loss]:
        """Return the losses of a class."""
        return [loss for loss in self.losses if loss.name == name]

    def part(self, name: str | None = None) -> Value:
        """Return the contribution of a class, or of all classes, to the mean loss, with its interval."""
        values = [loss.loss if name in {None, loss.name} else 0.0 for loss in self.losses]
        return estimate_mean(values, [loss.row.task.conversation_id for loss in self.losses], self.bounds).cell

    @property
    def parts(self) -> dict[str, float]:
        """Class -> its contribution to the mean loss."""
        return {name: math.fsum(loss.loss for loss in self.of(name)) / len(self.losses) for name in CLASSES}

    @property
    def classes(self) -> list[str]:
        """Classes with at least one task."""
        return [name for name in CLASSES if self.of(name)]


def loss_tables(evaluations: Sequence[Evaluation], metric: str) -> list[Table]:
    """Return tables of the loss from `reference` to `full_rag`: all models side by side, then a table per model.

    Models without one of the two settings are left out; without any model, the list is empty. A single model gets no
    side-by-side table. For a metric whose lower values are better, the loss is the increase. A metric without a
    direction gets one empty table with a note.
    """
    splits = [split for split in (_split(evaluation, metric) for evaluation in evaluations) if split.n_shared]
    if splits and any(_is_undirected(evaluation, metric) for evaluation in evaluations):
        note = f"Not computed: neither higher nor lower values of {metric} are better."
        return [Table(f"{TITLE}: {metric}", _COLUMNS, (), note)]
    together = [_side_by_side(splits, metric)] if len(splits) > 1 else []
    return [*together, *(_by_class(split, metric) for split in splits)]


def loss_sentence(evaluations: Sequence[Evaluation], metric: str) -> str:
    """Return a sentence with each model's loss from `reference` to `full_rag` and its largest class."""
    if _is_undirected(evaluations[0], metric):
        return ""
    models = [evaluation for evaluation in evaluations if not is_baseline(evaluation.model)] or evaluations
    splits = [_split(evaluation, metric) for evaluation in models]
    summaries = [_summary(split) for split in splits if split.losses]
    settings = {row.setting for evaluation in models for row in evaluation.rows}
    if not summaries and not settings >= {Setting.REFERENCE, Setting.FULL_RAG}:
        return ""  # the settings were not evaluated, so no loss is expected
    if not summaries:
        return f"{TITLE}: unknown, because no model has scores in both settings."
    return f"{TITLE} ({metric}): {of_first_models(summaries)}."


def of_first_models(phrases: Sequence[str]) -> str:
    """Return phrases about models as a part of a sentence: the first few, and the number of the others."""
    more = [f"{len(phrases) - _MAX_MODELS} more models"] if len(phrases) > _MAX_MODELS else []
    return "; ".join([*phrases[:_MAX_MODELS], *more])


def _summary(split: _ModelLosses) -> str:
    """Return the loss or gain of a model and the class with the largest loss."""
    parts = split.parts
    total = math.fsum(parts.values())
    change = f"{'loses' if total > 0 else 'gains'} {fixed(abs(total))}" if float(fixed(total)) else "loses nothing"
    name = max(CLASSES[:-1], key=lambda name: parts[name])
    if float(fixed(parts[name])) <= 0:
        return f"{split.model} {change}"
    is_loss, exceeds = float(fixed(total)) > 0, float(fixed(parts[name])) > float(fixed(total))
    link = ", with a loss from" if not is_loss else " net of gains, mostly" if exceeds else ", mostly"
    return f"{split.model} {change}{link} {name} ({fixed(parts[name])})"


def loss_class(row: ScoredAnswer, loss: float | None = None) -> str:
    """Return the class of a full_rag response in `CLASSES`; without a loss, turns without an error are no loss."""
    fell = (loss or 0.0) > 0
    kind = _turn_error_kind(row)
    if kind:
        return _LABELS.get(kind, OTHER)
    if row.idk is None and row.task.answerability in _NEED_IDK:
        return NO_IDK
    if not fell:
        return NO_LOSS
    return NOT_USED if row.n_found and row.task.answerability in _HAVE_ANSWERS else OTHER


def _turn_error_kind(row: ScoredAnswer) -> str:
    """Return the logged turn error, or the computed one for results that were saved without it."""
    if row.turn_error_kind is not None:
        return row.turn_error_kind
    error = turn_error(row.response, IdkVerdict(row.idk) if row.idk else None, row.implausible)
    return error.kind.value if error else ""


def _is_undirected(evaluation: Evaluation, metric: str) -> bool:
    return any(declared.name == metric and declared.higher_is_better is None for declared in evaluation.metrics)


def _split(evaluation: Evaluation, metric: str) -> _ModelLosses:
    declared = next((declared for declared in evaluation.metrics if declared.name == metric), None)
    sign = -1 if declared and declared.higher_is_better is False else 1
    low, high = declared.bounds if declared else UNBOUNDED
    shared = paired_rows(evaluation, Setting.REFERENCE, evaluation, Setting.FULL_RAG)
    losses = []
    for reference, row in shared:
        first, second = reference.values.get(metric), row.values.get(metric)
        if first is not None and second is not None:
            loss = sign * (first - second)
            losses.append(_Loss(row, loss, loss_class(row, loss)))
    return _ModelLosses(evaluation.model, tuple(losses), len(shared), (low - high, high - low))


def paired_rows(
    first: Evaluation, first_setting: str, second: Evaluation, second_setting: str
) -> list[tuple[ScoredAnswer, ScoredAnswer]]:
    """Return pairs of rows of the same task, one from each evaluation and setting, in the order of the second."""
    firsts = {row.task.task_id: row for row in first.rows if row.setting == first_setting}
    seconds = [row for row in second.rows if row.setting == second_setting]
    return [(firsts[row.task.task_id], row) for row in seconds if row.task.task_id in firsts]


def _side_by_side(splits: Sequence[_ModelLosses], metric: str) -> Table:
    names = [name for name in CLASSES if any(split.of(name) for split in splits)]
    rows: list[tuple[Cell, ...]] = [(name, *(split.part(name) for split in splits)) for name in names]
    rows.append(("all", *(split.part() for split in splits)))
    rows.append(("tasks", *(len(split.losses) for split in splits)))
    note = "Contribution of each class to the mean loss over the tasks that both settings scored."
    columns = ("class", *(split.model for split in splits))
    return Table(f"{TITLE}: {metric}, all models", columns, tuple(rows), note)


def _by_class(split: _ModelLosses, metric: str) -> Table:
    n, title = len(split.losses), f"{TITLE}: {metric}, {split.model}"
    if not n:
        note = f"Not classified: of the {split.n_shared} tasks in both settings, 0 are scored in both."
        return Table(title, _COLUMNS, (), note)
    unscored = "; the remaining tasks are unscored in at least one" if n < split.n_shared else ""
    counts = f"On {n} of the {split.n_shared} tasks in both settings{unscored}"
    return Table(title, _COLUMNS, tuple(_lines(split)), f"{counts}. {_LEGEND}")


def _lines(split: _ModelLosses) -> Iterator[tuple[Cell, ...]]:
    for name in split.classes:
        losses = split.of(name)
        yield (name, *_cells(split, losses, split.part(name)), _examples(losses))
    yield ("all", *_cells(split, split.losses, split.part()), "")


def _cells(split: _ModelLosses, losses: Sequence[_Loss], part: Value) -> tuple[Cell, ...]:
    n, n_all = len(losses), len(split.losses)
    mean = math.fsum(loss.loss for loss in losses) / n
    n_shown = sum(loss.row.n_found > 0 for loss in losses)
    return (n, Value(n / n_all, n_all, n_all), part, Value(mean, n, n), n_shown)


def _examples(losses: Sequence[_Loss]) -> str:
    """Return the ids of the tasks with the largest positive losses."""
    fallen = sorted((loss for loss in losses if loss.loss > 0), key=lambda loss: (-loss.loss, loss.row.task.task_id))
    return ", ".join(loss.row.task.task_id for loss in fallen[:N_EXAMPLES])
