"""Replies and errors of vLLM 0.32.0, as recorded. `make vllm-test` checks that vLLM still sends them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragtasks.clients import (
    OpenAIClient,
    Outcome,
    Prompt,
    Reply,
    early_end,
    endpoint_of,
    endpoint_requirements,
    no_secrets,
)
from ragtasks.errors import JudgeError, ModelError
from ragtasks.scoring import record_unanswered, take_failures
from tests.clients._server import Action, ChatServer, chat_server
from tests.clients.test_client import QUICK

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "vllm_replies.json").read_text(encoding="utf-8"))
FATAL = {"unknown model", "unknown path"}


def recorded(name: str) -> Action:
    row = RECORDED[name]
    return Action(json.dumps(row["body"]).encode(), row["status"])


def reply_to(name: str, **options: Any) -> tuple[Reply, ChatServer]:
    """Return the reply of a client whose server sends a recorded reply."""
    with chat_server(lambda *_: recorded(name)) as server:
        endpoint = {"model": "gemma", "base_url": server.base_url, "slots": 1, **QUICK, **options}
        return OpenAIClient(endpoint).answer([Prompt.of("q")])[0], server


@pytest.mark.parametrize("name", sorted(FATAL))
def test_an_unknown_model_or_path_ends_the_call(name: str) -> None:
    with pytest.raises(JudgeError, match="no such model or address"):
        reply_to(name)


@pytest.mark.parametrize("name", sorted(RECORDED.keys() - FATAL))
def test_only_a_complete_reply_is_an_answer_and_no_setting_is_dropped_silently(name: str) -> None:
    reply, server = reply_to(name)
    assert (reply.outcome is Outcome.ANSWERED) == (name in {"answer", "verdict by a schema"})
    assert bool(reply.reason) == (reply.outcome is not Outcome.ANSWERED)
    assert all(body == server.bodies[0] for body in server.bodies)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("answer at the token limit", "the reply reached the token limit"),
        (
            "answer at the end of the context",
            "the server's context is too short (2010 tokens of prompt and 38 of 1024 of the reply)",
        ),
        ("prompt over the context", "the server's context is too short (HTTP 400: This model's maximum context length"),
        ("limit over the context", "the server's context is too short (HTTP 400: max_tokens=9216 cannot be greater"),
        ("unknown effort", "HTTP 400: 1 validation error: {'type': 'literal_error', 'loc': 'body.reasoning_effort'"),
        ("high temperature", "HTTP 400: temperature must be in [0, 2], got 5.0."),
        ("invalid schema", "HTTP 400: Grammar error: Invalid type: objekt"),
    ],
)
def test_the_reason_names_the_cause(name: str, reason: str) -> None:
    limit = 8 if name == "answer at the token limit" else 1024
    reply, _ = reply_to(name, max_tokens=limit)
    assert reply.reason.startswith(reason)


def test_a_reply_without_a_total_is_not_blamed_on_the_context() -> None:
    """Without it, the thinking of a reply may be missing from the count."""
    row = RECORDED["answer at the end of the context"]["body"]
    for total in (None, 2010 + 1024):
        body = {**row, "usage": {**row["usage"], "total_tokens": total}}
        with chat_server(lambda *_, body=body: Action(json.dumps(body).encode())) as server:
            (reply,) = OpenAIClient({"model": "m", "base_url": server.base_url, **QUICK}).answer([Prompt.of("q")])
        assert reply.reason == "the reply reached the token limit"


@pytest.mark.parametrize("name", ["prompt over the context", "answer at the end of the context"])
def test_the_next_step_after_a_short_context_is_no_higher_limit(name: str) -> None:
    reply, _ = reply_to(name)
    record_unanswered([reply.reason], 2)
    (failure,) = take_failures()
    assert "too_long=drop_passages" in failure
    assert "max_gen_toks" not in failure


def test_a_call_counts_as_a_reply_if_tools_were_offered() -> None:
    body = RECORDED["tool call"]["body"]
    assert early_end(body, offers_tools=True) is None
    assert early_end(body) == (Outcome.FAILED, "the reply ended early (finish_reason tool_calls)")


@pytest.mark.slow
def test_a_judge_that_replies_slowly_is_no_problem_before_the_evaluation() -> None:
    """A model that thinks, or a base model that never ends, may take longer than the test request waits."""
    with chat_server(lambda *_: replace(recorded("answer"), delay_seconds=21.0)) as server:
        endpoint = endpoint_of({"model": "gemma", "base_url": server.base_url})
        (check,) = [
            row.check for row in endpoint_requirements(endpoint, "judge", no_secrets) if row.category == "endpoint"
        ]
        assert check() == f"{server.base_url} accepts requests and is slow"


def test_a_judge_s_limit_over_the_context_has_its_own_next_step() -> None:
    with chat_server(lambda *_: recorded("limit over the context")) as server:
        endpoint = endpoint_of({"model": "gemma", "base_url": server.base_url})
        (check,) = [
            row.check for row in endpoint_requirements(endpoint, "judge", no_secrets) if row.category == "endpoint"
        ]
        with pytest.raises(ModelError, match="Next step: lower max_tokens and thinking_tokens"):
            check()
