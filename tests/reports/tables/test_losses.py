"""Classes of losses: each class computed by hand, and their sum, the difference of the means."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.metrics import TurnErrorKind, turn_error
from ragtasks.records import IdkVerdict
from ragtasks.reports.tables import CLASSES, NO_LOSS, NOT_USED, loss_class
from ragtasks.reports.tables._losses import NO_IDK, OTHER, loss_sentence, loss_tables
from ragtasks.results import Evaluation, ScoredAnswer, read_evaluations
from ragtasks.statistics import MIN_CLUSTERS, cluster, estimate_means
from ragtasks.tables import Cell, Table, Value
from tests.reports._rows import evaluation, without_intervals
from tests.reports._rows import row as row_of
from tests.reports._saved import save

METRIC = "rb_alg"
MISSED, REFUSED, ANSWERED, BROKEN = (
    TurnErrorKind(name).label for name in ("missed", "refused_known", "answered_unknown", "broken")
)
NOT_SHOWN = {"n_found": 0, "turn_error": "missed"}
FALSE_REFUSAL = {"idk": "yes", "turn_error": "refused_known"}
LABELS = ("ANSWERABLE", "PARTIAL", "UNANSWERABLE", "CONVERSATIONAL", "UNDERSPECIFIED")


def row(task_id: str, value: float | None, setting: str = "full_rag", **changes: Any) -> ScoredAnswer:
    fields = {"task_id": task_id, "conversation_id": task_id, "setting": setting, "question_types": ()}
    fields |= {"n_passages": 5, "n_references": 2, "values": {METRIC: value}, "turn_error": ""}
    return row_of(1, value, **fields | changes)


def pair(task_id: str, before: float | None, after: float | None, **changes: Any) -> list[ScoredAnswer]:
    return [row(task_id, before, "reference"), row(task_id, after, **changes)]


def tables(evaluations: Sequence[Evaluation], metric: str = METRIC) -> list[Table]:
    """Return the tables with their scores, without intervals."""
    return [without_intervals(table) for table in loss_tables(evaluations, metric)]


def number(cell: Cell) -> float | None:
    assert isinstance(cell, Value)
    return cell.value


def line(table: Table, name: str) -> tuple[Cell, ...]:
    (found,) = (cells for cells in table.rows if cells[0] == name)
    return found


def class_of(before: float, after: float, **changes: Any) -> str:
    """Return the class of one task in the table."""
    (table,) = tables([evaluation(pair("t", before, after, **changes))])
    (name,) = (cells[0] for cells in table.rows[:-1] if cells[1] == 1)
    return str(name)


@pytest.mark.parametrize(
    ("changes", "fallen", "risen"),
    [
        ({}, NOT_USED, NO_LOSS),
        ({"idk": "partial"}, NOT_USED, NO_LOSS),
        ({"answerability": "PARTIAL"}, NOT_USED, NO_LOSS),
        ({"answerability": "PARTIAL", "idk": "yes"}, NOT_USED, NO_LOSS),
        ({"n_found": 0, "turn_error": "missed"}, MISSED, MISSED),
        ({"n_found": 0}, OTHER, NO_LOSS),
        ({"n_found": 0, "n_references": 0}, OTHER, NO_LOSS),
        ({"idk": "yes", "turn_error": "refused_known"}, REFUSED, REFUSED),
        ({"idk": None}, NO_IDK, NO_IDK),
        ({"idk": None, "turn_error": "broken"}, BROKEN, BROKEN),
        ({"answerability": "UNANSWERABLE", "turn_error": "answered_unknown"}, ANSWERED, ANSWERED),
        ({"answerability": "UNANSWERABLE", "idk": "yes"}, OTHER, NO_LOSS),
        ({"answerability": "UNANSWERABLE", "idk": None}, NO_IDK, NO_IDK),
        ({"answerability": "UNDERSPECIFIED", "n_found": 0}, OTHER, NO_LOSS),
        ({"answerability": "UNDERSPECIFIED", "idk": None}, OTHER, NO_LOSS),
        ({"answerability": "CONVERSATIONAL", "idk": "yes"}, OTHER, NO_LOSS),
    ],
)
def test_the_turn_error_decides_the_class(changes: dict[str, Any], fallen: str, risen: str) -> None:
    assert class_of(0.75, 0.5, **changes) == fallen
    assert class_of(0.5, 0.75, **changes) == class_of(0.5, 0.5, **changes) == risen


def test_a_table_by_hand() -> None:
    rows = [
        *pair("a", 1.0, 0.0, n_found=0, **FALSE_REFUSAL),
        *pair("b", 0.5, 0.0, **FALSE_REFUSAL),
        *pair("c", 0.75, 0.25, **NOT_SHOWN),
        *pair("d", 0.25, 0.5),
        *pair("e", 0.75, None),
        row("only before", 1.0, "reference"),
        row("only after", 0.0),
        row("c", 0.0, "reference_rag"),
    ]
    (table,) = tables([evaluation(rows)])
    assert table.title == "Loss from reference to full_rag: rb_alg, m"
    assert "On 4 of the 5 tasks in both settings" in table.note
    shown = {str(cells[0]): [cells[1], *map(number, cells[2:5]), *cells[5:]] for cells in table.rows}
    assert shown == {
        REFUSED: [2, 0.5, 0.375, 0.75, 1, "a, b"],
        MISSED: [1, 0.25, 0.125, 0.5, 0, "c"],
        NO_LOSS: [1, 0.25, -0.0625, -0.25, 1, ""],
        "all": [4, 1.0, 0.4375, 0.4375, 2, ""],
    }


def test_examples_are_tasks_with_the_largest_losses_and_never_without_a_loss() -> None:
    losses = {"b": 0.5, "a": 0.5, "d": 1.0, "c": 0.25, "kept": 0.0, "risen": -0.5}
    rows = [part for name, loss in losses.items() for part in pair(name, 0.5 + loss / 2, 0.5 - loss / 2, **NOT_SHOWN)]
    (table,) = tables([evaluation(rows)])
    assert line(table, MISSED)[-1] == "d, a, b"
    (table,) = tables([evaluation([row for row in rows if row.task.task_id in {"c", "kept", "risen"}])])
    assert line(table, MISSED)[-1] == "c"


def test_models_are_side_by_side_each_on_its_own_tasks() -> None:
    first = evaluation([*pair("a", 1.0, 0.0, **NOT_SHOWN), *pair("b", 0.5, 0.5)], "first")
    second = evaluation(pair("a", 0.5, 0.25, answerability="UNDERSPECIFIED"), "second")
    alone = evaluation([row("a", 1.0, "reference")], "alone")
    together, *single = tables([first, second, alone])
    assert together.columns == ("class", "first", "second")
    assert [number(cell) for cell in line(together, MISSED)[1:]] == [0.5, 0.0]
    assert [number(cell) for cell in line(together, OTHER)[1:]] == [0.0, 0.25]
    assert [number(cell) for cell in line(together, "all")[1:]] == [0.5, 0.25]
    assert line(together, "tasks")[1:] == (2, 1)
    assert [table.title.rpartition(", ")[2] for table in single] == ["first", "second"]
    assert loss_tables([alone], METRIC) == loss_tables([], METRIC) == []


def test_a_loss_without_scores_in_both_settings_is_unknown() -> None:
    scored = evaluation(pair("a", 1.0, 0.0), "scored")
    together, _, table = tables([scored, evaluation([*pair("a", None, 1.0), *pair("b", 1.0, None)])])
    assert table.rows == ()
    assert "0 are scored in both" in table.note
    assert [number(cells[2]) for cells in together.rows[:-1]] == [None] * (len(together.rows) - 1)


def test_an_increase_is_a_loss_if_lower_values_are_better() -> None:
    before, after = row("a", None, "reference", values={"empty": 0.0}), row("a", None, values={"empty": 1.0})
    (table,) = tables([evaluation([before, after])], "empty")
    assert (line(table, NOT_USED)[1], number(line(table, NOT_USED)[3])) == (1, 1.0)


def test_a_metric_without_a_better_direction_has_no_loss() -> None:
    before, after = row("a", None, "reference", values={"idk_yes": 0.0}), row("a", None, values={"idk_yes": 1.0})
    (table,) = tables([evaluation([before, after], model) for model in "mn"], "idk_yes")
    assert (table.title, table.rows) == ("Loss from reference to full_rag: idk_yes", ())
    assert table.note == "Not computed: neither higher nor lower values of idk_yes are better."
    assert loss_tables([evaluation([before])], "idk_yes") == []


def sentence(rows: Sequence[ScoredAnswer], model: str = "m") -> str:
    """Return the part of the sentence about one model."""
    return loss_sentence([evaluation(rows, model)], METRIC).partition(f"{METRIC}): ")[2]


def test_the_sentence_has_the_total_change_and_the_class_with_the_largest_loss() -> None:
    fallen = pair("a", 1.0, 0.0, **NOT_SHOWN) + pair("b", 1.0, 0.5)
    risen = pair("c", 0.0, 1.0) + pair("d", 0.5, 0.5)
    assert sentence(fallen) == f"m loses 0.750, mostly {MISSED} (0.500)."
    assert sentence(fallen + risen) == f"m loses 0.125 net of gains, mostly {MISSED} (0.250)."
    assert sentence(fallen[2:] + risen) == f"m gains 0.167, with a loss from {NOT_USED} (0.167)."
    assert sentence(fallen[:2] + risen[:2]) == f"m loses nothing, with a loss from {MISSED} (0.500)."
    assert sentence(risen) == "m gains 0.500."


def test_the_sentence_is_about_baselines_only_without_models() -> None:
    oracle, mine = (evaluation(pair("a", 1.0, 0.0, **NOT_SHOWN), name) for name in ("ragtasks-oracle", "mine"))
    assert "ragtasks-oracle" not in loss_sentence([oracle, mine], METRIC)
    assert "mine loses 1.000" in loss_sentence([oracle, mine], METRIC)
    assert "ragtasks-oracle loses 1.000" in loss_sentence([oracle], METRIC)


_TASKS = st.tuples(
    st.integers(0, 10), st.integers(0, 10), st.sampled_from(LABELS), st.sampled_from(["yes", "no"]), st.integers(0, 2)
)


@given(st.lists(_TASKS, min_size=1, max_size=12))
def test_the_sentence_has_the_mean_loss(tasks: list[tuple[int, int, str, str, int]]) -> None:
    rows = []
    for n, (before, after, label, idk, n_found) in enumerate(tasks):
        rows += pair(str(n), before / 10, after / 10, answerability=label, idk=idk, n_found=n_found)
    text = sentence(rows)
    head = re.match(r"m (loses|gains) (nothing|[\d.]{5})", text)
    assert head
    complete = 0.0 if head[2] == "nothing" else float(head[2]) * (1 if head[1] == "loses" else -1)
    assert complete == pytest.approx(sum(before - after for before, after, *_ in tasks) / 10 / len(tasks), abs=0.0006)


def test_contributions_have_the_intervals_of_a_mean_over_all_tasks() -> None:
    # Twelve conversations of two tasks: the first is always answered, the second is refused in every second one.
    losses = {(n, turn): n / 24 if turn == 1 else 0.5 + n / 48 for n in range(12) for turn in (1, 2)}
    rows = []
    for (n, turn), loss in losses.items():
        changes = {"conversation_id": f"c{n}", **(FALSE_REFUSAL if turn == 2 and n % 2 else {})}
        rows += pair(f"{n} {turn}", 0.75, 0.75 - loss, **changes)
    together, single, _ = loss_tables([evaluation(rows, "one"), evaluation(rows, "other")], METRIC)
    conversations = [f"c{n}" for n, _ in losses]
    parts = {
        "all": list(losses.values()),
        REFUSED: [loss if turn == 2 and n % 2 else 0.0 for (n, turn), loss in losses.items()],
    }
    for name, values in parts.items():
        (expected,) = estimate_means([cluster(values, conversations, (-1, 1))])
        assert expected.low is not None
        for cell in (line(single, name)[3], *line(together, name)[1:]):
            assert isinstance(cell, Value)
            assert (cell.n_scored, cell.n) == (24, 24)
            result = (cell.value, cell.low, cell.high)
            assert result == pytest.approx((expected.value, expected.low, expected.high), abs=1e-12)


def test_too_few_conversations_have_contributions_without_intervals() -> None:
    for n, has_interval in ((MIN_CLUSTERS - 1, False), (MIN_CLUSTERS, True)):
        rows = [part for number in range(n) for part in pair(str(number), 1.0, number / 20, **NOT_SHOWN)]
        (table,) = loss_tables([evaluation(rows)], METRIC)
        for name in (MISSED, "all"):
            cell = line(table, name)[3]
            assert isinstance(cell, Value)
            assert (cell.low is not None, cell.high is not None) == (has_interval, has_interval)


VALUES = st.one_of(st.none(), st.floats(0, 1))
TASKS = st.lists(
    st.tuples(
        VALUES,
        VALUES,
        st.fixed_dictionaries(
            {
                "answerability": st.sampled_from(LABELS),
                "idk": st.sampled_from(("yes", "partial", "no", None)),
                "n_references": st.integers(0, 2),
                "n_found": st.integers(0, 2),
            }
        ),
    ),
    min_size=1,
    max_size=15,
)


@given(TASKS, TASKS)
def test_classes_add_up_to_the_difference_of_the_means(one: Any, other: Any) -> None:
    evaluations, expected = [], []
    for model, tasks in (("one", one), ("other", other)):
        rows = [
            part for i, (before, after, changes) in enumerate(tasks) for part in pair(str(i), before, after, **changes)
        ]
        evaluations.append(evaluation(rows, model))
        scored = [(before, after) for before, after, _ in tasks if before is not None and after is not None]
        means = [math.fsum(side) / len(scored) for side in zip(*scored, strict=True)]
        expected.append((len(scored), means[0] - means[1] if scored else None))
    together, *single = tables(evaluations)
    for index, (table, (n, difference)) in enumerate(zip(single, expected, strict=True), start=1):
        parts = [cells for cells in table.rows if cells[0] in CLASSES]
        beside = [number(cells[index]) for cells in together.rows if cells[0] in CLASSES]
        if difference is None:
            assert (parts, set(beside) - {None}) == ([], set())
            continue
        assert sum(int(str(cells[1])) for cells in parts) == n == line(table, "all")[1]
        assert math.fsum(number(cells[3]) or 0.0 for cells in parts) == pytest.approx(difference, abs=1e-12)
        assert math.fsum(value or 0.0 for value in beside) == pytest.approx(difference, abs=1e-12)
        assert math.fsum(number(cells[2]) or 0.0 for cells in parts) == pytest.approx(1)
        for cells in parts:  # the mean loss of a class and its share make its contribution
            share, part, mean = map(number, cells[2:5])
            assert part == pytest.approx((share or 0.0) * (mean or 0.0), abs=1e-12)


def test_repeated_reference_passages_are_counted_once(tmp_path: Path) -> None:
    """Saved samples show p1 twice at the first turn, p1 and p2 at the second."""
    references = iter((["p1", "p1"], ["p2", "p9", "p1"], ["p2"], []))
    path = save(tmp_path, change_sample=lambda sample: sample["doc"].update(references=next(references)))
    (found,) = read_evaluations([path])
    assert [(len(answer.references), answer.n_found) for answer in found.rows] == [(1, 1), (3, 2), (1, 0), (0, 0)]


@pytest.mark.parametrize(
    ("changes", "loss", "expected"),
    [
        ({}, None, NO_LOSS),
        ({}, 0.5, NOT_USED),
        (FALSE_REFUSAL, None, REFUSED),
        ({"idk": None, "values": {METRIC: None}, "verdicts": {("idk", "a"): None}}, 0.5, NO_IDK),
        ({"values": {METRIC: None}, **NOT_SHOWN}, None, MISSED),
        ({"answerability": "CONVERSATIONAL", "idk": None, "values": {METRIC: None}}, None, NO_LOSS),
    ],
)
def test_a_response_without_a_loss_has_the_class_of_its_error(
    changes: dict[str, Any], loss: float | None, expected: str
) -> None:
    assert loss_class(row("a", 0.5, **changes), loss) == expected


@pytest.mark.parametrize("idk", ["yes", "no", None])
@pytest.mark.parametrize("answerability", LABELS)
@pytest.mark.parametrize("n_found", [0, 1])
def test_results_saved_without_turn_errors_get_the_class_of_the_same_definition(
    idk: str | None, answerability: str, n_found: int
) -> None:
    changes = {"target": "The library is open from nine to five.", "text": "It opens at noon, in June.", "idk": idk}
    old = row("a", 0.5, answerability=answerability, n_found=n_found, turn_error=None, **changes)
    error = turn_error(old.response, IdkVerdict(idk) if idk else None)
    new = replace(old, turn_error={"kind": error.kind.value, "reason": error.reason} if error else {})
    assert loss_class(old, 0.5) == loss_class(new, 0.5)
    assert (loss_class(new, 0.5) == (error.kind.label if error else "")) == (error is not None)
