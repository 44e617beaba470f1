"""Searches that a user's system reports: accepted forms, and every error by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import Benchmark, benchmark_folder, open_benchmark
from ragtasks.errors import BenchmarkFileError
from ragtasks.files import contexts_and_steps
from ragtasks.records import Passage
from ragtasks.results import read_answers

FIRST, SECOND = "sample-clapnq-01<::>1", "sample-clapnq-01<::>2"
P, Q = {"id": "p", "text": "Far."}, {"id": "q", "text": "Near."}


@pytest.fixture
def sample() -> Benchmark:
    return open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path()).resolve())


def written(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_an_answer_without_contexts_has_all_passages_of_its_searches(tmp_path: Path, sample: Benchmark) -> None:
    searches = [
        {"query": "How far?", "passages": [P, Q]},
        {"read": "p", "passages": [P]},
        {"query": "x", "passages": []},
    ]
    rows = [
        {"id": FIRST, "answer": "Far.", "searches": searches},
        {"id": SECOND, "answer": "Far.", "searches": searches, "contexts": [Q]},
    ]
    given = read_answers(written(tmp_path / "a.jsonl", *rows), sample)
    assert given[FIRST].passages == (Passage("p", "Far."), Passage("q", "Near."))
    assert given[SECOND].passages == (Passage("q", "Near."),)
    trajectory = given[FIRST].trajectory
    assert trajectory == given[SECOND].trajectory
    assert [(step.tool, dict(step.arguments), step.passages) for step in trajectory.steps] == [
        ("search", {"query": "How far?"}, ("p", "q")),
        ("read", {"passage_id": "p"}, ("p",)),
        ("search", {"query": "x"}, ()),
    ]


def test_an_empty_list_of_searches_differs_from_a_missing_list() -> None:
    _, none = contexts_and_steps(None, [])
    assert not none.steps
    assert contexts_and_steps(None, None) == (None, None)


def test_the_same_query_in_other_letters_is_a_repeat() -> None:
    texts = ["How far?", "how  FAR?", "how near?"]
    _, trajectory = contexts_and_steps(None, [{"query": text, "passages": []} for text in texts])
    assert [step.is_repeat for step in trajectory.steps] == [False, True, False]


def test_passages_without_ids_are_equal_if_their_texts_are() -> None:
    contexts = (Passage("p", "Far."), Passage("context-2", "One."))
    searches = [{"query": "a", "passages": ["Two.", "One."]}, {"query": "b", "passages": ["Two."]}]
    passages, trajectory = contexts_and_steps(contexts, searches)
    assert passages == contexts
    (two, one), (again,) = (step.passages for step in trajectory.steps)
    assert (one, again) == ("context-2", two)
    assert two not in {"p", "context-1", "context-2"}


@pytest.mark.parametrize(
    ("searches", "expected", "found"),
    [
        ("far", "`searches`: a list", "str"),
        ([3], "search 1: an object with `query` and `passages`", "int"),
        ([{"query": "a", "passages": []}, {"passages": []}], "search 2: `query`, or `read`", "neither"),
        ([{"query": "a", "read": "p", "passages": []}], "search 1: `query`, or `read`", "both"),
        ([{"query": " ", "passages": []}], "search 1: a text as `query`", " "),
        ([{"read": 3, "passages": []}], "search 1: a text as `read`", 3),
        ([{"query": "a"}], "search 1: `passages`, [] without results", "no `passages`"),
        ([{"query": "a", "passages": [{"id": "p"}]}], "search 1, passages: context 1: a text", "no text"),
    ],
)
def test_each_error_names_its_search(searches: Any, expected: str, found: object) -> None:
    with pytest.raises(ValueError, match="search") as caught:
        contexts_and_steps(None, searches)
    assert caught.value.args[0].startswith(expected)
    assert caught.value.args[1] == found


def test_errors_of_all_answers_are_listed_by_line(tmp_path: Path, sample: Benchmark) -> None:
    rows = [
        {"id": FIRST, "answer": "x", "searches": [{"query": "a"}]},
        {"id": SECOND, "answer": "x", "searches": {"query": "a"}},
    ]
    with pytest.raises(BenchmarkFileError) as caught:
        read_answers(written(tmp_path / "a.jsonl", *rows), sample)
    text = str(caught.value)
    assert "line 1" in text
    assert "search 1: `passages`, [] without results" in text
    assert "line 2" in text
    assert "`searches`: a list" in text
