"""Parsing of chat completions into a `Reply`, from the bytes of a server or the text of a model.

Servers that claim to be compatible differ in details. Thinking may be in one of two fields, in a part of the content,
or between marks in the text. A refusal may be null, and token counts may be missing. No body raises an exception other
than those documented below.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from ragtasks.clients._protocol import UNCOUNTED, CallUsage, Outcome, Reply
from ragtasks.errors import masked_text
from ragtasks.tables import plain
from ragtasks.thoughts import split_thought

_MAX_CHARACTERS, _MAX_REASON, _MAX_PAGE = 200, 40, 4_000
_THOUGHT_PARTS = frozenset({"thinking", "reasoning"})  # types of content parts; the text is under the same key


def read_text(
    text: str,
    *,
    finish_reason: str = "",
    body: Any = None,
    thinking: str = "",
    usage: CallUsage = UNCOUNTED,
    raw: str = "",
    served_model: str = "",
) -> Reply:
    """Return a generated text as a reply: answered, truncated, filtered, failed or empty.

    Args:
        text: the generated text, which may contain thinking between marks.
        finish_reason: the server's finish reason; only a normal stop is an answer (see `early_end`).
        body: the decoded body that contained the text; its errors are checked too.
        thinking: thinking text sent separately from `text`.
        usage: tokens, seconds and dollars of the reply.
        raw: stored unchanged in the reply.
        served_model: the model that the server names.
    """
    marked, answer = split_thought(text.strip())
    outcome, reason = Outcome.ANSWERED, ""
    if early := early_end(body or {"finish_reason": finish_reason}):
        outcome, reason = early
    elif not answer:
        outcome = Outcome.EMPTY
        reason = "the reply contains only thinking" if marked or thinking else "the reply has no content"
    return Reply(
        outcome=outcome,
        text=answer if outcome is Outcome.ANSWERED else None,
        reason=reason,
        thinking="\n".join(part for part in (thinking, marked) if part),
        finish_reason=finish_reason,
        usage=usage,
        raw=raw,
        served_model=served_model,
    )


# A reply is complete only after a normal stop. Servers have their own names for finish reasons, so an unknown reason
# counts as an early end. Many small servers send no reason, so their truncated replies cannot be detected.

AT_LIMIT = "the reply reached the token limit"
"""Reason of a reply that a higher token limit may complete."""
SHORT_CONTEXT = "the server's context is too short"
"""Start of the reason if a prompt, or a prompt with its reply, does not fit the context."""
TOKEN_LIMITS = ("max_completion_tokens", "max_tokens")
"""Names of the limit in requests; servers that know both use the first."""
_REASON_FIELDS = ("finish_reason", "finishReason", "stop_reason", "done_reason")
_ERROR_FIELDS = ("error", "errors", "error_message", "exception")
ERROR_REPLY = "an error in place of a reply"
"""Start of the reason if a server sends an error with status 200."""
_NO_ERROR = frozenset({"none", "null", "false", "no error"})
_NOT_A_LETTER = re.compile("[^a-z]")
_TOOL_CALLS = frozenset({"toolcalls", "toolcall", "tooluse", "functioncall"})
_INCOMPLETE_REASONS = {
    Outcome.TRUNCATED: AT_LIMIT,
    Outcome.FILTERED: "a content filter stopped the reply",
    Outcome.FAILED: "the server broke the reply off (finish_reason {})",
    None: "the reply ended early (finish_reason {})",
}
_REASONS = {
    Outcome.ANSWERED: "stop end_turn stop_sequence stop_criteria_met eos eos_token end_of_text end complete completed "
    "done finish finished",
    Outcome.TRUNCATED: "length limit token_limit max_length max_tokens max_new_tokens max_output_tokens model_length "
    "context_length model_context_window_exceeded",
    Outcome.FILTERED: "content_filter content_filtered safety recitation blocklist prohibited_content spii language "
    "image_safety sensitive guardrail_intervened refusal error_toxic",
    Outcome.FAILED: "error error_limit abort aborted canceled cancelled user_cancel timeout timed_out time_limit fail "
    "failed failure network_error overloaded incomplete in_progress not_finished insufficient_system_resource other "
    "repetition malformed_function_call malformed_model_output unexpected_tool_call pause_turn",
}


def _letters(reason: str) -> str:
    """Return a finish reason without case, punctuation and prefix: `FinishReason.MAX_TOKENS` becomes `maxtokens`."""
    return _NOT_A_LETTER.sub("", reason.lower()).removeprefix("finishreason")


_OUTCOMES = {_letters(reason): outcome for outcome, reasons in _REASONS.items() for reason in reasons.split()}


def early_end(body: Any, *, offers_tools: bool = False) -> tuple[Outcome, str] | None:
    """Return outcome and reason if a decoded body of status 200 is not a complete reply, else None.

    Tool calls are a normal end only if the request `offers_tools`. Only the first choice is read.
    """
    if error := error_in(body):
        return Outcome.FAILED, f"{ERROR_REPLY}: {error_text(error)}"
    reasons = [part.get(name) for part in parts_of(body) for name in _REASON_FIELDS]
    reason = next((value for value in reasons if isinstance(value, str) and value), "stop")
    outcome = _OUTCOMES.get(_letters(reason))
    if outcome is Outcome.ANSWERED or (offers_tools and _letters(reason) in _TOOL_CALLS):
        return None
    return outcome or Outcome.FAILED, _INCOMPLETE_REASONS[outcome].format(plain(reason)[:_MAX_REASON])


def with_cause(reply: Reply, sent: Mapping[str, Any]) -> Reply:
    """Return a truncated reply with another reason if it ended before the limit of its request `sent`.

    vLLM and other servers lower the limit to the free part of the context. A higher limit does not help then. Servers
    that leave thinking out of `completion_tokens` include it in `total_tokens`.
    """
    limits = [sent[name] for name in TOKEN_LIMITS if isinstance(sent.get(name), int)]
    if reply.outcome is not Outcome.TRUNCATED or not limits:
        return reply
    usage = parts_of(orjson.loads(reply.raw))[2].get("usage")
    n_prompt, n_total = _count(usage, "prompt_tokens"), _count(usage, "total_tokens")
    if n_prompt is None or n_total is None or n_total - n_prompt >= limits[0]:
        return reply
    counts = f"{n_prompt} tokens of prompt and {n_total - n_prompt} of {limits[0]} of the reply"
    return replace(reply, reason=f"{SHORT_CONTEXT} ({counts})")


def error_in(body: Any) -> Any:
    """Return the error in a body of status 200, or None."""
    parts = parts_of(body)
    errors = [part.get(name) for part in parts for name in _ERROR_FIELDS]
    if not any(part.get(name) for part in parts for name in ("answer", "content", "text")):
        errors.append(parts[-1].get("detail"))  # next to an answer, `detail` may be anything
    for name in ("status", "success"):
        value = parts[-1].get(name)
        if value is False or _OUTCOMES.get(_letters(str(value))) is Outcome.FAILED:
            errors.append(f"{name} {value}")
    return next(filter(error_text, errors), None)


def parts_of(body: Any) -> tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]:
    """Return first message, first choice and body of a decoded chat completion, {} for each missing part."""
    body = body if isinstance(body, dict) else {}
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    message = choice.get("message")
    return message if isinstance(message, dict) else {}, choice, body


def error_text(error: Any) -> str:
    """Return an error as one line of text, empty without an error; nested objects, which may be deep, are left out."""
    first = error[0] if isinstance(error, list) and error else error
    fields = list(first.values()) if isinstance(first, dict) else [first]
    texts = [str(value) for value in fields if isinstance(value, str | int) and value]
    words = plain(masked_text(" ".join(" ".join(texts).split())))[:_MAX_CHARACTERS]
    return "" if words.lower() in _NO_ERROR else words or ("no message" if any(fields) else "")


def read_completion(body: bytes) -> Reply:
    """Return the reply in the body of a chat completion.

    Raises:
        ValueError: the body is not JSON.
    """
    completion = orjson.loads(body)
    raw = body.decode("utf-8")
    try:
        return with_usage(_read(completion, raw), completion)
    except (LookupError, TypeError) as error:
        malformed = f"no chat completion: {missing_in(completion, error)}"
        outcome, reason = early_end(completion) or (Outcome.MALFORMED, malformed)
        return with_usage(Reply(outcome, reason=reason, raw=raw), completion)


def missing_in(body: Any, error: Exception) -> str:
    """Describe a malformed body: after a KeyError its missing field and its message or fields, else the error."""
    if not isinstance(error, KeyError):
        return str(error)[:_MAX_CHARACTERS]
    content = server_words(body) or ", ".join(body) or "nothing"
    return plain(f"it has no {error.args[0]}, but {content}")[:_MAX_CHARACTERS]


_MESSAGE_FIELDS = ("message", "msg", "detail", *_ERROR_FIELDS)
_IS_PAGE = re.compile(r"\s*<(?:!doctype|html|head|body|h\d)", re.IGNORECASE)
_PAGE_TITLE = re.compile(r"<title[^<>]*>([^<>]*\w[^<>]*)<", re.IGNORECASE)
_NO_TEXT = re.compile(r"<(style|script)\b.*?</\1>|<[^<>]*>", re.IGNORECASE | re.DOTALL)


def words_in(body: bytes) -> str:
    try:
        content = orjson.loads(body)
    except ValueError:
        content = body.decode(errors="replace")
    return plain(" ".join(server_words(content).split()))[:_MAX_CHARACTERS]


def server_words(body: Any) -> str:
    """Return the message of an error body: a field of an object, a text or the title of a page; empty without one."""
    if isinstance(body, Mapping):
        words = server_words(next((body[name] for name in _MESSAGE_FIELDS if body.get(name)), None))
        location = body.get("loc")  # FastAPI
        return f"{'.'.join(map(str, location))}: {words}" if isinstance(location, list) else words
    if isinstance(body, list):
        return server_words(body[0]) if body else ""
    if not isinstance(body, str) or not _IS_PAGE.match(body):
        return "" if body is None else str(body)
    title = _PAGE_TITLE.search(body[:_MAX_PAGE])
    return html.unescape(title[1] if title else _NO_TEXT.sub(" ", body[:_MAX_PAGE]))


def usage_in(completion: Any) -> CallUsage:
    """Return the usage in a completion.

    Cached tokens are read under the names of OpenAI and vLLM, or of DeepSeek; the cost in dollars under OpenRouter's
    name.
    """
    usage = completion.get("usage") if isinstance(completion, dict) else None
    if not isinstance(usage, dict):
        return UNCOUNTED
    details = usage.get("prompt_tokens_details")
    cached = _count(details, "cached_tokens")
    cost: Any = usage.get("cost")
    is_cost = isinstance(cost, (int, float)) and not isinstance(cost, bool) and 0 <= cost < math.inf
    return CallUsage(
        _count(usage, "prompt_tokens"),
        _count(usage, "completion_tokens"),
        _count(usage, "prompt_cache_hit_tokens") if cached is None else cached,
        dollars=float(cost) if is_cost else None,
    )


def with_usage(reply: Reply, completion: Any) -> Reply:
    """Return a reply with the usage in its completion."""
    return replace(reply, usage=usage_in(completion))


def _read(completion: Any, raw: str) -> Reply:
    """Return the reply of a decoded body; LookupError and TypeError name the invalid field."""
    choices = _typed(_typed(completion, dict, "the body")["choices"], list, "choices")
    if not choices:
        raise IndexError("its choices are empty")
    choice = _typed(choices[0], dict, "the choice")
    message = _typed(choice["message"], dict, "the message")
    finish_reason = _optional(choice, "finish_reason")
    model = completion.get("model")
    served_model = model[:_MAX_CHARACTERS] if isinstance(model, str) else ""
    if refusal := _optional(message, "refusal"):
        return Reply(
            Outcome.REFUSED,
            reason=f"the model refused: {refusal[:_MAX_CHARACTERS]}",
            finish_reason=finish_reason,
            raw=raw,
            served_model=served_model,
        )
    text, thought = text_and_thought(message.get("content"))
    return read_text(
        text,
        finish_reason=finish_reason,
        body=completion,
        thinking=_optional(message, "reasoning_content") or _optional(message, "reasoning") or thought,
        raw=raw,
        served_model=served_model,
    )


def text_and_thought(content: Any) -> tuple[str, str]:
    """Return the text and the thinking in a message's content, which may be a list of parts.

    Raises:
        TypeError: the content is neither null, a text nor a list of objects.
    """
    if content is None or isinstance(content, str):
        return content or "", ""
    texts: dict[bool, list[str]] = {False: [], True: []}
    for part in _typed(content, list, "content"):
        part_type = _typed(part, dict, "a part of content").get("type")
        is_thought = part_type in _THOUGHT_PARTS
        text = text_and_thought(part.get(part_type))[0] if is_thought else _optional(part, "text")
        texts[is_thought].append(text)
    return "".join(texts[False]), "".join(texts[True])


def _typed(value: Any, expected: type, name: str) -> Any:
    if not isinstance(value, expected):
        raise TypeError(f"{name} is {type(value).__name__}, expected {expected.__name__}")
    return value


def _optional(holder: Mapping[str, Any], key: str) -> str:
    value = holder.get(key)
    return "" if value is None else str(_typed(value, str, key))


def _count(usage: Any, key: str) -> int | None:
    value = usage.get(key) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
