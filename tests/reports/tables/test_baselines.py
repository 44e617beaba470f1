"""Baselines derived from labels: they have the scores of a run of the same system."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from ragtasks.metrics import accuracy_sides, answerability_accuracy, condition_paper
from ragtasks.records import Answerability, IdkVerdict, Score
from ragtasks.reports.tables import is_baseline
from ragtasks.reports.tables._scores import CONDITIONED, missing_baselines, with_baselines
from ragtasks.results import Evaluation, ScoredAnswer, read_evaluations
from tests.reports._rows import evaluation, row

ALWAYS, ON_EMPTY = "refuse always (from the labels)", "refuse on empty (from the labels)"
VALUES = dict.fromkeys(CONDITIONED, 0.7)


def rule(name: str, *given: Evaluation) -> Evaluation:
    (found,) = (item for item in with_baselines(given) if item.model == name)
    return found


@pytest.mark.parametrize("label", list(Answerability))
def test_refusing_always_has_the_scores_of_a_refusal(label: Answerability) -> None:
    (made,) = rule(ALWAYS, evaluation([row(1, None, answerability=label.value, values=VALUES)])).rows
    conditioned = condition_paper(Score(0.7), label, IdkVerdict.YES, clarification=False).value
    accuracy = answerability_accuracy(label, IdkVerdict.YES).value
    sides = accuracy_sides(accuracy, label)
    assert made.values == {**dict.fromkeys(CONDITIONED[:3], conditioned), "ans_acc": accuracy, **sides}


@pytest.mark.parametrize(("label", "n_passages"), list(itertools.product(Answerability, (0, 3))))
def test_refusing_on_empty_has_an_accuracy_and_no_other_scores(label: Answerability, n_passages: int) -> None:
    (made,) = rule(
        ON_EMPTY, evaluation([row(1, None, answerability=label.value, n_passages=n_passages, values=VALUES)])
    ).rows
    verdict = IdkVerdict.NO if n_passages else IdkVerdict.YES
    assert made.values.get("ans_acc") == answerability_accuracy(label, verdict).value
    assert set(made.scores) <= {"ans_acc"}


def test_rules_have_only_scored_metrics_and_no_verdicts() -> None:
    verdicts = {("rb_llm", "judge"): 0.5}
    (made,) = rule(ALWAYS, evaluation([row(1, 0.5, verdicts=verdicts, unscored={"rl_f": "why"})])).rows
    assert made.values == {"rb_alg": 0.0}
    assert (made.verdicts, made.unscored, made.idk) == ((), {}, None)


def test_a_rule_has_every_task_once() -> None:
    first = evaluation([row(1, 0.5), row(2, 0.5)], "a")
    second = evaluation([row(2, 0.5), row(2, 0.5, setting="full_rag"), row(3, 0.5)], "b")
    made = rule(ALWAYS, first, second)
    assert sorted((answer.setting, answer.task.turn) for answer in made.rows) == [
        ("full_rag", 2),
        ("reference", 1),
        ("reference", 2),
        ("reference", 3),
    ]


def with_run(run: str, *rows: ScoredAnswer) -> Evaluation:
    return replace(evaluation(rows, f"m (run {run})"), provenance={"mtrag_reference": {"configuration": {"run": run}}})


def test_refusing_on_empty_is_not_derived_from_a_run_without_passages() -> None:
    shown, hidden = row(1, None, values=VALUES), row(1, None, values=VALUES, n_passages=0)
    closed = with_run("closed_book", hidden)
    assert not [item for item in with_baselines([closed]) if item.model == ON_EMPTY]
    assert len(rule(ALWAYS, closed).rows) == 1
    for given in ((with_run("official", shown), closed), (closed, with_run("bm25.rewrite", shown))):
        for name in (ALWAYS, ON_EMPTY):
            assert [len(item.response.passages) for item in rule(name, *given).rows] == [1], name
        assert [item.scores for item in rule(ON_EMPTY, *given).rows] == [{"ans_acc": 1.0}]


def test_rules_prefer_the_passages_of_the_benchmark_to_those_of_another_run() -> None:
    official = with_run("official", row(1, None, values=VALUES, n_passages=2))
    other = with_run("bm25.rewrite", row(1, None, values=VALUES, n_passages=5))
    for given in ((official, other), (other, official)):
        assert [len(answer.response.passages) for answer in rule(ON_EMPTY, *given).rows] == [2]


def test_baselines_are_last_and_a_run_replaces_its_rule() -> None:
    given = [evaluation([row(1, 0.5)], name) for name in ("ragtasks-refuse", "b", "ragtasks-oracle", "a")]
    names = [item.model for item in with_baselines(given)]
    assert names == ["b", "a", "ragtasks-refuse", "ragtasks-oracle", ON_EMPTY]
    assert [is_baseline(name) for name in names] == [False, False, True, True, True]


def test_a_baseline_on_a_stored_run_replaces_its_rule() -> None:
    ran = evaluation([row(1, 0.5)], "ragtasks-refuse (run bm25.rewrite)")
    assert ALWAYS not in [item.model for item in with_baselines([evaluation([row(1, 0.5)]), ran])]


def test_a_rule_is_in_every_setting_without_its_run() -> None:
    other = evaluation([row(1, 0.5), row(1, 0.5, setting="full_rag")], "a")
    ran = evaluation([row(1, 0.5)], "ragtasks-refuse")
    assert [answer.setting for answer in rule(ALWAYS, other, ran).rows] == ["full_rag"]


def test_other_suites_have_no_rules() -> None:
    given = [evaluation([row(1, None, values={"accuracy": 1.0})], suite="multihop_rag")]
    assert with_baselines(given) == given


def test_missing_baselines_are_listed_with_their_commands() -> None:
    text = missing_baselines([evaluation([row(1, 0.5)])])
    assert "--model ragtasks-oracle" in text
    assert "--run closed_book" in text
    for oracle in ("ragtasks-oracle", "ragtasks-oracle (run bm25.rewrite)"):
        given = [evaluation([row(1, 0.5)], name) for name in (oracle, "m (run closed_book)")]
        assert missing_baselines(given) == ""


@pytest.mark.slow
def test_the_rule_agrees_with_a_run_of_the_refusing_model(evaluations: Path) -> None:
    found = {item.model: item for item in read_evaluations([evaluations])}
    ran = {(item.setting, item.task.task_id): item for item in found["ragtasks-refuse"].rows}
    made = rule(ALWAYS, found["ragtasks-oracle"])
    assert len(made.rows) == len(ran) > 0
    for item in made.rows:
        assert item.values["ans_acc"] == ran[item.setting, item.task.task_id].values["ans_acc"]
