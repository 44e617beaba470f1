"""Questions to a judge, and what follows from a reply: a finding, or the next question.

A rubric is a function from a response to its first question. A question parses its own reply, so rubrics with one and
with two steps have the same interface.
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
SPEAKERS = {Role.USER: "User", Role.ASSISTANT: "Assistant"}


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of a judge under one rubric."""

    label: str | None
    """The judge's label, None without a label."""
    value: float | None
    """Value of the label, 0 to 1; None without a value."""
    outcome: VerdictOutcome = VerdictOutcome.GIVEN
    """GIVEN with a label, else the reason for having none; the ibm profile and question labels may have no value."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """One prompt to a judge."""

    text: str
    read: Callable[[str], Finding | Question]
    """Reply -> next question or finding; raises UnparsableReplyError if the reply has another format."""
    form: str = ""
    """Format of the verdict, repeated after a reply without it; empty if only the prompt defines it."""
    schema: Mapping[str, Any] | None = field(default=None, compare=False)
    """JSON schema of replies in that format; None if only the prompt defines it."""

    def is_readable(self, reply: str) -> bool:
        try:
            self.read(reply)
        except UnparsableReplyError:
            return False
        return True

    def again(self) -> Question:
        """Return the question for a second attempt, with a note that the first reply had no verdict."""
        text = shipped_template("judges/again").render(question=self.text, form=self.form)
        return Question(text, self.read, self.form, self.schema)


@dataclass(frozen=True, slots=True)
class Rubric:
    """A question to judges about every response."""

    name: str
    """Name in tables, logs and caches."""
    description: str
    """One line for the legends of tables. Results store it: with another text, judged scores are not comparable."""
    open: Callable[[Response], Question | Finding]
    """Response -> first question, or the finding if no question is needed."""
    prompts: tuple[str, ...] = ()
    """Texts of its prompts; results store a hash of them."""
    labels: Mapping[str, float] = field(default_factory=dict)
    """Label of a verdict -> its value, 0 to 1; empty if verdicts are numbers."""
    highest: float = 1.0
    """Number that stands for the value 1 if verdicts are numbers: 10 for a rating, 1 for a share."""
    needs: tuple[str, ...] = ()
    """Values that a labelled row must have in addition to question and answer, such as `contexts`."""

    @property
    def fingerprint(self) -> str:
        """Hash of the prompts: verdicts by other prompts are not comparable."""
        return canonical_hash(list(self.prompts))[:16]

    def only_where(self, holds: Callable[[Response], bool], finding: Finding) -> Rubric:
        """Return the rubric restricted to some responses; all others get the finding without a question."""
        return replace(self, open=lambda response: self.open(response) if holds(response) else finding)


def rating_finding(rating: int) -> Finding:
    """Return the finding of a rating from 1 to 10: its share of 10."""
    return Finding(str(rating), rating / HIGHEST_RATING)


def code_of(first: str, *further: str) -> str:
    """Return 8 hexadecimal digits, derived from the first text, that occur in none of the texts.

    They mark the end of shown text, and the line of the verdict in a reply: the authors of the texts cannot have
    written them. The same texts give the same code, so that a cached reply is found again. The same first text nearly
    always gives the same code, so that prompts about one conversation share a prefix, which a server reads once.
    """
    texts = (first, *further)
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
    choices: Sequence[str] = (),
    **texts: Any,
) -> Question:
    """Return the question of a template with shown texts, marked with their code.

    `choices` are the labels of a verdict, of which structured replies contain exactly one.
    """
    spoken = [*(message.text for message in conversation), *_flat(texts.get("question", []))]
    code = code_of(*spoken, *passages, *(text for part in texts.values() for text in _flat(part)))
    messages = [{"speaker": SPEAKERS[message.role], "text": message.text} for message in conversation]
    filled = form.replace("CODE", code)
    text = template.render(code=code, form=filled, conversation=messages, passages=list(passages), **texts)
    return Question(text, lambda reply: read(as_text(reply), code), filled, schema_of(filled, choices))


def _flat(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


# Verdict formats as JSON schemas, for servers that can constrain replies. A verdict on a line (`Verdict CODE: yes`)
# becomes an object of the preceding text and that line, so that a judge still reasons first. The object is turned back
# into text, and the parsers read both forms.

_BEFORE, _LINE = "reasoning", "last_line"
_KEY = re.compile(r'"(?P<key>[a-z]\w*)": (?P<value>[{\[]|[A-Z]+)')
_ID = re.compile(r'"id": "(?P<code>\w+)"')
_TEXT: Mapping[str, Any] = {"type": "string"}
_SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "{": {"type": "object", "additionalProperties": _TEXT},
    "[": {"type": "array", "items": _TEXT},
}
_VALUES = {"N": "([1-9]|10)", "LABEL": "[A-Za-z_ ]+"}


def schema_of(form: str, choices: Sequence[str] = ()) -> dict[str, Any]:
    """Return the JSON schema of replies in a format: an object, or a last line that ends in one of the choices."""
    if id_match := _ID.search(form):
        keys = {match["key"]: _SCHEMAS.get(match["value"], _TEXT) for match in _KEY.finditer(form)}
        return _object({"id": {"const": id_match["code"]}, **keys})
    head, _, value = form.rpartition(": ")
    if choices:
        return _object({_BEFORE: _TEXT, _LINE: {"type": "string", "enum": [f"{head}: {label}" for label in choices]}})
    return _object({_BEFORE: _TEXT, _LINE: {"type": "string", "pattern": f"^{head}: {_VALUES.get(value, '.+')}$"}})


def as_text(reply: str) -> str:
    """Return a reply with a separate last line as one text; any other reply unchanged."""
    try:
        value = json.loads(reply, strict=False)
    except (ValueError, RecursionError):
        return reply
    if not isinstance(value, dict) or not isinstance(value.get(_LINE), str):
        return reply
    return f"{value.get(_BEFORE, '')}\n{value[_LINE]}"


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
