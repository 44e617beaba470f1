from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.clients import Outcome, read_completion, read_text
from ragtasks.clients._openai_dialect import split_thinking

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(st.characters(codec="utf-8"), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "message", "content", "usage", "finish_reason", "refusal", "reasoning_content"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_json_gives_a_reply_with_text_or_reason(body: object) -> None:
    reply = read_completion(json.dumps(body).encode())
    assert (reply.text is not None) == (reply.outcome is Outcome.ANSWERED)
    assert bool(reply.reason) == (reply.text is None)


@given(st.binary(max_size=30))
def test_any_bytes_are_a_reply_or_no_json(body: bytes) -> None:
    try:
        reply = read_completion(body)
    except ValueError:
        return
    assert reply.outcome is Outcome.MALFORMED


@given(JSON)
def test_any_message_is_read(message: object) -> None:
    reply = read_completion(json.dumps({"choices": [{"message": message}]}).encode())
    assert bool(reply.reason) == (reply.text is None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", ("", "plain")),
        ("<think>a</think>\n\nb ", ("a", "b")),
        ("a</think>b", ("a", "b")),
        ("<think>a", ("a", "")),
        ("say <think> aloud", ("", "say <think> aloud")),
        ("", ("", "")),
    ],
)
def test_thinking_is_split_off(text: str, expected: tuple[str, str]) -> None:
    assert split_thinking(text) == expected


def test_thinking_of_both_kinds_is_kept() -> None:
    assert read_text("<think>b</think>c", thinking="a").thinking == "a\nb"
