"""What InspectorRAGet does with a file, from the written facts about its format alone: migrate, refuse, drop.

It is kept apart from the code that writes such files, so that a wrong reading of the format shows as a difference.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

TASK_TYPES = {"qa", "generation", "rag", "tool_calling", "agentic"}
_MIGRATED_TYPES = {"text_generation": "generation", "json_generation": "generation", "chat": "rag"}


def migrated(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file of version 1 as one of version 2."""
    new = copy.deepcopy(dict(found))
    for task in new["tasks"]:
        has_roles = isinstance(task["input"], list) and "role" in task["input"][0]
        old = task["task_type"]
        task["task_type"] = ("rag" if has_roles else "qa") if old == "rag" else _MIGRATED_TYPES.get(old, old)
        task["targets"] = [{"type": "text", "value": target["text"]} for target in task.get("targets", [])]
    new["results"] = new.pop("evaluations")
    for result in new["results"]:
        result["scores"] = result.pop("annotations")
        result["output"] = [{"role": "assistant", "content": result.pop("model_response")}]
    return {**new, "schema_version": 2}


def refusals(found: Mapping[str, Any]) -> list[str]:
    """Return why the viewer would not open a file of version 2; empty where it would."""
    missing = [f"no {key}" for key in ("models", "metrics", "tasks", "results") if key not in found]
    if missing:
        return missing
    problems = [f"model {item}" for item in found["models"] if not {"model_id", "name", "owner"} <= item.keys()]
    problems += [f"metric {item}" for item in found["metrics"] if not _is_metric(item)]
    problems += [f"task {item}" for item in found["tasks"] if not _is_task(item)]
    problems += [f"document {item}" for item in found.get("documents", ()) if "document_id" not in item]
    if any(task.get("task_type") == "qa" for task in found["tasks"]) and "documents" not in found:
        problems.append("no documents")
    return problems


def _is_metric(item: Mapping[str, Any]) -> bool:
    if not {"name", "author", "type"} <= item.keys() or item["author"] not in {"algorithm", "human"}:
        return False
    values = item.get("values", [])
    if any(type(value.get("value")) not in {str, int, float} for value in values):
        return False
    if item["type"] == "categorical":
        return bool(values) and all(isinstance(value.get("numeric_value"), int | float) for value in values)
    return item["type"] == "text" or (item["type"] == "numerical" and item.get("aggregator") != "majority")


def _is_task(item: Mapping[str, Any]) -> bool:
    if not {"task_id", "task_type", "input"} <= item.keys() or item["task_type"] not in TASK_TYPES:
        return False
    return item["task_type"] != "qa" or "contexts" in item


def dropped(found: Mapping[str, Any]) -> list[str]:
    """Return the ids of the tasks that the viewer would take away from every model without a word."""
    by_cell = {(result["task_id"], result["model_id"]): result for result in found["results"]}
    metrics = [metric["name"] for metric in found["metrics"] if metric["type"] != "text"]
    models = [model["model_id"] for model in found["models"]]
    return [
        task["task_id"]
        for task in found["tasks"]
        if not all(_is_whole(by_cell.get((task["task_id"], model)), metrics) for model in models)
    ]


def _is_whole(result: Mapping[str, Any] | None, metrics: list[str]) -> bool:
    if result is None:
        return False
    scores = [result["scores"].get(name) for name in metrics]
    return all(own and all("value" in annotation for annotation in own.values()) for own in scores)
