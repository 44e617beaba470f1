"""Scores with the benchmark's history next to scores with the model's own history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragtasks.metrics import Metric
from ragtasks.reports.tables._losses import paired_rows
from ragtasks.reports.tables._scores import turn_slices
from ragtasks.results import Evaluation, ScoredAnswer, bare_model_name, has_own_history
from ragtasks.statistics import estimate_mean
from ragtasks.tables import Cell, Table, Value

_NOTE = (
    "difference: own history minus gold history, on the tasks scored with both, with intervals over conversations. The "
    "first turn has no history, so its difference is chance."
)
_RETRIEVED = (
    " With the own history, passages are retrieved during the evaluation. If the gold side uses passages of another "
    "retriever or query form, the difference includes that effect."
)


def own_history_tables(evaluations: Sequence[Evaluation], metric: Metric, setting: str) -> Iterator[Table]:
    """Yield a table for each pair of evaluations of one model, with gold and own history, that share scored tasks.

    Gold history is the benchmark's: the reference answers to earlier turns. Own history has the model's answers.
    """
    for own in evaluations:
        for gold in evaluations:
            if has_own_history(own) and not has_own_history(gold) and bare_model_name(own) == bare_model_name(gold):
                pairs = paired_rows(gold, setting, own, setting)
                if any(_values(pair, metric.name)[0] is not None for pair in pairs):
                    yield _table(f"{gold.model} and {own.model}", pairs, metric, setting)


def _table(names: str, pairs: Sequence[tuple[ScoredAnswer, ScoredAnswer]], metric: Metric, setting: str) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for part in turn_slices([row for _, row in pairs]):
        chosen = [pair for pair in pairs if part.contains(pair[1])]
        rows.append((part.value or part.dimension, len(chosen), *means_of_pairs(chosen, metric)))
    note = _NOTE + (_RETRIEVED if setting == "full_rag" else "")
    heads = ("turn", "n", "gold history", "own history", "difference")
    return Table(f"{metric.name} by gold and own history in setting {setting}: {names}", heads, tuple(rows), note)


def means_of_pairs(pairs: Sequence[tuple[ScoredAnswer, ScoredAnswer]], metric: Metric) -> list[Value]:
    """Return both means and their difference, over the pairs of rows with both scores."""
    low, high = metric.bounds
    values = [_values(pair, metric.name) for pair in pairs]
    conversations = [own.task.conversation_id for _, own in pairs]
    sides = zip(zip(*values, strict=True), (metric.bounds, metric.bounds, (low - high, high - low)), strict=True)
    return [estimate_mean(column, conversations, bounds).cell for column, bounds in sides]


def _values(pair: tuple[ScoredAnswer, ScoredAnswer], metric: str) -> tuple[float | None, float | None, float | None]:
    """Return the values with gold and own history and their difference, or three None if either row is unscored."""
    gold, own = (row.values.get(metric) for row in pair)
    return (None, None, None) if gold is None or own is None else (gold, own, own - gold)
