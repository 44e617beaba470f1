"""Protocols for tool calls of a searching model: tags in plain text, or OpenAI's tool calls.

A protocol determines the form of calls and results in prompts, and the parsing of replies. Only replies are parsed for
calls; tags in passages are text.
"""

from __future__ import annotations

import json
import logging
import re
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragtasks.clients import Reply, parts_of
from ragtasks.errors import ConfigurationError
from ragtasks.harness.answering import served_model_in_use
from ragtasks.harness.scores import writable
from ragtasks.harness.served_model import ServedModel, stop_strings
from ragtasks.metrics import is_tool_call
from ragtasks.records import READ, SEARCH
from ragtasks.scoring import ToolCall, ToolResult

_LOGGER = logging.getLogger(__name__)

MOST_CALLS = 50
"""Maximum number of calls that are parsed in one reply."""
_CHARACTERS = (None, 200, 0)  # characters per passage of a result, by level: complete, shortened, only ids


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """Content of one reply: tool calls or an answer."""

    calls: tuple[ToolCall, ...]
    """Calls, in order."""
    answer: str
    """The answer, if the reply has no call; may be empty."""
    text: str
    """Text of the reply for the next prompt. Calls of `ToolCallProtocol` are not part of it."""


@dataclass(slots=True)
class Exchange:
    """One reply with calls, and their results."""

    reply: ParsedReply
    results: list[ToolResult] = field(default_factory=list)
    """Results of the calls."""
    calls_left: int = 0
    """Number of calls left after this exchange."""
    level: int = 0
    """Level of shortening, an index of `_CHARACTERS`."""

    @property
    def can_be_shortened(self) -> bool:
        """The results can be shortened further."""
        return self.level < len(_CHARACTERS) - 1

    @property
    def texts(self) -> list[str]:
        """The results as in the prompt."""
        n_characters = _CHARACTERS[self.level]
        return [result.text if n_characters is None else result.shortened(n_characters) for result in self.results]


Messages = list[dict[str, Any]]


class SearchProtocol(ABC):
    """A form of tool calls. The defaults suit any model."""

    name: str
    """Name in options and results."""
    has_tags: bool
    """The system text explains the form of calls."""

    def begin(self, tools: Sequence[Mapping[str, Any]]) -> None:  # noqa: B027 (any model by default)
        """Check that the model supports the protocol. `tools` are those of `Toolbox.schemas`."""

    @abstractmethod
    def parse(self, reply: str, text: str) -> ParsedReply:
        """Return the parsed reply; `text` is the reply without thinking text."""

    @abstractmethod
    def turns(self, exchanges: Sequence[Exchange]) -> Messages:
        """Return the messages after the question: calls and their results."""

    def options(self, request_options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a request."""
        return dict(request_options)

    def counted(self, prompt: Any) -> Any:
        """Return a prompt with everything that counts towards the model's context."""
        return prompt


def _calls_left(n: int, answer_form: str = ".") -> str:
    """Return the note on remaining calls after the results. `answer_form` describes the form of an answer."""
    if not n:
        return f"No searches are left. Give your answer now{answer_form}"
    return f"{n} {'search is' if n == 1 else 'searches are'} left."


# Plain text: tags in replies, for any model.
#
# <search>query</search>, <search k="10">query</search>, <read>id of a passage</read>, <answer>text</answer>
#
# The first tag of a reply decides. Calls that directly follow each other are all executed. Text after them is
# discarded: the model can only have invented the results. A reply without a tag is an answer. In passages, the first
# character of a tag is replaced by `[`.

ANSWER, RESULTS = "answer", "results"

# The bounded repetition keeps the time linear in the length of the reply.
_OPENING = re.compile(rf"<({SEARCH}|{READ}|{ANSWER})((?:\s[^<>]{{0,100}})?)>", re.IGNORECASE)
_CLOSING = {name: re.compile(f"</{name}>", re.IGNORECASE) for name in (SEARCH, READ, ANSWER)}
_K = re.compile(r"\bk\s*=\s*[\"']?(-?\w+)", re.IGNORECASE)
_IN_PASSAGES = re.compile(rf"<(?=/?(?:{SEARCH}|{READ}|{ANSWER}|{RESULTS})\b)", re.IGNORECASE)
_STOPS = frozenset(f"</{name}>" for name in (SEARCH, READ, ANSWER))


class TextProtocol(SearchProtocol):
    """Tags in plain text."""

    name, has_tags = "text", True

    def parse(self, reply: str, text: str) -> ParsedReply:
        """Return the calls or the answer in the tags of a reply."""
        return parse_reply(text)

    def turns(self, exchanges: Sequence[Exchange]) -> Messages:
        """Return replies and results as assistant and user messages."""
        turns: Messages = []
        for exchange in exchanges:
            turns.append({"role": "assistant", "content": exchange.reply.text})
            turns.append({"role": "user", "content": results_message(exchange.texts, exchange.calls_left)})
        return turns


def parse_reply(reply: str) -> ParsedReply:
    """Return the parsed reply, given without thinking text."""
    first = _OPENING.search(reply)
    if first is None:
        return ParsedReply((), reply.strip(), reply.strip())
    if first[1].lower() == ANSWER:
        content, _ = _content(reply, first)
        return ParsedReply((), content, reply.strip())
    calls: list[ToolCall] = []
    tag: re.Match[str] | None = first
    written = [reply[: first.start()].strip()]
    while tag is not None and tag[1].lower() != ANSWER and len(calls) < MOST_CALLS:
        content, end = _content(reply, tag)
        calls.append(_call(tag, content))
        written.append(f"{tag[0]}{content}</{tag[1]}>")
        while end < len(reply) and reply[end].isspace():
            end += 1
        tag = _OPENING.match(reply, end)
    return ParsedReply(tuple(calls), "", "\n".join(filter(None, written)))


def _content(reply: str, tag: re.Match[str]) -> tuple[str, int]:
    """Return the content of a tag and the position after it: after the end tag, else at the next tag or the end.

    Servers cut a reply before the end tag, which is one of the stop strings.
    """
    name = tag[1].lower()
    following = None if name == ANSWER else _OPENING.search(reply, tag.end())
    limit = following.start() if following else len(reply)
    closing = _CLOSING[name].search(reply, tag.end(), limit)
    return reply[tag.end() : closing.start() if closing else limit].strip(), closing.end() if closing else limit


def _call(tag: re.Match[str], content: str) -> ToolCall:
    if tag[1].lower() == READ:  # models copy ids with brackets and `id:`
        return ToolCall(READ, {"passage_id": content.strip("[] ").removeprefix("id:").strip()})
    k = _K.search(tag[2])
    return ToolCall(SEARCH, {"query": content, **({"k": k[1]} if k else {})})


def results_message(results: Sequence[str], calls_left: int) -> str:
    """Return the message with the results of calls."""
    blocks = "\n".join(f"<{RESULTS}>\n{_IN_PASSAGES.sub('[', text)}\n</{RESULTS}>" for text in results)
    return f"{blocks}\n{_calls_left(calls_left, f': <{ANSWER}>your answer</{ANSWER}>')}"


# OpenAI's tool calls, which a server parses from the model's output.

_UNREAD = "unread"  # key for arguments that are not an object, because servers accept only objects
_LONGEST_UNREAD = 200  # maximum number of their characters
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")


class _Schema(dict[str, Any]):
    """A hashable tool: the harness groups requests by their options and copies these for each request."""

    def __deepcopy__(self, _: Any) -> _Schema:
        return self

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(json.dumps(self, sort_keys=True))


def _assistant_message(text: str, calls: list[Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": text, "tool_calls": calls}


def _call_row(name: str, call: ToolCall) -> dict[str, Any]:
    """Return a call in message form, with its arguments as JSON text."""
    function = {
        "name": _NO_NAME.sub("_", call.tool)[:64] or "unknown",
        "arguments": json.dumps(_object(call.arguments)),
    }
    return {"id": name, "type": "function", "function": function}


def _object(arguments: Any) -> dict[str, Any]:
    """Return the arguments of a call as an object that any server accepts."""
    value = arguments
    try:
        if isinstance(value, str):
            value = json.loads(value, parse_constant=lambda _: None)
        if isinstance(value, Mapping):
            values: dict[str, Any] = json.loads(writable(json.dumps(dict(value), ensure_ascii=False)))
            return values
    except (ValueError, RecursionError):
        pass
    return {_UNREAD: writable(str(arguments)[:_LONGEST_UNREAD])}


class ToolCallProtocol(SearchProtocol):
    """OpenAI's tool calls: each request contains the tools, and the server returns parsed calls."""

    name, has_tags = "tool_calls", False

    def __init__(self) -> None:
        self._tools: list[_Schema] = []
        self._options: Mapping[str, Any] = {}

    def begin(self, tools: Sequence[Mapping[str, Any]]) -> None:
        """Check that the server supports tools, and determine the request options that offer them.

        Raises:
            ConfigurationError: if the model is not behind a chat server, or the server does not support tools.
        """
        self._tools = [_Schema(type="function", function=dict(tool)) for tool in tools]
        served = served_model_in_use()
        if served is None or not served.is_chat:
            raise ConfigurationError(
                f"search_protocol {self.name}",
                where="--model",
                expected="`ragtasks run` with --model local-chat-completions or openai-chat-completions",
                found="another model or command",
                next_step=f"--metadata search_protocol={TextProtocol.name}, for any model; or serve the weights (vLLM, "
                "llama.cpp) and name their server",
            )
        if served not in _TESTED:
            _TESTED[served] = check_tools(served, self._tools)
        self._options = _TESTED[served]

    def parse(self, reply: str, text: str) -> ParsedReply:
        """Return the calls of a reply, or its text as the answer."""
        calls = tuple(_openai_call(call) for call in getattr(reply, "tool_calls", ())[:MOST_CALLS])
        return ParsedReply(calls, "" if calls else text.strip(), text.strip())

    def turns(self, exchanges: Sequence[Exchange]) -> Messages:
        """Return each reply with its calls, followed by a message with the result of each call.

        Calls are numbered regardless of the server's ids, so that the same conversation always gives the same prompt.
        """
        turns: Messages = []
        n = 0
        for exchange in exchanges:
            calls = exchange.reply.calls
            names = [f"call{number:05}" for number in range(n + 1, n + 1 + len(calls))]  # 9 characters, for Mistral
            n += len(calls)
            texts = exchange.texts
            texts[-1] = f"{texts[-1]}\n\n{_calls_left(exchange.calls_left)}"
            turns.append(_assistant_message(exchange.reply.text, list(map(_call_row, names, calls))))
            turns += [
                {"role": "tool", "tool_call_id": name, "content": text} for name, text in zip(names, texts, strict=True)
            ]
        return turns

    def options(self, request_options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options with the tools, without the stop strings of plain-text tags.

        Options of the user, such as `tool_choice`, take precedence.
        """
        stops = [stop for stop in stop_strings(request_options) if stop not in _STOPS]
        other_options = {name: value for name, value in request_options.items() if name not in {"until", "tools"}}
        return {**self._options, **other_options, **({"until": stops} if stops else {})}

    def counted(self, prompt: Any) -> Any:
        """Return the messages and the tools, which are part of the model's prompt."""
        tools = {"role": "system", "content": json.dumps(self._tools)}
        return prompt._replace(prompt=json.dumps([*json.loads(prompt.prompt), tools]))


def _openai_call(call: Any) -> ToolCall:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return ToolCall("", None)
    return ToolCall(str(function.get("name") or ""), function.get("arguments"))


# Test of a server's tool support: two requests before the evaluation. Without it, a model whose server drops the tools
# or their results would be scored as a model that does not search or cannot read.

TOOLS_QUESTION = "Call the tool search with the query: ferry"
"""User message of the test."""
_TESTED: weakref.WeakKeyDictionary[ServedModel, Mapping[str, Any]] = weakref.WeakKeyDictionary()


def check_tools(model: ServedModel, tools: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the request options that offer the tools.

    `tool_choice` is included unless the server rejects it, because llama-cpp-python ignores tools without it.

    Raises:
        ConfigurationError: if the server rejects tools, drops them or their results, or returns calls as text.
    """
    options: dict[str, Any] = {"tools": tools, "tool_choice": "auto"}
    question = [{"role": "user", "content": TOOLS_QUESTION}]
    reply = model.probe(question, options)
    if _is_refused(reply):
        del options["tool_choice"]
        reply = model.probe(question, options)
    if not reply.raw:
        if model.probe(question, {}).raw:
            raise _no_tools(f"{reply.reason} with tools, and an answer without")
        _LOGGER.debug("the test of the server's tools got no answer")  # the evaluation reports it
        return options
    message, n_tokens = parts_of(json.loads(reply.raw))[0], reply.usage.input_tokens
    if not message.get("tool_calls"):
        if is_tool_call(str(message.get("content") or "")):
            raise _no_tools("the model's call as text, which the server does not parse")
        if n_tokens and n_tokens < len(json.dumps(tools).split()):
            raise _no_tools(f"{n_tokens} prompt tokens, fewer than the words of the tools: the server drops them")
        _LOGGER.info("its reply to a test does not show whether the server supports tools")
    if n_tokens:
        _check_results(model, question, options, n_words=n_tokens + 100)
    return options


def _check_results(model: ServedModel, question: Messages, options: Mapping[str, Any], *, n_words: int) -> None:
    """Reject a server that drops tool results: its token count does not include a result longer than all other text."""
    call = _call_row("call00001", ToolCall(SEARCH, {"query": "ferry"}))
    result = {"role": "tool", "tool_call_id": "call00001", "content": " ".join(["ferry"] * n_words)}
    reply = model.probe([*question, _assistant_message("", [call]), result], {**options, "max_gen_toks": 16})
    if _is_refused(reply):
        raise _no_tools(f"{reply.reason} for a tool result")
    n_tokens = reply.usage.input_tokens
    if n_tokens and n_tokens < n_words:
        raise _no_tools(
            f"{n_tokens} prompt tokens with a result of {n_words} words: the server drops tool results",
            "a chat format or template of the server that includes messages of the role tool",
        )


def _is_refused(reply: Reply) -> bool:
    """Return whether a server rejected the content of a request."""
    return not reply.raw and "HTTP 4" in reply.reason


_WITH_TOOLS = "start it with tools (vLLM: --enable-auto-tool-choice --tool-call-parser NAME; llama.cpp: --jinja)"


def _no_tools(found: str, next_step: str = _WITH_TOOLS) -> ConfigurationError:
    return ConfigurationError(
        f"search_protocol {ToolCallProtocol.name}",
        where="a test before the evaluation",
        expected="a server that accepts tools and returns tool calls",
        found=found,
        next_step=f"{next_step}, or --metadata search_protocol={TextProtocol.name}, which works with any model",
    )


PROTOCOLS: Mapping[str, Callable[[], SearchProtocol]] = {
    protocol.name: protocol for protocol in (TextProtocol, ToolCallProtocol)
}
"""Name -> class of the protocol."""
