"""What errors cost that a conversation carries on: the same model with the benchmark's history and with its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragtasks.logs import Evaluation, Row, gold_model, has_own_history
from ragtasks.metrics import Metric
from ragtasks.reports.tables._scores import Draft, Slot, draft
from ragtasks.reports.tables._slices import turn_slices
from ragtasks.statistics import cluster
from ragtasks.tables import Cell

_NOTE = (
    "Own less gold history, on the tasks that both scored; intervals over conversations. The first turn has no "
    "history: a difference there is chance."
)
_RETRIEVED = (
    " Passages are searched for with the own history: where the gold side's come from another retriever or query form, "
    "the difference holds that too."
)


def own_history_tables(evaluations: Sequence[Evaluation], metric: Metric, setting: str) -> Iterator[Draft]:
    """Yield a table for each two evaluations of one model, with gold and own history, that share tasks of a setting.

    Args:
        evaluations: whose scores compare.
        metric: what is compared.
        setting: the setting.
    """
    for own in evaluations:
        for gold in evaluations:
            if has_own_history(own) and not has_own_history(gold) and gold_model(own) == gold_model(gold):
                pairs = _pairs(gold, own, setting)
                if any(_values(pair, metric.name)[0] is not None for pair in pairs):
                    yield _table(f"{gold.model} beside {own.model}", pairs, metric, setting)


def _pairs(gold: Evaluation, own: Evaluation, setting: str) -> list[tuple[Row, Row]]:
    known = {row.task_id: row for row in gold.rows if row.setting == setting}
    return [(known[row.task_id], row) for row in own.rows if row.setting == setting and row.task_id in known]


def _table(names: str, pairs: Sequence[tuple[Row, Row]], metric: Metric, setting: str) -> Draft:
    rows: list[list[Cell | Slot]] = []
    for part in turn_slices([own for _, own in pairs]):
        chosen = [pair for pair in pairs if part.holds(pair[1])]
        rows.append([part.value or part.dimension, len(chosen), *_slots(chosen, metric)])
    note = _NOTE + (_RETRIEVED if setting == "full_rag" else "")
    heads = ["turn", "n", "gold history", "own history", "difference"]
    return draft(f"{metric.name} by gold and own history in setting {setting}: {names}", heads, rows, note)


def _slots(pairs: Sequence[tuple[Row, Row]], metric: Metric) -> list[Slot]:
    """Return the places of both means and of the difference; a task that one side did not score is in none."""
    low, high = metric.bounds
    values = [_values(pair, metric.name) for pair in pairs]
    conversations = [own.conversation_id for _, own in pairs]
    sides = zip(zip(*values, strict=True), (metric.bounds, metric.bounds, (low - high, high - low)), strict=True)
    return [Slot(cluster(list(column), conversations, bounds)) for column, bounds in sides]


def _values(pair: tuple[Row, Row], metric: str) -> tuple[float | None, float | None, float | None]:
    """Return the values with gold and own history and their difference; all None where one is unscored."""
    gold, own = (row.values.get(metric) for row in pair)
    return (None, None, None) if gold is None or own is None else (gold, own, own - gold)


__all__ = ["own_history_tables"]
