"""Servers that refuse a setting, or think until their limit: asked again once, told once, and answered."""

from __future__ import annotations

import logging

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
def test_a_refused_setting_is_left_out_or_renamed_with_one_note(
    setting: str, message: str, instead: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with chat_server(lambda *_: completion()) as server, caplog.at_level(logging.WARNING, "ragtasks"):
        server.script = lambda *_: refusal(400, message) if setting in server.bodies[-1] else completion()
        endpoint = {"model": "m", "base_url": server.base_url, "slots": 1}
        replies = OpenAIClient(endpoint, None, Decoding(0, 5, 9)).answer(PROMPTS)
    assert {reply.outcome for reply in replies} == {Outcome.ANSWERED}
    assert [setting in body for body in server.bodies] == [True, False, False, False, False]
    assert caplog.text.count(f"the server does not take {setting}") == 1
    if instead:
        assert {body[instead] for body in server.bodies[1:]} == {9}


def test_a_form_is_sent_where_the_endpoint_says_so_and_left_out_where_the_server_refuses_it(
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
    assert caplog.text.count("does not take response_format: replies are free text") == 1


def thinking_until(limit: int) -> tuple[list[Reply], ChatServer]:
    """Ask a server that thinks up to `limit` tokens before its answer begins."""
    with chat_server(lambda *_: completion()) as server:

        def script(*_: object) -> Action:
            if server.bodies[-1]["max_tokens"] > limit:
                return completion("8", reasoning_content="hm")
            return completion("", reasoning_content="hm", finish_reason="length")

        server.script = script
        return OpenAIClient({"model": "m", "base_url": server.base_url, "slots": 1}).answer(PROMPTS), server


def test_thinking_that_ate_the_limit_is_given_room_once() -> None:
    replies, server = thinking_until(2000)
    assert [reply.text for reply in replies] == ["8"] * 4
    assert [body["max_tokens"] for body in server.bodies] == [1024, *[1024 + 8192] * 4]


def test_thinking_that_never_ends_is_no_answer() -> None:
    replies, server = thinking_until(1_000_000)
    assert {reply.outcome for reply in replies} <= {Outcome.EMPTY, Outcome.TRUNCATED}
    assert len(server.bodies) == 5


def test_fields_of_the_endpoint_go_before_those_of_the_caller() -> None:
    options = {"temperature": 0.7, "max_tokens": 50, "reasoning_effort": "low", "extra_body": {"top_p": 0.9}}
    with chat_server(lambda *_: completion()) as server:
        OpenAIClient({"model": "m", "base_url": server.base_url, **options}, None, Decoding(0, 5, 9)).answer(
            PROMPTS[:1]
        )
    (body,) = server.bodies
    assert (
        body.items() >= {"temperature": 0.7, "max_tokens": 50 + 8192, "reasoning_effort": "low", "top_p": 0.9}.items()
    )
