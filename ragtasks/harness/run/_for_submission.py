"""`ragtasks run --for-submission B`: what MTRAGEval wants answered, asked for before the model runs.

A submission answers every task, also the conversational ones that the paper leaves out of its scores, and it is made
of logged samples. An evaluation without them costs a second run of the model.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ragtasks.errors import ConfigurationError

OPTION = "--for-submission"
_TASKS = {"B": "mtrag_reference", "C": "mtrag_full_rag"}


def submission_arguments(arguments: Sequence[str]) -> list[str]:
    """Return arguments of the harness in which the option for a submission has its meaning; others as they are.

    It asks for the tasks of MTRAG's setting where none are named, for conversational ones, and for logged samples.

    Raises:
        ConfigurationError: another task than B and C, no output folder, or metadata that say otherwise.
    """
    given = [part for text in arguments for part in (text.split("=", 1) if text.startswith("--") else [text])]
    if OPTION not in given:
        return list(arguments)
    value, own = _taken(given, OPTION)
    task = (value or "").upper()
    if task not in _TASKS:
        raise ConfigurationError(f"{OPTION} {value or ''}: expected B (reference passages) or C (full RAG)")
    if "--output_path" not in own and "-o" not in own:
        raise ConfigurationError(f"{OPTION} {task} needs --output_path DIR, which `ragtasks submit` reads")
    if "--tasks" not in own and "-t" not in own:
        own += ["--tasks", _TASKS[task]]
    if "--log_samples" not in own and "-s" not in own:
        own.append("--log_samples")
    text, own = _taken(own, "--metadata") if "--metadata" in own else ("{}", own)
    return [*own, "--metadata", json.dumps(_with_conversational(text or ""))]


def _taken(given: Sequence[str], option: str) -> tuple[str | None, list[str]]:
    """Return what follows an option, and the rest."""
    place = list(given).index(option)
    value = given[place + 1] if place + 1 < len(given) else None
    return value, [*given[:place], *given[place + 2 :]]


def _with_conversational(text: str) -> dict[str, object]:
    try:
        metadata = json.loads(text)
    except ValueError:
        metadata = None
    if not isinstance(metadata, dict):
        raise ConfigurationError(f"{OPTION}: --metadata must be a JSON object, found {text[:80]!r}")
    if metadata.get("conversational") is False:
        raise ConfigurationError(f'{OPTION}: take "conversational": false out of --metadata: every task is handed in')
    return {**metadata, "conversational": True}


__all__ = ["OPTION", "submission_arguments"]
