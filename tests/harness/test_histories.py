from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.harness.live import ModelHistories, whole_conversations


def doc(conversation: str, turn: int) -> dict[str, Any]:
    history = [
        {"role": role, "content": f"gold {role} {number}"}
        for number in range(1, turn)
        for role in ("user", "assistant")
    ]
    return {"task_id": f"{conversation}::{turn}", "conversation_id": conversation, "turn": turn, "history": history}


def replies(found: dict[str, Any]) -> list[str]:
    return [message["content"] for message in found["history"] if message["role"] == "assistant"]


def test_own_answers_stand_in_the_place_of_the_gold_ones() -> None:
    docs = [doc("a", turn) for turn in (1, 2, 3)]
    histories = ModelHistories(docs, docs)
    histories.take(docs[0], "own 1")
    histories.take(docs[1], "")
    (third,) = histories.at(3)
    assert [message["content"] for message in third["history"]] == ["gold user 1", "own 1", "gold user 2", ""]
    assert replies(docs[2]) == ["gold assistant 1", "gold assistant 2"]


def test_turns_before_a_scored_one_are_asked_and_none_behind_it() -> None:
    docs = [doc(name, turn) for name in "ab" for turn in (1, 2, 3)]
    histories = ModelHistories(docs, [docs[1]])
    assert list(histories.docs) == ["a::1", "a::2"]
    assert histories.turns() == [1, 2]


def test_a_turn_without_a_task_keeps_its_reply() -> None:
    docs = [doc("a", 1), doc("a", 3)]
    histories = ModelHistories(docs, docs)
    histories.take(docs[0], "own 1")
    assert replies(histories.at(3)[0]) == ["own 1", "gold assistant 2"]


def test_a_failed_turn_ends_its_conversation() -> None:
    docs = [doc(name, turn) for name in "ab" for turn in (1, 2, 3)]
    histories = ModelHistories(docs, docs)
    histories.fail(docs[1])
    assert [histories.failed_turn(item) for item in docs] == [None, None, 2, None, None, None]


@given(st.lists(st.sampled_from("abcd"), max_size=12), st.none() | st.integers(0, 14))
def test_a_limit_grows_to_the_smallest_whole_conversations(names: list[str], limit: int | None) -> None:
    found = whole_conversations(names, limit)
    if not limit:
        assert found is None
        return
    sizes = [n for n in range(len(names) + 1) if not {*names[:n]} & {*names[n:]} and n >= min(limit, len(names))]
    assert found == sizes[0]
    assert whole_conversations(names, found) == (found or None)


@pytest.mark.parametrize("limit", [1, 2])
def test_a_limit_within_a_conversation(limit: int) -> None:
    assert whole_conversations(["a", "a", "b"], limit) == 2
