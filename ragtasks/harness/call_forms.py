"""Calls of tools as models write them, read off a reply: a server that passes them on as text does not read them.

Text after calls is dropped: the model wrote it before their results were known. A mark alone, or one in quotes, is part
of an answer. Where a server drops special tokens, marks may be missing.

Sources: the parsers and templates that vLLM documents (docs.vllm.ai, "Tool Calling": hermes, llama3_json, mistral,
qwen3_coder, glm45, deepseek_v3, deepseek_v31, openai, pythonic), and OpenAI's "harmony response format" for gpt-oss.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ragtasks.metrics import CALL_MARKS
from ragtasks.records import READ, SEARCH
from ragtasks.scoring import ToolCall

MOST_CALLS = 50
"""Calls of one reply that are looked at."""

_NAME = r"(?P<name>[\w.-]{1,64}?)"
_BAR = "\uff5c"  # DeepSeek's marks have wide bars
_SEPARATOR = f"<{_BAR}tool▁sep{_BAR}>"
_TEXT = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"


def _literal(written: str) -> Any:
    """Return what a Python literal stands for; what is none as it is."""
    try:
        return ast.literal_eval(written)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return written


@dataclass(frozen=True, slots=True)
class CallForm:
    """How one call is written, behind the marks that announce it."""

    models: str
    """Whose form it is."""
    opening: str
    """Pattern of what stands before the arguments, with the group `name` where the name stands there."""
    pair: str = ""
    """Pattern of one argument, with groups of its name and its value; empty: the arguments are a JSON object."""
    closing: str = ""
    """Pattern of what stands behind the arguments."""
    value: Callable[[str], Any] = str
    """What reads the value of an argument."""


FORMS = (
    CallForm("Hermes, Qwen, Llama 3, Mistral", r"(?=\{)"),  # {"name": "search", "arguments": {"query": "..."}}
    CallForm(  # search[ARGS]{"query": "..."}
        "Mistral, later", rf"{_NAME}(?:\[CALL_ID\]\w{{0,64}})?(?:\[ARGS\])?\s*(?=\{{)"
    ),
    CallForm(  # function<sep>search, then JSON between ```json and ```; from V3.1 search<sep>{"query": "..."}
        "DeepSeek V3, R1",
        rf"(?:function{_SEPARATOR})?{_NAME}(?:{_SEPARATOR})?\s*(?:```json)?\s*(?=\{{)",
        closing=r"\s*```",
    ),
    CallForm(  # to=functions.search <|constrain|>json<|message|>{"query": "..."}; templates name the channel behind
        "gpt-oss",
        rf"to=functions\.{_NAME}\s*(?:<\|channel\|>)?(?:commentary|analysis)?\s*(?:<\|constrain\|>)?(?:json)?\s*"
        r"(?:<\|message\|>)?\s*(?=\{)",
    ),
    CallForm(  # <function=search> <parameter=query> ... </parameter> </function>
        "Qwen3-Coder",
        rf"<function={_NAME}>(?=\s*(?:<|\Z))",
        r"\s*<parameter=([\w.-]{1,64})>\n?(.*?)\n?</parameter>",
        r"\s*</function>",
    ),
    CallForm(  # search <arg_key>query</arg_key> <arg_value>...</arg_value>
        "GLM-4.5",
        rf"{_NAME}\s*(?=<arg_key>)",
        r"\s*<arg_key>(.{1,64}?)</arg_key>\s*<arg_value>(.*?)</arg_value>",
        r"\s*</tool_call>",
    ),
    CallForm(  # [search(query="..."), read(passage_id="...")]
        "Llama 3.2, Llama 4",
        rf"{_NAME}\((?=\s*(?:\w{{1,64}}\s*=|\)|\Z))",
        rf"\s*(\w{{1,64}})\s*=\s*({_TEXT}|[^\s,()\[\]'\"]{{1,40}})\s*,?",
        r"\s*\)",
        _literal,
    ),
)
"""Every form that is read; the first that fits is taken."""


# What announces calls. Not behind a quotation mark.
_MARK = re.compile(
    rf"(?<![`'\"“])(?:{CALL_MARKS}|"
    r"(?:<\|start\|>assistant|assistant)?(?:<\|channel\|>)?(?:commentary|analysis)?\s?to=functions\.(?=[\w.-]))"
)
_BETWEEN = re.compile(
    r"(?:</?tool_call>|\[TOOL_CALLS\]|<\|python_(?:tag|start|end)\|>|"
    rf"<{_BAR}tool▁calls?▁(?:begin|end){_BAR}>|"
    r"<\|(?:start|channel|call)\|>|(?:assistant)?(?:<\|channel\|>)?(?:commentary|analysis)(?=\s?to=)|"
    r"assistant(?=<\||\sto=)|[\s,;\[\]])*"
)
# Calls without a mark: what a reply begins with, and JSON anywhere.
_FIRST = re.compile(
    rf"\s*(?:(?:{SEARCH}|{READ})\s*\{{|(?:{SEARCH}|{READ})\s*<arg_key>|\[\s*\w{{1,64}}\((?:\s*\w{{1,64}}\s*=|\s*\)))"
)
_BARE = re.compile(r"\{\s*\"(?:name|type|function|id)\"\s*:")
_LIKE_A_TOOL = re.compile(
    rf"(?:to=functions\.|<function=|function{_SEPARATOR})?(?:{SEARCH}|{READ})\b|function{_SEPARATOR}|\Z"
)
_NAME_IN_JSON = re.compile(r"\"name\"\s*:\s*\"([^\"]{0,64})\"")
_NAME_BEFORE = re.compile(rf"(?:function{_SEPARATOR}|<function=|to=functions\.)?([\w.-]{{1,64}})(?![\w.-])")
# The header of a gpt-oss call behind which nothing comes. Only calls have a recipient, and only they are `commentary`.
_BEGUN = "|".join("functions"[:length] for length in range(10))
_CUT_HEADER = re.compile(
    r"(?:\A|(?<=\n)|(?<=\|>))[ \t]*(?:<\|start\|>)?(?:"
    rf"(?:assistant)?(?:<\|channel\|>)?(?:commentary|analysis)?\s?to=(?:{_BEGUN}|functions\.(?P<name>[\w.-]{{0,64}})[\w\s<|>]{{0,60}})"
    r"|(?:assistant|(?:assistant)?<\|channel\|>)commentary(?:\s(?:to?)?)?)\Z"
)
_LONGEST_HEADER = 200  # characters
_DECODER = json.JSONDecoder()


def template_calls(text: str) -> tuple[tuple[ToolCall, ...], str]:
    """Return the calls in a reply, and the text before them; without calls the whole text."""
    for start in _starts(text):
        if calls := tuple(islice(_calls_from(text, start), MOST_CALLS)):
            return calls, text[:start]
    if cut := _CUT_HEADER.search(text, max(0, len(text) - _LONGEST_HEADER)):
        return (ToolCall(cut["name"] or "", cut[0]),), text[: cut.start()]
    return (), text


def _starts(text: str) -> Iterator[int]:
    """Yield where calls may begin."""
    for mark in islice(_MARK.finditer(text), MOST_CALLS):
        yield mark.start()
    if unmarked := _FIRST.match(text) or _BARE.search(text):
        yield unmarked.start()


def _calls_from(text: str, place: int) -> Iterator[ToolCall]:
    """Yield the calls that follow each other from a place on."""
    while place < len(text):
        begin = _past(text, place)
        mark = _MARK.search(text, place, begin + 40)
        call, place = _call_at(text, begin, mark.start() if mark and mark.start() <= begin else None)
        if call is None:
            return
        yield call


def _past(text: str, place: int) -> int:
    """Return where the next call may begin."""
    found = _BETWEEN.match(text, place)
    return found.end() if found else place


def _call_at(text: str, place: int, mark: int | None) -> tuple[ToolCall | None, int]:
    """Return the call that begins at a place behind its mark, and where it ends; None where none does."""
    name = ""
    for form in FORMS:
        opening, pair, closing = (re.compile(part, re.DOTALL) for part in (form.opening, form.pair, form.closing))
        if found := opening.match(text, place):
            name = found.groupdict().get("name") or ""
            read = _pairs(text, found.end(), pair, form.value) if form.pair else _json_object(text, found.end())
            arguments, end = read
            closed = closing.match(text, end)
            if arguments is None or (form.pair and not closed and text[end:].strip()):
                break
            call = ToolCall(name, arguments) if name else _json_call(arguments)
            return call, closed.end() if closed else end
    following = _MARK.search(text, place + 1)
    end = following.start() if following else len(text)
    name = name or _name_in(text[place:end])
    is_call = (found and name in (SEARCH, READ)) or (mark is not None and _announces(text, mark, place))
    return (ToolCall(name, text[place:end]) if is_call else None), end


def _json_object(text: str, place: int) -> tuple[dict[str, Any] | None, int]:
    """Return the JSON object at a place, None where it is none, and where it ends."""
    try:
        return _DECODER.raw_decode(text, place)
    except (ValueError, RecursionError):
        return None, place


def _pairs(
    text: str, place: int, pair: re.Pattern[str], value: Callable[[str], Any]
) -> tuple[dict[str, Any] | None, int]:
    """Return the arguments that stand one by one from a place on, and where they end."""
    arguments: dict[str, Any] = {}
    while found := pair.match(text, place):
        arguments[found[1].strip()] = value(found[2])
        place = found.end()
    return arguments, place


def _json_call(found: Mapping[str, Any]) -> ToolCall | None:
    """Return what an object calls; None where it is no call but an answer in JSON."""
    inner = found.get("function")
    row = inner if isinstance(inner, Mapping) else found
    name = row.get("name", inner)
    arguments = row.get("arguments", row.get("parameters"))
    return ToolCall(name, arguments) if isinstance(name, str) and arguments is not None else None


def _name_in(written: str) -> str:
    """Return the name in a call that cannot be read; empty where it has none."""
    name = _NAME_IN_JSON.search(written) or _NAME_BEFORE.match(written)
    return name[1] if name else ""


def _announces(text: str, mark: int, place: int) -> bool:
    """Return whether a mark announces a call that cannot be read, and is not merely spoken of."""
    if text.startswith("{", place):
        return True
    is_first_of_line = not text[max(0, mark - 200) : mark].rpartition("\n")[2].strip()
    return is_first_of_line and _LIKE_A_TOOL.match(text, place) is not None
