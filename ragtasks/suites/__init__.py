"""What each kind of benchmark is scored with: one module a suite, found by its name."""

from ragtasks.suites._suite import ScoringInputs, Suite, suite_named
from ragtasks.suites._trec_rag24 import judged_scores

__all__ = [
    "ScoringInputs",
    "Suite",
    "judged_scores",
    "suite_named",
]
