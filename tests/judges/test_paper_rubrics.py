"""RL_MTB, RL_R, and context precision and recall: their definitions, by hand."""

from __future__ import annotations

import json

import pytest

from ragtasks.judges import Finding, Question, UnparsableReplyError, VerdictOutcome, rubrics_named
from ragtasks.records import Answerability, Response
from tests.judges._scripted import code_in, obedient, response


def opened(name: str, judged: Response) -> Question | Finding:
    (rubric,) = rubrics_named([name])
    return rubric.open(judged)


def question_of(name: str, judged: Response) -> Question:
    step = opened(name, judged)
    assert isinstance(step, Question)
    return step


def replied(question: Question, **content: object) -> Question | Finding:
    return question.read(json.dumps({"id": code_in(question.text), **content}))


@pytest.mark.parametrize(
    ("useful", "value"),
    [
        (["yes", "yes", "yes"], 1.0),
        (["no", "no", "no"], 0.0),
        (["yes", "no", "yes"], (1 + 2 / 3) / 2),
        (["no", "yes", "no"], 1 / 2),
        (["no", "no", "yes"], 1 / 3),
    ],
)
def test_context_precision_is_the_average_precision(useful: list[str], value: float) -> None:
    question = question_of("context_precision", response(passages=("a", "b", "c")))
    finding = replied(question, useful={str(n): word for n, word in enumerate(useful, 1)})
    assert isinstance(finding, Finding)
    assert finding.value == pytest.approx(value)


def test_context_recall_judges_the_reference_answer_and_ignores_the_response() -> None:
    one, other = (question_of("context_recall", response(text)) for text in ("It runs.", "It does not."))
    assert one.text == other.text
    assert "From April to October." in one.text
    second = one.read(str(obedient()(one.text, 0)))
    assert isinstance(second, Question)
    finding = second.read(str(obedient()(second.text, 0)))
    assert isinstance(finding, Finding)
    assert (finding.label, finding.value) == ("1/2", 0.5)


@pytest.mark.parametrize("name", ["context_precision", "context_recall"])
def test_passages_are_judged_for_tasks_with_an_answer(name: str) -> None:
    for answerability in Answerability:
        step = opened(name, response(answerability=answerability))
        if answerability in {Answerability.ANSWERABLE, Answerability.PARTIAL}:
            assert isinstance(step, Question)
        else:
            assert isinstance(step, Finding)
            assert (step.value, step.outcome) == (None, VerdictOutcome.NOT_ASKED)


def test_no_passage_is_0() -> None:
    step = opened("context_precision", response(passages=()))
    assert isinstance(step, Finding)
    assert step.value == 0
    question = question_of("context_recall", response(passages=()))
    finding = question.read(str(obedient()(question.text, 0)))
    assert isinstance(finding, Finding)
    assert finding.value == 0


def test_rl_r_is_the_share_of_derived_questions_equal_to_the_users() -> None:
    first = question_of("rl_r", response())
    second = replied(first, questions=["When?", "Until when?", "Which months?"], evades="no")
    assert isinstance(second, Question)
    assert "2. Until when?" in second.text
    finding = replied(second, same={"1": "yes", "2": "no", "3": "no"})
    assert isinstance(finding, Finding)
    assert (finding.label, finding.value) == ("1/3", pytest.approx(1 / 3))


def test_an_evasive_or_empty_answer_has_no_relevance() -> None:
    evading = replied(question_of("rl_r", response("I cannot tell.")), questions=[], evades="yes")
    empty = opened("rl_r", response("  \n"))
    for step in (evading, empty):
        assert isinstance(step, Finding)
        assert step.value == 0


@pytest.mark.parametrize(
    "content",
    [
        {"questions": ["a", "b", "c"]},
        {"questions": ["a", "b"], "evades": "no"},
        {"questions": ["a", "b", " "], "evades": "no"},
        {"questions": ["a", "b", 3], "evades": "no"},
        {"questions": "abc", "evades": "no"},
        {"questions": ["a", "b", "c"], "evades": "perhaps"},
    ],
)
def test_derived_questions_in_another_format_are_unparsable(content: dict[str, object]) -> None:
    with pytest.raises(UnparsableReplyError):
        replied(question_of("rl_r", response()), **content)


def test_rl_mtb_is_the_rating_over_ten() -> None:
    question = question_of("rl_mtb", response())
    finding = question.read(str(obedient(rating=7)(question.text, 0)))
    assert isinstance(finding, Finding)
    assert (finding.label, finding.value) == ("7", 0.7)
