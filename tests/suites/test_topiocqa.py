"""TopiOCQA's suite: exact match and F1 as the official script computes them, and with the best answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import pytest

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.config import EvaluationConfig
from ragtasks.records import Response, Task
from ragtasks.scoring import ResponseScorer
from ragtasks.suites._beside_mtrag import official_scores

BENCHMARK = open_benchmark("topiocqa", benchmark_folder("topiocqa", "sample", Path()))


@pytest.mark.parametrize(("answer", "em", "f1"), [
    (lambda task: task.target, 72.7, 86.6),
    (lambda task: task.extra["answers"][-1], 72.7, 87.1),
    (lambda task: task.references[0].text.partition(".")[0], 0.0, 4.4),
])  # fmt: skip
def test_the_official_scores_are_those_of_the_official_script(
    answer: Callable[[Task], str], em: float, f1: float
) -> None:
    # `python evaluate_reader.py --data_file SAMPLE --results_file ANSWERS` of McGill-NLP/topiocqa at 49b710e.
    scores = [official_scores(answer(task), task.extra["answers"]) for task in BENCHMARK.tasks]
    assert [round(100 * fmean(column), 1) for column in zip(*scores, strict=True)] == [em, f1]


def test_each_answer_is_left_out_in_turn() -> None:
    assert official_scores("Pellin", ["Pellin", "in Tollgarth"]) == (0.5, 0.5)
    assert official_scores("Pellin", ["the Pellin."]) == (1, 1)
    assert official_scores("the", ["a"]) == (1, 1)  # nothing is left of either
    assert official_scores("Pellin", ["a"]) == (0, 0)


def scored(task: Task, text: str) -> dict[str, float | None]:
    scorer = ResponseScorer(BENCHMARK, EvaluationConfig(encoder="none"))
    (result,) = scorer.score([Response(task, task.references, text)])
    return {name: score.value for name, score in result.scores.items()}


def test_the_best_of_several_answers_counts_beside_it() -> None:
    scores = scored(BENCHMARK.tasks[1], "It cost 61,000 crowns.")
    assert (scores["em_best"], scores["f1_best"], scores["rouge_l"]) == (1, 1, 1)
    assert scores["em"] == pytest.approx(2 / 3)


def test_the_label_is_a_refusal() -> None:
    task = next(task for task in BENCHMARK.tasks if task.target == "UNANSWERABLE")
    scores = scored(task, "UNANSWERABLE")
    assert (scores["em"], scores["f1"], scores["ans_acc"]) == (1, 1, 1)
    assert scored(BENCHMARK.tasks[0], "UNANSWERABLE")["ans_acc"] == 0
