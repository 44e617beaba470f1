"""The plain-text protocol: how a model of any kind calls tools, by tags in its replies.

    <search>query</search>     <search k="10">query</search>     <read>id of a passage</read>     <answer>text</answer>

The first tag of a reply decides. Calls that follow each other directly are all made; what stands behind them was
written before their results were known, and is dropped. A reply without a tag is an answer. Only replies are read for
tags: in passages they are text, and lose their first sign.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ragtasks.records import READ, SEARCH
from ragtasks.scoring import ToolCall

ANSWER, RESULTS = "answer", "results"
NAME = "text"
"""What results call the protocol."""

MOST_CALLS = 50
"""Calls of one reply that are looked at."""

# Bounded inside, so that a reply is read in time that grows as its length.
_OPENING = re.compile(rf"<({SEARCH}|{READ}|{ANSWER})((?:\s[^<>]{{0,100}})?)>", re.IGNORECASE)
_CLOSING = {name: re.compile(f"</{name}>", re.IGNORECASE) for name in (SEARCH, READ, ANSWER)}
_K = re.compile(r"\bk\s*=\s*[\"']?(-?\w+)", re.IGNORECASE)
_IN_PASSAGES = re.compile(rf"<(?=/?(?:{SEARCH}|{READ}|{ANSWER}|{RESULTS})\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """What a model does in one reply: it calls tools, or it answers."""

    calls: tuple[ToolCall, ...]
    """Calls, in order."""
    answer: str
    """The answer where there is no call; empty where there is none either."""
    text: str
    """The reply as the next prompt shows it: up to the last call that was made."""


def parse_reply(reply: str) -> ParsedReply:
    """Return what a reply does; thinking text is taken off before."""
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
    """Return what stands in a tag, and where it ends: at its end tag, else the next tag, else the end of the reply.

    Servers cut a reply before the end tag, which is one of their stop texts.
    """
    name = tag[1].lower()
    following = None if name == ANSWER else _OPENING.search(reply, tag.end())
    limit = following.start() if following else len(reply)
    closing = _CLOSING[name].search(reply, tag.end(), limit)
    return reply[tag.end() : closing.start() if closing else limit].strip(), closing.end() if closing else limit


def _call(tag: re.Match[str], content: str) -> ToolCall:
    if tag[1].lower() == READ:  # ids are copied with what stands around them
        return ToolCall(READ, {"passage_id": content.strip("[] ").removeprefix("id:").strip()})
    k = _K.search(tag[2])
    return ToolCall(SEARCH, {"query": content, **({"k": k[1]} if k else {})})


def results_message(results: Sequence[str], calls_left: int) -> str:
    """Return what a model reads behind its calls."""
    blocks = "\n".join(f"<{RESULTS}>\n{_IN_PASSAGES.sub('[', text)}\n</{RESULTS}>" for text in results)
    if not calls_left:
        return f"{blocks}\nNo searches are left. Give your answer now: <{ANSWER}>your answer</{ANSWER}>"
    return f"{blocks}\n{calls_left} {'search is' if calls_left == 1 else 'searches are'} left."
