"""The official rules, implemented again from their description: rejections and ranking."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

LIMIT = 20 * 2**20
REQUIRED = {
    "A": {"task_id": str, "Collection": str, "contexts": list},
    "B": {"task_id": str, "input": list, "contexts": list, "predictions": list},
    "C": {"task_id": str, "Collection": str, "input": list, "contexts": list, "predictions": list},
}


def rejections(content: bytes, mode: str, input_ids: list[str], name: str = "file.jsonl") -> list[str]:
    """Return the problems at which the official checker rejects a file or stops; [] for an accepted file."""
    problems = [] if name.endswith(".jsonl") else ["name"]
    problems += ["size"] if len(content) > LIMIT else []
    ids: list[str] = []
    try:
        for line in io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"):
            if line.strip():
                problems += _row(line.strip(), mode, ids)
    except (ValueError, AttributeError, RecursionError) as error:
        return [*problems, f"stopped: {error!r}"]
    problems += ["number of tasks"] if len(ids) != len(input_ids) else []
    return problems + [f"task {task_id}" for task_id in set(ids) ^ set(input_ids)]


def _row(line: str, mode: str, ids: list[str]) -> list[str]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError:
        return ["json"]
    if isinstance(row.get("task_id"), str):
        ids.append(row["task_id"])
    problems = [name for name, field_type in REQUIRED[mode].items() if not isinstance(row.get(name), field_type)]
    contexts = row.get("contexts")
    if isinstance(contexts, list):
        problems += ["more than ten"] if len(contexts) > 10 else []
        problems += [f"context {context!r}" for context in contexts if not _is_context(context)]
    answers = row.get("predictions") if mode != "A" else []
    if isinstance(answers, list):
        problems += [
            f"prediction {a!r}" for a in answers if not (isinstance(a, dict) and isinstance(a.get("text"), str))
        ]
    return problems


def _is_context(context: Any) -> bool:
    if not isinstance(context, dict) or not isinstance(context.get("document_id"), str):
        return False
    return isinstance(context.get("score"), (int, float))


def ranking(row: Mapping[str, Any]) -> list[str]:
    """Return the document ids of a row as the official evaluation orders them: 32-bit score, then id, descending."""
    scores = {context["document_id"]: np.float32(context["score"]) for context in row["contexts"]}
    return sorted(scores, key=lambda document_id: (scores[document_id], document_id), reverse=True)
