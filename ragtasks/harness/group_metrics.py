"""The metrics of a group of harness tasks, one list a suite: `!function ragtasks.harness.group_metrics.mtrag` in YAML.

The harness makes groups itself and asks no class of ours, but it takes from a module whatever a YAML names. So a list
that it reads is filled from the suite's declarations, the one place where a metric is named.
"""

from __future__ import annotations

from typing import Any

from ragtasks.errors import ConfigurationError
from ragtasks.suites import suite_named


def __getattr__(suite: str) -> list[dict[str, Any]]:
    """Return the `aggregate_metric_list` of a group whose tasks are scored by a suite."""
    try:
        metrics = suite_named(suite.replace("_agentic", "+agentic")).metrics
    except ConfigurationError as error:
        raise AttributeError(str(error)) from error  # what `hasattr` and the harness's loader understand
    shown = [metric.name for metric in metrics if metric.in_groups]
    return [{"metric": name, "aggregation": "mean", "weight_by_size": True} for name in shown]


__all__: list[str] = []
