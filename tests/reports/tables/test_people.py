"""Human ratings of some answers extended to all by a judge: matching of answers, and the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks.mtrag import FANC, RatedResponse
from ragtasks.reports.tables import ReportOptions, report_sections
from ragtasks.reports.tables._people import people_table
from ragtasks.results import Evaluation, read_evaluations
from ragtasks.tables import Table, Value
from tests.reports._saved import save

TASKS = tuple((f"c{number}", turn) for number in range(60) for turn in (1, 2))


def quality(task_id: str) -> float:
    """Return the quality of an answer, 0 to 1, by conversation and turn."""
    conversation, turn = task_id[1:].split("<::>")
    return int(conversation) * 7 % 11 / 15 + int(turn) / 10


def judged(folder: Path, score: Callable[[str], float | None]) -> Evaluation:
    save(folder, "gpt-4o", tasks=TASKS, values=lambda task_id: {"rb_llm": score(task_id), "ans_acc": 1.0})
    (found,) = read_evaluations([folder])
    return found


def ratings_of(evaluation: Evaluation, n: int, model: str = "gpt-4o", text: str = "") -> tuple[RatedResponse, ...]:
    """Return the human ratings of the first conversations."""
    found = []
    for answer in (row.response for row in evaluation.rows):
        if int(answer.task.conversation_id[1:]) < n:
            rating = {"r": 1 + 3 * quality(answer.task.task_id)}
            ratings = {**dict.fromkeys(FANC, rating), "win_rate": {"r": 50.0}}
            response = replace(answer, text=text or answer.text)
            found.append(RatedResponse(model, response, ratings, {}, idk_is_right=True))
    return tuple(found)


def rows_of(table: Table) -> dict[str, dict[str, Any]]:
    return {str(row[2]): dict(zip(table.columns, row, strict=True)) for row in table.rows}


def test_a_few_ratings_and_a_judge_that_agrees_with_people_estimate_the_mean_of_all(tmp_path: Path) -> None:
    evaluation = judged(tmp_path, quality)
    table = people_table([evaluation], ratings_of(evaluation, 20))
    row = rows_of(table)["faithfulness"]
    truth = sum(1 + 3 * quality(f"{name}<::>{turn}") for name, turn in TASKS) / len(TASKS)
    alone, complete = row["ratings alone"], row["with the judge"]
    assert (row["rated"], row["answers"], row["judge"], row["remark"]) == (40, 120, "rb_llm", "")
    assert complete.value == pytest.approx(truth, abs=0.01)
    assert complete.low <= truth <= complete.high
    assert complete.high - complete.low < 0.8 * (alone.high - alone.low)
    assert row["ratings saved"].value > 0.4
    even = rows_of(table)["win_rate"]
    assert (even["with the judge"].value, even["ratings saved"]) == (50, "-")


def test_an_uninformative_judge_does_not_change_the_mean_of_the_ratings(tmp_path: Path) -> None:
    evaluation = judged(tmp_path, lambda _: 0.5)
    row = rows_of(people_table([evaluation], ratings_of(evaluation, 20)))["all"]
    assert row["remark"] == "the judge agrees too little with the ratings to make the mean more precise"
    assert isinstance(row["with the judge"], Value)
    assert (row["with the judge"].value, row["with the judge"].low) == (
        row["ratings alone"].value,
        row["ratings alone"].low,
    )


def test_answers_without_a_verdict_stay_in_the_mean(tmp_path: Path) -> None:
    evaluation = judged(tmp_path, lambda task_id: None if task_id.endswith("1") else quality(task_id))
    row = rows_of(people_table([evaluation], ratings_of(evaluation, 20)))["all"]
    assert (row["rated"], row["answers"]) == (40, 120)
    unjudged = judged(tmp_path / "none", lambda _: None)
    assert rows_of(people_table([unjudged], ratings_of(unjudged, 20)))["all"]["judge"] == "-"


def test_ratings_of_other_answers_do_not_count(tmp_path: Path) -> None:
    evaluation = judged(tmp_path, quality)
    assert people_table([evaluation], ratings_of(evaluation, 20, model="other")).rows == ()
    changed = people_table([evaluation], ratings_of(evaluation, 20, text="Another text."))
    assert (changed.rows, changed.legend[0][:31]) == ((), "None of the rated answers is in")
    few = rows_of(people_table([evaluation], ratings_of(evaluation, 4)))["all"]
    assert few["remark"] == "fewer than 10 conversations"
    assert few["with the judge"].low is None


def test_the_table_is_the_last_one_of_the_report(tmp_path: Path) -> None:
    evaluation = judged(tmp_path, quality)
    (section,) = report_sections([evaluation], ReportOptions(rated=ratings_of(evaluation, 20)))
    assert section.tables[-1].title == "People's ratings"
    (plain,) = report_sections([evaluation])
    assert [table.title for table in plain.tables] == [table.title for table in section.tables[:-1]]
