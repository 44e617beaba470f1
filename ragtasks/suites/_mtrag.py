"""MTRAG's suite: RB_alg, RB_llm, RL_F and answerability accuracy, conditioned on refusals (paper, section 6.3)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ragtasks.benchmarks import Benchmark
from ragtasks.errors import MissingExtraError
from ragtasks.judges import CLARIFICATION, IDK, RB_LLM, RL_F, Rubric, VerdictOutcome, Verdicts, rubrics_named
from ragtasks.judges.official import IBM, official_rubrics, ragas_rl_f, unjudged_rl_f
from ragtasks.metrics import METRICS, IbmJudged, Judged, Scores, ibm_visible_answerability, score_responses
from ragtasks.records import Answerability, IdkVerdict
from ragtasks.suites._diagnosis import diagnosed
from ragtasks.suites._suite import ScoringInputs, Suite

_LOGGER = logging.getLogger(__name__)

RUBRICS = (RB_LLM, RL_F, IDK, CLARIFICATION)
"""What judges are asked."""


def score(inputs: ScoringInputs) -> list[Scores]:
    """Return the scores of each response, in order."""
    key = inputs.benchmark.answerability_key
    return score_responses(
        inputs.responses,
        inputs.labels,
        inputs.semantics,
        ibm_answerability=[ibm_visible_answerability(item.task.answerability, key) for item in inputs.responses],
        judged=judged(inputs.verdicts) if inputs.verdicts else None,
    )


def judged(verdicts: Verdicts) -> Judged:
    """Return the scores that the metrics take."""
    indexes = range(len(verdicts.responses))
    names = [name for name in verdicts.rubrics if not name.endswith(IBM)]  # the others read the same replies again
    return Judged(
        verdicts.scores(RB_LLM),
        verdicts.scores(RL_F),
        verdicts.clarifications() if CLARIFICATION in verdicts.rubrics else [None for _ in indexes],
        [verdicts.share_answered(index, names) for index in indexes],
        [_ibm_judged(verdicts, index) for index in indexes] if RB_LLM + IBM in verdicts.rubrics else None,
        is_rl_f_asked=any(
            item.rubric == RL_F and item.outcome is not VerdictOutcome.NOT_ASKED for item in verdicts.all()
        ),
    )


def _ibm_judged(verdicts: Verdicts, index: int) -> IbmJudged:
    """Return what the official scripts make of the replies on one response.

    They have one judge. Of several the median counts; an IDK median that is neither 1 nor 0 is partial.
    """
    conditions = [name for name in (IDK + IBM, CLARIFICATION + IBM) if name in verdicts.rubrics]
    missing = [verdicts.score(index, name).reason for name in conditions if not verdicts.is_answered(index, name)]
    idk = verdicts.score(index, IDK + IBM).value
    labels = {None: None, 1.0: IdkVerdict.YES, 0.0: IdkVerdict.NO}
    return IbmJudged(
        rb_llm=verdicts.score(index, RB_LLM + IBM),
        rl_f=verdicts.score(index, RL_F),
        idk=labels.get(idk, IdkVerdict.PARTIAL),
        clarification=CLARIFICATION + IBM in conditions and verdicts.score(index, CLARIFICATION + IBM).value == 1.0,
        missing="; ".join(missing),
    )


def official(benchmark: Benchmark) -> Sequence[Rubric]:
    """Return the rubrics in the official words: the fetched checkout's, and those of ragas for RL_F.

    Whether a response asks what is meant is a question only where the benchmark has underspecified tasks. Without ragas
    RL_F alone is not asked, which a warning says now and its reason on every response.
    """
    asks_back = any(task.answerability is Answerability.UNDERSPECIFIED for task in benchmark.tasks)
    names = [RB_LLM, IDK, *([CLARIFICATION] if asks_back else [])]
    others = official_rubrics(benchmark.root, names)
    try:
        return [*others, ragas_rl_f()]
    except MissingExtraError as error:
        _LOGGER.warning("rl_f and rl_f_ibm will be unscored; the other official prompts are asked. %s", error)
        return [*others, unjudged_rl_f(str(error))]


SUITE = diagnosed(
    Suite(
        metrics=METRICS,
        score=score,
        rubrics=lambda: rubrics_named(RUBRICS),
        official_rubrics=official,
        settled=(RB_LLM, RL_F),
        uses_encoder=True,
    )
)
"""What MTRAG and its kin are scored with."""
