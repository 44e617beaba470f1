"""The tables: what stands together, what a mean covers, and nothing cut."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragtasks.errors import ConfigurationError
from ragtasks.reports.results import Evaluation, Row, read_evaluations
from ragtasks.reports.tables import render_report

from ._evaluations import LIMIT

KIND = ("mtrag", "minilm", "rules")


def row(number: int, value: float | None, **changes: Any) -> Row:
    made = Row(
        task_id=f"c<::>{number}",
        turn=number,
        domain="govt",
        setting="reference",
        answerability="ANSWERABLE",
        question_types=("Factoid",),
        multi_turn="N/A" if number == 1 else "Follow-up",
        values={"rb_alg": value, "rouge_l": 0.25},
    )
    return replace(made, **changes)


def cells(report: str, *first: str) -> list[list[str]]:
    """Return the rows of all tables that begin with these cells."""
    lines = [line for line in report.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [found for found in rows if found[: len(first)] == list(first)]


def dimension(rows: list[Row], dimension: str, value: str, metric: str = "rb_alg") -> list[str]:
    """Return n and figure of one slice of one model."""
    (found,) = cells(render_report([Evaluation("m", KIND, tuple(rows))], metric), dimension, value)
    return found[2:]


def test_a_mean_says_what_it_covers() -> None:
    assert dimension([row(1, 0.5), row(2, 1.0)], "all", "") == ["2", "0.750"]
    assert dimension([row(1, 0.5), row(2, None), row(3, None)], "all", "") == ["3", "0.500 (1/3)"]
    assert dimension([row(1, None)], "all", "") == ["1", "-"]
    assert dimension([row(1, 0.0), row(2, None)], "all", "") == ["2", "0.000 (1/2)"]  # unscored is not zero


def test_slices_by_every_dimension() -> None:
    rows = [
        row(1, 1.0, question_types=("Factoid", "Keyword"), domain="fiqa"),
        row(2, 0.0, answerability="UNANSWERABLE"),
        row(3, 0.5, multi_turn="Clarification"),
    ]
    assert dimension(rows, "turn", "first") == ["1", "1.000"]
    assert dimension(rows, "turn", "later") == ["2", "0.250"]
    assert dimension(rows, "domain", "govt") == ["2", "0.250"]
    assert dimension(rows, "answerability", "UNANSWERABLE") == ["1", "0.000"]
    assert dimension(rows, "multi-turn type", "Clarification") == ["1", "0.500"]
    # A question with two types counts in both.
    assert dimension(rows, "question type", "Factoid") == ["3", "0.500"]
    assert dimension(rows, "question type", "Keyword") == ["1", "1.000"]
    assert dimension(rows, "all", "", metric="rouge_l") == ["3", "0.250"]


@pytest.mark.parametrize(
    "other", [("mtrag (sample)", "minilm", "rules"), ("mtrag", "none", "rules"), ("mtrag", "minilm", "judge")]
)
def test_two_kinds_never_share_a_table(other: tuple[str, str, str]) -> None:
    mine, theirs = Evaluation("mine", KIND, (row(1, 1.0),)), Evaluation("theirs", other, (row(1, 0.0),))
    report = render_report([mine, theirs])
    assert report.count("## By setting") == 2
    for table in report.split("\n\n"):
        assert not ("mine" in table and "theirs" in table and table.startswith("|"))
    assert f"# {other[0]}\n" in report
    assert f"encoder of BERTScore: {other[1]}; IDK detector: {other[2]}" in report
    assert len(cells(report, "reference", "mine")) == len(cells(report, "reference", "theirs")) == 1
    assert [len(found) for found in cells(report, "all", "")] == [4, 4]


def test_models_of_one_kind_stand_side_by_side() -> None:
    report = render_report([Evaluation(name, KIND, (row(1, value),)) for name, value in (("a", 1.0), ("b", 0.5))])
    assert cells(report, "dimension") == [["dimension", "value", "n", "a", "b"]]
    assert cells(report, "all", "") == [["all", "", "1", "1.000", "0.500"]]


def test_settings_are_compared_on_the_tasks_that_they_share() -> None:
    rows = (row(1, 1.0), row(2, 0.0), row(1, 0.5, setting="full_rag"))
    report = render_report([Evaluation("m", KIND, rows)])
    assert "on the 1 tasks that the settings share" in report
    assert [found[2:4] for found in cells(report, "reference", "m")] == [["2", "0.500"], ["1", "1.000"]]
    assert [found[2:4] for found in cells(report, "full_rag", "m")] == [["1", "0.500"]] * 2
    assert "the settings share" not in render_report([Evaluation("m", KIND, rows[:2])])


def test_names_are_neither_cut_nor_read_as_markup() -> None:
    names = [f"organisation/a-model-with-quite-a-long-name-{n}-[bold]:smile:" for n in range(12)]
    report = render_report([Evaluation(name, KIND, (row(1, 1.0),)) for name in names])
    assert cells(report, "dimension") == [["dimension", "value", "n", *names]]
    assert [len(cells(report, "reference", name)) for name in names] == [1] * 12
    assert "…" not in report


def test_an_unknown_metric_is_answered_with_close_matches() -> None:
    with pytest.raises(ConfigurationError, match="unknown metric 'rb_algo': did you mean 'rb_alg'"):
        render_report([Evaluation("m", KIND, (row(1, 1.0),))], "rb_algo")


def test_no_evaluations_give_no_tables() -> None:
    assert render_report([]) == ""


def test_real_evaluations_make_one_report_that_says_sample(evaluations: Path) -> None:
    report = render_report(read_evaluations([evaluations]), "rouge_l")
    assert report.startswith("# mtrag (sample)\n")
    assert "encoder of BERTScore: none; IDK detector: rules" in report
    n = str(4 * LIMIT)
    for setting in ("reference", "reference_rag", "full_rag"):
        oracle = cells(report, setting, "ragtasks-oracle")[0]
        assert (oracle[2], oracle[3]) == (n, "-")  # rb_alg needs an encoder
        assert f"## rouge_l in setting {setting}" in report
    assert [found[3] for found in cells(report, "all", "")] == ["1.000"] * 3
