"""Suites: the metrics that score a kind of benchmark, declared once and found by the suite's name."""

from ragtasks.suites._suite import (
    AGENTIC,
    ScoringInputs,
    Suite,
    SuiteMetric,
    added_metric_names,
    suite_named,
    suite_with,
    without_agentic,
)

__all__ = [
    "AGENTIC",
    "ScoringInputs",
    "Suite",
    "SuiteMetric",
    "added_metric_names",
    "suite_named",
    "suite_with",
    "without_agentic",
]
