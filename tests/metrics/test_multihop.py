from __future__ import annotations

import re

import hypothesis.strategies as st
import pytest
from hypothesis import given

from ragtasks.metrics import IdkLabel, accuracy, accuracy_official, null_accuracy
from ragtasks.metrics._answers import answer_in, normalised
from ragtasks.records import IdkVerdict, Score

WORDS = st.lists(st.sampled_from(["Yes", "yes", "no", "the", "The", "Verge", "Guardian", "information."]), max_size=4)
LINES = WORDS.map(" ".join)


def official(reply: str, target: str) -> bool:
    """The official rule, with loops instead of sets."""
    result = re.findall(r'The answer to the question is "([^"\n]*)"', reply)
    words = (result[0] if result else reply).lower().split()
    return any(word == target_word for word in words for target_word in target.lower().split())


@given(LINES, LINES, st.booleans())
def test_the_official_accuracy_accepts_any_shared_word(reply: str, target: str, announced: bool) -> None:
    text = f'So. The answer to the question is "{reply}" "yes"' if announced else reply
    assert accuracy_official(text, target) == float(official(text, target))


@pytest.mark.parametrize(
    ("reply", "target", "expected", "strict"),
    [
        ("the Guardian", "The Verge", 1, 0),
        ("Yes.", "Yes", 0, 1),
        ("No, it did not, yes?", "Yes", 0, 0),
        ("I cannot tell.", "Insufficient information.", 0, 0),
        ("There is no such information.", "Insufficient information.", 1, 0),
        ('The answer to the question is "Sam Bankman-Fried", of FTX.', "Sam Bankman-Fried", 1, 0),
        ('The answer to the question is "Sam Bankman-Fried"', "Sam Bankman-Fried", 1, 1),
        ("", "Yes", 0, 0),
    ],
)
def test_differences_between_the_two_accuracies(reply: str, target: str, expected: float, strict: float) -> None:
    assert (accuracy_official(reply, target), accuracy(reply, target)) == (expected, strict)


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Yes", "Yes"),
        ("  yes, both articles say so.", "yes"),
        ("No - the Ledger differs.", "No"),
        ("**Before**.", "Before"),
        ("**Yes**, because both say so", "Yes"),
        ("Yes Minister", "Yes Minister"),
        ("No-one knows", "No-one knows"),
        ("Answer: Lantern Grid", "Lantern Grid"),
        ("The final answer is: Yes, because of the tide.", "Yes"),
        ("It might be Tollgarth.\nThe answer to the question is Pellin\nThank you.", "Pellin"),
        ("The answer is no. On reflection, the answer is yes.", "yes"),
        ("The answer:\nafter", "after"),
        ("Lantern Grid\nIt is named twice.", "Lantern Grid"),
        ("The answer is", "The answer is"),
        ("", ""),
    ],
)
def test_the_answer_is_extracted_from_the_reply(reply: str, answer: str) -> None:
    assert answer_in(reply) == answer


@pytest.mark.parametrize(
    ("reply", "target"),
    [
        ("the verge", "The Verge"),
        ("“Brannoch & Daughters”.", "Brannoch & Daughters"),
        ("Sam Bankman Fried", "Sam Bankman-Fried"),
        ("U.S. Navy", "US Navy"),
        ("McDonald\u2019s", "McDonald's"),
        ("Answer: after.", "After"),
    ],
)
def test_case_punctuation_and_articles_do_not_count(reply: str, target: str) -> None:
    assert accuracy(reply, target) == 1


def test_a_longer_answer_is_wrong() -> None:
    assert accuracy("Lantern Grid and Brannoch", "Lantern Grid") == 0
    assert accuracy("Lantern", "Lantern Grid") == 0


def test_a_target_without_words_never_matches() -> None:
    assert accuracy("", "...") == accuracy("the", "The") == 0


@given(st.text(max_size=40))
def test_an_answer_equals_itself_and_normalization_is_idempotent(text: str) -> None:
    assert normalised(normalised(text)) == normalised(text)
    line = " ".join(text.split())
    if normalised(line) and normalised(answer_in(line)) == normalised(line):
        assert accuracy(line, line) == 1


@pytest.mark.parametrize(
    ("reply", "verdict", "expected"),
    [
        ("Insufficient information.", None, Score(1.0)),
        ("The answer is insufficient information", IdkVerdict.NO, Score(1.0)),
        ("I do not know.", IdkVerdict.YES, Score(1.0)),
        ("Lantern Grid", IdkVerdict.NO, Score(0.0)),
        ("Lantern Grid, but the date is not given.", IdkVerdict.PARTIAL, Score(0.0)),
        ("Yes. There was insufficient information in one article.", IdkVerdict.NO, Score(0.0)),
        ("???", None, Score(None, "no IDK verdict: no letters")),
    ],
)
def test_a_null_query_counts_a_refusal_as_right(reply: str, verdict: IdkVerdict | None, expected: Score) -> None:
    assert null_accuracy(reply, IdkLabel(verdict, "no letters")) == expected
