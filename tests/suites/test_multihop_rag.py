from __future__ import annotations

from pathlib import Path

import pytest

from ragtasks.benchmarks import Benchmark, benchmark_folder, open_benchmark
from ragtasks.judges import IDK, MULTIHOP_ANSWER, Verdict, VerdictOutcome, Verdicts
from ragtasks.metrics import NgramIdk, Scores, Semantics
from ragtasks.records import Response
from ragtasks.suites import ScoringInputs, suite_named

SUITE = suite_named("multihop_rag")
KINDS = ("inference", "comparison", "temporal", "null")
OF_TYPE = {f"{kind}_query": f"accuracy_{kind}" for kind in KINDS}


@pytest.fixture(scope="module")
def sample() -> Benchmark:
    return open_benchmark("multihop_rag", benchmark_folder("multihop_rag", "sample", Path()).resolve())


def evidence_of(sample: Benchmark, texts: list[str], verdicts: Verdicts | None = None) -> ScoringInputs:
    responses = [Response(task, (), text) for task, text in zip(sample.tasks, texts, strict=False)]
    labels = NgramIdk().detect(responses)
    return ScoringInputs(sample, responses, labels, Semantics(None, "encoder: none"), verdicts)


def scored(sample: Benchmark, text: str) -> list[Scores]:
    return SUITE.score(evidence_of(sample, [text] * len(sample.tasks)))


def test_reference_answers_are_correct_and_counted_by_type(sample: Benchmark) -> None:
    for task, own in zip(sample.tasks, SUITE.score(evidence_of(sample, [t.target for t in sample.tasks])), strict=True):
        (question_type,) = task.question_types
        assert own["accuracy"].value == own["accuracy_official"].value == own["coverage"].value == 1
        values = {name: own[name].value for name in OF_TYPE.values()}
        assert values == {name: 1.0 if name == OF_TYPE[question_type] else None for name in OF_TYPE.values()}
        reasons = {
            own[f"accuracy_{other_type}"].reason for other_type in KINDS if f"{other_type}_query" != question_type
        }
        assert reasons == {f"no {other_type} query" for other_type in KINDS if f"{other_type}_query" != question_type}


@pytest.mark.parametrize("text", ["Insufficient information.", "I do not know.", "The articles do not say."])
def test_a_refusal_is_right_on_null_queries_only(sample: Benchmark, text: str) -> None:
    for task, own in zip(sample.tasks, scored(sample, text), strict=True):
        assert own["accuracy"].value == float(task.question_types == ("null_query",))
        assert own["idk_yes"].value == 1


def test_an_empty_reply_is_wrong_everywhere(sample: Benchmark) -> None:
    for own in scored(sample, " "):
        assert (own["accuracy"].value, own["accuracy_official"].value, own["empty"].value) == (0, 0, 1)


def test_a_null_query_without_a_refusal_label_is_unscored(sample: Benchmark) -> None:
    for task, own in zip(sample.tasks, scored(sample, "\u1403\u14da\u14c2\u1585 \u1583\u1405\u1528"), strict=True):
        unscored = task.question_types == ("null_query",)
        assert own["accuracy"].value == (None if unscored else 0)
        assert own["coverage"].value == float(not unscored)
        assert own["accuracy"].reason.startswith("no IDK verdict") == unscored


def test_judged_accuracy_is_the_median_of_the_judges_that_answered(sample: Benchmark) -> None:
    evidence = evidence_of(sample, ["Yes", "No"])
    table = {
        (index, rubric, judge): Verdict(response.task.task_id, rubric, judge, VerdictOutcome.GIVEN, "yes", 1.0)
        for index, response in enumerate(evidence.responses)
        for rubric in (MULTIHOP_ANSWER, IDK)
        for judge in ("a", "b")
    }
    table[0, MULTIHOP_ANSWER, "a"] = Verdict("x", MULTIHOP_ANSWER, "a", VerdictOutcome.GIVEN, "no", 0.0)
    for judge in ("a", "b"):
        table[1, MULTIHOP_ANSWER, judge] = Verdict("y", MULTIHOP_ANSWER, judge, VerdictOutcome.EMPTY, reason="empty")
    verdicts = Verdicts(evidence.responses, [MULTIHOP_ANSWER, IDK], ["a", "b"], table)
    first, second = SUITE.score(evidence_of(sample, ["Yes", "No"], verdicts))
    assert (first["accuracy_judged"].value, first["judge_coverage"].value) == (0.5, 1)
    assert (second["accuracy_judged"].value, second["judge_coverage"].value) == (None, 0.5)
    assert second["accuracy_judged"].reason == "a: empty; b: empty"
    assert set(first) == {metric.name for metric in SUITE.metrics}


def test_without_judges_only_other_metrics_are_computed(sample: Benchmark) -> None:
    assert set(scored(sample, "Yes")[0]) == {metric.name for metric in SUITE.metrics if not metric.needs_judges}
    assert [rubric.name for rubric in SUITE.rubrics()] == [MULTIHOP_ANSWER, IDK]
    assert not SUITE.uses_encoder
