"""The lexical retrievers: a common rule for ties, agreement with an oracle, and unusual text."""

from __future__ import annotations

import bisect
import inspect
import itertools
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from ragtasks.errors import CacheError, ConfigurationError, MissingExtraError
from ragtasks.files import Ranked, in_rank_order
from ragtasks.records import Passage
from retrieval_cache.retrievers.bm25 import (
    K1,
    B,
    Bm25Retriever,
    Bm25sRetriever,
    RankBm25Retriever,
    indexed_text,
    term_lister,
)
from retrieval_cache.spec import parse
from tests.benchmarks.mtrag._official import official_passages, official_queries

ALL = ("bm25", "bm25-standard", "bm25s", "rank_bm25")


def corpus(*texts: str) -> list[Passage]:
    return [Passage(f"p{number}", text) for number, text in enumerate(texts)]


def ids(ranking: Sequence[Ranked]) -> list[str]:
    return [ranked.passage_id for ranked in ranking]


def searched(spec: str, folder: Path, passages: Sequence[Passage], query: str, k: int = 10) -> tuple[Ranked, ...]:
    retriever = parse(spec)
    retriever.index(iter(passages), folder)
    return retriever.search({"q": query}, k)["q"]


STORED_LENGTHS = [*range(24), *(24 + value for value in range(16))] + [
    24 + ((8 + step) << shift) for shift in range(1, 20) for step in range(8)
]
"""Passage lengths that Lucene and tantivy can store in one byte, ascending."""


def stored_length(length: int) -> int:
    return STORED_LENGTHS[bisect.bisect_right(STORED_LENGTHS, length) - 1]


class LuceneOracle(BM25Okapi):  # type: ignore[misc]
    """rank_bm25 with Lucene's idf, which is never negative, and its one-byte passage lengths."""

    def _calc_idf(self, nd: dict[str, int]) -> None:
        self.idf = {term: math.log(1 + (self.corpus_size - n + 0.5) / (n + 0.5)) for term, n in nd.items()}
        self.doc_len = [stored_length(length) for length in self.doc_len]


def agree(ranking: Sequence[Ranked], scores: dict[str, float]) -> None:
    """Compare scores one by one, and check that no omitted passage is better than an included one; ties may differ."""
    assert [ranked.score for ranked in ranking] == pytest.approx(
        [scores[ranked.passage_id] for ranked in ranking], rel=1e-5
    )
    left_out = max((score for passage, score in scores.items() if passage not in set(ids(ranking))), default=0)
    assert not ranking or left_out <= ranking[-1].score * (1 + 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("analyser", ["english", "standard"])
def test_agrees_with_the_oracle_on_real_text(tmp_path: Path, mtrag_root: Path, analyser: str) -> None:
    passages = list(itertools.islice(official_passages(mtrag_root, "govt"), 1258))
    queries = dict(itertools.islice(official_queries(mtrag_root, "govt", "all_questions").items(), 40))
    terms = term_lister(analyser)
    oracle = LuceneOracle([terms(indexed_text(passage)) for passage in passages], k1=K1, b=B)
    retriever = Bm25Retriever("bm25" if analyser == "english" else "bm25-standard")
    retriever.index(passages, tmp_path)
    for query_id, ranking in retriever.search(queries, 20).items():
        values = oracle.get_scores(terms(queries[query_id]))
        assert len(ranking) == 20
        agree(ranking, dict(zip([passage.passage_id for passage in passages], values.tolist(), strict=True)))


WORDS = st.sampled_from(["alpha", "beta", "gamma", "delta", "the", "running", "runs", "x1"])
TEXTS = st.lists(WORDS, min_size=0, max_size=60).map(" ".join)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(TEXTS, min_size=1, max_size=12), query=TEXTS, k=st.integers(1, 15))
def test_agrees_with_the_oracle_on_generated_text(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], query: str, k: int
) -> None:
    passages = corpus(*texts)
    terms = term_lister("english")
    listed = [terms(text) for text in texts]
    ranking = searched("bm25", tmp_path_factory.mktemp("bm25"), passages, query, k)
    if not any(listed) or not terms(query):
        assert ranking == ()
        return
    scores = LuceneOracle(listed, k1=K1, b=B).get_scores(terms(query)).tolist()
    matching = {f"p{number}": score for number, score in enumerate(scores) if score > 0}
    assert len(ranking) == min(k, len(matching))
    agree(ranking, matching)
    assert ranking == in_rank_order(ranking)


def test_bm25s_agrees_with_the_formula_at_exact_lengths(tmp_path: Path, mtrag_root: Path) -> None:
    passages = list(itertools.islice(official_passages(mtrag_root, "fiqa"), 300))
    queries = dict(itertools.islice(official_queries(mtrag_root, "fiqa", "rewrite").items(), 20))
    terms = term_lister("english")

    class Exact(LuceneOracle):
        def _calc_idf(self, nd: dict[str, int]) -> None:
            lengths = list(self.doc_len)
            super()._calc_idf(nd)
            self.doc_len = lengths

    oracle = Exact([terms(indexed_text(passage)) for passage in passages], k1=0.9, b=0.4)
    retriever = Bm25sRetriever(k1=0.9, b=0.4)
    retriever.index(passages, tmp_path)
    for query_id, ranking in retriever.search(queries, 10).items():
        # The library omits the constant factor k1 + 1.
        values = (oracle.get_scores(terms(queries[query_id])) / 1.9).tolist()
        agree(ranking, dict(zip([passage.passage_id for passage in passages], values, strict=True)))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(TEXTS, min_size=1, max_size=12), query=TEXTS, k=st.integers(1, 15))
def test_rank_bm25_agrees_with_the_library_called_directly(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], query: str, k: int
) -> None:
    """With the library's own defaults, on words that a blank separates."""
    ranking = searched("rank_bm25", tmp_path_factory.mktemp("rank"), corpus(*texts), query, k)
    if not any(texts):
        assert ranking == ()
        return
    scores = BM25Okapi([text.split() for text in texts]).get_scores(query.split()).astype("float32").tolist()
    expected = in_rank_order(Ranked(f"p{number}", score) for number, score in enumerate(scores) if score)
    assert ranking == expected[:k]


def test_rank_bm25_agrees_with_the_formula(tmp_path: Path) -> None:
    """Okapi's formula with k1 1.5 and b 0.75: `fish` is in 2 of 5 passages, whose mean length is 2.4 words."""
    ranking = searched("rank_bm25", tmp_path, corpus("Red fish.", "fish fish pie", "a b c", "d e", "f g"), "FISH")
    idf = math.log(3.5 / 2.5)
    assert ranking == (
        Ranked("p1", pytest.approx(idf * 2 * 2.5 / (2 + 1.5 * (0.25 + 0.75 * 3 / 2.4)), rel=1e-6)),
        Ranked("p0", pytest.approx(idf * 1 * 2.5 / (1 + 1.5 * (0.25 + 0.75 * 2 / 2.4)), rel=1e-6)),
    )


def test_rank_bm25_names_its_terms_and_parameters(tmp_path: Path) -> None:
    assert parse("rank_bm25:analyser=standard").name == "rank_bm25"
    assert parse("rank_bm25:analyser=english").name == "rank_bm25:analyser=english"
    assert parse("rank_bm25").describe() != parse("rank_bm25:analyser=english").describe()
    defaults = {name: parameter.default for name, parameter in inspect.signature(BM25Okapi).parameters.items()}
    assert {name: parse("rank_bm25").describe()[name] for name in ("k1", "b", "epsilon")}.items() <= defaults.items()
    passages = corpus("running shoes", "stone", "water")
    assert searched("rank_bm25", tmp_path, passages, "runs") == ()
    assert ids(searched("rank_bm25:analyser=english", tmp_path, passages, "runs")) == ["p0"]


@pytest.mark.parametrize("line", ["rank_bm25", "hybrid(bm25,rank_bm25)", "rerank(rank_bm25,cross-encoder:NAME)"])
def test_rank_bm25_without_its_library_names_the_extra(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.setitem(sys.modules, "rank_bm25", None)
    with pytest.raises(MissingExtraError, match=r"rank-bm25.*ragtasks\[retrieval\]"):
        parse(line)


@pytest.mark.parametrize("spec", ALL)
@pytest.mark.parametrize("k", [1, 7, 100, 1000, 5000])
def test_the_cut_among_equal_scores_follows_the_rule(tmp_path: Path, spec: str, k: int) -> None:
    """Thousands of equal passages in an order other than by id: the highest ids are kept."""
    n = 3000
    order = sorted(range(n), key=lambda number: (number * 7919) % n)
    same = [Passage(f"p{number:05}", "stone bridge over water") for number in order]
    without_match = [Passage(f"z{number:05}", "quiet meadow with trees") for number in range(n + 500)]
    ranking = searched(spec, tmp_path, [*same, *without_match, Passage("best", "bridge bridge")], "bridge", k)
    expected = ["best", *(f"p{number:05}" for number in range(n - 1, -1, -1))][:k]
    assert ids(ranking) == expected


@pytest.mark.slow
def test_threads_and_segments_change_no_ranking(
    tmp_path: Path, mtrag_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small heaps make tantivy divide the corpus into several segments, by thread timing; rankings stay equal."""
    passages = list(itertools.islice(official_passages(mtrag_root, "cloud"), 4000))
    queries = dict(itertools.islice(official_queries(mtrag_root, "cloud", "all_questions").items(), 60))
    runs = []
    for heap in (128_000_000, 32_000_000, 32_000_001):
        monkeypatch.setattr("retrieval_cache.retrievers.bm25._HEAP_BYTES", heap)
        retriever = Bm25Retriever()
        retriever.index(passages, tmp_path / str(heap))
        runs.append(retriever.search(queries, 100))
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.parametrize("spec", ALL)
@pytest.mark.parametrize("query", ["", "   ", "?!", '"" + - : *', "zebra", "\ud800"])
def test_a_query_without_a_match_has_an_empty_ranking(tmp_path: Path, spec: str, query: str) -> None:
    assert searched(spec, tmp_path, corpus("red fish", "blue fish", "green stone"), query) == ()


def test_only_bm25_ignores_stop_words(tmp_path: Path) -> None:
    passages = corpus("the cat", "a dog", "sun", "moon")
    assert searched("bm25", tmp_path / "a", passages, "the") == ()
    assert ids(searched("bm25-standard", tmp_path / "b", passages, "the")) == ["p0"]


def test_only_bm25_stems(tmp_path: Path) -> None:
    passages = corpus("running shoes", "stone", "water")
    assert ids(searched("bm25", tmp_path / "a", passages, "runs")) == ["p0"]
    assert searched("bm25-standard", tmp_path / "b", passages, "runs") == ()


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    signs=st.lists(st.sampled_from(['"', "+", "-", ":", "*", "(", ")", "~", "^", "\\", "/", "[", "]", " "]), max_size=6)
)
def test_signs_of_a_query_are_ignored(tmp_path: Path, signs: list[str]) -> None:
    passages = corpus("red fish", "blue fish", "red stone", "text fish")
    mark = "".join(signs)
    plain = searched("bm25", tmp_path, passages, "red fish text")
    assert searched("bm25", tmp_path, passages, f"{mark}red {mark}fish{mark} {mark}text{mark} ") == plain


@pytest.mark.parametrize("word", ["AND", "OR", "NOT", "IN"])
def test_operators_of_a_query_are_ignored(tmp_path: Path, word: str) -> None:
    passages = corpus("red fish", "blue fish", "red stone")
    assert searched("bm25", tmp_path, passages, f"red {word} fish") == searched("bm25", tmp_path, passages, "red fish")


@pytest.mark.parametrize("spec", ALL)
def test_a_repeated_query_term_counts_once_per_occurrence(tmp_path: Path, spec: str) -> None:
    passages = corpus("red fish", "blue stone", "green water", "white snow", "black night")
    once, thrice = (searched(spec, tmp_path, passages, query)[0].score for query in ("red", "red Red RED"))
    assert thrice == pytest.approx(3 * once, rel=1e-6)


@pytest.mark.parametrize("spec", ALL)
def test_k_above_the_corpus_returns_all_matches_and_k_0_returns_none(tmp_path: Path, spec: str) -> None:
    passages = corpus("red fish", "red stone", "green water", "white snow", "black night", "old moon")
    assert sorted(ids(searched(spec, tmp_path, passages, "red", 10**6))) == ["p0", "p1"]
    assert searched(spec, tmp_path, passages, "red", 0) == ()


@pytest.mark.parametrize("spec", ALL)
@pytest.mark.parametrize("passages", [[], corpus("\n"), corpus("the", "?!")])
def test_a_corpus_without_words_matches_nothing(tmp_path: Path, spec: str, passages: list[Passage]) -> None:
    assert searched(spec, tmp_path, passages, "fish") == ()
    assert searched(spec, tmp_path, passages, "fish") == ()


def test_the_title_is_indexed_if_the_text_does_not_start_with_it() -> None:
    assert indexed_text(Passage("a", "Rivers\nThey flow.", "Rivers")) == "Rivers\nThey flow."
    assert indexed_text(Passage("a", "They flow.", "Rivers")) == "Rivers\nThey flow."
    assert indexed_text(Passage("a", "They flow.")) == "They flow."
    assert indexed_text(Passage("a", "half \ud83d")) == "half ?"


@pytest.mark.parametrize("spec", ALL)
def test_a_built_index_is_opened_without_reading_the_corpus(tmp_path: Path, spec: str) -> None:
    passages = corpus("red fish", "blue stone", "green water")
    first = searched(spec, tmp_path, passages, "fish stone")

    def never() -> Any:
        raise AssertionError("the corpus was read")
        yield

    retriever = parse(spec)
    retriever.index(never(), tmp_path)
    assert retriever.search({"q": "fish stone"}, 10)["q"] == first != ()


@pytest.mark.parametrize("spec", ALL)
def test_a_killed_build_starts_again(tmp_path: Path, spec: str) -> None:
    passages = corpus("red fish", "blue stone", "green water")

    def killed() -> Any:
        yield passages[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parse(spec).index(killed(), tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".part"]
    ranking = searched(spec, tmp_path, passages, "fish stone")
    assert ranking == searched(spec, tmp_path / "undisturbed", passages, "fish stone")
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize(
    ("spec", "file", "broken"),
    [
        ("bm25", "tantivy/meta.json", "{"),
        ("rank_bm25", "rank_bm25/terms.jsonl", '["fish"]\n'),
        ("rank_bm25", "rank_bm25/terms.jsonl", '["fi'),
    ],
)
def test_a_corrupt_index_is_built_again(tmp_path: Path, spec: str, file: str, broken: str) -> None:
    passages = corpus("red fish", "blue stone", "green water")
    first = searched(spec, tmp_path, passages, "fish")
    (tmp_path / file).write_text(broken, encoding="utf-8")
    assert searched(spec, tmp_path, passages, "fish") == first


def test_an_index_of_another_analyser_is_not_used(tmp_path: Path) -> None:
    passages = corpus("running shoes", "stone", "water")
    searched("bm25-standard", tmp_path, passages, "runs")
    assert ids(searched("bm25", tmp_path, passages, "runs")) == ["p0"]


@pytest.mark.parametrize("spec", ALL)
def test_searching_before_indexing_is_refused(spec: str) -> None:
    with pytest.raises(CacheError, match="before index"):
        parse(spec).search({"q": "fish"}, 1)


def test_progress_ends_at_its_total(tmp_path: Path) -> None:
    steps: list[tuple[str, int, int | None]] = []
    retriever = Bm25Retriever()
    retriever.index(corpus("red fish", "blue stone"), tmp_path, lambda *step: steps.append(step))
    retriever.search({"a": "fish", "b": "none"}, 3, lambda *step: steps.append(step))
    assert steps == [("index bm25", 2, 2), ("search bm25", 1, 2), ("search bm25", 2, 2)]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Bm25Retriever("bm26"),
        lambda: Bm25sRetriever(b=1.5),
        lambda: Bm25sRetriever(analyser="german2"),
        lambda: RankBm25Retriever(analyser="german2"),
        lambda: parse("rank_bm25:analyser=3"),
    ],
)
def test_bad_parameters_are_refused(make: Any) -> None:
    with pytest.raises(ConfigurationError):
        make()


@pytest.mark.parametrize(
    ("analyser", "text", "terms"),
    [
        ("german", "Die Häuser der alten Städte", ["haus", "alt", "stadt"]),
        ("french", "Les maisons des villes", ["maison", "vill"]),
        ("arabic", "الكتب", ["كتب"]),
        ("cjk", "我不知道 BM25", ["我", "不", "知", "道", "bm25"]),
        ("english", "The houses of old cities", ["hous", "old", "citi"]),
    ],
)
def test_each_language_has_its_own_terms(analyser: str, text: str, terms: list[str]) -> None:
    assert term_lister(analyser)(text) == terms


def test_an_analyser_matches_inflected_forms_of_its_language(tmp_path: Path) -> None:
    passages = [Passage("houses", "Viele Häuser wurden gebaut."), Passage("dog", "Der Hund schläft.")]
    for line, expected in (("bm25s:analyser=german", ["houses"]), ("bm25s", [])):
        assert ids(searched(line, tmp_path / line.replace(":", "-"), passages, "Haus")) == expected


def test_bm25_accepts_the_language_of_the_corpus(tmp_path: Path) -> None:
    passages = [Passage("houses", "Viele Häuser wurden gebaut."), Passage("cjk", "手动工具可以借21天。")]
    for line, query, expected_ids in (
        ("bm25:language=german", "Haus", ["houses"]),
        ("bm25", "Haus", []),
        ("bm25:language=chinese", "工具", ["cjk"]),
        ("bm25", "工具", []),
    ):
        assert ids(searched(line, tmp_path / line.replace(":", "-"), passages, query)) == expected_ids
    assert parse("bm25:language=german").name == "bm25:language=german"
    assert parse("bm25:language=korean").name == "bm25:language=cjk"
    assert parse("bm25:language=english").name == "bm25"
    assert parse("bm25:language=english").describe() == parse("bm25").describe()
    for line, expected in (
        ("bm25:language=germn", "'german'"),
        ("bm25-standard:language=german", "bm25-standard does not"),
    ):
        with pytest.raises(ConfigurationError, match=expected):
            parse(line)
