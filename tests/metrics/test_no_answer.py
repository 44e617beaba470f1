"""A reply that is an error, a tool call or program output is no answer; an answer that explains one is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ragtasks.metrics import answer_text, is_error_text, is_no_answer, is_tool_call, is_wrapped

GOLDEN = json.loads((Path(__file__).parent / "golden_replies.json").read_text(encoding="utf-8"))


def scored(reply: str) -> str:
    return answer_text(reply, "</think>")


@pytest.mark.parametrize("reply", GOLDEN["answers"])
def test_an_answer_about_errors_calls_or_tags_is_an_answer(reply: str) -> None:
    assert scored(reply) == reply
    assert not is_no_answer(reply)
    assert not is_wrapped(reply)


@pytest.mark.parametrize("reply", GOLDEN["answers in JSON"])
def test_json_with_data_is_an_answer(reply: str) -> None:
    assert not is_no_answer(scored(reply))


@pytest.mark.parametrize("reply", GOLDEN["errors"])
def test_messages_of_clients_and_gateways_are_errors(reply: str) -> None:
    assert is_no_answer(scored(reply))
    assert is_error_text(scored(reply)) or is_wrapped(scored(reply))


@pytest.mark.parametrize("reply", GOLDEN["calls"])
def test_a_tool_call_is_no_answer(reply: str) -> None:
    assert is_tool_call(scored(reply))


@pytest.mark.parametrize("reply", GOLDEN["output"])
def test_program_output_is_no_answer(reply: str) -> None:
    assert is_no_answer(scored(reply))
    assert is_wrapped(scored(reply))


@pytest.mark.parametrize("reply", GOLDEN["wrapped answers"])
def test_an_answer_in_a_printed_object_or_after_a_prompt_is_wrapped(reply: str) -> None:
    assert is_wrapped(scored(reply))


@pytest.mark.parametrize(
    "repeated", ["Thought: a\n", "data: x\n", "\n", "<think>", "</think>\n", "<p>", "\\n.", "[", "error: "]
)
def test_a_long_reply_is_read_quickly(repeated: str) -> None:
    """Ten thousand characters; a pattern that tries every split of lines would take hours."""
    reply = f"Thought: {repeated * (10_000 // len(repeated))}"
    assert isinstance(is_no_answer(scored(reply)) or is_wrapped(reply), bool)


def deep(mark: str) -> str:
    return f"<\uff5ctool▁{mark}\uff5c>"


WRITERS: dict[str, Callable[[dict[str, str]], str]] = {
    "hermes": lambda given: f'<tool_call>\n{{"name": "search", "arguments": {json.dumps(given)}}}\n</tool_call>\n',
    "llama": lambda given: f'<|python_tag|>{{"name": "search", "parameters": {json.dumps(given)}}};',
    "mistral": lambda given: f"[TOOL_CALLS]search[ARGS]{json.dumps(given, ensure_ascii=False)}",
    "qwen3 coder": lambda given: "<tool_call>\n<function=search>\n" + "".join(
        f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in given.items()
    ) + "</function>\n</tool_call>\n",
    "glm": lambda given: "<tool_call>search\n" + "".join(
        f"<arg_key>{name}</arg_key>\n<arg_value>{value}</arg_value>\n" for name, value in given.items()
    ) + "</tool_call>\n",
    "deepseek v3": lambda given: f"{deep('calls▁begin')}{deep('call▁begin')}function{deep('sep')}search\n"
    f"```json\n{json.dumps(given)}\n```{deep('call▁end')}\n",
    "deepseek v3.1": lambda given: f"{deep('call▁begin')}search{deep('sep')}{json.dumps(given)}{deep('call▁end')}",
    "gpt-oss": lambda given: "<|start|>assistant<|channel|>commentary to=functions.search <|constrain|>json<|message|>"
    f"{json.dumps(given)}<|call|>",
    "gpt-oss, special tokens dropped": lambda given: "assistantcommentary to=functions.search json"
    f"{json.dumps(given)}",
    "pythonic": lambda given: "[search(" + ", ".join(f"{name}={value!r}" for name, value in given.items()) + ")]",
}  # fmt: skip
"""Arguments -> a call of `search` in a model's format."""


@pytest.mark.parametrize("form", WRITERS)
def test_each_form_of_a_tool_call_is_no_answer(form: str) -> None:
    assert is_tool_call(WRITERS[form]({"query": "permit cost"}))


@pytest.mark.parametrize("form", [name for name in WRITERS if name != "pythonic"])
def test_a_truncated_tool_call_is_no_answer(form: str) -> None:
    written = f"I look.\n{WRITERS[form]({'query': 'permit cost'})}"
    assert is_tool_call(written[: written.index("cost")])
