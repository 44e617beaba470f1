"""CORAL's suite: citations by passage, and scores of the text without them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.config import EvaluationConfig
from ragtasks.records import Passage, Response
from ragtasks.scoring import ResponseScorer
from ragtasks.suites import suite_named

BENCHMARK = open_benchmark("coral", benchmark_folder("coral", "sample", Path()))
TASK = BENCHMARK.tasks[2]
"""Its answer cites three passages."""


def scored(text: str, passages: tuple[Passage, ...] = TASK.references) -> dict[str, float | None]:
    scorer = ResponseScorer(BENCHMARK, EvaluationConfig(encoder="none"))
    (result,) = scorer.score([Response(TASK, passages, text)])
    return {name: score.value for name, score in result.scores.items()}


@pytest.mark.parametrize(("text", "precision", "recall"), [
    ("It was [1]. Really [2, 3].", 1, 1),
    ("It was [1].", 1, 1 / 3),
    ("It was [1][4].", 1 / 2, 1 / 3),
    ("It was [4][9].", 0, 0),  # the ninth was not shown
    ("It was.", 0, 0),
    ("", 0, 0),
])  # fmt: skip
def test_citations_count_by_passage(text: str, precision: float, recall: float) -> None:
    scores = scored(text, (*TASK.references, Passage("elsewhere", "Nothing.")))
    assert (scores["citation_precision"], scores["citation_recall"]) == pytest.approx((precision, recall))


def test_citations_change_no_score_of_the_text() -> None:
    with_them, without = scored(f"{TASK.target} [1][2]"), scored(TASK.target)
    assert with_them["rouge_l"] == without["rouge_l"] == 1
    assert {name for name in with_them if with_them[name] != without[name]} == {"citation_precision", "citation_recall"}
    (metric,) = (metric for metric in suite_named("coral").metrics if metric.name == "sacrebleu")
    assert metric.aggregate is not None
    assert metric.aggregate([(f"{TASK.target} [1][2]", (TASK.target,))]) == pytest.approx(100)
