"""Suites: the metrics that score a kind of benchmark, declared once and found by the suite's name."""

from ragtasks.suites._added import SuiteMetric
from ragtasks.suites._registry import added_metric_names, suite_named, suite_with
from ragtasks.suites._suite import ScoringInputs, Suite
from ragtasks.suites._trec_rag24 import judged_scores
from ragtasks.suites._trec_rag25 import judged_part_scores

__all__ = [
    "ScoringInputs",
    "Suite",
    "SuiteMetric",
    "added_metric_names",
    "judged_part_scores",
    "judged_scores",
    "suite_named",
    "suite_with",
]
