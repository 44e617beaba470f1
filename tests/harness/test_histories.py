from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lm_eval.api.model import LM

from ragtasks.harness.live import ModelHistories, WaitingRequest, completed_limit, rounds_type


def doc(conversation: str, turn: int) -> dict[str, Any]:
    history = [
        {"role": role, "content": f"gold {role} {number}"}
        for number in range(1, turn)
        for role in ("user", "assistant")
    ]
    return {"task_id": f"{conversation}::{turn}", "conversation_id": conversation, "turn": turn, "history": history}


def replies(turn: dict[str, Any]) -> list[str]:
    return [message["content"] for message in turn["history"] if message["role"] == "assistant"]


def test_own_answers_replace_gold_answers() -> None:
    docs = [doc("a", turn) for turn in (1, 2, 3)]
    histories = ModelHistories(docs, docs)
    histories.take(docs[0], "own 1")
    histories.take(docs[1], "")
    third = histories.with_history(docs[2])
    assert [message["content"] for message in third["history"]] == ["gold user 1", "own 1", "gold user 2", ""]
    assert replies(docs[2]) == ["gold assistant 1", "gold assistant 2"]


def test_turns_before_a_scored_turn_are_requested_and_later_ones_are_not() -> None:
    docs = [doc(name, turn) for name in "ab" for turn in (1, 2, 3)]
    histories = ModelHistories(docs, [docs[1]])
    assert list(histories.docs) == ["a::1", "a::2"]
    assert histories.first_turns() == [docs[0]]
    assert histories.turns_after([docs[0]]) == [docs[1]]
    assert histories.turns_after([docs[1]]) == []


def test_a_turn_without_a_task_keeps_its_reply() -> None:
    docs = [doc("a", 1), doc("a", 3)]
    histories = ModelHistories(docs, docs)
    histories.take(docs[0], "own 1")
    assert replies(histories.with_history(docs[1])) == ["own 1", "gold assistant 2"]


def test_a_failed_turn_ends_its_conversation() -> None:
    docs = [doc(name, turn) for name in "ab" for turn in (1, 2, 3)]
    histories = ModelHistories(docs, docs)
    histories.fail(docs[1])
    assert [histories.failed_turn(item) for item in docs] == [None, None, 2, None, None, None]


@given(st.lists(st.sampled_from("abcd"), max_size=12), st.none() | st.integers(0, 14))
def test_a_limit_is_increased_to_complete_conversations(names: list[str], limit: int | None) -> None:
    n_docs = completed_limit(names, limit)
    if not limit:
        assert n_docs is None
        return
    sizes = [n for n in range(len(names) + 1) if not {*names[:n]} & {*names[n:]} and n >= min(limit, len(names))]
    assert n_docs == sizes[0]
    assert completed_limit(names, n_docs) == (n_docs or None)


@pytest.mark.parametrize("limit", [1, 2])
def test_a_limit_within_a_conversation(limit: int) -> None:
    assert completed_limit(["a", "a", "b"], limit) == 2


class Scripted:
    """A conversation that records its requests; some turns need several."""

    def __init__(self, name: str, turns: list[int], follow_ups: Mapping[int, int] = MappingProxyType({})) -> None:
        """Set the turns, and the numbers of follow-up requests."""
        self._name, self._left, self._follow_ups = name, list(turns), dict(follow_ups)
        self.requests = {number: self._request(number) for number in (*turns, *follow_ups.values())}
        self.taken: dict[int, str] = {}

    def _request(self, turn: int) -> WaitingRequest:
        fields = (rounds_type(), doc(self._name, turn), ("", {}), 0)
        return WaitingRequest(*fields, metadata=("task", turn, 1), conversations=self)  # type: ignore[arg-type]

    def begin(self) -> list[WaitingRequest]:
        return [self.requests[self._left.pop(0)]] if self._left else []

    def take(self, request: WaitingRequest, reply: str) -> None:
        self.taken[request.doc["turn"]] = reply

    def next_requests(self, answered: list[WaitingRequest]) -> list[WaitingRequest]:
        assert all(request.conversations is self for request in answered)
        due = []
        for request in answered:
            number = self._follow_ups.pop(request.doc["turn"], None)
            due += [self.requests[number]] if number is not None else self.begin()
        return due

    def reply_to(self, request: WaitingRequest) -> str:
        return self.taken.get(request.doc["turn"], "not asked")


class Model(LM):
    """Answers with the names of the turns in the same batch."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[list[str]] = []

    def generate_until(self, requests: Any) -> list[str]:
        self.asked.append([request.doc["task_id"] for request in requests])
        return [f"to {request.doc['task_id']}" for request in requests]

    def loglikelihood(self, requests: Any) -> Any:
        raise NotImplementedError

    def loglikelihood_rolling(self, requests: Any) -> Any:
        raise NotImplementedError


def ask(model: Model, *requests: WaitingRequest) -> Any:
    return getattr(model, rounds_type())(requests)


def test_a_local_model_receives_one_turn_of_all_conversations_at_a_time() -> None:
    model, first, second = Model(), Scripted("a", [1, 2, 3]), Scripted("b", [2, 3])
    assert ask(model, first.requests[3], second.requests[3], first.requests[2]) == ["to a::3", "to b::3", "to a::2"]
    assert model.asked == [["a::1", "b::2"], ["a::2", "b::3"], ["a::3"]]
    assert first.taken == {1: "to a::1", 2: "to a::2", 3: "to a::3"}


def test_conversations_without_a_valid_prompt_send_no_request() -> None:
    model, ended = Model(), Scripted("a", [])
    assert ask(model, ended._request(2)) == ["not asked"]
    assert model.asked == []


def test_follow_up_requests_are_sent_with_the_next_turns_of_others() -> None:
    model = Model()
    first, second = Scripted("a", [1, 2], {1: 11, 11: 12}), Scripted("b", [1, 2], {1: 21})
    ask(model, first.requests[2], second.requests[2])
    assert model.asked == [["a::1", "b::1"], ["a::11", "b::21"], ["a::12", "b::2"], ["a::2"]]
    assert list(first.taken) == [1, 11, 12, 2]


@pytest.mark.parametrize("n_replies", [0, 2])
def test_a_wrong_number_of_replies_is_an_error(n_replies: int) -> None:
    model, conversation = Model(), Scripted("a", [1])
    model.generate_until = lambda _: ["a reply"] * n_replies  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="zip"):
        ask(model, conversation.requests[1])


def test_the_first_failed_turn_ends_a_conversation() -> None:
    docs = [doc("a", turn) for turn in (1, 2, 3, 4)]
    histories = ModelHistories(docs, docs)
    histories.fail(docs[1])
    histories.fail(docs[2])
    assert [histories.failed_turn(item) for item in docs] == [None, None, 2, 2]


def test_the_history_of_a_turn_excludes_its_own_answer() -> None:
    docs = [doc("a", 1), doc("b", 1), doc("a", 2)]
    histories = ModelHistories(docs, [docs[2], docs[1]])
    histories.take(docs[0], "own a")
    histories.take(docs[1], "own b")
    assert [turn["task_id"] for turn in histories.first_turns()] == ["a::1", "b::1"]
    assert [replies(histories.with_history(turn)) for turn in docs] == [[], [], ["own a"]]
    assert histories.scored == {"a::2", "b::1"}
    assert docs[2]["history"][1]["content"] == "gold assistant 1", "the benchmark's own stays as it is"
