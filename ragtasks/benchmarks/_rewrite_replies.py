"""Parsing of a rewriting model's replies, and writing of replies in the same format.

There are two contracts. In the MTRAG paper (appendix C.1) a reply is a JSON object with the class of the question and
its reworded version. In the conditional contract (OR-CONVQA paper, section 4.7) a reply begins with a keyword.
`no_rewrite` ends the reply and the question itself is the query, which saves tokens. `rewrite` precedes the reworded
version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

PARSER_VERSION = 1
"""Increases when the parser reads the same JSON reply differently."""

MOST_SEARCHES = 6
"""Maximum number of searches into which a question may be split."""

NO_REWRITE = "no_rewrite"
"""Keyword of the conditional contract for a standalone question."""

_KEYS = frozenset({"class", "reworded version"})
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*)\n[ \t]*```", re.DOTALL | re.IGNORECASE)
_NO_REWRITE = re.compile(rf"{NO_REWRITE}(?!\w)")
_REWRITE = re.compile(r"rewrite(?::|(?=\s|$))(.*)", re.DOTALL)


class QuestionClass(str, Enum):
    """Whether a question can be understood without its conversation (MTRAG paper, section 3 and appendix C.1)."""

    STANDALONE = "standalone"
    NON_STANDALONE = "non-standalone"


@dataclass(frozen=True, slots=True)
class Contract:
    """The reply format of a rewriting model."""

    parse: Callable[[str, str], tuple[QuestionClass, str]]
    """(reply, question) -> (class, query). Raises ValueError with the type of error, without quoting the reply."""
    write: Callable[[str, str], str]
    """(question, rewrite) -> reply. A rewrite equal to the question makes it standalone."""


@dataclass(frozen=True, slots=True)
class RewriteReply:
    """The result of parsing a reply."""

    query: str
    """The search query. With a `problem` it is the last turn, as in a production system."""
    question_class: QuestionClass | None
    """None if the reply is invalid."""
    problem: str = ""
    """Why the reply is invalid; empty if it is valid."""


def read_reply(contract: Contract, text: str, question: str) -> RewriteReply:
    """Return the parsed reply to a question. An invalid reply leaves the question unchanged."""
    try:
        question_class, query = contract.parse(text, question)
    except ValueError as error:
        return RewriteReply(question, None, f"invalid reply: {error}")
    return RewriteReply(query, question_class)


def parse_rewrite(text: str) -> tuple[QuestionClass, str]:
    """Return (class, reworded version) of a JSON reply, with whitespace collapsed in the version.

    The reply must be a JSON object with exactly the two keys, optionally in a code fence, without other text.
    """
    content = _object_in(text, _KEYS)
    label, version = content["class"], content["reworded version"]
    if not isinstance(label, str) or label not in {member.value for member in QuestionClass}:
        raise ValueError("an unknown class")
    return QuestionClass(label), _collapsed(version)


def parse_searches(text: str) -> tuple[str, ...]:
    """Return the distinct searches in a JSON reply, 1 to `MOST_SEARCHES`. Raises ValueError for an invalid reply."""
    searches = _object_in(text, frozenset({"searches"}))["searches"]
    if not isinstance(searches, list) or not searches:
        raise ValueError("no list of searches")
    distinct = tuple(dict.fromkeys(_collapsed(search, "a search without text") for search in searches))
    if len(distinct) > MOST_SEARCHES:
        raise ValueError(f"more than {MOST_SEARCHES} searches")
    return distinct


def _object_in(text: str, keys: frozenset[str]) -> dict[str, Any]:
    """Return the JSON object of a reply, optionally in a code fence, with exactly these keys."""
    fenced = _FENCED.fullmatch(text.strip())
    try:
        content = json.loads(fenced[1] if fenced else text, object_pairs_hook=_without_duplicates)
    except (json.JSONDecodeError, RecursionError):
        raise ValueError("not one JSON object") from None
    if not isinstance(content, dict):
        raise ValueError("not one JSON object")
    if content.keys() != keys:
        raise ValueError("unexpected or missing keys")
    return content


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key appears twice")
    return dict(pairs)


def _collapsed(version: object, missing: str = "no reworded version") -> str:
    if not isinstance(version, str) or not version.strip():
        raise ValueError(missing)
    if any("\ud800" <= character <= "\udfff" for character in version):
        raise ValueError("an unpaired surrogate, which UTF-8 cannot encode")
    return " ".join(version.split())


def parse_conditional(text: str, question: str) -> tuple[QuestionClass, str]:
    """Return (class, query) of a conditional reply.

    Text after `no_rewrite` is ignored and the query is the question.
    """
    reply = text.strip()
    if _NO_REWRITE.match(reply):
        return QuestionClass.STANDALONE, question
    rewritten = _REWRITE.fullmatch(reply)
    if rewritten is None:
        raise ValueError("no keyword at the start")
    version = rewritten[1].strip()
    if len(version.splitlines()) > 1:
        raise ValueError("more than one line")
    return QuestionClass.NON_STANDALONE, _collapsed(version)


def _write_json(question: str, rewrite: str) -> str:
    label = QuestionClass.STANDALONE if rewrite == question else QuestionClass.NON_STANDALONE
    return json.dumps({"class": label.value, "reworded version": rewrite}, ensure_ascii=False)


def _write_conditional(question: str, rewrite: str) -> str:
    return NO_REWRITE if rewrite == question else f"rewrite: {' '.join(rewrite.split())}"


JSON_CONTRACT = Contract(lambda text, _question: parse_rewrite(text), _write_json)
CONDITIONAL_CONTRACT = Contract(parse_conditional, _write_conditional)
"""A keyword, then a reworded version if the keyword is `rewrite`."""

CONTRACTS: Mapping[str, Contract] = {"json": JSON_CONTRACT, "conditional": CONDITIONAL_CONTRACT}
