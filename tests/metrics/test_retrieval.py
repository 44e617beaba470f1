from __future__ import annotations

import math
import random
import re
import struct
from collections.abc import Mapping
from pathlib import Path

import ir_measures
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from ragtasks.benchmarks import retrieval_side
from ragtasks.errors import BenchmarkFileError, CacheError, ConfigurationError
from ragtasks.files import Ranked, Run, in_rank_order
from ragtasks.metrics import CUTOFFS, RETRIEVAL_METRICS, measure_name, retrieval_metric, score_run
from ragtasks.metrics.retrieval import RunScores
from ragtasks.records import Qrel
from tests.benchmarks.mtrag._official import official_passages, official_queries

MTRAG = retrieval_side("mtrag")

NAMES = [metric.name for metric in RETRIEVAL_METRICS]
TREC_NAMES = {
    **{f"R@{k}": f"recall_{k}" for k in CUTOFFS},
    **{f"nDCG@{k}": f"ndcg_cut_{k}" for k in CUTOFFS},
    "AP": "map",
    "RR": "recip_rank",
    "R@20": "recall_20",
}
PASSAGE_IDS = [*"abcdefgh", "B", "é", "\U0001f600", "a1", "10", "9"]
# Few distinct scores, some of them equal only as 32-bit floats, to produce many ties.
SCORES = [0.0, -1.5, 1.0, 1.0 + 1e-9, 2.0, 16777216.0, 16777217.0]

rankings = st.dictionaries(st.sampled_from(PASSAGE_IDS), st.sampled_from(SCORES)).map(
    lambda scores: tuple(Ranked(passage_id, score) for passage_id, score in scores.items())
)
runs = st.dictionaries(st.sampled_from(["q1", "q2", "q3", "unjudged"]), rankings)
judgements = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3", "q4"]),
    st.dictionaries(st.sampled_from(PASSAGE_IDS), st.integers(0, 3), min_size=1),
)


def qrels_of(judged: Mapping[str, Mapping[str, int]]) -> list[Qrel]:
    return [Qrel(query, passage, grade) for query, grades in judged.items() for passage, grade in grades.items()]


def run_of(**queries: dict[str, float]) -> dict[str, tuple[Ranked, ...]]:
    return {query: tuple(Ranked(*passage) for passage in scores.items()) for query, scores in queries.items()}


def single(score: float) -> float:
    value: float = struct.unpack("f", struct.pack("f", score))[0]
    return value


def brute_force(ranking: tuple[Ranked, ...], grades: Mapping[str, int]) -> dict[str, float]:
    """Every metric by its textbook formula, without the library."""
    order = sorted(ranking, key=lambda passage: passage.passage_id, reverse=True)
    order = sorted(order, key=lambda passage: -single(passage.score))
    gains = [grades.get(passage.passage_id, 0) for passage in order]
    best = sorted(grades.values(), reverse=True)
    n_relevant = sum(grade > 0 for grade in best)
    if n_relevant == 0:
        return dict.fromkeys(NAMES, 0.0)
    result = {}
    for k in CUTOFFS:
        result[f"R@{k}"] = sum(gain > 0 for gain in gains[:k]) / n_relevant
        result[f"nDCG@{k}"] = discounted(gains[:k]) / discounted(best[:k])
    hits = [rank for rank, gain in enumerate(gains, start=1) if gain > 0]
    result["AP"] = sum(n / rank for n, rank in enumerate(hits, start=1)) / n_relevant
    result["RR"] = 1 / hits[0] if hits else 0.0
    result["R@20"] = sum(gain > 0 for gain in gains[:20]) / n_relevant
    return result


def discounted(gains: list[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def assert_agrees(scores: RunScores, run: Run, judged: Mapping[str, Mapping[str, int]]) -> None:
    """Compare with pytrec_eval called directly, and with the formulas, query by query."""
    plain = {query: {passage.passage_id: passage.score for passage in ranking} for query, ranking in run.items()}
    evaluator = pytrec_eval.RelevanceEvaluator(judged, {"recall.1,3,5,10,20", "ndcg_cut.1,3,5,10", "map", "recip_rank"})
    direct = evaluator.evaluate(plain)
    assert list(scores.values) == list(judged)
    for query_id, row in scores.values.items():
        assert list(row) == NAMES
        expected = brute_force(tuple(run.get(query_id, ())), judged[query_id])
        assert row == pytest.approx(expected, abs=1e-9)
        if query_id in plain:
            assert row == pytest.approx({n: direct[query_id][t] for n, t in TREC_NAMES.items()}, abs=1e-9)
        else:
            assert query_id not in direct
            assert set(row.values()) == {0.0}


@given(runs, judgements)
def test_equals_pytrec_eval_and_the_formulas_with_many_ties(
    run: dict[str, tuple[Ranked, ...]], judged: dict[str, dict[str, int]]
) -> None:
    scores = score_run(run, qrels_of(judged))
    assert_agrees(scores, run, judged)
    assert all(0.0 <= value <= 1.0 for row in scores.values.values() for value in row.values())
    assert scores.omitted == tuple(query for query in judged if query not in run)
    assert scores.unjudged == tuple(query for query in run if query not in judged)
    assert scores.without_relevant == tuple(query for query, grades in judged.items() if not any(grades.values()))


@given(runs)
def test_runs_are_evaluated_in_file_order(run: dict[str, tuple[Ranked, ...]]) -> None:
    for query_id, ranking in run.items():
        first = in_rank_order(ranking)[:1]
        for passage in ranking:
            (row,) = score_run({query_id: ranking}, [Qrel(query_id, passage.passage_id, 1)]).values.values()
            assert (row["RR"] == 1.0) == (passage == first[0])


@pytest.mark.parametrize(
    ("ranking", "found"),
    [
        ((Ranked("a", 2.0), Ranked("a", 1.0)), "'a' 2 times"),
        ((Ranked("b", float("nan")),), "'b' with score nan"),
        ((Ranked("b", float("inf")),), "'b' with score inf"),
    ],
)
def test_an_invalid_ranking_is_an_error(ranking: tuple[Ranked, ...], found: str) -> None:
    with pytest.raises(CacheError, match=f"query q(.|\n)*found: {re.escape(found)}\n"):
        score_run({"q": ranking}, [Qrel("q", "a", 1)])


def test_a_pair_judged_twice_is_an_error() -> None:
    with pytest.raises(BenchmarkFileError, match=r"query q(.|\n)*'a' twice"):
        score_run({}, [Qrel("q", "a", 1), Qrel("q", "a", 0)])


def test_bm25_on_the_real_govt_corpus_equals_pytrec_eval(mtrag_root: Path) -> None:
    passages = list(official_passages(mtrag_root, "govt"))
    index = BM25Okapi([re.findall(r"\w+", passage.text.lower()) for passage in passages])
    run = {}
    for query_id, text in official_queries(mtrag_root, "govt", "rewrite").items():
        result = index.get_scores(re.findall(r"\w+", text.lower()))
        best = sorted(range(len(passages)), key=lambda position: -result[position])[:100]
        run[query_id] = tuple(Ranked(passages[position].passage_id, float(result[position])) for position in best)
    qrels = MTRAG.load_qrels(mtrag_root, "govt")
    scores = score_run(run, qrels)
    assert_agrees(scores, run, judged_of(qrels))
    assert len(scores.values) == 201
    assert sum(row["R@10"] for row in scores.values.values()) > 0


def test_a_run_over_all_real_queries_with_many_ties_equals_pytrec_eval(mtrag_root: Path) -> None:
    qrels = [qrel for domain in MTRAG.domains for qrel in MTRAG.load_qrels(mtrag_root, domain)]
    judged = judged_of(qrels)
    chance = random.Random(7)
    pool = sorted({qrel.passage_id for qrel in qrels})
    run = {
        query_id: tuple(
            Ranked(passage_id, float(chance.randint(1, 4)))
            for passage_id in dict.fromkeys([*grades, *chance.sample(pool, 20)])
        )
        for query_id, grades in judged.items()
        if chance.random() < 0.9
    }
    scores = score_run(run, qrels)
    assert_agrees(scores, run, judged)
    assert len(scores.values) == 777
    assert len(scores.omitted) == 777 - len(run) > 0


def judged_of(qrels: tuple[Qrel, ...] | list[Qrel]) -> dict[str, dict[str, int]]:
    judged: dict[str, dict[str, int]] = {}
    for qrel in qrels:
        judged.setdefault(qrel.query_id, {})[qrel.passage_id] = qrel.relevance
    return judged


@pytest.mark.parametrize("name", ["nDCG@20", "nDCG@100", "R@100", "P(rel=2)@5", "AP", "RR", "Bpref", "NumRet"])
def test_a_named_measure_equals_ir_measures(name: str) -> None:
    judged = {"q": {"a": 2, "b": 1, "z": 0}, "r": {"a": 1}}
    run = run_of(q={"b": 3.0, "z": 2.0, "a": 1.0})
    measure = ir_measures.parse_measure(name)
    expected = {
        result.query_id: result.value
        for result in ir_measures.iter_calc([measure], judged, {"q": {"b": 3, "z": 2, "a": 1}})
    }
    values = score_run(run, qrels_of(judged), [retrieval_metric(name)]).values
    assert {query: row[name] for query, row in values.items()} == pytest.approx(expected)


_GRADES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(-1, 2), min_size=1)
_TIED = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from([0.5, 1.0, 2.0]))


@given(_GRADES, _TIED, st.integers(1, 9))
def test_reciprocal_rank_and_judged_share_with_a_cut_off_equal_trec_eval(
    grades: dict[str, int], scores: dict[str, float], k: int
) -> None:
    """RR@k is trec_eval's RR, 0 beyond the cut-off; Judged@k is its P@k if every judged passage is relevant."""
    run, judged = {"q": {**scores}}, {"q": grades}
    metrics = [retrieval_metric(f"RR@{k}"), retrieval_metric(f"Judged@{k}")]
    (values,) = score_run(run_of(**run), qrels_of(judged), metrics).values.values()
    evaluator = pytrec_eval.RelevanceEvaluator(judged, {"recip_rank"})
    full = evaluator.evaluate(run).get("q", {"recip_rank": 0.0})["recip_rank"]
    assert values[f"RR@{k}"] == pytest.approx(full if full >= 1 / k - 1e-9 else 0.0)
    as_relevant = pytrec_eval.RelevanceEvaluator({"q": dict.fromkeys(grades, 1)}, {f"P.{k}"})
    precision = as_relevant.evaluate(run).get("q", {f"P_{k}": 0.0})[f"P_{k}"]
    assert values[f"Judged@{k}"] == pytest.approx(precision * k / max(1, min(k, len(scores))))


@pytest.mark.parametrize(
    ("name", "measure"),
    [
        *(("mrr@10", "RR@10"), ("mrr_at_10", "RR@10"), ("recip_rank", "RR"), ("ndcg_cut_10", "nDCG@10")),
        *(("ndcg_cut.10", "nDCG@10"), ("P_5", "P@5"), ("recall@100", "R@100"), ("map_cut_10", "AP@10")),
        *(("MAP", "AP"), ("hit_rate@5", "Success@5"), ("NDCG@10", "nDCG@10"), ("recall_50", "R@50")),
    ],
)
def test_a_measure_may_have_the_name_of_another_tool(name: str, measure: str) -> None:
    assert retrieval_metric(name) == retrieval_metric(measure)


@pytest.mark.parametrize("name", NAMES)
def test_a_measure_is_named_as_ir_measures_writes_it(name: str) -> None:
    assert str(ir_measures.parse_measure(name)) == name == measure_name(name)


def test_a_measure_in_two_spellings_is_one_measure() -> None:
    metrics = [retrieval_metric(name) for name in ("recall_5", "R@5", " recall@5")]
    values = score_run(run_of(q={"a": 1.0}), [Qrel("q", "a", 1), Qrel("q", "b", 1)], metrics).values
    assert values == {"q": {"R@5": 0.5}}


@pytest.mark.parametrize(
    "name",
    [
        *("bogus@3", "nDCG@", "nDCG@0", "RR@0", "ERR@10", "R@5,R@10", "", "__import__('os')"),
        *("P(5)@5", "P(rel=)@5", "P(rel=2)(rel=3)@5", "P(nothing=2)@5", "P(**{})", "P@5@6"),
    ],
)
def test_an_unknown_measure_is_an_error(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^measure: (.|\n)*nDCG@20"):
        retrieval_metric(name)
