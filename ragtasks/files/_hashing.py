"""Hashes that name what something was made of."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson


def canonical_hash(value: Any) -> str:
    """Return the sha256 of a JSON value, the same for every order of its keys."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()
