"""How values stand in the line that chooses a retriever: written so that they read back as themselves."""

from __future__ import annotations

import json
import re

from ragtasks.errors import ConfigurationError, clear_error

Value = str | int | float | bool


_SPECIAL = re.compile(r'[,;()"\\]|^\s|\s$|^$')


def value_of(text: str, line: str) -> Value:
    """Return a quoted value as text, true and false as such, a number as such, anything else as text."""
    if text.startswith('"'):
        try:
            return str(json.loads(text))
        except ValueError:
            raise refused(line, "a JSON string", text) from None
    if text in ("true", "false"):
        return text == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def written(value: Value) -> str:
    """Return a value as a line has it: it reads back as itself, with its type."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return repr(value)
    plain = not _SPECIAL.search(value) and isinstance(value_of(value, value), str)
    return value if plain else json.dumps(value, ensure_ascii=False)


def canonical(kind: str, argument: str, **options: Value) -> str:
    """Return the canonical line of a retriever with an argument; options are sorted (leave defaults out)."""
    return ",".join([f"{kind}:{written(argument)}", *(f"{key}={written(options[key])}" for key in sorted(options))])


def refused(line: str, expected: str, found: str) -> ConfigurationError:
    return ConfigurationError(
        clear_error(
            "retriever",
            where=repr(line),
            expected=expected,
            found=found,
            next_step="write it such as bm25, bm25s:k1=0.9,b=0.4 or hybrid(bm25,dense:MODEL)",
        )
    )
