"""What a judge is asked, and what follows from its reply: a finding, or the next question.

A rubric is a function from a response to its first question. A question knows how its reply is read, so a rubric with
one step and one with two look the same to whoever asks.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ragtasks.files import canonical_hash
from ragtasks.judges._parsers import HIGHEST_RATING, UnparsableReplyError
from ragtasks.judges._verdicts import VerdictOutcome
from ragtasks.prompts import PromptTemplate, shipped_template
from ragtasks.records import Message, Response, Role

_CODE_LENGTH = 8
_SPEAKERS = {Role.USER: "User", Role.ASSISTANT: "Assistant"}


@dataclass(frozen=True, slots=True)
class Finding:
    """What a judge found under one rubric."""

    label: str | None
    """The judge's word, None where there is none."""
    value: float | None
    """The number that follows, 0 to 1, None where there is none."""
    outcome: VerdictOutcome = VerdictOutcome.GIVEN
    """GIVEN with a value (the ibm profile alone has a label without one), NO_STATEMENTS or NOT_ASKED without."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """One prompt to a judge."""

    text: str
    read: Callable[[str], Finding | Question]
    """Reply -> what follows; raises UnparsableReplyError where the reply is not as asked."""
    form: str = ""
    """The form of the verdict, repeated where the first reply lacks it; empty where only the prompt knows it."""
    schema: Mapping[str, Any] | None = field(default=None, compare=False)
    """JSON schema of a reply in that form; None where only the prompt knows it."""

    def is_readable(self, reply: str) -> bool:
        """Return whether a reply is as asked: anything follows from it."""
        try:
            self.read(reply)
        except UnparsableReplyError:
            return False
        return True

    def again(self) -> Question:
        """Return the question for the second time: it says that the first reply held no verdict."""
        text = shipped_template("judges/again").render(question=self.text, form=self.form)
        return Question(text, self.read, self.form, self.schema)


@dataclass(frozen=True, slots=True)
class Rubric:
    """One thing that judges are asked about every response."""

    name: str
    """Name in tables, logs and caches."""
    description: str
    """One line for tables' legends."""
    open: Callable[[Response], Question | Finding]
    """Response -> the first question, or what is known without one."""
    prompts: tuple[str, ...] = ()
    """The texts that its questions are made of; results keep a hash of them."""

    @property
    def fingerprint(self) -> str:
        """Hash of the texts: verdicts by other words do not compare."""
        return canonical_hash(list(self.prompts))[:16]

    def only_where(self, holds: Callable[[Response], bool], finding: Finding) -> Rubric:
        """Return the rubric as one that asks nothing about other responses: there it has this finding."""
        return replace(self, open=lambda response: self.open(response) if holds(response) else finding)


def rating_finding(rating: int) -> Finding:
    """Return the finding of a rating from 1 to 10: its share of 10."""
    return Finding(str(rating), rating / HIGHEST_RATING)


def code_of(first: str, *others: str) -> str:
    """Return 8 hexadecimal digits that follow from the first text and stand in none of all.

    They mark where shown text ends and which line of a reply is the verdict: whoever wrote the texts cannot have
    written them. The same texts give the same code, so that a cached reply is found again; the same first text gives
    it nearly always, so that prompts about one conversation begin alike, and a server reads their beginning once.
    """
    texts = (first, *others)
    content = first.encode("utf-8", errors="surrogatepass")
    salt = 0
    while True:
        code = hashlib.sha256(content + salt.to_bytes(4, "big")).hexdigest()[:_CODE_LENGTH]
        if not any(code in text.lower() for text in texts):
            return code
        salt += 1


def ask(
    template: PromptTemplate,
    form: str,
    read: Callable[[str, str], Finding | Question],
    *,
    conversation: Sequence[Message] = (),
    passages: Sequence[str] = (),
    **texts: Any,
) -> Question:
    """Return the question that a template makes of shown texts, marked with their code."""
    spoken = [*(message.text for message in conversation), *_flat(texts.get("question", []))]
    code = code_of(*spoken, *passages, *(text for part in texts.values() for text in _flat(part)))
    messages = [{"speaker": _SPEAKERS[message.role], "text": message.text} for message in conversation]
    filled = form.replace("CODE", code)
    text = template.render(code=code, form=filled, conversation=messages, passages=list(passages), **texts)
    return Question(text, lambda reply: read(as_text(reply), code), filled, schema_of(filled))


def _flat(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


# The forms of verdicts as JSON schemas, for servers that can hold a reply to one.
# A verdict in a line (`Verdict CODE: yes`) becomes an object of what comes before it and that line, so that a judge
# still reasons first; it is turned back into text, and the parsers read both alike.

_BEFORE, _LINE = "reasoning", "last_line"
_KEY = re.compile(r'"(?P<key>[a-z]\w*)": (?P<kind>[{\[]|[A-Z]+)')
_ID = re.compile(r'"id": "(?P<code>\w+)"')
_TEXT: Mapping[str, Any] = {"type": "string"}
_KINDS: Mapping[str, Mapping[str, Any]] = {
    "{": {"type": "object", "additionalProperties": _TEXT},
    "[": {"type": "array", "items": _TEXT},
}
_VALUES = {"N": "([1-9]|10)", "LABEL": "[A-Za-z_ ]+"}


def schema_of(form: str) -> dict[str, Any]:
    """Return the JSON schema of replies in a form: that of an object, or of a last line."""
    if found := _ID.search(form):
        keys = {match["key"]: _KINDS.get(match["kind"], _TEXT) for match in _KEY.finditer(form)}
        return _object({"id": {"const": found["code"]}, **keys})
    head, _, value = form.rpartition(": ")
    return _object({_BEFORE: _TEXT, _LINE: {"type": "string", "pattern": f"^{head}: {_VALUES.get(value, '.+')}$"}})


def as_text(reply: str) -> str:
    """Return a reply whose last line came apart as the text that it stands for; any other as it is."""
    try:
        found = json.loads(reply, strict=False)
    except (ValueError, RecursionError):
        return reply
    if not isinstance(found, dict) or not isinstance(found.get(_LINE), str):
        return reply
    return f"{found.get(_BEFORE, '')}\n{found[_LINE]}"


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
