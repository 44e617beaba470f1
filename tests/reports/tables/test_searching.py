"""Models that search: their gain over given passages, and recall after each call, computed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ragtasks.metrics import Metric
from ragtasks.records import ToolStep, Trajectory
from ragtasks.reports.tables._searching import behaviour_tables, gain_tables, recall_tables
from ragtasks.results import ScoredAnswer
from tests.reports._rows import without_intervals
from tests.reports.tables.test_losses import METRIC, evaluation, row

RB_ALG = Metric(METRIC, "a metric")


def both(task_id: str, given: float | None, searched: float | None, **changes: Any) -> list[ScoredAnswer]:
    return [row(task_id, given, "full_rag", **changes), row(task_id, searched, "agentic", **changes)]


def searched(task_id: str, *found: Sequence[str]) -> ScoredAnswer:
    """Return an answer whose model received these passages in its calls. Four passages are relevant."""
    made = row(task_id, 1.0, "agentic", relevant=frozenset("1234"))
    steps = tuple(ToolStep("search", {}, number, tuple(ids)) for number, ids in enumerate(found, start=1))
    return replace(made, response=replace(made.response, trajectory=Trajectory(steps)))


def test_the_gain_covers_tasks_that_both_settings_scored() -> None:
    rows = [
        *both("a", 0.2, 0.6),
        *both("b", 0.4, 0.4, answerability="UNANSWERABLE", turn=2),
        *both("c", None, 1.0),
        row("d", 1.0, "agentic"),
    ]
    (table,) = map(without_intervals, gain_tables([evaluation(rows)], RB_ALG))
    assert table.title == "Gain of searching in rb_alg: m"
    found = {(cells[0], cells[1]): [getattr(cell, "value", cell) for cell in cells[2:]] for cells in table.rows}
    assert found["all", ""][0] == 3
    assert [round(value, 6) for value in found["all", ""][1:]] == [0.3, 0.5, 0.2]
    assert [round(value, 6) for value in found["answerability", "UNANSWERABLE"][1:]] == [0.4, 0.4, 0]
    assert set(found) == {
        ("all", ""), ("answerability", "ANSWERABLE"), ("answerability", "UNANSWERABLE"),
        ("turn", "first"), ("turn", "later"),
    }  # fmt: skip


def test_settings_of_two_evaluations_of_one_model_are_set_side_by_side() -> None:
    given, searched = both("a", 0.2, 0.6)
    (table,) = gain_tables([evaluation([given]), evaluation([searched], "m #2")], RB_ALG)
    assert table.title == "Gain of searching in rb_alg: m and m #2"
    assert list(gain_tables([evaluation([given]), evaluation([searched], "other")], RB_ALG)) == []


def test_recall_after_each_call_counts_a_stopped_task_with_its_final_recall() -> None:
    rows = [
        searched("a", ["1", "2"], ["3", "4"]),
        searched("b", ["1"]),
        searched("c"),
        row("d", 1.0, "agentic"),
    ]
    (table,) = map(without_intervals, recall_tables([evaluation(rows), evaluation([row("a", 1.0)], "other")]))
    assert table.columns == ("model", "n", "1 call", "2 calls")
    (cells,) = table.rows
    assert cells[:2] == ("m", 3)
    assert [round(cell.value, 6) for cell in cells[2:]] == [0.25, round(1.25 / 3, 6)]
    assert list(recall_tables([evaluation([row("a", 1.0)])])) == []


def test_behavior_has_one_row_per_metric_with_values() -> None:
    rows = [
        row("a", 1.0, "agentic", values={METRIC: 1.0, "searches": 2.0}),
        row("b", 1.0, "agentic", values={METRIC: 1.0, "searches": 1.0}),
    ]
    handed = [row("a", 1.0, "full_rag", values={METRIC: 1.0, "searches": 9.0})]
    (table,) = map(without_intervals, behaviour_tables([evaluation(rows), evaluation(handed, "other")]))
    assert table.columns == ("metric", "description", "m")
    ((name, _, cell),) = table.rows
    assert (name, cell.value) == ("searches", 1.5)
    assert list(behaviour_tables([evaluation(handed)])) == []


def test_injected_passages_are_counted_by_setting_and_model() -> None:
    values = [("full_rag", 1.0), ("full_rag", 0.0), ("full_rag", None), ("agentic", None)]
    rows = [
        row(str(n), 1.0, setting, values={METRIC: 1.0, "injected_followed": one})
        for n, (setting, one) in enumerate(values)
    ]
    (table,) = map(without_intervals, behaviour_tables([evaluation(rows)]))
    assert table.columns == ("setting", "model", "n", "injected", "followed")
    ((*cells, followed),) = table.rows
    assert (cells, followed.value) == (["full_rag", "m", 3, 2], 0.5)
