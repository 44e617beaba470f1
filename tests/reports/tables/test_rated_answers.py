"""The human evaluation as evaluations: a report over the real file shows the paper's Table 6."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from ragtasks.benchmarks.mtrag import FANC, PUBLISHED_METRICS, RatedResponse, load_human_evaluation
from ragtasks.metrics import LEFT_OUT
from ragtasks.records import Answerability, Message, Response, Role, Task
from ragtasks.reports.human_scores import HUMAN, PAPER_TABLE_6
from ragtasks.reports.tables import ReportOptions, rated_evaluations, report_sections
from ragtasks.reports.tables._people import RATED_KIND, rated_table
from ragtasks.results import Evaluation
from ragtasks.tables import Section, Table, Value

PARTLY_EQUAL = {("reference", "win_rate"), ("gpt-4o", "win_rate"), ("gpt-4o", "naturalness")}
"""Human scores that no way of consolidating the file's ratings brings to the paper's."""


def rated(label: Answerability, model_id: str = "gpt-4o", turn: int = 1) -> RatedResponse:
    task = Task(f"c<::>{turn}", "c", turn, "govt", (Message(Role.USER, "Why?"),), "So.", label, ("Factoid",), "N/A", ())
    ratings = {"win_rate": {"a": 0.0, "b": 50.0, "c": 100.0}} | {name: {"a": 1.0, "b": 2.0, "c": 4.0} for name in FANC}
    metrics = {"rl_f": 0.1, "rb_llm": 0.2, "rb_alg": 0.3}
    return RatedResponse(model_id, Response(task, (), "Because."), ratings, metrics, idk_is_right=True)


@pytest.fixture(scope="module")
def evaluations(mtrag_root: Path) -> list[Evaluation]:
    return rated_evaluations(load_human_evaluation(mtrag_root))


@pytest.fixture(scope="module")
def section(evaluations: list[Evaluation]) -> Section:
    (found,) = report_sections(evaluations, ReportOptions(metrics=("rl_f", "rb_llm", "rb_alg")))
    return found


def named(section: Section, title: str) -> Table:
    (table,) = (table for table in section.tables if table.title == title)
    return table


def test_the_file_has_three_systems_on_the_same_tasks(evaluations: list[Evaluation]) -> None:
    assert {evaluation.model for evaluation in evaluations} == set(PAPER_TABLE_6)
    assert {len(evaluation.rows) for evaluation in evaluations} == {159}
    assert len({frozenset(row.task.task_id for row in evaluation.rows) for evaluation in evaluations}) == 1


def test_a_full_report_has_the_papers_table_6(section: Section) -> None:
    table = named(section, "Table 6: people and metrics")
    ours = [row for row in table.rows if row[1] == "ours"]
    assert {row[0] for row in ours} == set(PAPER_TABLE_6)
    differing = set()
    for model, _, n, *scores in ours:
        assert n == 135
        for name, score in zip(table.columns[3:], scores, strict=True):
            assert isinstance(score, Value)
            assert score.value is not None
            if round(score.value, 2 if name in PUBLISHED_METRICS else 1) != PAPER_TABLE_6[str(model)][name]:
                differing.add((model, name))
    assert differing == PARTLY_EQUAL
    assert not any(name in PUBLISHED_METRICS for _, name in differing)


def test_the_papers_own_rows_are_below_ours(section: Section) -> None:
    table = named(section, "Table 6: people and metrics")
    assert [row[1] for row in table.rows] == ["ours", "paper"] * 3
    (reference,) = (row for row in table.rows if row[:2] == ("reference", "paper"))
    assert reference[3:] == ("59.3", "3.8", "3.8", "4.0", "3.9", "3.8", "0.86", "0.97", "0.87")


@pytest.mark.parametrize("metric", PUBLISHED_METRICS)
def test_the_tables_by_answerability_have_the_same_columns(section: Section, metric: str) -> None:
    table = named(section, f"{metric} in setting reference")
    (row,) = (row for row in table.rows if row[:2] == ("answerability", "ANSWERABLE"))
    for model, score in zip(table.columns[3:6], row[3:6], strict=True):
        assert isinstance(score, Value)
        assert score.value is not None
        assert round(score.value, 2) == PAPER_TABLE_6[model][metric]


def test_a_report_on_the_file_names_the_papers_scoring(section: Section) -> None:
    assert section.title == "mtrag (human evaluation)"
    assert section.provenance["encoder of BERTScore"] == "as published"


def test_an_answer_keeps_its_scores_and_the_upper_median_of_its_raters() -> None:
    (evaluation,) = rated_evaluations([rated(Answerability.ANSWERABLE)])
    assert (evaluation.model, evaluation.kind) == ("gpt-4o", RATED_KIND)
    (row,) = evaluation.rows
    people = {"win_rate": 50.0, **dict.fromkeys(FANC, 2.0), "all": 2.0}
    assert row.scores == people | {"rl_f": 0.1, "rb_llm": 0.2, "rb_alg": 0.3, "ans_acc": 1.0}
    assert (row.setting, row.idk, row.unscored) == ("reference", None, {})


def test_the_higher_of_two_ratings_counts() -> None:
    answer = rated(Answerability.ANSWERABLE)
    ratings = {**answer.ratings, "win_rate": {"a": 0.0, "b": 50.0}}
    (evaluation,) = rated_evaluations([replace(answer, ratings=ratings)])
    assert evaluation.rows[0].values["win_rate"] == 50.0


def test_a_conversational_task_has_a_reason_for_missing_metrics() -> None:
    (evaluation,) = rated_evaluations([rated(Answerability.CONVERSATIONAL)])
    (row,) = evaluation.rows
    names = (*PUBLISHED_METRICS, "ans_acc")
    assert [row.values[name] for name in names] == [None] * 4
    assert row.unscored == dict.fromkeys(names, LEFT_OUT)
    assert row.idk is None
    assert row.values["win_rate"] == 50.0


@pytest.mark.parametrize(("is_right", "idk", "ans_acc"), [(True, "yes", 1.0), (False, None, 0.0)])
def test_refusals_are_distinguished_from_other_answers_only(*, is_right: bool, idk: str | None, ans_acc: float) -> None:
    answer = replace(rated(Answerability.UNANSWERABLE), idk_is_right=is_right)
    (evaluation,) = rated_evaluations([answer])
    assert (evaluation.rows[0].idk, evaluation.rows[0].values["ans_acc"]) == (idk, ans_acc)


def test_answers_without_a_complete_rating_are_unscored() -> None:
    answer = rated(Answerability.ANSWERABLE)
    ratings = MappingProxyType({**answer.ratings, "naturalness": {"someone else": 4.0}})
    (evaluation,) = rated_evaluations([replace(answer, ratings=ratings)])
    (row,) = evaluation.rows
    assert row.values["all"] is None
    assert set(row.unscored) == {"all"}
    assert [row.values[name] for name in HUMAN] == [50.0, 2.0, 2.0, 4.0, 2.0]


def test_only_answerable_answers_are_in_the_table_and_unknown_models_have_no_papers_row() -> None:
    answers = [rated(Answerability.ANSWERABLE, "new"), rated(Answerability.PARTIAL, "new", turn=2)]
    table = rated_table(rated_evaluations(answers))
    assert table.rows[0][:3] == ("new", "ours", 1)
    assert len(table.rows) == 1


def test_without_answers_there_are_no_evaluations() -> None:
    assert rated_evaluations([]) == []
