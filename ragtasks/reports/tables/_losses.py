"""Where a metric falls between the reference passages and full RAG, by what the response did.

Both settings ask the same questions, so on each task that both scored the difference is a loss of retrieval, or of
what the model made of it. Each of these tasks is in exactly one class, so that the classes add up to the whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragtasks.records import Answerability, IdkVerdict, Setting
from ragtasks.reports.tables._scores import is_baseline
from ragtasks.results import Evaluation, ScoredAnswer
from ragtasks.statistics import UNBOUNDED, estimate_mean
from ragtasks.tables import Cell, Table, Value, fixed

ANSWERED = "answered what should be refused"
"""UNANSWERABLE, and the response does not wholly refuse."""
REFUSED = "refused what could be answered"
"""ANSWERABLE or PARTIAL, and the response wholly refuses, whatever was retrieved."""
MISSED = "retrieval missed it"
"""ANSWERABLE or PARTIAL, answered, and none of its reference passages was shown."""
NOT_USED = "retrieved but not used"
"""ANSWERABLE or PARTIAL, answered, at least one reference passage was shown, and the value fell."""
NO_IDK = "no IDK verdict"
"""Whether the response refuses is not known, and the classes above need it."""
OTHER = "other loss"
"""The value fell and no class above holds: CONVERSATIONAL, UNDERSPECIFIED, a right refusal, no reference passages."""
NO_LOSS = "no loss"
"""The rest: the value stayed or rose."""
CLASSES = (ANSWERED, REFUSED, MISSED, NOT_USED, NO_IDK, OTHER, NO_LOSS)
"""All classes, in the order in which they are shown."""

_PHRASES = {
    ANSWERED: "where it answers what should be refused",
    REFUSED: "where it refuses what could be answered",
    MISSED: "where retrieval missed the answer",
    NOT_USED: "where it was shown the answer and did not use it",
    NO_IDK: "where it may have refused",
    OTHER: "for other reasons",
}
"""How a class goes on a sentence: it loses most ..."""
_FAILURES = (ANSWERED, REFUSED, MISSED, NOT_USED)
_ONLY_WITH_TASKS = (NO_IDK, OTHER)
N_EXAMPLES = 3
"""Tasks named for each kind of loss or error."""
_MAX_MODELS = 3  # in one line
_HAVE_ANSWERS = (Answerability.ANSWERABLE.value, Answerability.PARTIAL.value)
_COLUMNS = ("class", "tasks", "share", "contribution", "mean loss", "reference shown", "examples")
_LEGEND = (
    "Each task is in one class, by its full_rag response; a refusal counts first, also where retrieval had missed. "
    "Contribution: loss summed over the class / all tasks; they add up to the whole loss, and a value that rose "
    "counts against it. Share and mean loss come without intervals. Reference shown: tasks where at least one "
    "reference passage was shown. Other loss: conversational and underspecified tasks, right refusals, tasks without "
    "reference passages. Examples: the largest losses."
)


@dataclass(frozen=True, slots=True)
class _Loss:
    """One task that both settings scored."""

    row: ScoredAnswer
    """The full_rag response."""
    loss: float
    """How much worse it is than the response to the reference passages; below 0 where it is better."""
    name: str


@dataclass(frozen=True, slots=True)
class _ModelLosses:
    """The losses of one model."""

    model: str
    losses: tuple[_Loss, ...]
    """Tasks that both settings scored."""
    n_shared: int
    """Tasks that both settings have."""
    bounds: tuple[float, float]
    """Smallest and largest loss that can be."""

    def of(self, name: str) -> list[_Loss]:
        """Return the tasks of a class."""
        return [item for item in self.losses if item.name == name]

    def part(self, name: str | None = None) -> Value:
        """Return what a class contributes to the mean loss: its losses, and 0 for every other task."""
        values = [item.loss if name in {None, item.name} else 0.0 for item in self.losses]
        return estimate_mean(values, [item.row.task.conversation_id for item in self.losses], self.bounds).cell

    @property
    def parts(self) -> dict[str, float]:
        """Class -> what it contributes; they add up to the mean loss."""
        return {name: math.fsum(item.loss for item in self.of(name)) / len(self.losses) for name in CLASSES}


def loss_tables(evaluations: Sequence[Evaluation], metric: str) -> list[Table]:
    """Return where the loss from `reference` to `full_rag` is: models side by side, then one table a model.

    A model without one of the two settings has no part in it; without any that has both, []. One model needs no table
    side by side. Of a metric of which less is better, the loss is what the value rose by; of one of which neither is
    better there is none, and one table says so.
    """
    splits = [split for split in (_split(item, metric) for item in evaluations) if split.n_shared]
    if splits and any(_is_undirected(item, metric) for item in evaluations):
        note = f"Nothing is lost by it: neither a higher nor a lower {metric} is better."
        return [Table(f"Where the loss is: {metric}", _COLUMNS, (), note)]
    together = [_side_by_side(splits, metric)] if len(splits) > 1 else []
    return [*together, *(_by_class(split, metric) for split in splits)]


def loss_sentence(evaluations: Sequence[Evaluation], metric: str) -> str:
    """Return in one line what each model loses from `reference` to `full_rag`, and where it loses most."""
    if _is_undirected(evaluations[0], metric):
        return ""
    models = [item for item in evaluations if not is_baseline(item.model)] or evaluations
    splits = [_split(item, metric) for item in models]
    summaries = [_summary(split) for split in splits if split.losses]
    settings = {row.setting for item in models for row in item.rows}
    if not summaries and not settings >= {Setting.REFERENCE, Setting.FULL_RAG}:
        return ""  # nobody expects a loss between settings that were not evaluated
    if not summaries:
        return "Where the loss is: unknown, as no model has both reference and full_rag scored."
    more = f"; {len(summaries) - _MAX_MODELS} more models" if len(summaries) > _MAX_MODELS else ""
    return f"Where the loss is (reference to full_rag, {metric}): {'; '.join(summaries[:_MAX_MODELS])}{more}."


def _summary(split: _ModelLosses) -> str:
    """Return what a model loses or gains, and the class that loses most; the tables have the other classes."""
    parts = split.parts
    whole = math.fsum(parts.values())
    change = f"{'loses' if whole > 0 else 'gains'} {fixed(abs(whole))}" if float(fixed(whole)) else "loses nothing"
    name = max(_PHRASES, key=lambda name: parts[name])
    if float(fixed(parts[name])) <= 0:
        return f"{split.model} {change}"
    most = "most" if whole > 0 and float(fixed(whole)) else "but some"
    return f"{split.model} {change}, {most} {_PHRASES[name]} ({fixed(parts[name])})"


def failure_kind(row: ScoredAnswer, loss: float | None = None) -> str:
    """Return what is wrong with one response: one of the first four classes, or ""."""
    name = _class_of(row, loss or 0.0)
    return name if name in _FAILURES else ""


def _class_of(row: ScoredAnswer, loss: float) -> str:
    is_unanswerable = row.task.answerability is Answerability.UNANSWERABLE
    if is_unanswerable or row.task.answerability in _HAVE_ANSWERS:
        if row.idk is None:
            return NO_IDK
        is_refusal = row.idk == IdkVerdict.YES.value
        if is_refusal != is_unanswerable:
            return REFUSED if is_refusal else ANSWERED
        if not is_unanswerable and len(row.references):
            if not row.n_found:
                return MISSED
            return NOT_USED if loss > 0 else NO_LOSS
    return OTHER if loss > 0 else NO_LOSS


def _is_undirected(evaluation: Evaluation, metric: str) -> bool:
    """Return whether neither a higher nor a lower score is better."""
    return any(item.name == metric and item.higher_is_better is None for item in evaluation.metrics)


def _split(evaluation: Evaluation, metric: str) -> _ModelLosses:
    declared = next((item for item in evaluation.metrics if item.name == metric), None)
    sign = -1 if declared and declared.higher_is_better is False else 1
    low, high = declared.bounds if declared else UNBOUNDED
    shared = paired_rows(evaluation, Setting.REFERENCE, evaluation, Setting.FULL_RAG)
    losses = []
    for reference, row in shared:
        first, second = reference.values.get(metric), row.values.get(metric)
        if first is not None and second is not None:
            loss = sign * (first - second)
            losses.append(_Loss(row, loss, _class_of(row, loss)))
    return _ModelLosses(evaluation.model, tuple(losses), len(shared), (low - high, high - low))


def paired_rows(
    first: Evaluation, first_setting: str, second: Evaluation, second_setting: str
) -> list[tuple[ScoredAnswer, ScoredAnswer]]:
    """Return the rows of two evaluations, each in a setting, on the tasks that both have, in the second's order."""
    firsts = {row.task.task_id: row for row in first.rows if row.setting == first_setting}
    seconds = [row for row in second.rows if row.setting == second_setting]
    return [(firsts[row.task.task_id], row) for row in seconds if row.task.task_id in firsts]


def _side_by_side(splits: Sequence[_ModelLosses], metric: str) -> Table:
    """Return the contributions of all models' classes."""
    names = [name for name in CLASSES if name not in _ONLY_WITH_TASKS or any(split.of(name) for split in splits)]
    rows: list[tuple[Cell, ...]] = [(name, *(split.part(name) for split in splits)) for name in names]
    rows.append(("all", *(split.part() for split in splits)))
    rows.append(("tasks", *(len(split.losses) for split in splits)))
    note = (
        "Loss from reference to full_rag: what each class contributes to the mean over the tasks that both settings "
        "scored."
    )
    columns = ("class", *(split.model for split in splits))
    return Table(f"Where the loss is: {metric}, all models", columns, tuple(rows), note)


def _by_class(split: _ModelLosses, metric: str) -> Table:
    n, title = len(split.losses), f"Where the loss is: {metric}, {split.model}"
    if not n:
        note = f"Not classified: none of the {split.n_shared} tasks that both settings have has a value in both."
        return Table(title, _COLUMNS, (), note)
    others = ": the others have no value in one of them" if n < split.n_shared else ""
    counts = f"Loss from reference to full_rag, on {n} of the {split.n_shared} tasks that both have{others}"
    return Table(title, _COLUMNS, tuple(_lines(split)), f"{counts}. {_LEGEND}")


def _lines(split: _ModelLosses) -> Iterator[tuple[Cell, ...]]:
    for name in CLASSES:
        losses = split.of(name)
        if losses or name not in _ONLY_WITH_TASKS:
            yield (name, *_cells(split, losses, split.part(name)), _examples(losses))
    yield ("all", *_cells(split, split.losses, split.part()), "")


def _cells(split: _ModelLosses, losses: Sequence[_Loss], part: Value) -> tuple[Cell, ...]:
    n, n_all = len(losses), len(split.losses)
    mean = math.fsum(item.loss for item in losses) / n if n else None
    n_shown = sum(item.row.n_found > 0 for item in losses)
    return (n, Value(n / n_all, n_all, n_all), part, Value(mean, n, n), n_shown)


def _examples(losses: Sequence[_Loss]) -> str:
    """Return the tasks of the largest losses; a task that lost nothing is no example."""
    fallen = sorted((item for item in losses if item.loss > 0), key=lambda item: (-item.loss, item.row.task.task_id))
    return ", ".join(item.row.task.task_id for item in fallen[:N_EXAMPLES])
