"""Metric lists of groups of harness tasks, one per suite.

A YAML uses them as `!function ragtasks.harness.group_metrics.mtrag`. The harness builds groups without calling a class
of ragtasks, but it imports any name of a module that a YAML contains. The name of each suite is therefore an attribute
of this module, a list built from the metrics that the suite declares.
"""

from __future__ import annotations

from typing import Any

from ragtasks.errors import ConfigurationError
from ragtasks.suites import suite_named


def __getattr__(suite: str) -> list[dict[str, Any]]:
    """Return the `aggregate_metric_list` of a group of tasks with this suite."""
    try:
        metrics = suite_named(suite.replace("_agentic", "+agentic")).metrics
    except ConfigurationError as error:
        raise AttributeError(str(error)) from error  # the error that `hasattr` and the harness's loader expect
    names = [metric.name for metric in metrics if metric.in_groups]
    return [{"metric": name, "aggregation": "mean", "weight_by_size": True} for name in names]


__all__: list[str] = []
