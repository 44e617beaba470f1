from __future__ import annotations

from pathlib import Path

import pytest

from ragtasks.benchmarks import Benchmark, benchmark_folder, open_benchmark
from ragtasks.judges import IDK, RL_F, Verdict, VerdictOutcome, Verdicts
from ragtasks.metrics import NgramIdk, Semantics, SemanticScore
from ragtasks.records import Answerability, Response
from ragtasks.suites import ScoringInputs, suite_named

MTRAG_S = suite_named("mtrag_s")
NAMES = ["bert_k_precision", "rl_f_raw", "rl_f", "idk_yes", "empty", "coverage", "judge_coverage", "grounded", "copied"]
TEXTS = ("The island has 3,140 inhabitants.", "I do not have that information.", "")


@pytest.fixture(scope="module")
def sample() -> Benchmark:
    return open_benchmark("mtrag_s", benchmark_folder("mtrag_s", "sample", Path()).resolve())


def evidence_of(sample: Benchmark, *, semantics: Semantics, with_verdicts: bool = False) -> ScoringInputs:
    unanswerable = next(task for task in sample.tasks if task.answerability is Answerability.UNANSWERABLE)
    pairs = [*zip(sample.tasks, TEXTS, strict=False), (unanswerable, TEXTS[1])]
    responses = [Response(task, task.references, text) for task, text in pairs]
    table = {
        (index, rubric, "a"): Verdict(response.task.task_id, rubric, "a", VerdictOutcome.GIVEN, "3/4", 0.75)
        for index, response in enumerate(responses)
        for rubric in (RL_F, IDK)
    }
    table[2, RL_F, "a"] = Verdict("x", RL_F, "a", VerdictOutcome.NO_STATEMENTS, reason="no statement")
    verdicts = Verdicts(responses, [RL_F, IDK], ["a"], table) if with_verdicts else None
    return ScoringInputs(sample, responses, NgramIdk().detect(responses), semantics, verdicts)


def test_only_reference_free_scores_are_kept(sample: Benchmark) -> None:
    semantics = Semantics([SemanticScore(0.1, 0.2, value) for value in (0.5, -0.1, None, 0.3)])
    scores = MTRAG_S.score(evidence_of(sample, semantics=semantics))
    assert [own["bert_k_precision"].value for own in scores] == [0.5, -0.1, None, 0.3]
    assert scores[2]["bert_k_precision"].reason == "no passages"
    assert [own["coverage"].value for own in scores] == [1, 1, 0, 1]
    assert [own["idk_yes"].value for own in scores] == [0, 1, 0, 1]
    assert [own["empty"].value for own in scores] == [0, 0, 1, 0]
    assert set(scores[0]) == {metric.name for metric in MTRAG_S.metrics if not metric.needs_judges}


def test_a_missing_encoder_gives_a_reason(sample: Benchmark) -> None:
    scores = MTRAG_S.score(evidence_of(sample, semantics=Semantics(None, "encoder: none")))
    assert {own["bert_k_precision"].reason for own in scores} == {"encoder: none"}
    assert {own["coverage"].value for own in scores} == {0.0}


def test_faithfulness_is_reported_raw_and_conditioned(sample: Benchmark) -> None:
    """A refusal scores 0 on an answerable question, and 1 on an unanswerable one."""
    scores = MTRAG_S.score(evidence_of(sample, semantics=Semantics(None, "none"), with_verdicts=True))
    assert [own["rl_f_raw"].value for own in scores] == [0.75, 0.75, None, 0.75]
    assert [own["rl_f"].value for own in scores] == [0.75, 0.0, None, 1.0]
    assert scores[2]["rl_f"].reason == "a: no statement"
    assert {own["judge_coverage"].value for own in scores} == {1.0}
    assert set(scores[0]) == set(NAMES)


def test_no_metric_needs_a_reference() -> None:
    assert [metric.name for metric in MTRAG_S.metrics] == NAMES
    assert not {"rb_alg", "rb_llm", "rouge_l", "bert_recall", "ans_acc"} & set(NAMES)
    assert [rubric.name for rubric in MTRAG_S.rubrics()] == [RL_F, IDK]
