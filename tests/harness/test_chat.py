from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lm_eval.models.api_models import JsonChatStr

from ragtasks.config import EvaluationConfig
from ragtasks.errors import ConfigurationError
from ragtasks.harness.prompts import (
    REFUSAL,
    ChatMessages,
    ChatRenderer,
    TaskPrompts,
    chat_messages,
    fold_system,
    reject_chat_endpoint,
)
from tests._commands import CommandResult
from tests.harness.conftest import NO_SYSTEM

DOC: dict[str, Any] = {
    "history": [{"role": "user", "content": "Who built it?"}, {"role": "assistant", "content": "A guild."}],
    "question": "When?",
    "passages": [
        {"passage_id": "p1", "title": "", "text": "The guild built it in 1412."},
        {"passage_id": "p2", "title": "", "text": "It burnt down in 1530."},
    ],
}
SYSTEM = "Passage 1:\nThe guild built it in 1412."
MESSAGES = chat_messages(DOC, SYSTEM)
TEXT = st.text(min_size=1)


def joined(messages: ChatMessages) -> str:
    return "".join(f"<{message['role']}>{message['content']}" for message in messages)


def without_system(messages: ChatMessages) -> str:
    """Apply a template that rejects the system role as the harness's Hugging Face model does."""
    return joined([message for message in messages if message["role"] != "system"])


def test_messages_keep_roles_and_order_with_the_question_last() -> None:
    assert [(message["role"], message["content"]) for message in MESSAGES] == [
        ("system", SYSTEM),
        ("user", "Who built it?"),
        ("assistant", "A guild."),
        ("user", "When?"),
    ]


def test_the_system_text_numbers_the_passages_and_states_limit_and_refusal() -> None:
    text = TaskPrompts(EvaluationConfig(max_words=77), {}).system_text(DOC, None)
    assert "77 words" in text
    assert REFUSAL in text
    first, second = "Passage 1:\nThe guild built it in 1412.", "Passage 2:\nIt burnt down in 1530."
    assert 0 < text.index(first) < text.index(second)


def test_the_users_instruction_precedes_the_system_text() -> None:
    prompts = TaskPrompts(EvaluationConfig(), {})
    plain = prompts.system_text(DOC, None)
    assert prompts.system_text(DOC, "Be kind.") == f"Be kind.\n\n{plain}"


def test_a_prompt_without_passages_states_it() -> None:
    text = TaskPrompts(EvaluationConfig(), {}).system_text({**DOC, "passages": []}, None)
    assert "no passage" in text.lower()
    assert "Passage 1" not in text


@given(system=TEXT, contents=st.lists(TEXT, min_size=1, max_size=5))
def test_folding_loses_no_message_and_no_text(system: str, contents: list[str]) -> None:
    turns = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(contents)]
    first, *later = fold_system([{"role": "system", "content": system}, *turns])
    assert first == {"role": "user", "content": f"{system}\n\n{contents[0]}"}
    assert later == turns[1:]


def test_a_template_with_a_system_role_is_used_unchanged() -> None:
    assert ChatRenderer().render(MESSAGES, joined) == joined(MESSAGES)


def test_without_a_system_role_passages_go_into_the_first_user_message() -> None:
    rendered = ChatRenderer().render(MESSAGES, without_system)
    assert rendered == f"<user>{SYSTEM}\n\nWho built it?<assistant>A guild.<user>When?"


def test_the_system_role_is_tested_once(caplog: pytest.LogCaptureFixture) -> None:
    roles: list[str] = []

    def template(messages: ChatMessages) -> str:
        roles.append(messages[0]["role"])
        return without_system(messages)

    renderer = ChatRenderer()
    assert len({renderer.render(MESSAGES, template) for _ in range(3)}) == 1
    assert roles == ["system", "user", "user", "user"]
    (message,) = caplog.messages
    assert "No passage is lost" in message


def test_a_missing_system_role_is_logged_once_per_task(
    evaluate: Callable[..., dict[str, Any]], tiny_model: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    arguments = {"pretrained": str(tiny_model(NO_SYSTEM)), "device": "cpu", "dtype": "float32"}
    tasks = ("mtrag_reference_fiqa", "mtrag_full_rag_fiqa")
    results = evaluate(
        "hf", *tasks, model_args=arguments, apply_chat_template=True, limit=4, gen_kwargs={"max_gen_toks": 1}
    )
    prompts = [row["arguments"][0][0] for name in tasks for row in results["samples"][name]]
    assert len(prompts) == 8
    assert all(prompt.startswith("<|user|>") and REFUSAL in prompt for prompt in prompts)
    assert sum("removing the system role" in message for message in caplog.messages) == len(tasks)
    assert sum("No passage is lost" in message for message in caplog.messages) == len(tasks)


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("", "tokenizer.chat_template is not set"),
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
    ],
)
def test_an_unusable_chat_template_is_one_clear_error(
    template: str, reason: str, command: Callable[..., CommandResult], tiny_model: Callable[[str], Path]
) -> None:
    done = command(
        "--model", "hf", "--model_args", f"pretrained={tiny_model(template)}", "--device", "cpu", "--limit", "1",
        "--tasks", "mtrag_reference_fiqa", "--apply_chat_template",
    )  # fmt: skip
    assert done.status == 1
    error = done.err[done.err.index("ragtasks: --apply_chat_template: ") :]
    assert reason in error
    assert "next step: leave the flag out (plain text)" in error
    assert "Traceback" not in done.err


def test_a_template_that_always_drops_passages_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match="leaves out the passages"):
        ChatRenderer().render(MESSAGES, lambda messages: f"<user>{messages[-1]['content']}")


@pytest.mark.parametrize("wrap", [lambda messages: messages, lambda messages: JsonChatStr(json.dumps(messages))])
def test_endpoints_get_messages_not_text(wrap: Any) -> None:
    rendered = ChatRenderer().render(MESSAGES, wrap)
    prompt = getattr(rendered, "prompt", None)
    assert (json.loads(prompt) if prompt else rendered) == MESSAGES


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000/v1/chat/completions",
        "http://127.0.0.1:8000/v1/chat/completions/",
        "https://host.example/deployments/m/chat/completions?api-version=2024-10-21",
    ],
)
def test_a_chat_endpoint_without_the_flag_is_reported_without_secrets(url: str) -> None:
    secrets = {"auth_token": "tok-31337", "header": {"Authorization": "Bearer sk-31337"}}
    with pytest.raises(ConfigurationError, match="--apply_chat_template") as refused:
        reject_chat_endpoint({"base_url": url, **secrets})
    assert "31337" not in str(refused.value)


@pytest.mark.parametrize(
    "metadata", [{}, {"base_url": None}, {"base_url": "http://h/v1/completions"}, {"base_url": "http://chat.h/v1"}]
)
def test_other_models_are_accepted(metadata: dict[str, Any]) -> None:
    reject_chat_endpoint(metadata)
