"""Rows and metrics of the local tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets


def local_rows(file: str, **_metadata: Any) -> dict[str, datasets.Dataset]:
    """Return the rows of a file in this folder as the split `test`."""
    text = (Path(__file__).parent / file).read_text(encoding="utf-8")
    return {"test": datasets.Dataset.from_list(json.loads(text))}


def pass_at(references: list[str], predictions: list[list[str]]) -> dict[str, float]:
    """Return the share of right answers among all attempts, and whether any attempt is right."""
    right = [attempt.endswith(f"#### {references[0]}") for attempt in predictions[0]]
    return {"pass@1": sum(right) / len(right), "pass@5": float(any(right))}


def length_statistics(doc: dict[str, Any], results: list[str]) -> dict[str, Any]:
    """Return metrics of other types: a text's length, a truth value, a list, and a number that some documents lack."""
    (answer,) = results
    values: dict[str, Any] = {"n_letters": len(answer), "ends": answer.endswith("."), "middle": len(answer)}
    values["words"] = [word.isalpha() for word in answer.split()]
    return values if len(doc["question"]) % 5 else values | {"rare": 0.25 * len(answer)}


def mean_of_lists(items: list[list[bool]]) -> float:
    """Return the mean of all values in lists, as IFEval does for instructions."""
    values = [value for item in items for value in item]
    return sum(values) / len(values)
