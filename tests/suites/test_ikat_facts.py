"""Selection of facts about the user: parsing of replies, and ranking scores that equal trec_eval's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given
from ir_measures import RR, P, Qrel, R, ScoredDoc, calc_aggregate, nDCG

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.metrics import IdkLabel, Scores, Semantics
from ragtasks.records import Response
from ragtasks.suites import ScoringInputs, suite_named
from ragtasks.suites._ikat_facts import chosen_facts

BENCHMARK = open_benchmark("ikat23_facts", benchmark_folder("ikat23_facts", "sample", Path()))


def scored(text: str, relevant: list[int], n_facts: int = 9) -> Scores:
    task = replace(BENCHMARK.tasks[0], extra={"facts": ["a fact"] * n_facts, "relevant_facts": relevant})
    inputs = ScoringInputs(BENCHMARK, [Response(task, (), text)], [IdkLabel(None, "")], Semantics(None, ""))
    (scores,) = suite_named("ikat_facts").score(inputs)
    return scores


@pytest.mark.parametrize(("reply", "expected"), [
    ("3, 1", [3, 1]), ("3", [3]), ("[2, 5, 2]", [2, 5]), ("none", []), ("None.", []), ("**Facts:** 4, 2", [4, 2]),
    ("They have bad knees, so it matters.\n\n1 and 3", [1, 3]), ("It matters.\n1, and 3.", [1, 3]),
    ("", None), ("I would take the first.", None), ("0", None), ("10", None), ("3.5", None), ("-2", None),
    ("3, x", None),
])  # fmt: skip
def test_a_reply_is_a_list_of_numbers_or_invalid(reply: str, expected: list[int] | None) -> None:
    assert chosen_facts(reply, 9) == expected


@given(st.lists(st.integers(1, 9), min_size=1, unique=True), st.sets(st.integers(1, 9), min_size=1))
def test_ranking_scores_equal_trec_eval(chosen: list[int], relevant: set[int]) -> None:
    scores = scored(", ".join(map(str, chosen)), sorted(relevant))
    qrels = [Qrel("q", str(number), int(number in relevant)) for number in range(1, 10)]
    run = [ScoredDoc("q", str(number), float(-rank)) for rank, number in enumerate(chosen)]
    names = {"facts_ndcg_3": nDCG @ 3, "facts_p_3": P @ 3, "facts_r_3": R @ 3, "facts_mrr": RR}
    expected = calc_aggregate(list(names.values()), qrels, run)
    for name, measure in names.items():
        assert scores[name].value == pytest.approx(expected[measure], abs=1e-9), name


def test_needless_facts_are_counted_separately() -> None:
    needless, right = scored("2", []), scored("none", [])
    assert (needless["facts_needless"].value, right["facts_needless"].value) == (1, 0)
    assert needless["facts_ndcg_3"].value is None
    assert scored("none", [2])["facts_r_3"].value == 0
    assert scored("none", [2])["facts_needless"].value is None


def test_an_invalid_reply_is_unscored_and_counted() -> None:
    scores = scored("The second one.", [2])
    assert scores["facts_ndcg_3"].value is None
    assert (scores["invalid_reply"].value, scores["coverage"].value) == (1, 0)
