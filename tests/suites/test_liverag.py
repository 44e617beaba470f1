"""LiveRAG's suite: what judges are asked, and the challenge's scales of their labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.judges import (
    LIVERAG_CORRECTNESS,
    LIVERAG_FAITHFULNESS,
    LIVERAG_POINTS,
    Finding,
    Question,
    UnparsableReplyError,
    VerdictOutcome,
    liverag_correctness,
    liverag_faithfulness,
)
from ragtasks.records import Response, Score
from ragtasks.suites import suite_named
from ragtasks.suites._beside_mtrag import _in_points

TASK = open_benchmark("liverag", benchmark_folder("liverag", "sample", Path())).tasks[2]
RESPONSE = Response(TASK, TASK.references, "Yes, it was much cheaper.")


def asked(step: Question | Finding) -> Question:
    assert isinstance(step, Question)
    return step


def read(question: Question, label: str) -> Finding:
    found = question.read(question.form.replace("LABEL", label))
    assert isinstance(found, Finding)
    return found


def test_a_judge_of_correctness_sees_question_answer_and_statements() -> None:
    question = asked(liverag_correctness().open(RESPONSE))
    assert all(text in question.text for text in (TASK.question, TASK.target, RESPONSE.text))
    assert question.text.count(TASK.target) == 2  # as answer and as its only statement
    assert TASK.references[0].text not in question.text


def test_a_judge_of_faithfulness_sees_passages_and_no_reference_answer() -> None:
    question = asked(liverag_faithfulness().open(RESPONSE))
    assert all(passage.text in question.text for passage in TASK.references)
    assert TASK.target not in question.text
    unasked = liverag_faithfulness().open(replace(RESPONSE, passages=()))
    assert isinstance(unasked, Finding)
    assert unasked.outcome is VerdictOutcome.NOT_ASKED


@pytest.mark.parametrize(("rubric", "label", "points"), [
    (name, label, points) for name, labels in LIVERAG_POINTS.items() for label, points in labels.items()
])  # fmt: skip
def test_labels_are_points_of_the_challenge(rubric: str, label: str, points: int) -> None:
    question = asked(
        {LIVERAG_CORRECTNESS: liverag_correctness, LIVERAG_FAITHFULNESS: liverag_faithfulness}[rubric]().open(RESPONSE)
    )
    found = read(question, label)
    assert found.value is not None
    assert 0 <= found.value <= 1
    assert _in_points(rubric, Score(found.value)).value == pytest.approx(points)
    with pytest.raises(UnparsableReplyError):
        read(question, "maybe")


def test_the_scales_are_those_of_the_challenge_and_of_the_metrics() -> None:
    assert LIVERAG_POINTS[LIVERAG_CORRECTNESS] == {"clean": 2, "padded": 1, "none": 0, "wrong": -1}
    assert LIVERAG_POINTS[LIVERAG_FAITHFULNESS] == {"full": 1, "partial": 0, "no": -1}
    bounds = {metric.name: metric.bounds for metric in suite_named("liverag").metrics if metric.name in LIVERAG_POINTS}
    assert bounds == {LIVERAG_CORRECTNESS: (-1, 2), LIVERAG_FAITHFULNESS: (-1, 1)}
    assert _in_points(LIVERAG_CORRECTNESS, Score(None, "no verdict")) == Score(None, "no verdict")
    names = [rubric.name for rubric in suite_named("liverag").rubrics()]
    assert names[-2:] == [LIVERAG_CORRECTNESS, LIVERAG_FAITHFULNESS]
