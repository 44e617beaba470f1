"""The files of the MultiDoc2Dial shared task: an array of `id` with `utterance`, `grounding`, or (references) both.

An id is `<dialogue>_<turn>` as in the official preparation: `extra["official_id"]` of a task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import orjson

from ragtasks.errors import ConfigurationError
from ragtasks.files import Problems, parse_json, read_content
from ragtasks.records import Answerability, Task

FIELDS = ("utterance", "grounding")
"""The two subtasks: the agent's next utterance, and the text of the document that supports it."""


def read_shared_task(path: Path, field: str) -> dict[str, str]:
    """Return id -> text of a field, in file order.

    Raises:
        BenchmarkFileError: the file is missing or not an array, or an entry misses the field or is repeated.
        ConfigurationError: unknown field.
    """
    if field not in FIELDS:
        raise ConfigurationError(f"unknown field {field!r}: one of {', '.join(FIELDS)}")
    problems = Problems(path, "shared task file", "write it again with one object an answer")
    try:
        rows = parse_json(read_content(problems))
    except ValueError as error:
        rows = str(error)
    texts: dict[str, str] = {}
    if not isinstance(rows, list) or not rows:
        problems.add(0, "an array with at least one object", rows)
    for number, row in enumerate(rows if isinstance(rows, list) else [], start=1):
        name, text = (row.get("id"), row.get(field)) if isinstance(row, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(text, str) or name in texts:
            problems.add(0, f"entry {number} with `id`, each once, and `{field}`", row)
        else:
            texts[name] = text
    problems.raise_if_any()
    return texts


def write_references(tasks: Iterable[Task]) -> bytes:
    """Return a reference file of the shared task: every answerable task with utterance and grounding."""
    rows = [
        {"id": task.extra["official_id"], "utterance": task.target, "grounding": task.extra["grounding"]}
        for task in tasks
        if task.answerability is Answerability.ANSWERABLE
    ]
    return orjson.dumps(rows, option=orjson.OPT_INDENT_2)


def paired(references: Mapping[str, str], predictions: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return (prediction, reference) for each reference, by id.

    Raises:
        ConfigurationError: the ids differ. (The official script checks only the counts, and pairs by position for every
            metric but F1.)
    """
    missing, unknown = references.keys() - predictions.keys(), predictions.keys() - references.keys()
    if missing or unknown:
        shown = ", ".join(sorted(missing | unknown)[:3])
        raise ConfigurationError(
            f"predictions: {len(missing)} ids are missing and {len(unknown)} are unknown, such as {shown}\n"
            "  next step: answer every id of the reference file, and no other"
        )
    return [(predictions[name], text) for name, text in references.items()]


__all__ = ["FIELDS", "paired", "read_shared_task", "write_references"]
