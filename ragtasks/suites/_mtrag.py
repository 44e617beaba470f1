"""The suites of MTRAG and MTRAG-S.

MTRAG has RB_alg, RB_llm, RL_F and answerability accuracy, conditioned on refusals (paper, section 6.3).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ragtasks.benchmarks import Benchmark
from ragtasks.errors import MissingExtraError
from ragtasks.judges import CLARIFICATION, IDK, RB_LLM, RL_F, Rubric, VerdictOutcome, Verdicts, rubrics_named
from ragtasks.judges.official import IBM, official_rubrics, ragas_rl_f, unjudged_rl_f
from ragtasks.metrics import (
    METRICS,
    IbmJudged,
    IdkLabel,
    Judged,
    Metric,
    Scores,
    SemanticScore,
    bert_scores,
    condition_paper,
    ibm_visible_answerability,
    idk_and_empty,
    score_responses,
)
from ragtasks.records import Answerability, IdkVerdict, Response, Score
from ragtasks.suites._added_metrics import diagnosed
from ragtasks.suites._suite import ScoringInputs, Suite

_LOGGER = logging.getLogger(__name__)

RUBRICS = (RB_LLM, RL_F, IDK, CLARIFICATION)


def score(inputs: ScoringInputs) -> list[Scores]:
    """Return the scores of each response, in order."""
    key = inputs.benchmark.answerability_key
    return score_responses(
        inputs.responses,
        inputs.labels,
        inputs.semantics,
        ibm_answerability=[
            ibm_visible_answerability(response.task.answerability, key) for response in inputs.responses
        ],
        judged=judged(inputs.verdicts) if inputs.verdicts else None,
    )


def judged(verdicts: Verdicts) -> Judged:
    """Return the judged inputs of the metrics."""
    indexes = range(len(verdicts.responses))
    names = [name for name in verdicts.rubrics if not name.endswith(IBM)]  # the IBM rubrics read the same replies again
    return Judged(
        verdicts.scores(RB_LLM),
        verdicts.scores(RL_F),
        verdicts.clarifications() if CLARIFICATION in verdicts.rubrics else [None for _ in indexes],
        [verdicts.share_answered(index, names) for index in indexes],
        [_ibm_judged(verdicts, index) for index in indexes] if RB_LLM + IBM in verdicts.rubrics else None,
        is_rl_f_asked=any(
            verdict.rubric == RL_F and verdict.outcome is not VerdictOutcome.NOT_ASKED for verdict in verdicts.all()
        ),
    )


def _ibm_judged(verdicts: Verdicts, index: int) -> IbmJudged:
    """Return the inputs of the official (IBM) scores for one response.

    The official scripts have one judge. With several judges, the score is their median. An IDK median other than 1 or 0
    is partial.
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
    """Return the official rubrics: those of the downloaded repository, and RL_F of ragas.

    The clarification rubric is used only if the benchmark has underspecified tasks. Without ragas, RL_F is unscored: a
    warning is logged and every response has the reason.
    """
    asks_back = any(task.answerability is Answerability.UNDERSPECIFIED for task in benchmark.tasks)
    names = [RB_LLM, IDK, *([CLARIFICATION] if asks_back else [])]
    rubrics = official_rubrics(benchmark.root, names)
    try:
        return [*rubrics, ragas_rl_f()]
    except MissingExtraError as error:
        _LOGGER.warning("rl_f and rl_f_ibm will be unscored; the other official prompts are used. %s", error)
        return [*rubrics, unjudged_rl_f(str(error))]


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


# MTRAG-S: scores of an answer without a reference (MTRAG paper, section 9 and Table 14).
#
# The paper reports unconditioned RL_F and Bert-K-Precision, because nearly every question is answerable from its
# passages. `rl_f_raw` is that score. `rl_f` is conditioned on refusals, as in MTRAG's tables.


_SHARED = {metric.name: metric for metric in METRICS}

MTRAG_S_METRICS = ("bert_k_precision", "rl_f_raw", "rl_f", "idk_yes", "empty", "coverage", "judge_coverage")
_COVERAGE = {"coverage": Metric("coverage", "share of responses whose bert_k_precision is scored")}


def mtrag_s_scores(inputs: ScoringInputs) -> list[Scores]:
    """Return the scores of each response, in order. Judged scores require verdicts."""
    scores = [_plain(*answer, inputs.semantics.reason) for answer in inputs.answers()]
    if inputs.verdicts is None:
        return scores
    shares = inputs.verdicts.scores(RL_F)
    return [
        {
            **own,
            "rl_f_raw": share,
            "rl_f": condition_paper(share, response.task.answerability, label.verdict),
            "judge_coverage": Score(inputs.verdicts.share_answered(index)),
        }
        for index, (own, share, response, label) in enumerate(
            zip(scores, shares, inputs.responses, inputs.labels, strict=True)
        )
    ]


def _plain(response: Response, label: IdkLabel, semantic: SemanticScore | None, reason: str) -> Scores:
    precision = bert_scores(semantic, reason)["bert_k_precision"]
    return {
        "bert_k_precision": precision,
        **idk_and_empty(response, label),
        "coverage": Score(float(precision.value is not None)),
    }


MTRAG_S = diagnosed(
    Suite(
        metrics=tuple(_COVERAGE.get(name) or _SHARED[name] for name in MTRAG_S_METRICS),
        score=mtrag_s_scores,
        rubrics=lambda: rubrics_named([RL_F, IDK]),
        uses_encoder=True,
    )
)
