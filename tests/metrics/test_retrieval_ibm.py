from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from ragtasks.benchmarks import open_benchmark, retrieval_side
from ragtasks.files import Ranked, Run
from ragtasks.metrics import IBM_METRICS, score_run, score_run_ibm
from ragtasks.metrics.retrieval import (
    ibm_last_score,
    ibm_predicted_only,
    ibm_rounded_mean,
    ibm_weights,
    ibm_without_query_id,
)
from ragtasks.records import Qrel
from tests.metrics.test_retrieval import judgements, qrels_of, run_of, runs

MTRAG = retrieval_side("mtrag")


def test_ibm_the_last_score_of_a_passage_wins() -> None:
    ranking = (Ranked("a", 9.0), Ranked("b", 5.0), Ranked("a", 1.0))
    assert ibm_last_score(ranking) == {"a": 1.0, "b": 5.0}
    assert score_run_ibm({"q": ranking}, [Qrel("q", "b", 1)], {"q": "one"})["R@1"].value == 1.0


def test_ibm_drops_a_passage_with_the_id_of_the_query() -> None:
    assert ibm_without_query_id("q", {"q": 2.0, "a": 1.0}) == {"a": 1.0}
    run, qrels = run_of(q={"q": 2.0, "a": 1.0}), [Qrel("q", "a", 1)]
    assert score_run_ibm(run, qrels, {"q": "one"})["R@1"].value == 1.0
    assert score_run(run, qrels).values["q"]["R@1"] == 0.0


def test_ibm_omits_judged_queries_without_a_prediction() -> None:
    assert ibm_predicted_only({"q": {"a": 1}, "hard": {"b": 1}}, {"q"}) == {"q": {"a": 1}}
    qrels = [Qrel("q", "a", 1), Qrel("hard", "b", 1)]
    run, collections = run_of(q={"a": 1.0}), {"q": "one", "hard": "one"}
    assert score_run_ibm(run, qrels, collections)["R@5"].value == 1.0
    assert score_run(run, qrels).values["hard"]["R@5"] == 0.0


def test_ibm_counts_a_prediction_without_contexts_as_zero() -> None:
    qrels = [Qrel("q", "a", 1), Qrel("hard", "b", 1)]
    run, collections = run_of(q={"a": 1.0}, hard={}), {"q": "one", "hard": "one"}
    assert score_run_ibm(run, qrels, collections)["R@5"].value == 0.5


def test_ibm_weights_collections_by_all_predictions() -> None:
    run = run_of(q1={"a": 1.0}, q2={}, unjudged1={}, unjudged2={}, foreign={})
    collections = {"q1": "one", "q2": "two", "unjudged1": "one", "unjudged2": "one"}
    assert ibm_weights(run, collections) == {"one": 3, "two": 1}
    scores = score_run_ibm(run, [Qrel("q1", "a", 1), Qrel("q2", "a", 1)], collections)
    assert scores["nDCG@5"].value == 0.75
    assert list(scores) == [metric.name for metric in IBM_METRICS]


def test_ibm_rounds_a_collection_before_collections_are_combined() -> None:
    assert ibm_rounded_mean([1.0, 0.0, 0.0]) == 0.33333
    run = run_of(q1={"a": 1.0}, q2={}, q3={})
    qrels = [Qrel(query, "a", 1) for query in run]
    assert score_run_ibm(run, qrels, dict.fromkeys(run, "one"))["R@1"].value == 0.33333


def test_ibm_ties_and_recall_equal_trec_eval() -> None:
    scores = score_run_ibm(run_of(q={"a": 1.0 + 1e-9, "b": 1.0}), [Qrel("q", "b", 1), Qrel("q", "z", 1)], {"q": "one"})
    assert (scores["nDCG@1"].value, scores["R@1"].value) == (1.0, 0.5)


@pytest.mark.parametrize(
    ("run", "reason"), [({}, "no predictions"), (run_of(q={"a": 1.0}, other={}), "no judged prediction in two")]
)
def test_ibm_leaves_missing_scores_unscored(run: Run, reason: str) -> None:
    scores = score_run_ibm(run, [Qrel("q", "a", 1)], {"q": "one", "other": "two"})
    assert {(score.value, score.reason) for score in scores.values()} == {(None, reason)}


@given(runs, judgements)
def test_ibm_equals_the_paper_profile_without_quirks(
    run: dict[str, tuple[Ranked, ...]], judged: dict[str, dict[str, int]]
) -> None:
    full = {query: run.get(query, ()) for query in judged}
    values = score_run(full, qrels_of(judged)).values
    scores = score_run_ibm(full, qrels_of(judged), dict.fromkeys(judged, "one"))
    for metric in IBM_METRICS:
        if judged:
            mean = sum(row[metric.name] for row in values.values()) / len(values)
            assert scores[metric.name].value == pytest.approx(mean, abs=5.1e-6)
        else:
            assert scores[metric.name].value is None


def test_ibm_weights_842_predictions_on_the_real_files(mtrag_root: Path) -> None:
    tasks = open_benchmark("mtrag", mtrag_root).tasks
    qrels = [qrel for domain in MTRAG.domains for qrel in MTRAG.load_qrels(mtrag_root, domain)]
    perfect: dict[str, tuple[Ranked, ...]] = {task.task_id: () for task in tasks}
    domains = {task.task_id: task.domain for task in tasks}
    for qrel in qrels:
        if domains[qrel.query_id] != "govt":
            perfect[qrel.query_id] += (Ranked(qrel.passage_id, 1.0),)
    one_score = score_run_ibm(perfect, qrels, domains)["nDCG@5"].value
    assert one_score == pytest.approx((842 - 214) / 842, abs=1e-9)
    values = score_run(perfect, qrels).values
    assert sum(row["nDCG@5"] for row in values.values()) / 777 == pytest.approx((777 - 201) / 777, abs=1e-9)
