"""FaithDial's suite: overlap with the knowledge, and corpus BLEU against the reference reply."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.config import EvaluationConfig
from ragtasks.metrics import corpus_bleu
from ragtasks.records import Response
from ragtasks.scoring import ResponseScorer
from ragtasks.suites import suite_named

BENCHMARK = open_benchmark("faithdial", benchmark_folder("faithdial", "sample", Path()))


def test_a_copy_of_the_knowledge_has_all_of_its_words() -> None:
    task = BENCHMARK.tasks[0]
    knowledge = task.extra["knowledge"]
    texts = (knowledge, task.target, "Whatever.")
    results = ResponseScorer(BENCHMARK, EvaluationConfig(encoder="none")).score(
        [Response(task, task.references, text) for text in texts]
    )
    copied, target, other = (result.scores["k_f1"].value for result in results)
    assert copied == 1
    assert target is not None
    assert 0 < target < 1
    assert other == 0
    assert results[0].scores["bert_f1"].value is None


def test_bleu_is_that_of_all_replies_together() -> None:
    (metric,) = (metric for metric in suite_named("faithdial").metrics if metric.name == "sacrebleu")
    assert metric.aggregate is corpus_bleu
    pairs = [(task.extra["knowledge"], (task.target,)) for task in BENCHMARK.tasks]
    assert metric.aggregate([(text, (text,)) for text, _ in pairs]) == pytest.approx(100)
    assert 0 < metric.aggregate(pairs) < 50
