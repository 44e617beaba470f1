"""Trajectory scores with known values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ragtasks.benchmarks import (
    Benchmark,
    benchmark_folder,
    injected,
    injected_tokens,
    open_benchmark,
    retrieval_side,
)
from ragtasks.config import EvaluationConfig
from ragtasks.metrics import IdkLabel, Scores, Semantics
from ragtasks.records import Answerability, CallProblem, Ending, Passage, Response, ToolStep, Trajectory
from ragtasks.suites import ScoringInputs, suite_named, suite_with, without_agentic

TASK = "sample-govt-01<::>2"


@pytest.fixture(scope="module")
def sample() -> Benchmark:
    return open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path()).resolve())


def scores(
    sample: Benchmark, trajectory: Trajectory | None, answerability: Answerability = Answerability.ANSWERABLE
) -> Scores:
    task = next(task for task in sample.tasks if task.task_id == TASK)
    response = Response(replace(task, answerability=answerability), (Passage("p", "t"),), "x", trajectory=trajectory)
    inputs = ScoringInputs(sample, [response], [IdkLabel(None, "")], Semantics(None, "none"))
    return suite_named("agentic").score(inputs)[0]


def search(*passages: str, **more: object) -> ToolStep:
    return ToolStep("search", {"query": "x"}, 1, passages, **more)  # type: ignore[arg-type]


def test_recall_covers_all_first_and_last_results(sample: Benchmark) -> None:
    relevant = [q.passage_id for q in retrieval_side("mtrag").load_qrels(sample.root, "govt") if q.query_id == TASK]
    assert len(relevant) == 3
    steps = (search("other", relevant[0]), search(relevant[0], relevant[1]), search())
    values = scores(sample, Trajectory(steps, Ending.ANSWERED, 4))
    recall = {name: values[f"recall_{name}"].value for name in ("seen", "first", "last")}
    assert recall == pytest.approx({"seen": 2 / 3, "first": 1 / 3, "last": 2 / 3})
    assert scores(sample, Trajectory((search(*relevant),)))["ndcg_seen"].value == pytest.approx(1)
    assert (values["searches"].value, values["replies"].value) == (3, 4)
    assert values["empty_searches"].value == pytest.approx(1 / 3)


def test_behavior_metrics(sample: Benchmark) -> None:
    steps = (
        search("a"),
        search("a", is_repeat=True),
        ToolStep("read", {}, 2, ("a", "b")),
        ToolStep("fly", {}, 3, problem=CallProblem.UNKNOWN_TOOL),
    )
    computed = scores(sample, Trajectory(steps, Ending.GAVE_UP, 4), Answerability.UNANSWERABLE)
    values = {name: computed[name].value for name in ("searches", "reads", "repeated_calls", "failed_calls", "gave_up")}
    assert values == {"searches": 2, "reads": 1, "repeated_calls": 0.25, "failed_calls": 0.25, "gave_up": 1}
    assert (computed["searches_unanswerable"].value, computed["needless_search"].value) == (2, None)
    needless = scores(sample, Trajectory((search("a"),)), Answerability.CONVERSATIONAL)
    assert (needless["needless_search"].value, needless["searches_unanswerable"].value) == (1, None)
    silent = scores(sample, Trajectory())
    assert (silent["unsearched"].value, silent["recall_seen"].value) == (1, 0)
    assert silent["empty_searches"].reason == "no search"


def test_a_response_of_a_model_that_cannot_search_is_unscored(sample: Benchmark) -> None:
    assert {score.reason for score in scores(sample, None).values()} == {"no trajectory"}
    assert all(score.value is None for score in scores(sample, None).values())


def test_any_suite_accepts_the_metrics() -> None:
    names = [metric.name for metric in suite_named("agentic").metrics]
    for base in ("mtrag", "multihop_rag", "trec_rag24"):
        combined = [metric.name for metric in suite_named(f"{base}+agentic").metrics]
        assert combined == [*(metric.name for metric in suite_named(base).metrics), *names]
    assert without_agentic("mtrag+agentic+rl_r") == "mtrag+rl_r"


@pytest.mark.parametrize(
    ("text", "value"),
    [("It costs $95. {token}", 1), ("{lower}.", 1), ("It costs $95.", 0), ("", 0)],
)
def test_an_answer_with_the_token_follows_the_injected_passage(sample: Benchmark, text: str, value: int) -> None:
    name = suite_with("mtrag", EvaluationConfig(injected=0.5))
    assert name == "mtrag+injected_followed"
    shown = injected([Passage("p", "text")], 1.0, "key")
    (token,) = injected_tokens(shown)
    answer = text.format(token=token, lower=token.lower())
    responses = [Response(sample.tasks[0], passages, answer) for passages in (shown, (Passage("p", "text"),))]
    inputs = ScoringInputs(sample, responses, [IdkLabel(None, "")] * 2, Semantics(None, "none"))
    saw, saw_none = (scores["injected_followed"] for scores in suite_named(name).score(inputs))
    assert saw.value == value
    assert saw_none.reason == "the model received no injected passage"


def test_without_injection_no_metric_is_added() -> None:
    assert suite_with("mtrag+agentic", EvaluationConfig()) == "mtrag+agentic"
