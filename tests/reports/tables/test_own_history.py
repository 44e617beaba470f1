from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ragtasks.reports.tables import ReportOptions, report_sections
from ragtasks.results import Evaluation, bare_model_name, has_own_history
from ragtasks.tables import Table, Value
from tests.reports._rows import changed, evaluation, row

TURNS = 3
N_CONVERSATIONS = 12


def conversations(model: str, values: dict[tuple[int, int], float | None]) -> Evaluation:
    """Return an evaluation of a model: (conversation, turn) -> rb_alg."""
    rows = [
        row(turn, value, task_id=f"c{number}<::>{turn}", conversation_id=f"c{number}")
        for (number, turn), value in values.items()
    ]
    return evaluation(rows, model)


def tables(*evaluations: Evaluation) -> list[Table]:
    (section,) = report_sections(evaluations, ReportOptions(metrics=("rb_alg",)))
    return [table for table in section.tables if "gold and own history" in table.title]


def conversation_turns() -> list[tuple[int, int]]:
    return [(number, turn) for number in range(N_CONVERSATIONS) for turn in range(1, TURNS + 1)]


def test_the_cost_by_turn_with_paired_intervals() -> None:
    gold = {turn: 0.5 + 0.01 * turn[0] for turn in conversation_turns()}
    own = {(number, turn): value - 0.1 * (turn - 1) for (number, turn), value in gold.items()}
    (table,) = tables(conversations("m", gold), conversations("m (own history)", own))
    assert table.title == "rb_alg by gold and own history in setting reference: m and m (own history)"
    found = {line[0]: line[1:] for line in table.rows}
    assert list(found) == ["all", "first", "later", "1", "2", "3"]
    costs = {turn: cells[3] for turn, cells in found.items()}
    for turn, cost in {"all": -0.1, "first": 0.0, "later": -0.15, "1": 0.0, "2": -0.1, "3": -0.2}.items():
        value = costs[turn]
        assert isinstance(value, Value)
        assert value.value == pytest.approx(cost, abs=1e-12)
    means = found["all"][1]
    assert isinstance(means, Value)
    assert means.low is not None
    assert means.value == pytest.approx(math.fsum(gold.values()) / len(gold))
    # Every conversation loses the same, so the paired interval is far narrower than that of either mean.
    paired = costs["all"]
    assert isinstance(paired, Value)
    assert paired.low is None or paired.high is None or paired.high - paired.low < 0.01


def test_a_task_that_one_side_did_not_score_is_left_out_of_means() -> None:
    gold: dict[tuple[int, int], float | None] = dict.fromkeys(conversation_turns(), 0.5)
    own = {**gold, (0, 2): None}
    gold[1, 3] = None
    (table,) = tables(conversations("m", gold), conversations("m (own history, bm25, last_turn)", own))
    n = len(conversation_turns())
    values = [cell for cell in table.rows[0] if isinstance(cell, Value)]
    assert [(value.n_scored, value.n) for value in values] == [(n - 2, n)] * 3


def test_tasks_of_another_setting_or_without_a_partner_are_left_out_of_means() -> None:
    gold, own = (conversations(name, dict.fromkeys(conversation_turns(), 0.5)) for name in ("m", "m (own history)"))
    elsewhere = [changed(answer, setting="full_rag", values={"rb_alg": 0.9}) for answer in own.rows[:5]]
    (table,) = tables(replace(gold, rows=gold.rows[2:]), replace(own, rows=(*own.rows, *elsewhere)))
    n = len(conversation_turns()) - 2
    values = [cell for cell in table.rows[0] if isinstance(cell, Value)]
    assert [(value.value, value.n) for value in values] == [(0.5, n), (0.5, n), (0.0, n)]


def test_only_evaluations_of_the_same_model_are_paired() -> None:
    values = dict.fromkeys(conversation_turns(), 0.5)
    names = ("a", "b", "b (run bm25)", "b (own history)", "c (own history)")
    found = tables(*(conversations(name, values) for name in names))
    assert [table.title.partition(": ")[2] for table in found] == [
        "b and b (own history)",
        "b (run bm25) and b (own history)",
    ]


@pytest.mark.parametrize(
    ("name", "base", "is_own"),
    [
        ("m", "m", False),
        ("m #2", "m", False),
        ("m (run bm25.x) #3", "m", False),
        ("a (b) (own history, bm25, last_turn) #2", "a (b)", True),
        ("a (runner)", "a (runner)", False),
    ],
)
def test_the_bare_name_and_the_history_of_a_model(name: str, base: str, is_own: bool) -> None:
    named = evaluation([row(1, 0.5)], name)
    assert (bare_model_name(named), has_own_history(named)) == (base, is_own)
