"""Reads a chat completion: bytes from a server, or text from a model, into a Reply.

Servers that call themselves compatible differ in small things: thinking text may stand in a field of its own under two
names or between marks in the content, a refusal may be null, token counts may be missing. All of it ends here, and no
body whatsoever makes a function of this module fail in a way that is not said below.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from ragtasks.clients._protocol import Outcome, Reply

_END_OF_THINKING = "</think>"
_START_OF_THINKING = "<think>"
_SHOWN = 200


def split_thinking(text: str) -> tuple[str, str]:
    """Return (thinking, answer) of a reply with thinking between marks.

    The answer begins after the last end mark; the start mark may be missing, because some chat templates write it for
    the model. A thought that never ends leaves no answer.
    """
    thinking, mark, answer = text.rpartition(_END_OF_THINKING)
    if mark:
        return thinking.strip().removeprefix(_START_OF_THINKING).strip(), answer.strip()
    stripped = text.strip()
    if stripped.startswith(_START_OF_THINKING):
        return stripped.removeprefix(_START_OF_THINKING).strip(), ""
    return "", stripped


def read_text(
    text: str,
    *,
    finish_reason: str = "",
    thinking: str = "",
    prompt_tokens: int | None = None,
    completion_tokens: int | None = None,
    raw: str = "",
    served_model: str = "",
) -> Reply:
    """Return the reply that a generated text makes: answered, truncated, filtered or empty.

    Args:
        text: what was generated, thinking between marks included.
        finish_reason: `length` and `content_filter` take the answer away.
        thinking: thinking text that came apart from `text`.
        prompt_tokens: tokens of the prompt.
        completion_tokens: tokens of the reply.
        raw: what is kept for the record.
        served_model: the model that the server names.
    """
    marked, answer = split_thinking(text)
    outcome, reason = _judged(answer, marked or thinking, finish_reason)
    return Reply(
        outcome=outcome,
        text=answer if outcome is Outcome.ANSWERED else None,
        reason=reason,
        thinking="\n".join(part for part in (thinking, marked) if part),
        finish_reason=finish_reason,
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        raw=raw,
        served_model=served_model,
    )


def _judged(answer: str, thinking: str, finish_reason: str) -> tuple[Outcome, str]:
    if finish_reason == "length":
        return Outcome.TRUNCATED, "the reply reached the token limit"
    if finish_reason == "content_filter":
        return Outcome.FILTERED, "a content filter stopped the reply"
    if not answer:
        return Outcome.EMPTY, "the reply is nothing but thinking" if thinking else "the reply has no content"
    return Outcome.ANSWERED, ""


def read_completion(body: bytes) -> Reply:
    """Return the reply in the body of a chat completion.

    Raises:
        ValueError: the body is not JSON: what was sent did not arrive whole.
    """
    completion = orjson.loads(body)
    raw = body.decode("utf-8")
    try:
        return _read(completion, raw)
    except (LookupError, TypeError) as error:
        reason = f"no chat completion: {type(error).__name__} {error}"[:_SHOWN]
        return Reply(Outcome.MALFORMED, reason=reason, raw=raw)


def _read(completion: Any, raw: str) -> Reply:
    """Return the reply of a decoded body; LookupError and TypeError say what is wrong with it."""
    choices = _typed(completion, dict, "the body")["choices"]
    choice = _typed(_typed(choices, list, "choices")[0], dict, "the choice")
    message = _typed(choice["message"], dict, "the message")
    usage = completion.get("usage") or {}
    prompt_tokens, completion_tokens = (_count(usage, key) for key in ("prompt_tokens", "completion_tokens"))
    finish_reason = _optional(choice, "finish_reason")
    named = completion.get("model")
    served_model = named[:_SHOWN] if isinstance(named, str) else ""
    if refusal := _optional(message, "refusal"):
        return Reply(
            Outcome.REFUSED,
            reason=f"the model refused: {refusal[:_SHOWN]}",
            finish_reason=finish_reason,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            raw=raw,
            served_model=served_model,
        )
    return read_text(
        _optional(message, "content"),
        finish_reason=finish_reason,
        thinking=_optional(message, "reasoning_content") or _optional(message, "reasoning"),
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        raw=raw,
        served_model=served_model,
    )


def _typed(value: Any, kind: type, what: str) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{what} is {type(value).__name__}, expected {kind.__name__}")
    return value


def _optional(holder: Mapping[str, Any], key: str) -> str:
    """Return a text that may be missing or null, then empty."""
    value = holder.get(key)
    return "" if value is None else str(_typed(value, str, key))


def _count(usage: Any, key: str) -> int | None:
    value = usage.get(key) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


__all__ = ["read_completion", "read_text", "split_thinking"]
