from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragtasks.errors import BenchmarkFileError, CacheError, ConfigurationError, RagtasksError
from ragtasks.files import Ranked, Run, in_rank_order
from ragtasks.progress import Progress, no_progress
from ragtasks.records import Passage
from retrieval_cache.rerankers import CrossEncoderReranker, RerankedRetriever
from retrieval_cache.spec import parse
from tests._messages import raises
from tests.retrieval_cache._bert import WORDS, save_bert

pytest.importorskip("sentence_transformers", reason="needs ragtasks[dense]")

PASSAGES = [
    Passage(f"p{number}", " ".join(WORDS[number % 12 :][:4]), "Title" if number == 3 else "") for number in range(20)
]


class SharedWords:
    """A small real retriever: the number of words shared by query and passage."""

    name = "shared-words"

    def __init__(self) -> None:
        self.passages: list[Passage] = []

    def describe(self) -> Mapping[str, Any]:
        return {"retriever": "shared-words"}

    def index(self, passages: Iterable[Passage], folder: Path, progress: Progress = no_progress) -> None:
        self.passages = list(passages)
        progress("index", len(self.passages), None)

    def search(self, queries: Mapping[str, str], k: int, progress: Progress = no_progress) -> Run:
        return {query_id: self._ranking(set(text.split()))[:k] for query_id, text in queries.items()}

    def _ranking(self, words: set[str]) -> tuple[Ranked, ...]:
        counts = {passage.passage_id: float(len(words & set(passage.text.split()))) for passage in self.passages}
        return in_rank_order(Ranked(*passage) for passage in counts.items() if passage[1])


class ByLength(CrossEncoderReranker):
    """Scores depend on the complete list."""

    name = "by-length"

    def __init__(self, scores: Sequence[float] | None = None) -> None:
        super().__init__("by-length")
        self.scores = scores

    def describe(self) -> Mapping[str, Any]:
        return {"reranker": "by-length"}

    def rerank(self, query: str, passages: Sequence[Passage]) -> Sequence[float]:
        longest = max((len(passage.text) for passage in passages), default=0)
        return self.scores if self.scores is not None else [len(passage.text) / longest for passage in passages]


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cross-encoder with random weights: the real classes, a tiny BERT."""
    return save_cross_encoder(tmp_path_factory.mktemp("cross-encoder"), n_labels=1)


def save_cross_encoder(folder: Path, n_labels: int) -> Path:
    return save_bert(folder, "BertForSequenceClassification", longest=12, num_labels=n_labels)


def test_candidates_are_ordered_by_the_cross_encoder(cross_encoder: Path, tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder

    shared = SharedWords()
    retriever = RerankedRetriever(shared, CrossEncoderReranker(str(cross_encoder)), depth=6)
    retriever.index(PASSAGES, tmp_path)
    queries = {"a": "mars moon", "again": "mars moon", "b": "loan", "none": "nothing known", "blank": ""}
    first = shared.search(queries, 6)
    run = retriever.search(queries, 6)
    assert list(run) == list(queries)
    peer = CrossEncoder(str(cross_encoder), device="cpu")
    texts = {passage.passage_id: f"Title\n{passage.text}" if passage.title else passage.text for passage in PASSAGES}
    for query_id in ("a", "b"):
        assert {passage.passage_id for passage in run[query_id]} == {passage.passage_id for passage in first[query_id]}
        pairs = [(queries[query_id], texts[passage.passage_id]) for passage in run[query_id]]
        np.testing.assert_allclose([passage.score for passage in run[query_id]], peer.predict(pairs), rtol=1e-5)
        assert run[query_id] == in_rank_order(run[query_id])
    assert run["again"] == run["a"]
    assert run["none"] == run["blank"] == ()
    assert [len(ranking) for ranking in retriever.search(queries, 2).values()] == [2, 2, 2, 0, 0]


def test_both_parts_are_named_and_described(cross_encoder: Path) -> None:
    retriever = RerankedRetriever(SharedWords(), CrossEncoderReranker(str(cross_encoder)))
    assert retriever.name == f"rerank(shared-words,cross-encoder:{cross_encoder},depth=100)"
    described = retriever.describe()
    assert (described["first"], described["depth"]) == ({"retriever": "shared-words"}, 100)
    assert described["reranker"]["model"] == "model"
    assert len(described["reranker"]["weights"]) == 64


def test_truncated_pairs_are_counted(cross_encoder: Path) -> None:
    reranker = CrossEncoderReranker(str(cross_encoder))
    reranker.rerank("mars", [Passage("a", "moon"), Passage("b", "bee " * 20)])
    assert reranker.statistics() == {"truncated": 1}
    assert reranker.describe()["max_length"] == 12


def test_batch_size_changes_no_score(cross_encoder: Path) -> None:
    passages = [Passage(str(number), "bee " * (number * 7 % 11) + "moon") for number in range(9)]
    small, large = (CrossEncoderReranker(str(cross_encoder), batch_tokens=size) for size in (1, 8192))
    np.testing.assert_allclose(small.rerank("mars", passages), large.rerank("mars", passages), rtol=1e-5)


def test_ties_after_reranking_follow_the_rule(tmp_path: Path) -> None:
    retriever = RerankedRetriever(SharedWords(), ByLength(), depth=3)
    retriever.index([Passage("a", "bee x"), Passage("c", "bee xx"), Passage("b", "bee yy")], tmp_path)
    assert retriever.search({"q": "bee"}, 3)["q"] == (Ranked("c", 1.0), Ranked("b", 1.0), Ranked("a", 5 / 6))


def test_nan_scores_are_refused(tmp_path: Path) -> None:
    retriever = RerankedRetriever(SharedWords(), ByLength([1.0, math.nan]))
    retriever.index([Passage("a", "bee"), Passage("b", "bee")], tmp_path)
    with raises(RagtasksError):
        retriever.search({"q": "bee"}, 2)


def test_invalid_calls_give_clear_errors(tmp_path: Path) -> None:
    import torch

    torch.manual_seed(0)
    with raises(ConfigurationError):
        CrossEncoderReranker(str(save_cross_encoder(tmp_path, n_labels=3))).describe()
    with pytest.raises(ConfigurationError, match="at least 1"):
        RerankedRetriever(SharedWords(), ByLength(), depth=0)
    retriever = RerankedRetriever(SharedWords(), ByLength(), depth=5)
    with pytest.raises(CacheError, match="call index first"):
        retriever.search({"q": "bee"}, 2)
    retriever.index(PASSAGES, tmp_path / "index")
    with pytest.raises(ConfigurationError, match="depth to at least 6"):
        retriever.search({"q": "bee"}, 6)


def test_an_existing_index_of_the_first_retriever_is_reused(tmp_path: Path) -> None:
    runs = []
    for _ in range(2):
        retriever = RerankedRetriever(parse("bm25"), ByLength(), depth=4)
        retriever.index(iter(PASSAGES), tmp_path)
        runs.append(retriever.search({"q": "mars moon"}, 4))
    assert runs[0] == runs[1]
    assert len(runs[0]["q"]) == 4


class AsGiven(SharedWords):
    """Ranks by the passages stored under the query's id, ignoring its text."""

    def search(self, queries: Mapping[str, str], k: int, progress: Progress = no_progress) -> Run:
        return {query_id: (Ranked(query_id, 1.0),) for query_id in queries}


def test_queries_with_equal_text_keep_their_own_candidates(tmp_path: Path) -> None:
    retriever = RerankedRetriever(AsGiven(), ByLength(), depth=1)
    retriever.index(PASSAGES, tmp_path)
    run = retriever.search({"p1": "same", "p2": "same"}, 1)
    assert {query_id: ranking[0].passage_id for query_id, ranking in run.items()} == {"p1": "p1", "p2": "p2"}


def test_a_corpus_error_leaves_no_passage_file(tmp_path: Path) -> None:
    def broken() -> Iterable[Passage]:
        yield PASSAGES[0]
        raise BenchmarkFileError("line 2 is not JSON")

    retriever = RerankedRetriever(SharedWords(), ByLength())
    with pytest.raises(BenchmarkFileError, match="line 2"):
        retriever.index(broken(), tmp_path)
    assert not (tmp_path / "passages.jsonl").exists()
    retriever.index(PASSAGES, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["passages.jsonl"]
    assert len((tmp_path / "passages.jsonl").read_bytes().splitlines()) == len(PASSAGES)
