"""MTRAG-S's suite: scores of an answer without a reference (MTRAG paper, section 9 and Table 14).

The paper reports RL_F and Bert-K-Precision as they are: nearly every question has an answer in its passages, so its
scores are not conditioned on refusals. `rl_f_raw` is that score; `rl_f` is the conditioned one, as in MTRAG's tables.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragtasks.judges import IDK, RL_F, Rubric, rubrics_named
from ragtasks.metrics import METRICS, NO_VERDICT, IdkLabel, Metric, Scores, SemanticScore, condition_paper
from ragtasks.records import IdkVerdict, Response, Score
from ragtasks.suites._diagnosis import diagnosed
from ragtasks.suites._suite import ScoringInputs, Suite

_SHARED = {metric.name: metric for metric in METRICS}

METRIC_NAMES = ("bert_k_precision", "rl_f_raw", "rl_f", "idk_yes", "empty", "coverage", "judge_coverage")
_COVERAGE = {"coverage": Metric("coverage", "share of responses whose bert_k_precision is scored")}


def score(inputs: ScoringInputs) -> list[Scores]:
    """Return the scores of each response, in order; what judges decide only where there are verdicts."""
    found: Sequence[SemanticScore | None] = inputs.semantics.scores or [None] * len(inputs.responses)
    scores = [
        _plain(response, label, semantic, inputs.semantics.reason)
        for response, label, semantic in zip(inputs.responses, inputs.labels, found, strict=True)
    ]
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
    """Return the metrics of one response that need no judge."""
    precision = _bert_k_precision(semantic, reason)
    verdict = label.verdict
    idk_yes = (
        Score(None, f"{NO_VERDICT}: {label.reason}") if verdict is None else Score(float(verdict is IdkVerdict.YES))
    )
    return {
        "bert_k_precision": precision,
        "idk_yes": idk_yes,
        "empty": Score(float(not response.text.strip())),
        "coverage": Score(float(precision.value is not None)),
    }


def _bert_k_precision(semantic: SemanticScore | None, reason: str) -> Score:
    if semantic is None:
        return Score(None, reason)
    best = semantic.bert_k_precision
    return Score(best, "" if best is not None else "no passages")


def _rubrics() -> Sequence[Rubric]:
    return rubrics_named([RL_F, IDK])


SUITE = diagnosed(
    Suite(
        metrics=tuple(_COVERAGE.get(name) or _SHARED[name] for name in METRIC_NAMES),
        score=score,
        rubrics=_rubrics,
        uses_encoder=True,
    )
)
"""What MTRAG-S is scored with."""
