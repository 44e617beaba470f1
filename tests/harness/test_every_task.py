"""Every generation task runs on its sample with a harness command."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from tests.harness.test_yamls import load_tasks, metrics_of


@pytest.fixture(scope="module")
def results(evaluate: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    return evaluate("ragtasks-oracle", *load_tasks(), limit=2)


@pytest.mark.parametrize("name", load_tasks())
def test_a_task_runs_and_is_marked_as_sample(name: str, results: dict[str, Any]) -> None:
    row = results["results"][name]
    scores = {
        key.split(",")[0]: value for key, value in row.items() if key.endswith(",sample") and "_stderr" not in key
    }
    expected = {metric.name for metric in metrics_of(name) if not metric.needs_judges}
    assert scores.keys() == expected
    numbers = [value for value in scores.values() if isinstance(value, (int, float)) and not math.isnan(value)]
    assert numbers, "nothing at all was scored"
    assert len(results["samples"][name]) == 2
