"""What an answer's words say of it beside its scores: how much its passages hold, how much is copied, what it cites."""

from __future__ import annotations

from collections.abc import Sequence

from ragtasks.metrics import CITED_PRECISION, CITED_RECALL, COPIED, GROUNDED, Metric, Scores, copied, ground, grounded
from ragtasks.records import Response, Score
from ragtasks.suites._suite import ScoringInputs, Suite, SuiteMetric, extended


def diagnosed(suite: Suite) -> Suite:
    """Return a suite with `grounded` and `copied` behind its metrics; they rank nobody."""
    return extended(suite, (GROUNDED, COPIED), _diagnoses, official_rubrics=suite.official_rubrics)


def _diagnoses(inputs: ScoringInputs) -> list[Scores]:
    return [_diagnosis(response) for response in inputs.responses]


def _diagnosis(response: Response) -> Scores:
    share = grounded(response.text, response.passages, response.task.question)
    if share is None:
        missing = Score(None, "the answer has no content words" if response.passages else "no passages")
        return {GROUNDED.name: missing, COPIED.name: missing}
    runs = copied(response.text, [passage.text for passage in response.passages])
    return {GROUNDED.name: Score(share), COPIED.name: Score(runs)}


def supported_by_words(response: Response) -> Scores:
    """Return precision and recall of an answer's citations by the words of what they cite."""
    found = ground(response.text, response.passages, [response.task.question])
    why = "no sentence cites" if found.sentences else "the answer has no sentence"
    values = {CITED_PRECISION.name: found.citation_precision, CITED_RECALL.name: found.citation_recall}
    return {name: Score(value, "" if value is not None else why) for name, value in values.items()}


def _by_name(metric: Metric) -> SuiteMetric:
    def score(inputs: ScoringInputs) -> Sequence[Score]:
        return [supported_by_words(response)[metric.name] for response in inputs.responses]

    return SuiteMetric(metric, score)


CITED_PRECISION_BY_NAME, CITED_RECALL_BY_NAME = _by_name(CITED_PRECISION), _by_name(CITED_RECALL)
