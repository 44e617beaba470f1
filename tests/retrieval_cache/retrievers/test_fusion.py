"""Reciprocal rank fusion, hybrids over it, and the retriever line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtasks.errors import ConfigurationError, RagtasksError
from ragtasks.files import Ranked, in_rank_order
from ragtasks.records import Passage
from retrieval_cache.retrievers.bm25 import Bm25Retriever
from retrieval_cache.retrievers.fusion import HybridRetriever, reciprocal_rank_fusion
from retrieval_cache.retrievers.protocol import canonical, written
from retrieval_cache.spec import parse, split

PASSAGES = [Passage("p1", "the red fish"), Passage("p2", "running fish runs"), Passage("p3", "blue stone")]

IDS = st.sampled_from([f"p{number}" for number in range(8)])
RANKING = st.lists(IDS, unique=True, max_size=8).map(
    lambda ids: tuple(Ranked(passage, float(-rank)) for rank, passage in enumerate(ids))
)
RUN = st.dictionaries(st.sampled_from(["q1", "q2", "q3"]), RANKING, max_size=3)


def run_of(*ids: str) -> dict[str, tuple[Ranked, ...]]:
    return {"q": tuple(Ranked(passage, float(-rank)) for rank, passage in enumerate(ids))}


def test_fusion_equals_a_manual_calculation() -> None:
    fused = reciprocal_rank_fusion([run_of("a", "b"), run_of("b", "c")])["q"]
    assert [(ranked.passage_id, ranked.score) for ranked in fused] == [
        ("b", pytest.approx(1 / 62 + 1 / 61, abs=1e-15)),
        ("a", pytest.approx(1 / 61, abs=1e-15)),
        ("c", pytest.approx(1 / 62, abs=1e-15)),
    ]


def test_weights_k_and_depth_change_the_scores() -> None:
    fused = reciprocal_rank_fusion([run_of("a", "b"), run_of("c", "d")], k=1, weights=[1, 3], depth=1)["q"]
    assert fused == (Ranked("c", 1.5), Ranked("a", 0.5))


def test_equal_scores_follow_the_rule_for_ties() -> None:
    fused = reciprocal_rank_fusion([run_of("a", "b"), run_of("b", "a")])["q"]
    assert [ranked.passage_id for ranked in fused] == ["b", "a"]
    assert fused[0].score == fused[1].score


@settings(deadline=None)
@given(runs=st.lists(RUN, max_size=4), k=st.integers(1, 100))
def test_fusion_ranks_all_passages_in_any_order_of_runs(runs: list[dict[str, tuple[Ranked, ...]]], k: int) -> None:
    fused = reciprocal_rank_fusion(runs, k=k)
    assert set(fused) == {query for run in runs for query in run}
    assert fused == reciprocal_rank_fusion(runs[::-1], k=k)
    for query, ranking in fused.items():
        passage_ids = {ranked.passage_id for run in runs for ranked in run.get(query, ())}
        assert {ranked.passage_id for ranked in ranking} == passage_ids
        assert all(0 < ranked.score <= len(runs) / (k + 1) + 1e-12 for ranked in ranking)
        assert ranking == in_rank_order(ranking)


@settings(deadline=None)
@given(run=RUN)
def test_fusing_a_single_run_keeps_its_order(run: dict[str, tuple[Ranked, ...]]) -> None:
    fused = reciprocal_rank_fusion([run])
    assert {query: [ranked.passage_id for ranked in ranking] for query, ranking in fused.items()} == {
        query: [ranked.passage_id for ranked in ranking] for query, ranking in run.items()
    }


@pytest.mark.parametrize(
    "options", [{"weights": [1]}, {"weights": [1, 0]}, {"weights": [1, float("nan")]}, {"k": 0}, {"depth": 0}]
)
def test_bad_parameters_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        reciprocal_rank_fusion([{}, {}], **options)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError):
        HybridRetriever([Bm25Retriever(), Bm25Retriever()], **options)  # type: ignore[arg-type]


def test_a_hybrid_of_a_single_retriever_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="two or more"):
        parse("hybrid(bm25)")


def test_a_hybrid_fuses_the_rankings_of_its_retrievers(tmp_path: Path) -> None:
    """The corpus can be read only once, and is read once."""

    def once() -> Iterator[Passage]:
        yield from source

    source = iter(PASSAGES)
    queries = {"q1": "the fish runs", "q2": "zebra", "q3": "stone"}
    hybrid = parse("hybrid(bm25,bm25-standard,rank_bm25;k=10,weights=2/1/1)")
    hybrid.index(once(), tmp_path / "hybrid")
    runs = []
    for number, name in enumerate(("bm25", "bm25-standard", "rank_bm25")):
        single = parse(name)
        single.index(iter(PASSAGES), tmp_path / str(number))
        runs.append(single.search(queries, 100))
    expected = reciprocal_rank_fusion(runs, 10, [2, 1, 1])
    assert hybrid.search(queries, 10) == expected
    assert hybrid.search(queries, 1) == {query: ranking[:1] for query, ranking in expected.items()}
    assert hybrid.search(queries, 0) == dict.fromkeys(queries, ())
    assert expected["q2"] == ()
    assert not list((tmp_path / "hybrid").rglob("*.part"))


def test_a_killed_hybrid_resumes(tmp_path: Path) -> None:
    def killed() -> Iterator[Passage]:
        yield PASSAGES[0]
        raise KeyboardInterrupt

    Bm25Retriever().index(PASSAGES, tmp_path / "1")
    hybrid = parse("hybrid(bm25,bm25-standard)")
    with pytest.raises(KeyboardInterrupt):
        hybrid.index(killed(), tmp_path)
    hybrid.index(iter(PASSAGES), tmp_path)
    assert len(hybrid.search({"q": "fish"}, 5)["q"]) == 2


LEAVES = st.one_of(
    st.sampled_from(["bm25", "bm25-standard", "bm25s", " bm25 ", "bm25s:analyser=standard", "rank_bm25"]),
    st.tuples(st.floats(0, 50), st.floats(0, 1)).map(lambda cells: f"bm25s:k1={cells[0]!r},b={cells[1]!r}"),
)


def _hybrids(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    options = st.sampled_from(["", ";k=10", ";weights=2/1", "; depth=7 ", ";k=1.5,weights=1/0.25,depth=1000"])
    return st.tuples(inner, inner, options).map(lambda cells: f"hybrid({cells[0]},{cells[1]}{cells[2]})")


@settings(deadline=None)
@given(line=st.recursive(LEAVES, _hybrids, max_leaves=4))
def test_a_name_parses_to_itself(line: str) -> None:
    retriever = parse(line)
    again = parse(retriever.name)
    assert again.name == retriever.name
    assert again.describe() == retriever.describe()


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("rerank(bm25, cross-encoder:some/model)", "rerank(bm25,cross-encoder:some/model,depth=100)"),
        (
            "hybrid(dense:some/model,normalize=false,rerank(bm25s:k1=0.9,b=0.4,cross-encoder:m,depth=7))",
            "hybrid(dense:some/model,normalize=false,rerank(bm25s:k1=0.9,b=0.4,cross-encoder:m,depth=7))",
        ),
        ("sparse:some/model", "sparse:some/model"),
    ],
)
def test_options_belong_to_the_preceding_retriever(line: str, name: str) -> None:
    assert parse(line).name == parse(name).name == name


@pytest.mark.parametrize("name", ["plain.trec", "with,comma.trec", "with (brackets);.trec", 'quote".trec', "k=3.trec"])
def test_a_run_file_of_any_name_can_be_part_of_a_hybrid(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("q Q0 a 1 1 t\n", encoding="utf-8")
    line = canonical("run", str(tmp_path / name))
    hybrid = parse(f"hybrid(bm25,{line};k=3)")
    assert parse(line).name == line
    assert parse(hybrid.name).name == hybrid.name == f"hybrid(bm25,{line};k=3.0)"


@settings(deadline=None)
@given(value=st.one_of(st.text(), st.integers(), st.booleans(), st.floats(allow_nan=False)))
def test_a_written_value_survives_a_list(value: str | int | float | bool) -> None:
    assert split(f"{written(value)},x", ",", "line") == [written(value), "x"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("bm52", "did you mean 'bm25'"),
        ("", "known: "),
        ("bm25:k1=2", "option 'k1'"),
        ("rank_bm25:k1=2", "did you mean|option 'k1'"),
        ("bm25s:k=2", "did you mean 'k1'"),
        ("bm25s:k1=0.9,k1=0.8", "each option once"),
        ("bm25s:0.9", "as option=value"),
        ("bm25s:b=high", "a number from 0 to 1"),
        ("bm25s:k1=nan", "a number from 0 to 100"),
        ("bm25s:analyser=englsh", "did you mean 'english'"),
        ("hybrid(bm25,bm25s", "every bracket"),
        ("hybrid(bm25,(bm25s)", "every bracket"),
        ("hybrid(bm25,bm25));k=(3)", "an opening bracket"),
        ("hybrid(bm25,bm25;k=3;depth=2)", "one semicolon"),
        ("hybrid(bm25,bm25;weights=a/b)", "weights such as"),
        ("hybrid(bm25,bm25;weights=1)", "one for each of 2"),
        ("hybrid(bm25,bm25;depth=1.5)", "a whole number"),
        ("hybrid(bm25,bm25;kk=3)", "option 'kk'"),
        ("run:", "after the colon"),
        ('run:"open', "every bracket and quote closed"),
        ("rerank(bm25)", "cross-encoder"),
        ("rerank(bm25,cross-encoder:x,depth=1.5)", "depth as a whole number"),
        (f"run:{'x' * 300_000}", "no such file"),
        ("run:a\0b", "no such file"),
        ("hybrid(" * 5_000 + "bm25" + ")" * 5_000, "at most 50 nested retrievers"),
        ("dense:some/model,normalise=false", "did you mean 'normalize'"),
        ("elser:http://localhost:9200", "missing a required argument: 'index'"),
    ],
)
def test_invalid_lines_are_refused_with_the_expected_form(line: str, message: str) -> None:
    with pytest.raises(RagtasksError, match=message):
        parse(line)
