"""Scores of rewritten questions, with a scripted search."""

from __future__ import annotations

import math
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.files import Ranked
from ragtasks.metrics import QUERY_METRICS, SearchResult, is_changed, length_ratio, query_scores, word_count
from ragtasks.records import Answerability, Message, Qrel, Role, Task

QRELS = (Qrel("a<::>2", "p1", 1), Qrel("a<::>2", "p2", 1), Qrel("b<::>1", "p9", 1))
FOUND = {
    "both": (Ranked("p1", 3.0), Ranked("p5", 2.0), Ranked("p2", 1.0)),
    "one": (Ranked("p5", 2.0), Ranked("p1", 1.0)),
    "none": (),
}


def task(task_id: str, domain: str = "govt") -> Task:
    message = (Message(Role.USER, "What of it?"),)
    return Task(task_id, "a", 2, domain, message, "", Answerability.ANSWERABLE, (), "N/A", ())


class Library:
    """A search that records its queries."""

    def __init__(self, *closed: str) -> None:
        self.asked: list[tuple[str, list[str]]] = []
        self._closed = closed

    def __call__(self, domain: str, texts: Collection[str]) -> SearchResult:
        self.asked.append((domain, list(texts)))
        if domain in self._closed:
            return SearchResult(None, f"{domain} is closed")
        return SearchResult({text: FOUND[text] for text in texts})


def test_scores_computed_by_hand() -> None:
    both, one, none = query_scores([task("a<::>2")] * 3, ["both", "one", "none"], QRELS, Library())
    ideal = 1 + 1 / math.log2(3)
    assert both["ndcg_5"].value == pytest.approx((1 + 1 / math.log2(4)) / ideal)
    assert one["ndcg_5"].value == pytest.approx((1 / math.log2(3)) / ideal)
    assert (both["recall_5"].value, one["recall_5"].value) == (1, 0.5)
    assert [none[name].value for name in QUERY_METRICS] == [0, 0]


def test_a_text_is_searched_once_per_corpus() -> None:
    library = Library()
    tasks = [task("a<::>2"), task("a<::>2", "fiqa"), task("b<::>1"), task("a<::>2")]
    scores = query_scores(tasks, ["both", "both", "both", "both"], QRELS, library)
    assert library.asked == [("govt", ["both"]), ("fiqa", ["both"])]
    assert scores[0] == scores[1] == scores[3]
    assert scores[2]["recall_5"].value == 0


def test_only_queries_of_an_unsearchable_corpus_are_unscored() -> None:
    tasks = [task("a<::>2"), task("a<::>2", "fiqa"), task("c<::>1")]
    searchable, closed, unjudged = query_scores(tasks, ["one", "one", "one"], QRELS, Library("fiqa"))
    assert searchable["recall_5"].value == 0.5
    assert {(score.value, score.reason) for score in closed.values()} == {(None, "fiqa is closed")}
    assert {(score.value, score.reason) for score in unjudged.values()} == {(None, "no relevance judgement")}


def test_no_tasks_give_no_scores() -> None:
    assert query_scores([], [], QRELS, Library()) == []


@pytest.mark.parametrize(
    ("rewrite", "changed"),
    [
        ("What about  winter", False),
        ("what about winter?", False),
        ("What about the winter?", True),
        ("winter about what?", True),
        ("", True),
    ],
)
def test_a_rewrite_is_changed_if_its_words_differ(rewrite: str, changed: bool) -> None:
    assert is_changed(rewrite, "What about winter?") is changed


def test_length_is_counted_in_words() -> None:
    assert word_count(" one  two\nthree ") == 3
    assert word_count("") == 0
    assert length_ratio("one two three", "one two") == 1.5
    assert length_ratio("one", "  ") == 1


@given(st.text())
def test_a_text_is_not_changed_from_itself(text: str) -> None:
    assert not is_changed(text, f" {text} ")
