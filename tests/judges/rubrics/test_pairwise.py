"""Two answers in one question: the prompt, and the findings."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtasks.judges import Finding, Question, UnparsableReplyError, pair_of, pairwise
from tests.judges._scripted import code_in, response

SNAPSHOT = Path(__file__).parent / "pairwise_prompt.txt"
FIRST = response("It runs from April [1].", passages=("From April.", "Until October."))
SECOND = response("From April to October [1].", passages=("Until October.", "Tickets are cheap."))


def question_of(first: object = FIRST, second: object = SECOND) -> Question:
    question = pairwise().open(pair_of(first, second))  # type: ignore[arg-type]
    assert isinstance(question, Question)
    return question


def test_the_prompt_equals_its_snapshot() -> None:
    assert question_of().text == SNAPSHOT.read_text(encoding="utf-8")


def test_each_passage_is_shown_once_and_no_system_is_named() -> None:
    text = question_of().text
    assert text.count("\nUntil October.\n") == 1


@pytest.mark.parametrize(("label", "value"), [("A", 1.0), ("b", 0.0), ("**Tie**", 0.5)])
def test_each_label_has_its_value_in_any_case(label: str, value: float) -> None:
    question = question_of()
    found = question.read(f"A is longer.\nVerdict {code_in(question.text)}: {label}")
    assert isinstance(found, Finding)
    assert found.value == value


@pytest.mark.parametrize("reply", ["Verdict: A", "A", "Verdict deadbeef: A", "Verdict CODE: both"])
def test_a_reply_without_a_verdict_is_unparsable(reply: str) -> None:
    question = question_of()
    with pytest.raises(UnparsableReplyError):
        question.read(reply.replace("CODE", code_in(question.text)))


def test_equal_texts_are_a_tie_without_a_request() -> None:
    found = pairwise().open(pair_of(FIRST, response(FIRST.text, passages=())))
    assert isinstance(found, Finding)
    assert found.value == 0.5


def test_the_other_order_is_another_question() -> None:
    assert question_of().text != question_of(SECOND, FIRST).text
