"""What may hold a key, and how it is written where others may read it: masked, with the rest in its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MASK = "***"

_NAMES = frozenset({"header", "headers", "cookie", "hf_token", "token", "use_auth_token"})
# Not every name that ends in `token`: harnesses call texts so that end a thought or fill a row.
_ENDINGS = ("api_key", "apikey", "auth_token", "access_token", "access_key", "authorization", "password", "secret")
_IN_TEXT = (
    (re.compile(r"(?<=://)[^/?#\s@]+@"), f"{MASK}@"),  # user and password of an address
    (re.compile(r"(?i)\b(Bearer)\s+[^\s\"',}]{6,}"), rf"\1 {MASK}"),
    (re.compile(r"(?i)([?&][^=&\s]*(?:key|token|sig|secret|password)[^=&\s]*=)[^&\s\"']+"), rf"\1{MASK}"),
)


def is_secret_name(name: object) -> bool:
    """Return whether what stands under a name is a secret, whatever it looks like."""
    plain = str(name).lower().replace("-", "_")
    return plain in _NAMES or plain.endswith(_ENDINGS)


def masked(value: Any) -> Any:
    """Return a JSON value in which every secret is `***`; masked once more it stays as it is."""
    if isinstance(value, Mapping):
        return {key: MASK if is_secret_name(key) and item else masked(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(masked, value))
    return masked_text(value) if isinstance(value, str) else value


def masked_text(text: str) -> str:
    """Return a text without what is shaped like a key: in an address, behind `Bearer`, in a query."""
    for pattern, mask in _IN_TEXT:
        text = pattern.sub(mask, text)
    return text


__all__ = ["MASK", "is_secret_name", "masked", "masked_text"]
