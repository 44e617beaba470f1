"""Text around an answer never reaches a metric, and an answer about markers and tags is not changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtasks.metrics import answer_text

END = "</think>"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("plain", "plain"),
        ("  plain\n", "  plain\n"),
        (" \n", " \n"),
        ("", ""),
        ("<think>a</think>b", "b"),
        ("a</think>\n\nb ", "b"),  # the opening marker was part of the prompt
        ("<think>a</think>", ""),
        ("<think>cut off in the middle", ""),
        ("\n <think>cut off", ""),
        ("<thinking>cut off", ""),
        ("a</think><think>a second thought, cut off", ""),
    ],
)
def test_the_answer_begins_after_the_last_thought(text: str, answer: str) -> None:
    assert answer_text(text, END) == answer


GOLDEN = json.loads((Path(__file__).parent / "golden_replies.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("form", GOLDEN["around an answer"])  # THOUGHT and ANSWER are replaced by texts
def test_thoughts_and_prompts_are_removed(form: str) -> None:
    answer = "The library opens at nine on weekdays."
    reply = form.replace("THOUGHT", "They ask about the library of the town.").replace("ANSWER", answer)
    assert answer_text(reply, END) == answer


@pytest.mark.parametrize(("reply", "answer"), GOLDEN["html and escapes"])
def test_html_and_escapes_are_removed(reply: str, answer: str) -> None:
    assert answer_text(reply, END) == answer


@pytest.mark.parametrize("reply", GOLDEN["about marks, tags and escapes"])
def test_an_answer_about_markers_tags_or_escapes_is_unchanged(reply: str) -> None:
    assert answer_text(reply, END) == reply


def test_another_marker_can_be_set() -> None:
    assert answer_text("thought<|answer|> yes </think>", "<|answer|>") == "yes </think>"


@settings(derandomize=True, database=None, deadline=None)
@given(st.text(), st.text(st.characters(exclude_characters="<")))
def test_a_thought_leaves_no_trace(thought: str, answer: str) -> None:
    assert answer_text(f"<think>{thought}{END}{answer}", END) == answer.strip()
