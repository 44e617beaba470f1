from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf.official_scripts import load_scripts
from ragtasks.judges.official import ibm_conversation, ibm_split_conversation
from ragtasks.records import Message, Role

TEXTS = ("Hello?", "Yes.", "two\nlines", "a\u2028b\x0cc", "user: not me", "agent: not me\nuser: me", " \n", "x user: y")


def messages(*texts: str) -> list[Message]:
    return [Message((Role.USER, Role.ASSISTANT)[index % 2], text) for index, text in enumerate(texts)]


def test_a_conversation_is_lines_of_speaker_and_text() -> None:
    assert (
        ibm_conversation(messages("Is it?", "Yes.\nIt is.", "Why?")) == "user: Is it?\nagent: Yes.\nIt is.\nuser: Why?"
    )


@pytest.mark.parametrize(
    ("texts", "history", "question"),
    [
        (("Is it?",), "", "Is it?"),
        (("Is it?", "Yes.", " Why? "), "user: Is it?\nagent: Yes.", "Why?"),
        (("Is it?", "Yes.", "Why?\nTell me."), "user: Is it?\nagent: Yes.\nuser: Why?", "Why?"),
        (("Is it?\nTell me.",), "", "Is it?"),
        (("Is it?", "Yes.", "Who is user: 7?"), "user: Is it?\nagent: Yes.", "Who is"),
        (("Is it?", "No:\nuser:7 is", "\nWhy?"), "user: Is it?\nagent: No:\nuser:7 is\nuser: ", ""),
    ],
)
def test_history_and_question_are_split_by_lines(texts: tuple[str, ...], history: str, question: str) -> None:
    assert ibm_split_conversation(ibm_conversation(messages(*texts))) == (history, question)


def test_a_user_line_without_a_space_gives_the_text_after_the_colon() -> None:
    assert ibm_split_conversation("user: a\nagent: b\nuser:7") == ("user: a\nagent: b", "7")


@given(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=7))
def test_every_conversation_is_split_as_by_the_scripts(mtrag_checkout: Path, texts: list[str]) -> None:
    utils = load_scripts(mtrag_checkout).utils
    turns = [{"speaker": "agent" if index % 2 else "user", "text": text} for index, text in enumerate(texts)]
    theirs = utils.extract_conversation(turns)
    assert ibm_conversation(messages(*texts)) == theirs
    assert ibm_split_conversation(theirs) == tuple(utils.split_conversation(theirs))
