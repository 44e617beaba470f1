"""What one server takes: which settings are sent, under which names, and how long a reply may be.

Servers that call themselves compatible refuse a temperature, a seed or the name of a limit. The first refusal is the
last one: the setting is left out, or renamed, for the rest of the call, and a note says so.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from ragtasks.clients._endpoint import Endpoint
from ragtasks.clients._protocol import CallUsage, Decoding, Outcome, Prompt, Reply
from ragtasks.errors import masked_text
from ragtasks.tables import plain
from ragtasks.thoughts import split_thought

# Reads a chat completion: bytes from a server, or text from a model, into a Reply.
# Servers that call themselves compatible differ in small things: thinking text may stand in a field of its own
# under two names or between marks in the content, a refusal may be null, token counts may be missing. All of it
# ends here, and no body whatsoever makes a function of this module fail in a way that is not said below.

_MAX_CHARACTERS, _MAX_REASON = 200, 40
_UNKNOWN = CallUsage()
_THOUGHT_PARTS = frozenset({"thinking", "reasoning"})  # types of parts of a content, each with its text under this key


def read_text(
    text: str,
    *,
    finish_reason: str = "",
    body: Any = None,
    thinking: str = "",
    usage: CallUsage = _UNKNOWN,
    raw: str = "",
    served_model: str = "",
) -> Reply:
    """Return the reply that a generated text makes: answered, truncated, filtered or empty.

    Args:
        text: what was generated, thinking between marks included.
        finish_reason: the server's reason for the end; only a normal stop leaves an answer (see `early_end`).
        body: the decoded body that it came in, whose errors count too.
        thinking: thinking text that came apart from `text`.
        usage: what the reply took.
        raw: what is kept for the record.
        served_model: the model that the server names.
    """
    marked, answer = split_thought(text.strip())
    outcome, reason = _judged(answer, marked or thinking, body or {"finish_reason": finish_reason})
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


def _judged(answer: str, thinking: str, body: Any) -> tuple[Outcome, str]:
    if early := early_end(body):
        return early
    if not answer:
        return Outcome.EMPTY, "the reply is nothing but thinking" if thinking else "the reply has no content"
    return Outcome.ANSWERED, ""


# Whether a reply is complete: only after a normal stop. Servers name the reason for the end in their own words, so an
# unknown reason counts as an early end. Many small servers give none, and nothing shows that their replies are cut.

AT_LIMIT = "the reply reached the token limit"
"""Why a reply is not complete that a higher limit may complete."""
_REASON_FIELDS = ("finish_reason", "finishReason", "stop_reason", "done_reason")
_ERROR_FIELDS = ("error", "errors", "error_message", "exception")
_NO_ERROR = frozenset({"none", "null", "false", "no error"})
_NOT_A_LETTER = re.compile("[^a-z]")
_TOOL_CALLS = frozenset({"toolcalls", "toolcall", "tooluse", "functioncall"})
_WHY = {
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
    """Return a reason without case, signs and prefix: `FinishReason.MAX_TOKENS` is `maxtokens`."""
    return _NOT_A_LETTER.sub("", reason.lower()).removeprefix("finishreason")


_OUTCOMES = {_letters(reason): outcome for outcome, reasons in _REASONS.items() for reason in reasons.split()}


def early_end(body: Any, *, offers_tools: bool = False) -> tuple[Outcome, str] | None:
    """Return the outcome of a decoded reply of status 200 that is not complete, and why; None for a complete one.

    Tool calls are a normal end only where the request `offers_tools`. Of several choices the first counts.
    """
    if error := error_in(body):
        return Outcome.FAILED, f"an error in place of a reply: {error_text(error)}"
    given = [part.get(name) for part in parts_of(body) for name in _REASON_FIELDS]
    reason = next((value for value in given if isinstance(value, str) and value), "stop")
    outcome = _OUTCOMES.get(_letters(reason))
    if outcome is Outcome.ANSWERED or (offers_tools and _letters(reason) in _TOOL_CALLS):
        return None
    return outcome or Outcome.FAILED, _WHY[outcome].format(plain(reason)[:_MAX_REASON])


def error_in(body: Any) -> Any:
    """Return the error that a body of status 200 reports, None where it reports none."""
    parts = parts_of(body)
    errors = [part.get(name) for part in parts for name in _ERROR_FIELDS]
    if not any(part.get(name) for part in parts for name in ("answer", "content", "text")):
        errors.append(parts[-1].get("detail"))  # next to an answer it may be anything
    for name in ("status", "success"):
        value = parts[-1].get(name)
        if value is False or _OUTCOMES.get(_letters(str(value))) is Outcome.FAILED:
            errors.append(f"{name} {value}")
    return next(filter(error_text, errors), None)


def parts_of(body: Any) -> tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]:
    """Return first message, first choice and body of a decoded chat completion, {} for each that is missing."""
    body = body if isinstance(body, dict) else {}
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    message = choice.get("message")
    return message if isinstance(message, dict) else {}, choice, body


def error_text(error: Any) -> str:
    """Return an error in words on one line, empty for none; objects inside it are left out, since they may be deep."""
    first = error[0] if isinstance(error, list) and error else error
    fields = list(first.values()) if isinstance(first, dict) else [first]
    texts = [str(value) for value in fields if isinstance(value, str | int) and value]
    words = plain(masked_text(" ".join(" ".join(texts).split())))[:_MAX_CHARACTERS]
    return "" if words.lower() in _NO_ERROR else words or ("no further words" if any(fields) else "")


def read_completion(body: bytes) -> Reply:
    """Return the reply in the body of a chat completion."""
    completion = orjson.loads(body)
    raw = body.decode("utf-8")
    try:
        return with_usage(_read(completion, raw), completion)
    except (LookupError, TypeError) as error:
        unlike = f"no chat completion: {type(error).__name__} {error}"[:_MAX_CHARACTERS]
        outcome, reason = early_end(completion) or (Outcome.MALFORMED, unlike)
        return with_usage(Reply(outcome, reason=reason, raw=raw), completion)


def usage_in(completion: Any) -> CallUsage:
    """Return what a server reports that a reply took.

    Cached tokens as OpenAI and vLLM name them, or DeepSeek; a cost as OpenRouter does, in dollars.
    """
    usage = completion.get("usage") if isinstance(completion, dict) else None
    if not isinstance(usage, dict):
        return _UNKNOWN
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
    """Return a reply with what the server says that it took."""
    return replace(reply, usage=usage_in(completion))


def _read(completion: Any, raw: str) -> Reply:
    """Return the reply of a decoded body; LookupError and TypeError say what is wrong with it."""
    choices = _typed(completion, dict, "the body")["choices"]
    choice = _typed(_typed(choices, list, "choices")[0], dict, "the choice")
    message = _typed(choice["message"], dict, "the message")
    finish_reason = _optional(choice, "finish_reason")
    named = completion.get("model")
    served_model = named[:_MAX_CHARACTERS] if isinstance(named, str) else ""
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
    """Return the text and the thought in the content of a message, which may be a list of parts.

    Raises:
        TypeError: it is neither null, a text nor a list of objects.
    """
    if content is None or isinstance(content, str):
        return content or "", ""
    texts: dict[bool, list[str]] = {False: [], True: []}
    for part in _typed(content, list, "content"):
        kind = _typed(part, dict, "a part of content").get("type")
        is_thought = kind in _THOUGHT_PARTS
        text = text_and_thought(part.get(kind))[0] if is_thought else _optional(part, "text")
        texts[is_thought].append(text)
    return "".join(texts[False]), "".join(texts[True])


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
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


_FORMAT = "response_format"
_LIMITS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
SYSTEM_ROLE = "system role"
"""What `Dialect.learned` calls the role of a message that a server may refuse."""


class Dialect:
    """Builds the requests to one server, reads its replies, and learns which settings it refuses."""

    path = "/chat/completions"
    """Where requests go, below the address; empty for the address itself."""
    hint = "Saved answers are scored without their model by `ragtasks score RESULTS --output FOLDER`"
    """What helps once the endpoint gives no replies any more."""

    def __init__(self, endpoint: Endpoint, decoding: Decoding) -> None:
        self._endpoint, self._decoding = endpoint, decoding
        self._makes_room = endpoint.thinks
        self.learned: dict[str, str | None] = {}
        """Setting that the server refused -> what is sent instead, None where it is left out."""

    @property
    def longest_reply(self) -> int:
        """Tokens that a reply may have, thinking included."""
        return self._decoding.max_tokens + (self._endpoint.thinking_tokens if self._makes_room else 0)

    def request(self, prompt: Prompt) -> dict[str, Any]:
        """Return the body of a request, without the settings that the server refused."""
        body = self._body(prompt)
        for refused, instead in self.learned.items():
            if refused == SYSTEM_ROLE:
                body["messages"] = without_system(body["messages"])
            elif refused in body:
                value = body.pop(refused)
                if instead is not None:
                    body[instead] = value
        return body

    def _body(self, prompt: Prompt) -> dict[str, Any]:
        """Return the body of a request to a server that accepts every setting."""
        settings = {
            "temperature": self._decoding.temperature,
            "seed": self._decoding.seed,
            self._endpoint.token_limit_there: self.longest_reply * prompt.longer,
            "reasoning_effort": self._endpoint.reasoning_effort,
            _FORMAT: self._format(prompt),
        }
        return {
            "model": self._endpoint.model_there,
            "messages": prompt.payload(),
            **{name: value for name, value in settings.items() if value is not None},
            **self._endpoint.extra_fields,
            **prompt.body,
        }

    def _format(self, prompt: Prompt) -> dict[str, Any] | None:
        if not self._endpoint.structured or prompt.schema is None:
            return None
        return {"type": "json_schema", "json_schema": {"name": "reply", "schema": dict(prompt.schema)}}

    def read(self, body: bytes, sent: Mapping[str, Any]) -> Reply:
        """Return the reply in the body of a response to the request `sent`.

        Raises:
            ValueError: it is not JSON.
        """
        return read_completion(body)

    def adapt(self, setting: str, sent: Mapping[str, Any]) -> str | None:
        """Leave out or rename a setting that was refused.

        Returns:
            A note for the user, empty where the setting was refused before; None where the request cannot be changed.
        """
        is_sent = has_system(sent) if setting == SYSTEM_ROLE else setting in sent
        if not is_sent or setting in self._endpoint.extra_fields:
            return None
        if setting in self.learned:
            return ""  # refused while another request was on its way
        instead = "user" if setting == SYSTEM_ROLE else _LIMITS.get(setting)
        if instead in self.learned:
            return None
        self.learned[setting] = instead
        if setting == SYSTEM_ROLE:
            change = "a system message: its text is sent before the first user message instead"
        elif instead is not None:
            change = f"{setting}: {instead} is sent instead"
        elif setting == _FORMAT:
            change = "response_format: replies are free text, read as ever"
        else:
            change = f"{setting} as {sent[setting]}: left out, the server's default applies"
        return f"the server does not take {change}"

    def make_room(self, reply: Reply, sent: Mapping[str, Any]) -> bool:
        """Return whether to ask again with room for thinking, which left none for the answer."""
        name = next((name for name in _LIMITS if name in sent), "")
        limit = sent.get(name)
        was_small = isinstance(limit, int) and limit < self._decoding.max_tokens + self._endpoint.thinking_tokens
        if not was_small or name in self._endpoint.extra_fields or not _thought_only(reply):
            return False
        self._makes_room = True
        return True

    def shrink(self) -> None:
        """Send the limit without room for thinking again: the server does not take the larger one."""
        self._makes_room = False


class GivenBodies(Dialect):
    """Sends the body of each prompt as it is, to the endpoint's address itself: another library builds the requests."""

    path = ""

    def _body(self, prompt: Prompt) -> dict[str, Any]:
        """Return a copy, in which half a character is `?`: no request can contain one."""
        body: dict[str, Any] = json.loads(json.dumps(prompt.body, ensure_ascii=False).encode(errors="replace"))
        return body

    def make_room(self, reply: Reply, sent: Mapping[str, Any]) -> bool:
        """Return False: the limit is the caller's."""
        return False


def has_system(body: Mapping[str, Any]) -> bool:
    """Return whether a request has a system message and a later message that could contain its text."""
    messages = body.get("messages") or []
    return len(messages) > 1 and messages[0].get("role") == "system"


def without_system(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return messages with the text of the system message before the first user message."""
    if not has_system({"messages": messages}):
        return list(messages)
    system, first, *rest = messages
    return [{**first, "content": f"{system['content']}\n\n{first['content']}"}, *rest]


def _thought_only(reply: Reply) -> bool:
    """Return whether a reply reached its limit before the first word of its answer."""
    try:
        message, _, _ = parts_of(orjson.loads(reply.raw))
        text, _ = text_and_thought(message.get("content"))
    except (ValueError, TypeError):
        return False
    return reply.outcome is Outcome.TRUNCATED and bool(message) and not split_thought(text)[1].strip()
