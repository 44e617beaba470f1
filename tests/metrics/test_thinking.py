"""What a thinking model thinks aloud never reaches a metric."""

from __future__ import annotations

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
        ("a</think>\n\nb ", "b"),  # the opening was part of the prompt
        ("<think>a</think>b<think>c</think>d", "d"),
        ("<think>a</think>", ""),
        ("<think>cut off in the middle", ""),
        ("\n <think>cut off", ""),
        ("<thinking>cut off", ""),
        ("a</think><think>a second thought, cut off", ""),
        ("How do I write <think> in HTML?", "How do I write <think> in HTML?"),
    ],
)
def test_the_answer_begins_after_the_last_thought(text: str, answer: str) -> None:
    assert answer_text(text, END) == answer


def test_another_marker_can_be_named() -> None:
    assert answer_text("thought<|answer|> yes </think>", "<|answer|>") == "yes </think>"


@settings(derandomize=True, database=None, deadline=None)
@given(st.text(), st.text(st.characters(exclude_characters="<")))
def test_a_thought_leaves_no_trace(thought: str, answer: str) -> None:
    assert answer_text(f"<think>{thought}{END}{answer}", END) == answer.strip()
