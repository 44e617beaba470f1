"""The suite of TREC RAG 2025: that of 2024, and how evenly an answer covers the parts of its narrative."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ragtasks.benchmarks.trec_rag import Grade
from ragtasks.judges import NUGGET_ASSIGNMENT, Verdict, Verdicts, nuggets_of
from ragtasks.metrics import SUB_NARRATIVE_SCORES, Metric, Scores, sub_narrative_scores
from ragtasks.records import Response, Score
from ragtasks.suites import _trec_rag24
from ragtasks.suites._suite import ScoringInputs, Suite

METRICS = (
    *_trec_rag24.METRICS,
    Metric("sub_narrative_score", "mean over the narrative's parts of their nuggets' all_score", needs_judges=True),
    Metric("sub_narratives_answered", "share of the parts with a nugget stated in full", needs_judges=True),
)
"""Every metric, in the order of the harness's table."""


def score(inputs: ScoringInputs) -> list[Scores]:
    """Return the scores of each response, in order; without verdicts, those that need none."""
    scores, verdicts = _trec_rag24.score(inputs), inputs.verdicts
    if verdicts is None:
        return scores
    return [{**own, **judged_part_scores(verdicts, index)} for index, own in enumerate(scores)]


def judged_part_scores(verdicts: Verdicts, index: int) -> Scores:
    """Return the scores of one response over the parts of its narrative: medians over the judges that gave one.

    Args:
        verdicts: under the rubric of nuggets.
        index: place of the response among theirs.
    """
    return _trec_rag24.over_judges(verdicts, index, NUGGET_ASSIGNMENT, SUB_NARRATIVE_SCORES, _over_parts)


def _over_parts(verdict: Verdict, response: Response) -> Mapping[str, Score]:
    """Return one judge's scores over the parts, without values where it gave no verdict."""
    if verdict.label is None:
        return dict.fromkeys(SUB_NARRATIVE_SCORES, Score(None, f"{verdict.judge}: {verdict.reason}"))
    return sub_narrative_scores(nuggets_of(response.task), [Grade(label) for label in json.loads(verdict.label)])


SUITE = Suite(metrics=METRICS, score=score, rubrics=_trec_rag24.rubrics, uses_encoder=False)
"""What TREC RAG 2025 is scored with."""

__all__ = ["METRICS", "SUITE", "judged_part_scores", "score"]
