"""How a rewriting model's reply is read, and how one is written that is read back as itself.

There are two contracts. In the MTRAG paper's (appendix C.1) a reply is a JSON object with the class of the question and
its reworded version. In the conditional one (OR-CONVQA paper, section 4.7) it begins with a word: `no_rewrite` ends it,
and the question itself is the query, so nothing more is generated; `rewrite` goes before the reworded version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

PARSER_VERSION = 1
"""Moves when the same JSON reply is read in another way."""

MOST_SEARCHES = 6
"""Searches that a question may be split into."""

NO_REWRITE = "no_rewrite"
"""The word of the conditional contract for a question that stands alone."""

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
    """What a rewriting model is asked to reply."""

    parse: Callable[[str, str], tuple[QuestionClass, str]]
    """(reply, question) -> class and query; a ValueError names the kind of error and never quotes the reply."""
    write: Callable[[str, str], str]
    """(question, rewrite) -> the reply that says so; a rewrite that is the question makes it standalone."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reply comes to."""

    query: str
    """What is searched for: the last turn where there is a `problem`, as a system in use would."""
    question_class: QuestionClass | None
    """None where the reply breaks the contract."""
    problem: str = ""
    """How it breaks the contract; empty where it does not."""


def read_reply(contract: Contract, text: str, question: str) -> Reading:
    """Return what a reply to a question comes to; one that breaks the contract leaves the question as it is."""
    try:
        question_class, query = contract.parse(text, question)
    except ValueError as error:
        return Reading(question, None, f"invalid reply: {error}")
    return Reading(query, question_class)


def parse_rewrite(text: str) -> tuple[QuestionClass, str]:
    """Return (class, reworded version) of a JSON reply; whitespace within the version is collapsed.

    The reply must be one JSON object with exactly the two keys, alone or in a code fence, and nothing around it.
    """
    content = _object_in(text, _KEYS)
    label, version = content["class"], content["reworded version"]
    if not isinstance(label, str) or label not in {member.value for member in QuestionClass}:
        raise ValueError("a class that was not offered")
    return QuestionClass(label), _collapsed(version)


def parse_searches(text: str) -> tuple[str, ...]:
    """Return the searches that a question was split into, 1 to `MOST_SEARCHES` and each once, of a JSON reply."""
    searches = _object_in(text, frozenset({"searches"}))["searches"]
    if not isinstance(searches, list) or not searches:
        raise ValueError("no list of searches")
    found = tuple(dict.fromkeys(_collapsed(search, "a search without text") for search in searches))
    if len(found) > MOST_SEARCHES:
        raise ValueError(f"more than {MOST_SEARCHES} searches")
    return found


def _object_in(text: str, keys: frozenset[str]) -> dict[str, Any]:
    """Return the JSON object that a reply is, alone or in a code fence, with exactly these keys."""
    fenced = _FENCED.fullmatch(text.strip())
    try:
        content = json.loads(fenced[1] if fenced else text, object_pairs_hook=_without_duplicates)
    except (json.JSONDecodeError, RecursionError):
        raise ValueError("not one JSON object") from None
    if not isinstance(content, dict):
        raise ValueError("not one JSON object")
    if content.keys() != keys:
        raise ValueError("other keys than asked for")
    return content


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key appears twice")
    return dict(pairs)


def _collapsed(version: object, missing: str = "no reworded version") -> str:
    if not isinstance(version, str) or not version.strip():
        raise ValueError(missing)
    if any("\ud800" <= character <= "\udfff" for character in version):
        raise ValueError("half a character, which no file can hold")
    return " ".join(version.split())


def parse_conditional(text: str, question: str) -> tuple[QuestionClass, str]:
    """Return (class, query) of a conditional reply; behind `no_rewrite` nothing is read: the query is the question."""
    reply = text.strip()
    if _NO_REWRITE.match(reply):
        return QuestionClass.STANDALONE, question
    rewritten = _REWRITE.fullmatch(reply)
    if rewritten is None:
        raise ValueError("neither word comes first")
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
"""A JSON object with class and reworded version."""

CONDITIONAL_CONTRACT = Contract(parse_conditional, _write_conditional)
"""A word that says whether a reworded version follows."""

CONTRACTS: Mapping[str, Contract] = {"json": JSON_CONTRACT, "conditional": CONDITIONAL_CONTRACT}
"""Name -> contract."""
