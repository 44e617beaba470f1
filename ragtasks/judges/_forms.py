"""The forms of verdicts as JSON schemas, for servers that can hold a reply to one.

A verdict in a line (`Verdict CODE: yes`) becomes an object of what comes before it and that line, so that a judge still
reasons first; it is turned back into text, and the parsers read both alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

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
    """Return the JSON schema of replies in a form: that of an object, or of a last line.

    Args:
        form: such as `{"id": "c0de", "statements": [STATEMENT, ...]}` or `Verdict c0de: LABEL`.
    """
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


__all__ = ["as_text", "schema_of"]
