"""Tables of conversations: failed turns, first failures, recovery, unscored and missing turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ragtasks.config import FailedTurn, config_from_options
from ragtasks.errors import ConfigurationError
from ragtasks.reports.comparison import compare_evaluations, comparisons_text
from ragtasks.reports.panels import pictures_of
from ragtasks.reports.tables import SURVIVAL, ReportOptions, report_sections
from ragtasks.reports.tables._conversations import TITLE, conversation_tables
from ragtasks.results import Evaluation, read_evaluations
from ragtasks.tables import Format, Section, Table, Value
from tests._messages import raises
from tests.reports._saved import facts, facts_of, save

NAMES = "abcdefghijkl"
TASKS = tuple((conversation, turn) for conversation in NAMES for turn in (1, 2, 3))
"""Twelve conversations of three turns."""
Errors = Mapping[str, str]


def saved(folder: Path, errors: Errors, model: str = "m", *, day: int = 1, **changes: Any) -> Evaluation:
    """Save a system with task id -> turn error; the other turns have none, and `?` is an unexamined turn."""

    def note(sample: dict[str, Any]) -> None:
        doc = sample["doc"]
        kind = errors.get(doc["task_id"], "")
        if kind != "?":
            doc["scoring"]["turn_error"] = {"kind": kind, "reason": "words"} if kind else {}
        doc["domain"] = "govt" if doc["conversation_id"] in "abcdef" else "fiqa"
        doc["answerability"] = "UNANSWERABLE" if doc["turn"] == 3 else "ANSWERABLE"

    save(folder, model, day=day, **{"change_sample": note, "tasks": TASKS, **changes})
    (evaluation,) = read_evaluations([folder / f"results_2026-01-{day:02}.json"])
    return evaluation


def rows_of(table: Table) -> list[dict[str, Any]]:
    """Return the rows of a table as head -> cell, with a mean as its value."""
    values = [[cell.value if isinstance(cell, Value) else cell for cell in row] for row in table.rows]
    return [dict(zip(table.columns, row, strict=True)) for row in values]


def config(failed_turn: object) -> Callable[[dict[str, Any]], None]:
    """Return a change that stores a definition with the results."""
    stored = config_from_options({"failed_turn": failed_turn}).model_dump(mode="json")["failed_turn"]
    return lambda results: facts_of(results)["configuration"].update(failed_turn=stored)


FAILURES = {"a<::>1": "missed", "a<::>2": "invented", "b<::>3": "missed", "c<::>2": "broken"}


def test_failures_recovery_and_the_curve_count_conversations(tmp_path: Path) -> None:
    whole, by_turn, _ = conversation_tables([saved(tmp_path, FAILURES)], None)
    assert whole.title == TITLE
    (row,) = rows_of(whole)
    assert (row["conversations"], row["failure-free"], row["half failed"]) == (12, 0.75, "-")
    assert row["failed turns"] == pytest.approx(4 / 36)
    # a fails again after turn 1 and recovers after turn 2, c recovers, and b has no turn after its failure.
    assert row["recovered"] == pytest.approx(2 / 3)
    recovered = whole.rows[0][whole.columns.index("recovered")]
    assert isinstance(recovered, Value)
    assert (recovered.n_scored, recovered.n) == (3, 3)
    assert [(row["at risk"], row["first failures"], row[SURVIVAL]) for row in rows_of(by_turn)] == [
        (12, 1, pytest.approx(11 / 12)),
        (11, 1, pytest.approx(10 / 12)),
        (10, 1, pytest.approx(9 / 12)),
    ]


def test_turns_after_the_last_conversation_failed_keep_their_scores(tmp_path: Path) -> None:
    evaluation = saved(tmp_path, {f"{name}<::>1": "missed" for name in NAMES} | {"a<::>2": "missed"})
    by_turn = conversation_tables([evaluation], None)[1]
    assert [(row["at risk"], row[SURVIVAL], row["failed turns"]) for row in rows_of(by_turn)] == [
        (12, 0.0, 1.0),
        (0, None, pytest.approx(1 / 12)),
        (0, None, 0.0),
    ]
    (picture,) = pictures_of([Section("s", {}, (by_turn,))])
    assert [score.value for score in picture.panels[0].series["m"].values()] == [0.0]


def test_turns_that_are_not_shown_are_named(tmp_path: Path) -> None:
    tasks = tuple((name, turn) for name in "ab" for turn in range(1, 33))
    by_turn = conversation_tables([saved(tmp_path, {}, tasks=tasks)], None)[1]
    assert len(by_turn.rows) == 30
    assert "Only the first 30 turns are shown." in by_turn.note


def test_parts_count_only_their_own_turns(tmp_path: Path) -> None:
    *_, parts = conversation_tables([saved(tmp_path, FAILURES)], None)
    free = {(row["dimension"], row["value"]): row["failure-free"] for row in rows_of(parts)}
    assert free["domain", "fiqa"] == 1.0
    assert free["domain", "govt"] == 0.5
    assert free["answerability", "UNANSWERABLE"] == pytest.approx(11 / 12)
    assert free["answerability", "ANSWERABLE"] == pytest.approx(10 / 12)


def test_a_conversation_with_an_unscored_turn_is_not_without_failure(tmp_path: Path) -> None:
    evaluation = saved(tmp_path, {"a<::>2": "?", "b<::>1": "missed"})
    whole, by_turn, _ = conversation_tables([evaluation], None)
    cell = whole.rows[0][whole.columns.index("failure-free")]
    assert isinstance(cell, Value)
    assert (cell.n_scored, cell.n) == (11, 12)
    assert cell.value == pytest.approx(10 / 11)
    assert [row["at risk"] for row in rows_of(by_turn)] == [12, 10, 10]  # a is censored after turn 1


def test_a_missing_turn_is_unscored_unless_the_benchmark_leaves_it_out(tmp_path: Path) -> None:
    tasks = tuple(task for task in TASKS if task != ("a", 2))
    all_tasks = saved(tmp_path / "all", {}, tasks=tasks)
    cut = saved(tmp_path / "cut", {}, tasks=tasks, n_tasks=36)
    cells = [table.rows[0][3] for table in (conversation_tables([side], None)[0] for side in (all_tasks, cut))]
    assert [(cell.n_scored, cell.n) for cell in cells if isinstance(cell, Value)] == [(12, 12), (11, 12)]
    assert "Not all tasks" not in conversation_tables([all_tasks], None)[0].note
    assert "Not all tasks of m in reference (35 of 36) were" in conversation_tables([cut], None)[0].note


def test_half_failed_is_the_first_turn_with_half_of_the_conversations(tmp_path: Path) -> None:
    half = {f"{name}<::>2": "missed" for name in "abcdef"}
    assert rows_of(conversation_tables([saved(tmp_path, half)], None)[0])[0]["half failed"] == "turn 2"


def test_a_conversation_is_censored_before_its_missing_turn(tmp_path: Path) -> None:
    tasks = tuple(task for task in TASKS if task != ("a", 2))
    by_turn = conversation_tables([saved(tmp_path, {}, tasks=tasks, n_tasks=36)], None)[1]
    assert [row["at risk"] for row in rows_of(by_turn)] == [12, 11, 11]


def test_recovery_is_unknown_if_the_next_turn_is_missing(tmp_path: Path) -> None:
    tasks = tuple(task for task in TASKS if task != ("a", 2))
    failures = {"a<::>1": "missed", "b<::>1": "missed"}
    for n_tasks, known in ((35, 2), (36, 1)):  # if the benchmark leaves turn 2 out, turn 3 is the next one
        side = saved(tmp_path / str(n_tasks), failures, tasks=tasks, n_tasks=n_tasks)
        whole = conversation_tables([side], None)[0]
        cell = whole.rows[0][whole.columns.index("recovered")]
        assert isinstance(cell, Value)
        assert (cell.n_scored, cell.n, cell.value) == (known, 2, 1.0)


def test_a_turn_on_which_the_metric_is_undefined_is_left_out(tmp_path: Path) -> None:
    def scores(task_id: str) -> dict[str, float | None]:
        return {"rb_alg": 0.5, "answered": None if task_id.endswith("3") else float(task_id != "a<::>1")}

    evaluation = saved(tmp_path, {}, values=scores, change=config("answered<1"))  # turn 3 is UNANSWERABLE
    whole, by_turn, *_ = conversation_tables([evaluation], None)
    cell = whole.rows[0][whole.columns.index("failure-free")]
    assert isinstance(cell, Value)
    assert (cell.n_scored, cell.n) == (12, 12)
    assert cell.value == pytest.approx(11 / 12)
    assert [row["turn"] for row in rows_of(by_turn)] == [1, 2]


def test_single_turns_and_unexamined_turns_have_no_table(tmp_path: Path) -> None:
    assert conversation_tables([saved(tmp_path / "single", {}, tasks=tuple((name, 2) for name in NAMES))], None) == []
    save(tmp_path / "old", tasks=TASKS)
    assert conversation_tables(read_evaluations([tmp_path / "old"]), None) == []


def test_scores_tokens_and_seconds_are_means_over_the_turn(tmp_path: Path) -> None:
    def count(sample: dict[str, Any]) -> None:
        sample["doc"]["scoring"]["turn_error"] = {}
        turn = sample["doc"]["turn"]
        sample["doc"]["usage"] = {"input_tokens": 10 * turn, "output_tokens": 1} | (
            {"seconds": 2.0} if turn < 3 else {}
        )

    evaluation = saved(tmp_path, {}, change_sample=count, values=lambda task_id: {"rb_alg": int(task_id[-1]) / 10})
    main = next(metric for metric in evaluation.metrics if metric.name == "rb_alg")
    whole, by_turn, *_ = conversation_tables([evaluation], main)
    assert [row["rb_alg"] for row in rows_of(by_turn)] == pytest.approx([0.1, 0.2, 0.3])
    assert [row["tokens"] for row in rows_of(by_turn)] == [11.0, 21.0, 31.0]
    assert [row["seconds"] for row in rows_of(by_turn)] == [2.0, 2.0, None]  # a missing count is not 0
    assert rows_of(whole)[0]["tokens"] == 21.0


def values(task_id: str) -> dict[str, float | None]:
    """Return a low score for the second turns of a and b."""
    return {"rb_alg": 0.2 if task_id in {"a<::>2", "b<::>2"} else 0.8}


def test_results_define_a_failed_turn_and_an_option_overrides_it(tmp_path: Path) -> None:
    evaluation = saved(tmp_path, FAILURES, values=values, change=config({"metric": "rb_alg", "below": 0.3}))
    (section,) = report_sections([evaluation])
    table = next(table for table in section.tables if table.title == TITLE)
    assert table.note.startswith("A failed turn: rb_alg below 0.3.")
    assert rows_of(table)[0]["failure-free"] == pytest.approx(10 / 12)
    given = {
        "turn_errors": ("any turn error", 9 / 12),
        "missed,broken": ("the turn error missed or broken", 9 / 12),
        "invented": ("the turn error invented", 11 / 12),
        "rb_alg>0.3": ("rb_alg above 0.3", 0.0),
    }
    for text, (words, share) in given.items():
        options = ReportOptions(failed_turn=config_from_options({"failed_turn": text}).failed_turn)
        (section,) = report_sections([evaluation], options)
        table = next(table for table in section.tables if table.title == TITLE)
        assert table.note.startswith(f"A failed turn: {words}. ")
        assert rows_of(table)[0]["failure-free"] == pytest.approx(share)


def test_results_with_other_definitions_are_not_put_in_one_table(tmp_path: Path) -> None:
    evaluations = [
        saved(tmp_path / "a", FAILURES, "a", values=values, change=config("rb_alg<0.3")),
        saved(tmp_path / "b", FAILURES, "b", values=values),
    ]
    (table,) = conversation_tables(evaluations, None)
    assert not table.rows
    assert "rb_alg below 0.3; any turn error. Next step: add --failed-turn" in table.note
    assert len(conversation_tables(evaluations, None, FailedTurn())) == 3


def test_a_definition_of_a_file_that_is_none_is_a_note(tmp_path: Path) -> None:
    for number, value in enumerate((3, {"metric": "rb_alg"}, {"metric": "of another package", "below": 1})):
        change = facts(configuration={"run": "official", "failed_turn": value})
        (table,) = conversation_tables([saved(tmp_path / str(number), FAILURES, change=change)], None)
        assert table.note.startswith("Not computed: ")


def test_settings_of_one_system_are_compared_on_the_conversations_that_both_have(tmp_path: Path) -> None:
    short = tuple(task for task in TASKS if task != ("a", 3))
    saved(tmp_path, FAILURES, "m")
    saved(tmp_path, {}, "m", day=2, setting="full_rag", tasks=short)
    pairs = compare_evaluations(read_evaluations([tmp_path]), by="setting", metrics=["failure_free"]).pairs
    assert [pair.difference.n_values for pair in pairs] == [11]


def test_unknown_names_in_a_definition_are_errors(tmp_path: Path) -> None:
    evaluation = saved(tmp_path, FAILURES)
    with raises(ConfigurationError):
        conversation_tables([evaluation], None, FailedTurn(metric="rb_al", below=0.3))
    with raises(ConfigurationError):
        conversation_tables([evaluation], None, FailedTurn(errors=("invent",)))


def test_conversations_are_compared_in_pairs_with_a_correction_of_their_own(tmp_path: Path) -> None:
    late = {task_id.replace("1", "3").replace("2", "3"): kind for task_id, kind in FAILURES.items()}
    evaluations = [saved(tmp_path / "a", FAILURES, "a"), saved(tmp_path / "b", late, "b")]
    comparisons = compare_evaluations(evaluations)
    pairs = {pair.first.metric: pair for pair in comparisons.pairs}
    assert list(pairs) == ["rb_alg", "failure_free", "turns_before_failure"]
    assert pairs["rb_alg"].adjusted_p == pairs["rb_alg"].p
    first, gap = pairs["turns_before_failure"].first_mean, pairs["turns_before_failure"].difference
    assert first == pytest.approx((0 + 2 + 1 + 9 * 3) / 12)
    assert gap.value == pytest.approx((2 + 0 + 1) / 12)
    assert (gap.n_values, pairs["failure_free"].difference.value) == (12, 0.0)
    text = comparisons_text(comparisons, Format.MARKDOWN, group="setting", name="model", items="tasks")
    assert "- a: a failed turn is any turn error" in text
    assert "for the 1 comparison and for the 2 of conversations" in text
    assert "it assumes that conversations are independent" in text


def test_only_conversations_with_equal_turns_on_both_sides_are_compared(tmp_path: Path) -> None:
    cut = tuple(task for task in TASKS if task not in {("a", 3), ("b", 2)})
    evaluations = [saved(tmp_path / "a", FAILURES, "a"), saved(tmp_path / "b", {}, "b", tasks=cut, n_tasks=36)]
    (pair,) = compare_evaluations(evaluations, metrics=["failure_free"]).pairs
    assert (pair.difference.n_values, pair.difference.n_unscored) == (10, 2)
    assert pair.first_mean == pytest.approx(9 / 10)


def test_a_definition_is_needed_only_where_conversations_are_named(tmp_path: Path) -> None:
    evaluations = [
        saved(tmp_path / "a", FAILURES, "a", values=values, change=config("rb_alg<0.3")),
        saved(tmp_path / "b", FAILURES, "b", values=values),
    ]
    assert {pair.first.metric for pair in compare_evaluations(evaluations).pairs} == {"rb_alg"}
    with raises(ConfigurationError):
        compare_evaluations(evaluations, metrics=["failure_free"])
    (pair,) = compare_evaluations(evaluations, metrics=["failure_free"], failed_turn=FailedTurn()).pairs
    assert pair.first_mean == pytest.approx(9 / 12)
