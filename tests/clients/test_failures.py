"""Refusals of a server: temporary, final for a prompt, or final for all prompts."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from ragtasks.clients import (
    EndpointError,
    OpenAIClient,
    Outcome,
    Prompt,
    Reply,
    credentials_for,
    endpoint_of,
    model_client,
)
from ragtasks.errors import JudgeError
from tests.clients._server import Action, ChatServer, chat_server, completion, refusal
from tests.clients.test_client import KEY, QUICK


def send(*actions: Action, n: int = 1) -> tuple[list[Reply], ChatServer]:
    """Call a server whose replies to a prompt are these actions, the last one repeated."""
    with chat_server(lambda _, n_before: actions[min(n_before, len(actions) - 1)]) as server:
        endpoint = {"model": "m", "base_url": server.base_url, "slots": 1, **QUICK}
        return OpenAIClient(endpoint, KEY).answer([Prompt.of(str(number)) for number in range(n)]), server


def error(status: int, *, message: str = "no", **fields: Any) -> Action:
    return Action(json.dumps({"error": {"message": message, "type": "error", **fields}}).encode(), status)


@pytest.mark.parametrize("status", [408, 409, 425, 500, 502, 504, 529])
def test_a_temporary_failure_is_retried(status: int) -> None:
    (reply,), server = send(refusal(status), completion("fine"))
    assert (reply.text, len(server.asked)) == ("fine", 2)


@pytest.mark.parametrize("status", [400, 403, 405, 413, 418, 422])
def test_a_refused_prompt_is_final(status: int) -> None:
    replies, server = send(error(status, message="not this"), n=2)
    assert {(reply.outcome, reply.reason) for reply in replies} == {(Outcome.FAILED, replies[0].reason)}
    assert replies[0].reason.startswith(f"HTTP {status}: ")
    assert "not this" in replies[0].reason
    assert "no attempt left" not in replies[0].reason
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("action", "why"),
    [
        (error(401), "the endpoint does not accept the key (HTTP 401: "),
        (error(402), "the account has no credit left (HTTP 402: "),
        (error(404), "the endpoint has no such model or address (HTTP 404: "),
        (error(429, code="insufficient_quota"), "the account has no credit left (HTTP 429: "),
        (error(400, code="insufficient_quota"), "the account has no credit left (HTTP 400: "),
        (
            Action(b"{}", 301, {"Location": "https://other.example/v1"}),
            "the endpoint redirects to other.example, and no",
        ),
        (
            Action(b"{}", 308, {"Location": "http://["}),
            "the endpoint redirects elsewhere, and no key is sent there",
        ),
        (Action(b"{}", 302), "no key is sent there (HTTP 302)"),
    ],
)
def test_a_refused_caller_ends_the_call(action: Action, why: str) -> None:
    with pytest.raises(JudgeError) as caught:
        send(action, n=3)
    assert why in str(caught.value)


@pytest.mark.parametrize("words", ["Request too large for m", "Please reduce the length of the messages."])
def test_a_prompt_that_never_fits_is_not_waited_for(words: str) -> None:
    (reply,), server = send(error(429, message=words))
    assert (reply.outcome, len(server.asked)) == (Outcome.FAILED, 1)
    assert words in reply.reason


@pytest.mark.parametrize(
    "content",
    [
        {"error": {"code": 429, "message": "slower"}},
        {"error": {"code": "529", "message": ""}},
        {"error": {"status": "429"}},
        {"error": {"message": "Rate limit reached"}},
        {"error": {"type": "overloaded_error", "message": ""}},
        {"error": {"code": "rate_limit_exceeded"}},
        {"error": {"message": "Too many requests"}},
        {"error": "Rate limit reached"},
        {"error": {"code": 502, "message": "bad gateway"}},
        {"error": {"code": 408}},
        {"choices": [{"error": {"code": 500, "message": "cut"}, "message": {"content": "half"}}]},
    ],
)
def test_an_error_instead_of_a_reply_is_retried(content: dict[str, Any]) -> None:
    (reply,), server = send(Action(json.dumps(content).encode()), completion("fine"))
    assert (reply.text, len(server.asked)) == ("fine", 2)


@pytest.mark.parametrize(
    "content",
    [
        {"error": {"code": 418, "message": "no"}},
        {"error": {"code": 600}},
        {"error": {"code": 1429}},
        {"error": {"code": True, "message": "no"}},
        {"error": ["429"]},
    ],
)
def test_another_error_is_a_failed_request_after_one_more_attempt(content: dict[str, Any]) -> None:
    (reply,), server = send(Action(json.dumps(content).encode()))
    assert (reply.outcome, len(server.asked)) == (Outcome.FAILED, 2)
    assert reply.reason.startswith("an error in place of a reply: ")


@pytest.mark.parametrize("content", [{"error": None}, {"choices": [], "error": {}}])
def test_an_empty_error_is_ignored(content: dict[str, Any]) -> None:
    (reply,), server = send(Action(json.dumps(content).encode()))
    assert (reply.outcome, len(server.asked)) == (Outcome.MALFORMED, 1)


def test_an_answer_about_an_error_is_an_answer() -> None:
    (reply,), _ = send(completion('Write {"error": "rate limit"} to the log.'))
    assert reply.outcome is Outcome.ANSWERED


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b'{"detail": "no such deployment"}', "no such deployment"),
        (b"plain words", "plain words"),
        (f"your key {KEY} is wrong".encode(), "your key *** is wrong"),
        (b"a\n\n  b", "a b"),
        (b"", "Error code: 403"),
    ],
)
def test_the_server_s_message_is_shown_without_the_key(body: bytes, shown: str) -> None:
    (reply,), _ = send(Action(body, 403, {"Content-Type": "text/plain"}))
    assert shown in reply.reason
    assert KEY not in reply.reason


def test_long_messages_are_cut() -> None:
    (reply,), _ = send(Action(b"x" * 5_000, 403, {"Content-Type": "text/plain"}))
    assert len(reply.reason) == len("HTTP 403: ") + 200
    (reply,), _ = send(Action(b"<html>" + b"y" * 5_000))
    assert "the web page 'yyy" in reply.reason
    assert len(reply.reason) < 200


def test_a_filter_is_distinguished_from_a_refusal_by_its_code() -> None:
    (filtered,), _ = send(error(400, message="policy", code="content_filter"))
    assert (filtered.outcome, filtered.reason.startswith("a content filter stopped the prompt (HTTP 400: ")) == (
        Outcome.FILTERED,
        True,
    )


@pytest.mark.parametrize(
    ("fields", "left_out"),
    [
        ({"message": "Unsupported value", "param": "seed"}, "seed"),
        ({"message": "'temperature' is not supported; 'seed' is"}, "temperature"),
        ({"message": "seed: Extra inputs are not permitted"}, "seed"),
        ({"message": "This model doesn't support seed"}, "seed"),
        ({"message": "Input validation error: `temperature` must be strictly positive"}, "temperature"),
        ({"message": "invalid temperature: only 1 is allowed for this model"}, "temperature"),
        ({"message": "Unknown parameter: seeds"}, None),
        ({"message": "seed must be positive"}, None),
        ({"message": "Unsupported value", "param": "messages"}, None),
    ],
)
@pytest.mark.parametrize("status", [400, 422])
def test_a_refused_setting_is_detected_in_the_server_s_message(
    fields: dict[str, Any], left_out: str | None, status: int
) -> None:
    _, server = send(error(status, **fields), completion())
    settings = {"temperature", "seed", "max_tokens"}
    assert [settings & body.keys() for body in server.bodies] == (
        [settings] if left_out is None else [settings, settings - {left_out}]
    )


def test_a_setting_is_refused_only_by_a_status_400_or_422() -> None:
    _, server = send(error(403, message="Unsupported value", param="seed"))
    assert len(server.bodies) == 1


def listed(*names: str) -> Action:
    return Action(json.dumps({"object": "list", "data": [{"id": name} for name in names]}).encode())


def test_a_wrong_model_is_reported_with_the_models_of_the_server() -> None:
    with chat_server(lambda *_: error(404, message="no model m")) as server:
        server.listing = {"/v1/models": listed("small:1b", "large:7b")}
        with pytest.raises(JudgeError) as caught:
            OpenAIClient({"model": "m", "base_url": server.base_url, **QUICK}).answer([Prompt.of("q")])
    assert "(HTTP 404: no model m); the server has small:1b, large:7b" in str(caught.value)
    assert "next step: correct the model's name" in str(caught.value)


def test_a_listed_model_means_a_wrong_path() -> None:
    with chat_server(lambda *_: error(404, message="Not Found")) as server:
        server.listing = {"/v1/models": listed("m")}
        client = model_client("m", server.base_url, {})
        found = client.probe(Prompt((), body={"model": "m", "messages": [{"role": "user", "content": "q"}]}), 5)
    assert f"such as {server.base_url}/chat/completions" in found.reason


def test_an_address_without_v1_is_reported_with_the_right_one() -> None:
    with chat_server(lambda *_: Action(b'{"detail": "Not Found"}', 404)) as server:
        server.listing = {"/v1/models": listed("m")}
        endpoint = {"model": "m", "base_url": server.base_url.removesuffix("/v1"), **QUICK}
        with pytest.raises(JudgeError) as caught:
            OpenAIClient(endpoint).answer([Prompt.of("q")])
    assert "(HTTP 404: Not Found)" in str(caught.value)
    assert f"next step: add /v1 to the address: {server.base_url}" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "set_to", "note", "cure"),
    [
        ({}, None, "no key was sent)", "api_key_env=VARIABLE"),
        ({"api_key_env": "MY_KEY"}, KEY, "the key in MY_KEY was sent)", "correct MY_KEY"),
    ],
)
def test_a_refused_key_is_reported_with_its_source(
    options: dict[str, str], set_to: str | None, note: str, cure: str
) -> None:
    with chat_server(lambda *_: error(401, message=f"bad key {KEY}")) as server:
        endpoint = endpoint_of({"model": "m", "base_url": server.base_url, **QUICK, **options})
        with pytest.raises(JudgeError) as caught:
            OpenAIClient(endpoint, credentials_for(endpoint, lambda _: set_to)).answer([Prompt.of("q")])
    assert note in str(caught.value)
    assert cure in str(caught.value)
    assert KEY not in str(caught.value)


NGINX = (
    b"<html>\r\n<head><title>502 Bad Gateway</title><style>h1{}</style></head>\r\n<body>\r\n<center><h1>502 Bad Gateway"
    b"</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>"
)


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (NGINX, 413, "HTTP 413: 502 Bad Gateway"),
        (
            b"<html><body><h1>Not now</h1><script>x()</script> &amp; later</body></html>",
            403,
            "HTTP 403: Not now & later",
        ),
        (b'{"detail": "no GPU"}', 403, "HTTP 403: no GPU"),
        (b'{"detail": [{"loc": ["body", "n"], "msg": "too many"}]}', 403, "HTTP 403: body.n: too many"),
        (
            b'{"object": "error", "message": "maximum context length is 512 tokens"}',
            400,
            "context length is 512 tokens",
        ),
        (b"", 403, "HTTP 403: Error code: 403"),
        (b"<!DOCTYPE html><title>Sign in</title>", 200, "the reply is not JSON but the web page 'Sign in'"),
    ],
)
def test_the_server_s_message_is_the_reason(body: bytes, status: int, reason: str) -> None:
    (reply,), _ = send(Action(body, status, {"Content-Type": "text/plain"}))
    assert reason in reply.reason
    assert "<" not in reply.reason


def test_a_long_wait_is_reported_in_seconds() -> None:
    tomorrow = refusal(429, "requests per day", retry_after="7200")
    with chat_server(lambda *_: tomorrow) as server:
        endpoint = {"model": "m", "base_url": server.base_url, **QUICK}
        reply = OpenAIClient(endpoint).probe(Prompt.of("q"))
    assert reply.reason == "HTTP 429: requests per day; the server requests a wait of 7200 s"


def test_an_endpoint_error_can_be_pickled() -> None:
    error_made = EndpointError("m at http://x", "no connection", "start the server").with_replies(12, "answers")
    again = pickle.loads(pickle.dumps(error_made))
    assert (str(again), again.next_step) == (
        str(error_made),
        "start the server and run the same command: the 12 answers are kept",
    )
