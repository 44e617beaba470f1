"""Passages as a system of one's own writes them, in an answers file or in a reply: texts, or objects with a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragtasks.records import Passage

CONTEXT_IDS = ("id", "passage_id", "document_id")
"""Keys under which a passage's id may stand; the first that is there counts."""
UNNAMED = "context-"
"""Beginning of the id of a passage that has none; its place, from 1, follows."""

_EXPECTED = "a text, or an object with `text`, and texts as `id` and `title` if it has them"


def contexts_in(value: Any) -> tuple[Passage, ...]:
    """Return the passages in a list of contexts, in order.

    Args:
        value: a list of texts, or of objects with `text` and, where they are known, `id` (also `passage_id` or
            `document_id`), `title` and `url`.

    Raises:
        ValueError: it is no such list; its arguments are what was expected, and what was found.
    """
    if isinstance(value, (str, Mapping)) or not hasattr(value, "__iter__"):
        raise ValueError("a list", type(value).__name__)
    return tuple(_passage(item, number) for number, item in enumerate(value, start=1))


def _passage(item: Any, number: int) -> Passage:
    if isinstance(item, Passage):
        return item
    row = {"text": item} if isinstance(item, str) else item
    if not isinstance(row, Mapping):
        raise ValueError(f"context {number}: {_EXPECTED}", type(item).__name__)
    named = next((row[key] for key in CONTEXT_IDS if row.get(key)), f"{UNNAMED}{number}")
    parts = (named, row.get("text"), row.get("title") or "", row.get("url") or "")
    wrong = [key for key, part in zip(("id", "text", "title", "url"), parts, strict=True) if not isinstance(part, str)]
    if wrong:
        missing = "no text" if row.get("text") is None else f"no text as `{wrong[0]}`"
        raise ValueError(f"context {number}: {_EXPECTED}", missing)
    return Passage(*(str(part) for part in parts))


__all__ = ["CONTEXT_IDS", "UNNAMED", "contexts_in"]
