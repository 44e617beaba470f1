"""A metric that is added to an existing suite: a function with its declaration."""

from __future__ import annotations

from ragtasks.metrics import Metric
from ragtasks.records import Score
from ragtasks.suites import ScoringInputs, SuiteMetric


def asks_back(inputs: ScoringInputs) -> list[Score]:
    """Return 1 for each response that ends in a question, else 0."""
    return [Score(float(response.text.rstrip().endswith("?"))) for response in inputs.responses]


ASKS_BACK = SuiteMetric(
    Metric("asks_back", "share of responses that end in a question", higher_is_better=None), asks_back
)
