"""Two standard errors side by side: both by hand."""

from __future__ import annotations

import math
import statistics

import pytest

from ragtasks.reports.tables._scores import error_table
from ragtasks.results import Evaluation, ScoredAnswer
from ragtasks.suites import suite_named
from ragtasks.tables import Value
from tests.reports._rows import evaluation as evaluation_of
from tests.reports._rows import row as row_of

RL_F, RB_ALG = (next(item for item in suite_named("mtrag").metrics if item.name == name) for name in ("rl_f", "rb_alg"))


def row(conversation: str, turn: int, value: float | None, setting: str = "reference") -> ScoredAnswer:
    named = {"task_id": f"{conversation}<::>{turn}", "conversation_id": conversation, "turn": turn, "setting": setting}
    return row_of(turn, value, **named, values={"rb_alg": value, "rl_f": None})


def evaluation(*rows: ScoredAnswer, model: str = "m") -> Evaluation:
    return evaluation_of(rows, model)


def test_equal_tasks_of_one_conversation_count_once() -> None:
    # Twelve conversations of three equal tasks: the harness counts 36 independent values instead of twelve.
    means = [number / 11 for number in range(12)]
    rows = [row(f"c{number}", turn, mean) for number, mean in enumerate(means) for turn in (1, 2, 3)]
    (line,) = error_table([evaluation(*rows)], [RB_ALG]).rows
    setting, model, metric, mean, clustered, harness, n, n_conversations, reason = line
    assert (setting, model, metric, n, n_conversations, reason) == ("reference", "m", "rb_alg", 36, 12, "")
    assert isinstance(mean, Value)
    assert isinstance(clustered, Value)
    assert isinstance(harness, Value)
    assert mean.value == pytest.approx(0.5)
    assert clustered.value == pytest.approx(statistics.stdev(means) / math.sqrt(12))
    assert harness.value == pytest.approx(statistics.stdev(means * 3) / math.sqrt(36))
    assert mean.n_scored == mean.n == 36


def test_the_mean_shows_its_coverage_and_the_note_names_the_formula() -> None:
    table = error_table([evaluation(row("a", 1, 0.5), row("b", 1, None))], [RB_ALG])
    assert table.rows[0][3] == Value(0.5, 1, 2)
    assert "by the formula of lm_eval" in table.note
    assert "prints" not in table.note  # there, a group's standard error is pooled over its domains


def test_missing_values_have_no_row_and_settings_are_in_order() -> None:
    rows = (row("a", 1, 0.5, "full_rag"), row("a", 1, 0.5), row("b", 1, None))
    table = error_table([evaluation(*rows), evaluation(row("a", 1, None), model="unscored")], [RL_F, RB_ALG])
    assert [line[:3] for line in table.rows] == [("reference", "m", "rb_alg"), ("full_rag", "m", "rb_alg")]
    assert [line[-1] for line in table.rows] == ["fewer than 10 conversations"] * 2
    assert error_table([], [RB_ALG]).rows == ()
