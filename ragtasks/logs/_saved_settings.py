"""Which settings of a results file are used where nobody asked for them: the one list, an explicit one.

Results come from other people, and what a file says is data. A judge that it names would be sent the user's key; an
encoder, a template, a retriever or a data folder that it names would be loaded or read. So a setting is taken from the
user's own command line or environment, unless it stands here with the reason why nobody can do harm by it. The others
are shown, so that the user can name them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from ragtasks.config import DEFAULT_ENCODER, NO_ENCODER, SAMPLE_ENCODER, EvaluationConfig
from ragtasks.suites import added_metric_names

HARMLESS: Mapping[str, Callable[[Any], bool]] = {
    # The sample lies inside the package. A folder is the user's to name; else the data folder is searched.
    "data": lambda value: value == "sample",
    # What is loaded anyway where nothing is named, or nothing at all. Any other name makes transformers open a folder
    # or ask a hub.
    "encoder": lambda value: value in (NO_ENCODER, SAMPLE_ENCODER, DEFAULT_ENCODER),
    # Rules and weights of this package. Judges decide only where the user names some, and do so without this.
    "idk": lambda value: value in ("rules", "encoder"),
    # Wordings that the package has, or that lie in the user's own data folder; they are sent to the user's judges only.
    "prompts": lambda value: value in ("ours", "official"),
    # What the user has installed.
    "metrics": lambda value: isinstance(value, list) and all(name in added_metric_names() for name in value),
}
"""Setting -> whether a value of it may be used unasked. Of every other setting, no value may."""

RECORDED = (
    *("run", "conversational", "system_prompt", "plain_prompt", "max_words", "end_of_thinking"),
    *("system_role", "too_long", "context_tokens"),
    *("best_of", "picker"),
    *("queries", "rewriter"),
)
"""How the answers were made: scoring them again opens and uses none of it, and the new results say it as the old do."""

_DEFAULTS: Mapping[str, Any] = json.loads(EvaluationConfig().model_dump_json())
_LONGEST_SHOWN = 400


def harmless(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a file that are used unasked."""
    return {key: saved[key] for key, allows in HARMLESS.items() if key in saved and allows(saved[key])}


def unused(saved: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a file that would change the scoring, and are not used as nobody asked for them.

    Args:
        saved: the configuration in the file; it may hold anything.
        given: what the user named.
    """
    kept = harmless(saved)
    return {
        key: saved[key]
        for key, default in _DEFAULTS.items()
        if key in saved and key not in RECORDED and key not in given and key not in kept and saved[key] != default
    }


def recorded(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a file says of how its answers were made."""
    return {key: saved[key] for key in RECORDED if key in saved}


def say_unused(settings: Mapping[str, Any]) -> str:
    """Return one line on settings that are not used, safe to print, with what would use them."""
    # In ASCII: what a file holds could else move the cursor, or look like another name.
    text = json.dumps(dict(settings))
    shown = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}... ({len(text)} characters)"
    who = "judged" if "judges" in settings else "scored"
    return f"was {who} by {shown}, which is not used; name them with --metadata to use them"


__all__ = ["HARMLESS", "RECORDED", "harmless", "recorded", "say_unused", "unused"]
