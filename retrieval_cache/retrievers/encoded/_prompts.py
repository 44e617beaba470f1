"""What encoders were trained to read before a query and before a passage."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_BGE_QUERY = "Represent this sentence for searching relevant passages: "
_KNOWN_PROMPTS = (
    # The BGE and E5 model cards give these; the models' own configuration files do not.
    (re.compile(r"bge-(small|base|large)-en(-v1\.5)?"), (_BGE_QUERY, "")),
    (re.compile(r"(multilingual-)?e5-(small|base|large)(-v2)?"), ("query: ", "passage: ")),
)


def default_prompts(model: str, configured: Mapping[str, str]) -> tuple[str, str]:
    """Return (query prompt, passage prompt) of an encoder: known by its name, else from its configuration, else empty.

    Args:
        model: name or folder; the last part of it is looked at.
        configured: prompts by name, from the model's configuration.
    """
    last = Path(model).name.lower()
    for pattern, prompts in _KNOWN_PROMPTS:
        if pattern.fullmatch(last):
            return prompts
    passage_names = ("document", "passage", "corpus")
    return configured.get("query", ""), next((configured[name] for name in passage_names if configured.get(name)), "")


__all__ = ["default_prompts"]
