"""Suites: the metrics for a type of benchmark, looked up by name."""

from ragtasks.suites._suite import (
    AGENTIC,
    FOLLOWED,
    ScoringInputs,
    Suite,
    SuiteMetric,
    added_metric_names,
    extended,
    known_metric_names,
    requested_metrics,
    suite_named,
    suite_with,
    without_agentic,
)

__all__ = [
    "AGENTIC",
    "FOLLOWED",
    "ScoringInputs",
    "Suite",
    "SuiteMetric",
    "added_metric_names",
    "extended",
    "known_metric_names",
    "requested_metrics",
    "suite_named",
    "suite_with",
    "without_agentic",
]
