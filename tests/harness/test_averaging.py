"""Means over scored docs, and group means over all scored responses of their tasks."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lm_eval import simple_evaluate
from lm_eval.api.metrics import aggregate_subtask_metrics, mean
from lm_eval.tasks import TaskManager

from ragtasks.harness.scores import mean_of_scored
from ragtasks.harness.tasks import task_folder
from tests.harness.conftest import SAMPLE

TASKS = st.lists(st.lists(st.one_of(st.just(math.nan), st.floats(-10, 10)), min_size=1, max_size=8), min_size=1)


def expected_mean(values: list[float]) -> float:
    scored = [value for value in values if not math.isnan(value)]
    return math.fsum(scored) / len(scored) if scored else math.nan


def samples_mean(results: dict[str, Any], tasks: list[str], metric: str) -> float:
    return expected_mean([sample[metric] for task in tasks for sample in results["samples"][task]])


def test_the_mean_excludes_unscored_values() -> None:
    assert mean_of_scored([1.0, math.nan, 0.0]) == 0.5
    assert math.isnan(mean_of_scored([math.nan]))
    assert math.isnan(mean_of_scored([]))


@given(TASKS)
def test_the_harness_formula_gives_the_mean_over_all_scored_docs(tasks: list[list[float]]) -> None:
    # If every doc is scored, a task has the harness's own mean, a plain float, for its standard error.
    means = [mean_of_scored(task) if any(map(math.isnan, task)) else mean(task) for task in tasks]
    group = aggregate_subtask_metrics(means, [len(task) for task in tasks])
    assert type(group) is float
    assert group == pytest.approx(expected_mean([value for task in tasks for value in task]), abs=1e-9, nan_ok=True)


def test_a_mean_otherwise_behaves_as_a_float() -> None:
    mean = mean_of_scored([1.0, math.nan, 0.0])
    assert json.dumps({"a": mean}) == '{"a": 0.5}'
    assert (mean * 2, mean * 100 + 1, f"{mean * 3:.2f}") == (1.0, 51.0, "1.50")
    assert copy.deepcopy(mean) * 3 / 3 == 0.5
    # `weight_by_size: false`: all tasks count equally.
    assert aggregate_subtask_metrics([mean, mean_of_scored([1.0, 1.0])], [3, 2], weight_by_size=False) == 0.75


@pytest.mark.parametrize(
    ("model", "group", "partly_scored"),
    [
        ("ragtasks-extractive", "mtrag_un_reference", "ans_acc"),
        ("ragtasks-oracle", "mtrag_rewrite", "unneeded_rewrite"),
    ],
)
def test_a_group_has_the_mean_over_its_scored_responses(
    model: str, group: str, partly_scored: str, evaluate: Callable[..., dict[str, Any]]
) -> None:
    results = evaluate(model, group, limit=None, bootstrap_iters=10)
    scores, samples = results["groups"][group], results["samples"]
    shares = {sum(math.isnan(row[partly_scored]) for row in rows) / len(rows) for rows in samples.values()}
    assert len(shares) > 1  # otherwise any weights work
    for key in [key for key in scores if key.endswith(",sample") and "_stderr" not in key]:
        expected = samples_mean(results, list(samples), key.partition(",")[0])
        assert scores[key] == pytest.approx(expected, nan_ok=True), key
        assert type(scores[key]) is float
    assert scores[f"{partly_scored}_stderr,sample"] == "N/A"


def test_a_task_has_the_balanced_mean_of_the_sides_of_its_accuracy(evaluate: Callable[..., dict[str, Any]]) -> None:
    results = evaluate("ragtasks-extractive", "mtrag_un_reference", limit=None, bootstrap_iters=10)
    balanced = []
    for task, samples in results["samples"].items():
        scores = results["results"][task]
        for name, labels in {"answered": {"ANSWERABLE", "PARTIAL"}, "declined": {"UNANSWERABLE"}}.items():
            expected = expected_mean([row["ans_acc"] for row in samples if row["doc"]["answerability"] in labels])
            assert scores[f"{name},sample"] == pytest.approx(expected, nan_ok=True)
        balanced.append(scores["balanced_ans_acc,sample"])
        expected = (scores["answered,sample"] + scores["declined,sample"]) / 2
        assert balanced[-1] == pytest.approx(expected, nan_ok=True)
    assert not all(map(math.isnan, balanced))
    assert "balanced_ans_acc,sample" not in results["groups"]["mtrag_un_reference"]


def test_a_group_without_any_scored_response_has_no_score(evaluate: Callable[..., dict[str, Any]]) -> None:
    scores = evaluate("ragtasks-extractive", "mtrag_un_reference")["groups"]["mtrag_un_reference"]
    assert math.isnan(scores["rb_alg,sample"])  # no encoder


def test_a_nested_group_has_the_mean_over_its_scored_responses(tmp_path: Path) -> None:
    (tmp_path / "both.yaml").write_text(
        "group: both\ntask: [mtrag_un_reference, mtrag_reference]\n"
        "aggregate_metric_list:\n  - {metric: ans_acc, aggregation: mean, weight_by_size: true}\n"
    )
    manager = TaskManager(include_path=[task_folder(), tmp_path], include_defaults=False, metadata=SAMPLE)
    results = simple_evaluate("ragtasks-extractive", tasks=["both"], task_manager=manager, bootstrap_iters=10)
    tasks = list(results["samples"])
    assert len(tasks) == 8
    assert results["groups"]["both"]["ans_acc,sample"] == pytest.approx(samples_mean(dict(results), tasks, "ans_acc"))
    # Every doc of this task is scored: the harness's own mean and standard error.
    assert results["groups"]["mtrag_reference"]["ans_acc_stderr,sample"] > 0
