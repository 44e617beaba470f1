"""The retrieval scores against the official loop, trec_eval, the paper's definition, and cases by hand."""

from __future__ import annotations

from statistics import fmean

import hypothesis.strategies as st
import pytest
import pytrec_eval
from hypothesis import given

from ragtasks.metrics import EVIDENCE_METRICS, mean_evidence_scores
from ragtasks.metrics.retrieval import average_precision_official, evidence_scores, hits
from ragtasks.records import Score

FACTS = ("alpha one", "beta two", "gamma three", "delta four", "epsilon five")
CHUNKS = st.lists(st.sets(st.sampled_from(FACTS), max_size=3).map(lambda held: ". ".join(sorted(held))), max_size=13)
EVIDENCE = st.lists(st.sampled_from(FACTS), min_size=1, max_size=4)


def official(chunks: list[str], facts: list[str]) -> tuple[float, float, float, float]:
    """Hits@4, Hits@10, MAP@10 and MRR@10 of one query, by a loop over ranks as in the official script."""
    wanted = ["".join(fact.split(" ")) for fact in facts]
    matched: list[str] = []
    total, best, hit_4, hit_10 = 0.0, 0.0, False, False
    for index in range(min(len(chunks), 10)):
        text = "".join(chunks[index].split(" "))
        inside = [fact for fact in wanted if text.find(fact) >= 0]
        if not inside:
            continue
        hit_10, hit_4 = True, hit_4 or index < 4
        best = best or 1 / (index + 1)
        fresh = 0
        for fact in inside:
            if fact not in matched:
                matched.append(fact)
                fresh += 1
        total += fresh / (index + 1)
    return float(hit_4), float(hit_10), total / min(len(wanted), 10), best


@given(CHUNKS, EVIDENCE)
def test_the_official_scores_equal_the_official_loop(chunks: list[str], facts: list[str]) -> None:
    result = evidence_scores(chunks, facts)
    names = ("hits_official_4", "hits_official_10", "map_official_10", "mrr_official_10")
    assert [result[name] for name in names] == pytest.approx(official(chunks, facts), abs=1e-12)


@given(CHUNKS, EVIDENCE, st.sampled_from([4, 10]))
def test_hits_are_the_share_of_the_evidence_in_the_first_chunks(chunks: list[str], facts: list[str], k: int) -> None:
    together = "\n".join(chunks[:k])
    assert evidence_scores(chunks, facts)[f"hits_{k}"] == fmean(float(fact in together) for fact in facts)


@given(st.lists(st.integers(min_value=-1, max_value=4), max_size=12), st.integers(min_value=1, max_value=5))
def test_with_one_fact_per_chunk_map_and_mrr_equal_trec_eval(held: list[int], n_facts: int) -> None:
    """Only facts outside the ranking may be in several chunks, so that relevance is by chunk."""
    kept = [fact if fact not in held[:index] else -1 for index, fact in enumerate(held)]
    facts = FACTS[:n_facts]
    chunks = [FACTS[fact] if fact >= 0 else "nothing" for fact in kept]
    relevant = {str(index): 1 for index, fact in enumerate(kept) if 0 <= fact < n_facts}
    missing = {f"absent-{fact}": 1 for fact in range(n_facts) if fact not in kept}
    run = {str(index): float(-index) for index in range(len(kept))} or {"none": 0.0}
    evaluator = pytrec_eval.RelevanceEvaluator({"q": {**relevant, **missing}}, {"map_cut.10"})
    scores = evidence_scores(chunks, facts)
    assert scores["map_10"] == pytest.approx(evaluator.evaluate({"q": run})["q"]["map_cut_10"], abs=1e-6)
    ranks = [index + 1 for index, fact in enumerate(kept[:10]) if 0 <= fact < n_facts]
    assert scores["mrr_10"] == (1 / ranks[0] if ranks else 0)


def test_every_score_is_a_declared_metric() -> None:
    assert list(evidence_scores(["alpha one"], ["alpha one"])) == [metric.name for metric in EVIDENCE_METRICS]


@pytest.mark.parametrize(
    ("chunks", "map_10", "map_official_10", "hits_4"),
    [
        (["alpha one", "beta two"], 1.0, 0.75, 1.0),
        (["alpha one beta two"], 1.0, 1.0, 1.0),
        (["", "alpha one", "", "beta two"], (1 / 2 + 2 / 4) / 2, (1 / 2 + 1 / 4) / 2, 1.0),
        (["", "", "", "", "alphaone"], 1 / 5 / 2, 1 / 5 / 2, 0.0),
        ([""] * 10 + ["alpha one beta two"], 0.0, 0.0, 0.0),
        ([], 0.0, 0.0, 0.0),
    ],
)
def test_cases_by_hand_with_two_facts(chunks: list[str], map_10: float, map_official_10: float, hits_4: float) -> None:
    scores = evidence_scores(chunks, ["alpha one", "beta\ntwo"])
    assert (scores["map_10"], scores["map_official_10"], scores["hits_4"]) == (map_10, map_official_10, hits_4)


def test_quirks_of_the_official_scores() -> None:
    assert average_precision_official(["anything"], [""]) == 1  # an empty fact is in every chunk
    assert average_precision_official(["alpha one"], ["alpha one", "alpha one"]) == 0.5  # found once, counted twice
    assert average_precision_official(["alpha one"], ["alpha one"] * 11) == 0.1  # more than ten count as ten
    assert evidence_scores(["alpha one"], ["alpha one", "beta two"])["hits_official_4"] == 1  # any hit is a hit
    assert hits([1, None], 4) == 0.5


def test_a_query_without_evidence_has_no_scores_and_is_left_out_of_means() -> None:
    with pytest.raises(ValueError, match="no retrieval scores"):
        evidence_scores(["alpha one"], [])
    means = mean_evidence_scores({"a": ["alpha one"], "null": ["alpha one"]}, {"a": ["alpha one"], "null": []})
    assert means["hits_4"] == Score(1.0)
    assert mean_evidence_scores({}, {"null": []})["hits_4"] == Score(None, "no query with evidence")


def test_a_query_missing_from_the_rankings_counts_zero() -> None:
    means = mean_evidence_scores({"a": ["alpha one"]}, {"a": ["alpha one"], "b": ["beta two"]})
    assert {score.value for score in means.values()} == {0.5}
