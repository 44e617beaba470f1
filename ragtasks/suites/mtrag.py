"""MTRAG's suite: RB_alg, RB_llm, RL_F and answerability accuracy, conditioned on refusals (paper, section 6.3)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from ragtasks.judges.faithfulness import RL_F
from ragtasks.judges.official_prompts import official_rubrics
from ragtasks.judges.question import Rubric
from ragtasks.judges.ragas_faithfulness import ragas_rl_f
from ragtasks.judges.rubrics import RB_LLM, rubrics_named
from ragtasks.judges.verdicts import CLARIFICATION, IDK, Verdicts
from ragtasks.metrics.answers import METRICS, Judged, score_responses
from ragtasks.metrics.conditioning import ibm_visible_answerability
from ragtasks.metrics.metric import Scores
from ragtasks.suites.suite import Evidence, Suite

RUBRICS = (RB_LLM, RL_F, IDK, CLARIFICATION)
"""What judges are asked."""


def score(evidence: Evidence) -> list[Scores]:
    """Return the scores of each response, in order."""
    key = evidence.benchmark.answerability_key
    return score_responses(
        evidence.responses,
        evidence.labels,
        evidence.semantics,
        ibm_answerability=[ibm_visible_answerability(item.task.answerability, key) for item in evidence.responses],
        judged=judged(evidence.verdicts) if evidence.verdicts else None,
    )


def judged(verdicts: Verdicts) -> Judged:
    """Return the figures that the metrics take."""
    shares = [verdicts.share_answered(index) for index in range(len(verdicts.responses))]
    return Judged(verdicts.scores(RB_LLM), verdicts.scores(RL_F), verdicts.clarifications(), shares)


def official(root: Path) -> Sequence[Rubric]:
    """Return the rubrics in the official words: the fetched checkout's, and those of ragas for RL_F where it is there.

    Raises:
        ConfigurationError: the official scripts are not in the folder.
        MissingExtraError: ragas is there, but not with libraries that it can be imported with.
    """
    rl_f = ragas_rl_f() if find_spec("ragas") else rubrics_named([RL_F])[0]
    return [*official_rubrics(root, [RB_LLM, IDK, CLARIFICATION], profile="paper"), rl_f]


SUITE = Suite(
    metrics=METRICS, score=score, rubrics=lambda: rubrics_named(RUBRICS), official_rubrics=official, uses_encoder=True
)
"""What MTRAG and its kin are scored with."""

__all__ = ["RUBRICS", "SUITE", "judged", "official", "score"]
