"""What the process does that fills in a user's own templates: it may use so much memory and time, and then it ends.

The sandbox keeps a template from code and files, and no rule inside one process bounds what is left: `'a' * 10**10`,
`x ~ x` forty times, nested loops, lists that hold themselves twice.
"""

from __future__ import annotations

import json
from typing import Any

from ragtasks.templates._jinja import described, fill_in

MOST_CHARACTERS = 4_000_000
"""Length of a filled-in template: more than any model reads."""


def reply(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the `text` of a template (`source`, `fields`), or `error` and `line`."""
    try:
        text = fill_in(asked["source"], asked["fields"])
        _refuse_half_characters(text, asked["fields"])
    except MemoryError:
        return {"error": "more memory than a template may take", "line": None}
    except Exception as error:  # noqa: BLE001 (whatever a template ends in is for its user to know)
        message, number = described(error)
        return {"error": message, "line": number}
    if len(text) > MOST_CHARACTERS:
        return {"error": f"a text of {len(text):,} characters; a prompt has {MOST_CHARACTERS:,} at most", "line": None}
    return {"text": text}


def _refuse_half_characters(text: str, fields: Any) -> None:
    """Refuse a half of a surrogate pair that the template itself made: what was handed over may hold one.

    Raises:
        UnicodeEncodeError: there is one.
    """
    try:
        json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    text.encode()


__all__ = ["reply"]
