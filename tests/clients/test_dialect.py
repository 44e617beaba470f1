"""Servers that refuse a setting, or think until their limit: retried once, reported once, and answered."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from ragtasks.clients import Decoding, OpenAIClient, Outcome, Prompt, Reply
from tests.clients._server import Action, ChatServer, chat_server, completion, refusal

PROMPTS = [Prompt.of(str(number)) for number in range(4)]


@pytest.mark.parametrize(
    ("setting", "message", "instead"),
    [
        ("temperature", "Unsupported value: 'temperature' does not support 0 with this model.", None),
        ("seed", "Unrecognized request argument supplied: seed", None),
        (
            "max_tokens",
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
            "max_completion_tokens",
        ),
    ],
)
def test_a_refused_setting_is_left_out_or_renamed_with_one_warning(
    setting: str, message: str, instead: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with chat_server(lambda *_: completion()) as server, caplog.at_level(logging.WARNING, "ragtasks"):
        server.script = lambda *_: refusal(400, message) if setting in server.bodies[-1] else completion()
        endpoint = {"model": "m", "base_url": server.base_url, "slots": 1}
        replies = OpenAIClient(endpoint, None, Decoding(0, 5, 9)).answer(PROMPTS)
    assert {reply.outcome for reply in replies} == {Outcome.ANSWERED}
    assert [setting in body for body in server.bodies] == [True, False, False, False, False]
    assert caplog.text.count(f"the server does not accept {setting}") == 1
    if instead:
        assert {body[instead] for body in server.bodies[1:]} == {9}


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "System role not supported"),
        (400, "Unsupported value: 'messages[0].role' does not support 'system' with this model."),
        (400, "Only user and assistant roles are supported!"),
        (400, "This model doesn't support system messages. Try again without a system message."),
        (500, "Conversation roles must alternate user/assistant/user/assistant/..."),
    ],
)
def test_a_refused_system_message_is_sent_before_the_first_user_message(status: int, words: str) -> None:
    prompt = Prompt.of("When?", "Passage 1: at nine.")
    with chat_server(lambda *_: completion()) as server:
        server.script = lambda *_: (
            refusal(status, words) if server.bodies[-1]["messages"][0]["role"] == "system" else completion()
        )
        client = OpenAIClient({"model": "m", "base_url": server.base_url, "slots": 1})
        replies = client.answer([prompt] * 2)
        replies += client.answer([prompt])  # the next call remembers it
    assert {reply.outcome for reply in replies} == {Outcome.ANSWERED}
    folded = [{"role": "user", "content": "Passage 1: at nine.\n\nWhen?"}]
    assert [body["messages"] for body in server.bodies[1:]] == [folded] * 3
    assert client.learned == {"system role": "user"}
    assert "learned" not in client.describe()


def test_an_error_about_roles_without_a_system_message_is_not_retried() -> None:
    with chat_server(lambda *_: completion()) as server:
        (reply,) = send(server, lambda _: refusal(400, "Conversation roles must alternate user/assistant"))
    assert (reply.outcome, len(server.bodies)) == (Outcome.FAILED, 1)


def test_a_reply_format_is_sent_if_structured_and_left_out_if_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    schema = {"type": "object"}
    prompts = [Prompt(prompt.messages, schema=schema) for prompt in PROMPTS]
    message = "'response_format' of type 'json_schema' is not supported"
    for structured, n_sent in ((False, 0), (True, 1)):
        with chat_server(lambda *_: completion()) as server, caplog.at_level(logging.WARNING, "ragtasks"):
            server.script = lambda *_: refusal(400, message) if "response_format" in server.bodies[-1] else completion()
            endpoint = {"model": "m", "base_url": server.base_url, "slots": 1, "structured": structured}
            replies = OpenAIClient(endpoint).answer(prompts)
        assert {reply.outcome for reply in replies} == {Outcome.ANSWERED}
        sent = [body["response_format"] for body in server.bodies if "response_format" in body]
        assert sent == [{"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}] * n_sent
    assert caplog.text.count("does not accept response_format: replies are free text") == 1


def thinking_until(limit: int) -> tuple[list[Reply], ChatServer]:
    """Call a server that thinks up to `limit` tokens before its answer begins."""
    with chat_server(lambda *_: completion()) as server:

        def script(*_: object) -> Action:
            if server.bodies[-1]["max_tokens"] > limit:
                return completion("8", reasoning_content="hm")
            return completion("", reasoning_content="hm", finish_reason="length")

        server.script = script
        return OpenAIClient({"model": "m", "base_url": server.base_url, "slots": 1}).answer(PROMPTS), server


def test_thinking_that_used_up_the_limit_gets_a_higher_limit_once() -> None:
    replies, server = thinking_until(2000)
    assert [reply.text for reply in replies] == ["8"] * 4
    assert [body["max_tokens"] for body in server.bodies] == [1024, *[1024 + 8192] * 4]


def test_endless_thinking_is_no_answer() -> None:
    replies, server = thinking_until(1_000_000)
    assert {reply.outcome for reply in replies} <= {Outcome.EMPTY, Outcome.TRUNCATED}
    assert len(server.bodies) == 5


def test_fields_of_the_endpoint_override_those_of_the_caller() -> None:
    options = {"temperature": 0.7, "max_tokens": 50, "reasoning_effort": "low", "extra_body": {"top_p": 0.9}}
    with chat_server(lambda *_: completion()) as server:
        OpenAIClient({"model": "m", "base_url": server.base_url, **options}, None, Decoding(0, 5, 9)).answer(
            PROMPTS[:1]
        )
    (body,) = server.bodies
    assert (
        body.items() >= {"temperature": 0.7, "max_tokens": 50 + 8192, "reasoning_effort": "low", "top_p": 0.9}.items()
    )


def send(server: ChatServer, script: Any, prompts: list[Prompt] = PROMPTS[:1], **options: Any) -> list[Reply]:
    server.script = lambda *_: script(server.bodies[-1])
    return OpenAIClient({"model": "m", "base_url": server.base_url, "slots": 1, **options}).answer(prompts)


def test_the_warning_names_the_sent_setting_and_its_replacement(caplog: pytest.LogCaptureFixture) -> None:
    message = "Unsupported value: 'temperature' does not support 0.5 with this model."
    with chat_server(lambda *_: completion()) as server, caplog.at_level(logging.WARNING, "ragtasks"):
        send(server, lambda sent: refusal(400, message) if "temperature" in sent else completion(), temperature=0.5)
    assert "endpoint m: the server does not accept temperature as 0.5: left out, the server's default applies" in (
        caplog.text
    )


def test_each_name_of_the_limit_is_tried_once() -> None:
    def refuse(sent: dict[str, Any]) -> Action:
        return refusal(400, f"Unsupported parameter: '{next(name for name in sent if name.endswith('_tokens'))}'")

    with chat_server(lambda *_: completion()) as server:
        (reply,) = send(server, refuse)
    assert (reply.outcome, len(server.bodies)) == (Outcome.FAILED, 2)
    assert "Unsupported parameter" in reply.reason
    assert [("max_tokens" in sent, "max_completion_tokens" in sent) for sent in server.bodies] == [
        (True, False),
        (False, True),
    ]


def test_the_older_name_of_the_limit_is_tried_if_the_newer_is_refused() -> None:
    refuse = refusal(400, "Unsupported parameter: 'max_completion_tokens'")
    with chat_server(lambda *_: completion()) as server:
        replies = send(
            server,
            lambda sent: refuse if "max_completion_tokens" in sent else completion(),
            PROMPTS,
            token_limit="max_completion_tokens",
            max_tokens=9,
        )
    assert {reply.outcome for reply in replies} == {Outcome.ANSWERED}
    assert [sent.get("max_tokens") for sent in server.bodies] == [None, 9, 9, 9, 9]


def test_a_field_set_by_the_user_is_never_left_out() -> None:
    refuse = refusal(400, "Unsupported value: 'temperature'")
    with chat_server(lambda *_: completion()) as server:
        (reply,) = send(server, lambda _: refuse, extra_body={"temperature": 0.3})
    assert (reply.outcome, [sent["temperature"] for sent in server.bodies]) == (Outcome.FAILED, [0.3])


def test_an_error_about_an_unsent_setting_is_not_retried() -> None:
    with chat_server(lambda *_: completion()) as server:
        (reply,) = send(server, lambda _: refusal(400, "Unsupported value: 'seed'"), PROMPTS[:1], temperature="server")
        assert (reply.outcome, len(server.bodies)) == (Outcome.FAILED, 2)
    assert "temperature" not in server.bodies[0]


@pytest.mark.parametrize("setting", ["temperature", "max_tokens"])
def test_requests_in_flight_are_resent_with_one_warning(setting: str, caplog: pytest.LogCaptureFixture) -> None:
    everybody = threading.Barrier(4)

    def script(sent: dict[str, Any]) -> Action:
        if setting not in sent:
            return completion()
        everybody.wait(20)  # none is refused before all are in flight
        return refusal(400, f"Unsupported: '{setting}'")

    with chat_server(lambda *_: completion()) as server, caplog.at_level(logging.WARNING, "ragtasks"):
        client = OpenAIClient({"model": "m", "base_url": server.base_url, "slots": 4})
        server.script = lambda text, _: script(next(sent for sent in server.bodies[::-1] if said(sent) == text))
        replies = client.answer(PROMPTS)
    assert {reply.outcome for reply in replies} == {Outcome.ANSWERED}
    assert sum(setting in sent for sent in server.bodies) == 4
    assert caplog.text.count("the server does not accept") == 1


def said(sent: dict[str, Any]) -> str:
    return str(sent["messages"][-1]["content"])


def test_a_started_answer_is_truncated_and_not_requested_again() -> None:
    for content in ("8, beca", "<think>hm</think> 8, beca"):
        with chat_server(lambda *_: completion()) as server:
            (reply,) = send(server, lambda _, content=content: completion(content, finish_reason="length"))
        assert (reply.outcome, len(server.bodies)) == (Outcome.TRUNCATED, 1)


@pytest.mark.parametrize("content", ["", None, "<think>hm", "hm</think>  "])
def test_thinking_gets_a_higher_limit_in_every_format(content: str | None) -> None:
    short = completion(content, finish_reason="length")
    with chat_server(lambda *_: completion()) as server:
        (reply,) = send(server, lambda sent: completion("8") if sent["max_tokens"] > 2000 else short)
    assert (reply.text, [sent["max_tokens"] for sent in server.bodies]) == ("8", [1024, 1024 + 8192])


def test_a_reply_with_a_normal_stop_gets_no_higher_limit() -> None:
    with chat_server(lambda *_: completion()) as server:
        (reply,) = send(server, lambda _: completion("", reasoning_content="hm"))
    assert (reply.outcome, len(server.bodies)) == (Outcome.EMPTY, 1)


@pytest.mark.parametrize(
    "options",
    [{"thinking_tokens": 0}, {"extra_body": {"max_tokens": 70}}, {"reasoning_effort": "low"}],
    ids=["no room to give", "a limit of the user's", "room from the start"],
)
def test_a_limit_that_cannot_grow_is_tried_once(options: dict[str, Any]) -> None:
    with chat_server(lambda *_: completion()) as server:
        (reply,) = send(server, lambda _: completion("", finish_reason="length"), **options)
    assert (reply.outcome, len(server.bodies)) == (Outcome.TRUNCATED, 1)


def test_a_server_that_refuses_the_higher_limit_gets_the_lower_one_again() -> None:
    cut = completion("", reasoning_content="hm", finish_reason="length")
    with chat_server(lambda *_: completion()) as server:
        replies = send(
            server, lambda sent: refusal(400, "context is full") if sent["max_tokens"] > 1024 else cut, PROMPTS[:2]
        )
    assert [reply.outcome for reply in replies] == [Outcome.TRUNCATED] * 2
    assert [sent["max_tokens"] for sent in server.bodies] == [1024, 1024 + 8192] * 2


def test_a_prompt_for_a_longer_reply_gets_a_higher_limit() -> None:
    prompts = [Prompt(PROMPTS[0].messages, longer=3), PROMPTS[1]]
    with chat_server(lambda *_: completion()) as server:
        send(server, lambda _: completion(), prompts, max_tokens=50)
    assert [sent["max_tokens"] for sent in server.bodies] == [150, 50]


def test_fields_of_the_prompt_override_those_of_the_endpoint() -> None:
    prompt = Prompt(PROMPTS[0].messages, body={"top_p": 0.1, "seed": 7})
    with chat_server(lambda *_: completion()) as server:
        send(server, lambda _: completion(), [prompt], extra_body={"top_p": 0.9, "seed": 8, "min_p": 0.2})
    (sent,) = server.bodies
    assert (sent["top_p"], sent["seed"], sent["min_p"]) == (0.1, 7, 0.2)


def test_a_schema_is_sent_for_prompts_that_have_one() -> None:
    prompts = [Prompt(PROMPTS[0].messages, schema={"type": "object"}), PROMPTS[1]]
    with chat_server(lambda *_: completion()) as server:
        send(server, lambda _: completion(), prompts, structured=True)
    assert ["response_format" in sent for sent in server.bodies] == [True, False]
