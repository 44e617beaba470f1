"""Best of n: the answer that a judge rates best, and what stands where it rates none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ragtasks.errors import CacheError
from ragtasks.records import Response
from ragtasks.scoring import Picked, pick_best, take_failures
from tests.judges._scripted import ScriptedClient, form_of, response


@pytest.fixture(autouse=True)
def _an_own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path))
    take_failures()
    yield
    take_failures()


def rater() -> ScriptedClient:
    """Return a judge that gives an answer the number that stands in it, and no verdict where there is none."""

    def says(prompt: str, n_before: int) -> str:
        number = re.search(r"It is (\d+)\.", prompt)
        return form_of(prompt).replace(": N", f": {number[1]}") if number else "Well."

    return ScriptedClient(says, "steady")


def answers(*texts: str | None, task_id: str = "c<::>2") -> list[Response]:
    """Return answers to a task; None is one that did not come."""
    made = [response(text or "", task_id=task_id) for text in texts]
    return [
        item if text is not None else replace(item, no_answer="late") for item, text in zip(made, texts, strict=True)
    ]


def rated(rating: int) -> float:
    """Return a rating from 1 to 10 on the scale of scores."""
    return rating / 10


@pytest.mark.parametrize(
    ("texts", "index", "ratings"),
    [
        (["It is 3.", "It is 8.", "It is 5."], 1, [3, 8, 5]),
        (["It is 8.", "It is 8."], 0, [8, 8]),
        (["It is 1.", None], 0, [1, None]),
        ([None, "It is 1."], 1, [None, 1]),
        ([None, "It is odd.", "It is 1."], 2, [None, None, 1]),
        ([None, "It is odd.", "It is strange."], 1, [None, None, None]),
        ([None, None], 0, [None, None]),
    ],
)
def test_the_first_of_the_best_rated_answers_is_picked(
    texts: Sequence[str | None], index: int, ratings: Sequence[int | None]
) -> None:
    (picked,) = pick_best([answers(*texts)], rater(), min_coverage=0.0)
    assert picked.index == index
    assert picked.ratings == tuple(None if one is None else rated(one) for one in ratings)
    assert picked.is_rated == any(one is not None for one in ratings)
    assert take_failures() == []


def test_each_task_keeps_its_ratings_and_no_judge_sees_an_answer_that_did_not_come() -> None:
    judge = rater()
    tasks = [answers(None, "It is 2.", task_id="a<::>1"), answers("It is 9.", None, "It is 4.", task_id="b<::>1")]
    found = pick_best(tasks, judge)
    assert found == [Picked(1, (None, rated(2))), Picked(0, (rated(9), None, rated(4)))]
    assert len(judge.asked) == 3
    assert all("answer to be graded" in prompt.messages[-1].content for prompt in judge.asked)
    assert not any("From April to October." in prompt.messages[-1].content for prompt in judge.asked), "no reference"


def test_each_task_has_what_its_own_ratings_took() -> None:
    tasks = [answers("It is 3.", None, "It is 8.", task_id="a<::>1"), answers("It is 5.", task_id="b<::>1")]
    assert [len(picked.calls) for picked in pick_best(tasks, rater())] == [2, 1]


@pytest.mark.parametrize(("n_rated", "fails"), [(19, False), (18, True)])
def test_fewer_than_95_of_100_ratings_fail_the_evaluation_and_the_rest_stands(n_rated: int, fails: bool) -> None:
    tasks = [answers("It is 3." if n < n_rated else "It is odd.", task_id=f"c{n}<::>1") for n in range(20)]
    found = pick_best(tasks, rater())
    assert [item.is_rated for item in found] == [n < n_rated for n in range(20)]
    failures = take_failures()
    assert len(failures) == fails
    assert all(failure.startswith("picking: ") for failure in failures)


def test_where_the_judge_cannot_be_had_the_first_answers_that_came_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise CacheError("the disk is full")

    monkeypatch.setattr("ragtasks.scoring._picking.judge_responses", full)
    found = pick_best([answers("It is 3.", "It is 8."), answers(None, "It is 5.")], rater())
    assert found == [Picked(0, (None, None)), Picked(1, (None, None))]
    assert take_failures() == ["picking failed: the disk is full"]
