"""The ranking score by hand, and the scores of a ranking against a second computation."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from ragtasks.benchmarks import open_benchmark, retrieval_side
from ragtasks.metrics import ranking_score
from ragtasks.records import Qrel, Score
from ragtasks.submissions import SubmissionTask
from ragtasks.submissions.mtrageval._build import (
    SubmittedTask,
    build,
    dataset_mean,
    describe_answers,
    describe_ranking,
    entries_of_run,
)
from ragtasks.submissions.mtrageval._inputs import benchmark_inputs
from tests.submissions.mtrageval._files import sample
from tests.submissions.mtrageval._official import ranking

MTRAG = retrieval_side("mtrag")


def score(rl_f: float | None, rb_llm: float | None, rb_alg: float | None) -> Score:
    return ranking_score({"rl_f": Score(rl_f), "rb_llm": Score(rb_llm), "rb_alg": Score(rb_alg)})


def test_the_ranking_score_is_the_harmonic_mean_of_the_three_means() -> None:
    assert score(1.0, 0.5, 0.25).value == pytest.approx(3 / 7)
    assert score(0.6, 0.6, 0.6).value == pytest.approx(0.6)
    assert score(0.9, 0.8, 0.0).value == 0


def test_the_ranking_score_is_unscored_without_all_three() -> None:
    assert score(0.9, None, 0.4) == Score(None, "no mean of rb_llm")
    assert ranking_score({}) == Score(None, "no mean of rl_f, rb_llm, rb_alg")
    assert score(0.9, 0.5, -0.1).value is None


def test_a_dataset_mean_omits_unscored_values() -> None:
    assert dataset_mean([1.0, None, 0.0, math.nan]) == Score(0.5)
    assert dataset_mean([None]).value is None


def test_the_description_reports_the_number_of_scored_answers() -> None:
    lines = list(describe_answers({"rl_f": [1.0, 1.0], "rb_llm": [0.5, None], "rb_alg": [0.25, 0.25]}))
    assert lines[1] == "rb_llm: 0.5000 over 1 scored of 2 tasks"
    assert lines[-1].endswith(": 0.4286 (rb_llm 1/2)")
    complete = list(describe_answers({"rl_f": [1.0], "rb_llm": [0.5], "rb_alg": [0.25]}))
    assert complete[-1].endswith(": 0.4286")
    incomplete = list(describe_answers({"rl_f": [1.0, None], "rb_llm": [0.5, None], "rb_alg": [0.25, None]}, 1))
    assert "rl_f: 1.0000 over 1 scored of 2 tasks; 0.5000 with the 1 missing as 0" in incomplete
    assert incomplete[-1].startswith("ranking score with the 1 missing as 0: 0.2143")  # harmonic mean of 1/2, 1/4, 1/8
    assert "over 1 of 2 tasks" in incomplete[-1]
    assert (
        "no mean of rb_llm, rb_alg" in list(describe_answers({"rl_f": [1.0], "rb_llm": [None], "rb_alg": [None]}))[-1]
    )


def ndcg(ranked: list[str], relevant: set[str], k: int) -> float:
    gained = sum(
        1 / math.log2(rank + 1) for rank, document_id in enumerate(ranked[:k], start=1) if document_id in relevant
    )
    return gained / sum(1 / math.log2(rank + 1) for rank in range(1, min(k, len(relevant)) + 1))


def test_the_scores_of_a_ranking_equal_a_second_computation() -> None:
    """Official averaging: per collection over its judged queries, then weighted by all predictions."""
    benchmark = sample()
    domains = {task.task_id: task.domain for task in benchmark.tasks}
    entries = {task.task_id: SubmittedTask(task.references[::-1][:2]) for task in benchmark.tasks}
    qrels = [qrel for domain in sorted(set(domains.values())) for qrel in MTRAG.load_qrels(benchmark.root, domain)]
    # With few judged tasks in one collection, the two averages differ.
    kept = [qrel for qrel in qrels if domains[qrel.query_id] != "govt" or qrel.query_id.endswith("<::>1")]
    rows = build(SubmissionTask.A, benchmark_inputs(benchmark), entries).rows
    relevant: dict[str, set[str]] = {}
    for qrel in kept:
        relevant.setdefault(qrel.query_id, set()).add(qrel.passage_id)
    ranked = {row["task_id"]: ranking(row) for row in rows}
    values = {query: ndcg(ranked[query], judged, 5) for query, judged in relevant.items()}
    official = 0.0
    for domain in set(domains.values()):
        values_of_domain = [value for query, value in values.items() if domains[query] == domain]
        official += round(sum(values_of_domain) / len(values_of_domain), 5) * sum(
            task_domain == domain for task_domain in domains.values()
        )
    official /= len(rows)
    plain = sum(values.values()) / len(values)
    assert f"{official:.4f}" != f"{plain:.4f}"
    lines = describe_ranking(rows, kept, domains)
    assert lines[0].startswith(f"{len(values)} of {len(rows)} tasks are judged")
    assert lines[0].endswith("official averaging | mean over the judged tasks")
    assert f"nDCG@5: {official:.4f} (ranking score) | {plain:.4f}" in lines


def test_judgements_of_tasks_that_are_not_submitted_do_not_count() -> None:
    rows = [{"task_id": "c::1", "contexts": [{"document_id": "d", "score": 1.0}]}]
    qrels = [Qrel("c<::>1", "d", 1), Qrel("c<::>2", "d", 1)]
    lines = describe_ranking(rows, qrels, {"c<::>1": "govt", "c<::>2": "govt"})
    assert lines[0].startswith("1 of 1 tasks are judged")
    assert "nDCG@5: 1.0000 (ranking score) | 1.0000" in lines


def test_the_published_passages_of_mtrag_have_the_scores_of_their_evaluation(mtrag_root: Path) -> None:
    benchmark = open_benchmark("mtrag", mtrag_root)
    entries = entries_of_run(mtrag_root, "official", benchmark)
    rows = build(SubmissionTask.A, benchmark_inputs(benchmark), entries).rows
    qrels = [qrel for domain in MTRAG.domains for qrel in MTRAG.load_qrels(mtrag_root, domain)]
    lines = describe_ranking(rows, qrels, {task.task_id: task.domain for task in benchmark.tasks})
    assert lines[0].startswith("777 of 842 tasks are judged")
    assert "nDCG@5: 0.5095 (ranking score) | 0.5113" in lines
