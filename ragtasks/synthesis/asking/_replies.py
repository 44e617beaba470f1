"""How replies are read: one JSON value in whatever stands around it, with every key that was asked for.

A reader gives what was asked for or says why it cannot; it never fills in what is missing.
"""

from __future__ import annotations

from typing import Any

from ragtasks.judges import UnparsableReplyError, json_values


class UnreadableReplyError(UnparsableReplyError):
    """A reply that is not what was asked for; the message names the kind of violation and never quotes the reply."""


def object_with(reply: str, key: str) -> dict[str, Any]:
    """Return the last JSON object of a reply that has a key.

    Raises:
        UnreadableReplyError: prose, JSON that is cut off, or another object.
    """
    values = json_values(reply)
    objects = [value for value in values if isinstance(value, dict) and key in value]
    if objects:
        return objects[-1]
    if values:
        raise UnreadableReplyError(f'JSON without the key "{key}"')
    raise UnreadableReplyError("JSON that cannot be read" if "{" in reply or "[" in reply else "prose instead of JSON")


def listed_texts(value: object, what: str) -> list[str]:
    """Return the texts of a list, white space collapsed, blank ones left out.

    Raises:
        UnreadableReplyError: no list, or something else than texts in it.
    """
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UnreadableReplyError(f"{what}: no list of texts")
    return [text for item in value if (text := _collapsed(item))]


def text_of(row: object, key: str) -> str:
    """Return one text of an object, white space collapsed.

    Raises:
        UnreadableReplyError: no object, no such key, or no text under it.
    """
    value = row.get(key) if isinstance(row, dict) else None
    text = _collapsed(value) if isinstance(value, str) else ""
    if not text:
        raise UnreadableReplyError(f'no text under "{key}"')
    return text


def _collapsed(text: str) -> str:
    """Return a text on one line; half a character, which no file can hold, becomes `?`."""
    return " ".join(text.encode("utf-8", "replace").decode().split())


__all__ = ["UnreadableReplyError", "listed_texts", "object_with", "text_of"]
