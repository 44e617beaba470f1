from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.clients import CallUsage, Outcome, Reply, early_end, read_completion, read_text

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
def test_any_bytes_are_a_reply_or_invalid_json(body: bytes) -> None:
    try:
        reply = read_completion(body)
    except ValueError:
        return
    assert reply.outcome is Outcome.MALFORMED


@given(JSON)
def test_any_message_is_parsed(message: object) -> None:
    reply = read_completion(json.dumps({"choices": [{"message": message}]}).encode())
    assert bool(reply.reason) == (reply.text is None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>a</think>\n\nb ", ("a", "b")),
        ("a</think>b", ("a", "b")),
        ("[THINK]a[/THINK]8", ("a", "8")),
        ("<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>8<|END_RESPONSE|>", ("a", "8")),
        ("<think>a", ("a", None)),
        ("<think> a </think>b</think> c ", ("a </think>b", "c")),
        ("say <think> aloud", ("", "say <think> aloud")),
    ],
)
def test_thinking_is_split_from_the_answer(text: str, expected: tuple[str, str | None]) -> None:
    reply = read_text(text)
    assert (reply.thinking, reply.text) == expected


def test_thinking_from_field_and_marks_is_kept() -> None:
    assert read_text("<think>b</think>c", thinking="a").thinking == "a\nb"


def body(message: object, **fields: object) -> bytes:
    choice = {"message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    return json.dumps({"model": "m-1", "choices": [choice], "usage": usage, **fields}).encode()


def test_a_reply_contains_all_fields_of_the_response() -> None:
    sent = body({"content": "<think>b</think> c ", "reasoning_content": "a"})
    assert read_completion(sent) == Reply(
        Outcome.ANSWERED,
        "c",
        thinking="a\nb",
        finish_reason="stop",
        usage=CallUsage(7, 3),
        raw=sent.decode(),
        served_model="m-1",
    )
    refused = body({"content": None, "refusal": "no " * 200})
    assert read_completion(refused) == Reply(
        Outcome.REFUSED,
        reason="the model refused: " + ("no " * 200)[:200],
        finish_reason="stop",
        usage=CallUsage(7, 3),
        raw=refused.decode(),
        served_model="m-1",
    )
    odd = body("x" * 300, choices="é")
    assert read_completion(odd) == Reply(
        Outcome.MALFORMED,
        reason="no chat completion: choices is str, expected list",
        usage=CallUsage(7, 3),
        raw=odd.decode(),
    )


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"[1]", "the body is list, expected dict"),
        (b"{}", "it has no choices, but nothing"),
        (b'{"id": 1, "object": "error"}', "it has no choices, but id, object"),
        (b'{"message": "the queue is full"}', "it has no choices, but the queue is full"),
        (body("", choices=[]), "its choices are empty"),
        (body("", choices=["x"]), "the choice is str, expected dict"),
        (body("text"), "the message is str, expected dict"),
        (body({"content": 5}), "content is int, expected list"),
        (body({"content": "x", "reasoning": []}), "reasoning is list, expected str"),
        (body({"content": "x", "refusal": {}}), "refusal is dict, expected str"),
    ],
)
def test_a_body_without_completion_has_a_reason(sent: bytes, reason: str) -> None:
    assert read_completion(sent).reason == f"no chat completion: {reason}"


def test_text_parts_are_the_reply_and_thinking_parts_the_thinking() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    content = [thought, {"type": "text", "text": "It opens "}, {"type": "text", "text": "at nine."}]
    reply = read_completion(body({"content": content}))
    assert (reply.outcome, reply.text, reply.thinking) == (Outcome.ANSWERED, "It opens at nine.", "hm")
    assert read_completion(body({"content": [thought]})).outcome is Outcome.EMPTY
    assert read_completion(body({"content": ["text"]})).outcome is Outcome.MALFORMED


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_thinking_is_read_from_either_field(name: str) -> None:
    assert read_completion(body({"content": "c", name: "a"})).thinking == "a"
    assert read_completion(body({"content": "", name: "a"})).reason == "the reply contains only thinking"


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        (None, (None, None)),
        ({}, (None, None)),
        ([7], (None, None)),
        ({"prompt_tokens": "7", "completion_tokens": True}, (None, None)),
        ({"prompt_tokens": 0}, (0, None)),
        ({"completion_tokens": 3}, (None, 3)),
    ],
)
def test_uncounted_tokens_are_unknown(usage: object, counts: tuple[int | None, int | None]) -> None:
    reply = read_completion(body({"content": "c"}, usage=usage))
    assert (reply.text, reply.usage.input_tokens, reply.usage.output_tokens) == ("c", *counts)


@pytest.mark.parametrize(("named", "model"), [(None, ""), (5, ""), (["m"], ""), ("m" * 300, "m" * 200)])
def test_the_served_model_is_a_short_name_or_empty(named: object, model: str) -> None:
    assert read_completion(body({"content": "c"}, model=named)).served_model == model


@pytest.mark.parametrize(
    ("text", "thinking", "finish_reason", "outcome", "reason"),
    [
        ("c", "", "length", Outcome.TRUNCATED, "the reply reached the token limit"),
        ("c", "", "content_filter", Outcome.FILTERED, "a content filter stopped the reply"),
        ("", "", "stop", Outcome.EMPTY, "the reply has no content"),
        ("", "a", "stop", Outcome.EMPTY, "the reply contains only thinking"),
        ("<think>a", "", "stop", Outcome.EMPTY, "the reply contains only thinking"),
        ("c", "", "", Outcome.ANSWERED, ""),
    ],
)
def test_a_text_is_an_answer_after_a_normal_stop(
    text: str, thinking: str, finish_reason: str, outcome: Outcome, reason: str
) -> None:
    reply = read_text(text, thinking=thinking, finish_reason=finish_reason, raw="r", served_model="m")
    assert (reply.outcome, reply.reason, reply.finish_reason) == (outcome, reason, finish_reason)
    assert reply.text == ("c" if outcome is Outcome.ANSWERED else None)
    assert (reply.raw, reply.served_model, reply.usage) == ("r", "m", CallUsage())


COMPLETE = ["stop", "STOP", "end_turn", "endTurn", "stop_sequence", "eos", "eos_token", "COMPLETE", "completed"]
COMPLETE += ["FINISH_REASON_STOP", "FinishReason.STOP", "", None]
EARLY = {
    Outcome.TRUNCATED: ["length", "MAX_TOKENS", "max_tokens", "model_length", "token_limit", "FinishReason.MAX_TOKENS"],
    Outcome.FILTERED: ["content_filter", "SAFETY", "RECITATION", "PROHIBITED_CONTENT", "guardrail_intervened"],
    Outcome.FAILED: ["error", "ERROR", "abort", "cancelled", "timeout", "tool_calls", "function_call", "no such word"],
}


@pytest.mark.parametrize("reason", COMPLETE)
def test_a_normal_stop_in_any_spelling_or_without_a_reason_is_complete(reason: str | None) -> None:
    assert read_completion(body({"content": "c"}, choices=[choice("c", finish_reason=reason)])).text == "c"


@pytest.mark.parametrize(("outcome", "reason"), [(outcome, one) for outcome, all_ in EARLY.items() for one in all_])
def test_a_reply_with_another_finish_reason_is_no_answer(outcome: Outcome, reason: str) -> None:
    reply = read_completion(body({}, choices=[choice("Rating: 1", finish_reason=reason)]))
    assert (reply.outcome, reply.text, reply.usage.input_tokens) == (outcome, None, 7)


@pytest.mark.parametrize(
    "fields", [{"done_reason": "length"}, {"stop_reason": "max_tokens"}, {"finishReason": "MAX_TOKENS"}]
)
def test_the_finish_reason_is_read_from_every_usual_field(fields: dict[str, str]) -> None:
    bare = choice("cut")
    del bare["finish_reason"]
    assert read_completion(body({}, choices=[bare], **fields)).outcome is Outcome.TRUNCATED
    assert read_completion(body({}, choices=[{**bare, **fields}])).outcome is Outcome.TRUNCATED


def test_an_unknown_finish_reason_is_shortened_and_without_control_characters() -> None:
    reply = read_completion(body({}, choices=[choice("c", finish_reason="\x1b[2Jodd" + "y" * 500)]))
    assert reply.reason.startswith("the reply ended early (finish_reason \\x1b[2Joddy")
    assert len(reply.reason) < 100


def test_tool_calls_are_a_normal_end_if_tools_were_offered() -> None:
    ended = {"choices": [choice("", finish_reason="tool_calls")]}
    assert early_end(ended, offers_tools=True) is None
    assert early_end({"choices": [choice("", finish_reason="length")]}, offers_tools=True) is not None


ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"error": "index not ready"}, "index not ready"),
    ({"error": {"code": "E7", "message": "index not ready"}}, "E7 index not ready"),
    ({"errors": [{"message": "no shard"}]}, "no shard"),
    ({"error": True}, "True"),
    ({"error": {"inner": {"deep": 1}}}, "no message"),
    ({"exception": "KeyError"}, "KeyError"),
    ({"status": "failed"}, "status failed"),
    ({"success": False}, "success False"),
    ({"error": "key sk-0123456789abcdef0123 is wrong\x07"}, "key *** is wrong\\x07"),
]
NO_ERRORS: list[dict[str, Any]] = [
    {"error": None}, {"error": ""}, {"error": {}}, {"error": []}, {"error": "None"},
    {"error": {"code": 0, "message": ""}},
    {"status": "ok"}, {"status": 200}, {"success": True}, {"detail": "took 3 ms"},
]  # fmt: skip


@pytest.mark.parametrize(("fields", "shown"), ERRORS)
def test_an_error_next_to_an_answer_is_a_failed_request(fields: dict[str, Any], shown: str) -> None:
    plain = {"answer": "Nine.", "contexts": []}
    chat = {"choices": [choice("Nine.")]}
    for sent in (plain, chat):
        assert early_end({**sent, **fields}) == (Outcome.FAILED, f"an error in place of a reply: {shown}")
    reply = read_completion(body({}, choices=[choice("Nine.")], **fields))
    assert (reply.outcome, reply.text, reply.usage.input_tokens) == (Outcome.FAILED, None, 7)


@pytest.mark.parametrize("fields", NO_ERRORS)
def test_an_answer_with_an_empty_error_field_is_an_answer(fields: dict[str, Any]) -> None:
    assert early_end({"answer": "Nine.", **fields}) is None
    assert read_completion(body({"content": "Nine."}, **fields)).text == "Nine."


def test_detail_is_an_error_only_without_an_answer() -> None:
    assert early_end({"answer": "", "detail": "no index"}) == (Outcome.FAILED, "an error in place of a reply: no index")


def choice(content: str, **fields: Any) -> dict[str, Any]:
    return {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}, **fields}
