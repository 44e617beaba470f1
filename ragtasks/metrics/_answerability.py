"""Answerability: whether a refusal is correct, and scores conditioned on it.

A refusal is correct on an unanswerable task and wrong on any other. Raw metrics compare a response with texts, and a
refusal resembles none of them. Answerability is therefore checked first: the raw score counts only if the task has an
answer and the response attempts it. There are two rules: the paper's, and the official script's, which also covers the
tasks that the paper leaves out. Few tasks are unanswerable, so a system that answers everything has a high accuracy;
its two sides are therefore scored separately too.
"""

from __future__ import annotations

import math

from ragtasks.metrics._metric import Metric, Scores
from ragtasks.records import Answerability, IdkVerdict, Score

NO_VERDICT = "no IDK verdict"
"""Reason of every score that requires an IDK verdict and has none."""
UNDEFINED_ON = frozenset({Answerability.CONVERSATIONAL, Answerability.UNDERSPECIFIED})
"""Labels without a correct choice between answering and refusing.

The paper leaves CONVERSATIONAL out. UNDERSPECIFIED requires a question to the user.
"""


def answerability_correct(answerability: Answerability, verdict: IdkVerdict | None) -> bool | None:
    """Return whether a response refuses exactly when it should; None if that is undefined.

    `no` and `partial` are correct on ANSWERABLE and PARTIAL tasks, `yes` on UNANSWERABLE tasks. Undefined without a
    verdict, on CONVERSATIONAL tasks (left out by the paper) and on UNDERSPECIFIED tasks (the correct reply is a
    question).

    Source: MTRAG paper, section 6.3.3 (Ans. Acc. of Table 5 is the mean).
    """
    if verdict is None or answerability in UNDEFINED_ON:
        return None
    return (verdict is IdkVerdict.YES) == (answerability is Answerability.UNANSWERABLE)


def answerability_accuracy(
    answerability: Answerability, verdict: IdkVerdict | None, *, is_answer: bool = True
) -> Score:
    """Return `answerability_correct` as a score: 1.0 or 0.0, unscored if undefined.

    The metric is the mean over scored responses; higher is better. A response that is no answer, such as empty text
    (`is_no_answer`), neither answers nor refuses. It scores 0.0 on every task that has a correct reply.
    """
    if not is_answer and answerability not in UNDEFINED_ON:
        return Score(0.0)
    correct = answerability_correct(answerability, verdict)
    if correct is not None:
        return Score(float(correct))
    if verdict is None:
        return Score(None, NO_VERDICT)
    return Score(None, f"answerability accuracy is not defined on {answerability.value} tasks")


ANS_ACC = Metric(
    "ans_acc",
    "answerability accuracy: share of responses that refuse exactly when they should",
    undefined_on=UNDEFINED_ON,
)
OTHER_SIDE = "not a question of this kind"
"""Why a response has no score of `answered` or `declined`: its task is not of the kind that the metric counts."""
ANSWERED = Metric(
    "answered",
    "share of the answerable and partially answerable questions that are answered",
    undefined_on=UNDEFINED_ON | {Answerability.UNANSWERABLE},
    undefined_reason=OTHER_SIDE,
)
DECLINED = Metric(
    "declined",
    "share of the unanswerable questions that are declined",
    undefined_on=frozenset(Answerability) - {Answerability.UNANSWERABLE},
    undefined_reason=OTHER_SIDE,
)
BALANCED_ANS_ACC = Metric(
    "balanced_ans_acc",
    "mean of answered and declined: ans_acc with equal weight of answerable and unanswerable questions",
    undefined_on=UNDEFINED_ON,
    is_balanced=True,
    in_groups=False,
)
SIDES = (ANSWERED, DECLINED)
ANSWERABILITY_METRICS = (ANS_ACC, *SIDES, BALANCED_ANS_ACC)
"""Answerability accuracy, its two sides, and their mean."""


def accuracy_sides(accuracy: float | None, answerability: Answerability) -> dict[str, float | None]:
    """Return the two sides of a response's `ans_acc`, of which at most one is scored, and the value to be balanced."""
    sides = {metric.name: None if answerability in metric.undefined_on else accuracy for metric in SIDES}
    return {**sides, BALANCED_ANS_ACC.name: accuracy}


def answerability_scores(answerability: Answerability, verdict: IdkVerdict | None, *, is_answer: bool = True) -> Scores:
    """Return `answerability_accuracy` and its sides by name; arguments as there."""
    return with_sides({}, answerability_accuracy(answerability, verdict, is_answer=is_answer), answerability)


def with_sides(scores: Scores, accuracy: Score, answerability: Answerability) -> Scores:
    """Return scores with a response's `ans_acc` and its sides."""
    sides = {
        metric.name: Score(None, OTHER_SIDE) if answerability in metric.undefined_on else accuracy for metric in SIDES
    }
    return {**scores, ANS_ACC.name: accuracy, **sides, BALANCED_ANS_ACC.name: accuracy}


LEFT_OUT = "conversational tasks are left out (paper, section 6.3.3)"
"""Reason of a conversational task's score in the paper profile."""
NO_CLARIFICATION = "no verdict on whether the response asks for clarification"
"""Reason of an underspecified task's score in the paper profile while it has no such verdict."""
_NO_RAW = "the raw metric has no value"
_OFFICIAL_KEY = "answerability"


def condition_paper(
    score: Score, answerability: Answerability, verdict: IdkVerdict | None, *, clarification: bool | None = None
) -> Score:
    """Return a raw score conditioned as in the paper.

    | task                | verdict no, partial | verdict yes |
    | ------------------- | ------------------- | ----------- |
    | ANSWERABLE, PARTIAL | the raw score       | 0           |
    | UNANSWERABLE        | 0                   | 1           |

    The raw score is returned unchanged, range and reason included, so an unscored response stays unscored. The other
    three cells ignore it. Without a verdict the result is unscored. CONVERSATIONAL tasks are always unscored.
    UNDERSPECIFIED tasks (MTRAG-UN) ignore the verdict: they score 1 if the response asks for clarification, 0 if not,
    and are unscored if `clarification` is None.

    Source: MTRAG paper, section 6.3.3; its phi is one of RB_alg, RB_llm, RL_F.

    Args:
        score: the raw metric of the response.
        answerability: the task's label.
        verdict: whether the response states that it does not know; None if the detector gave no verdict.
        clarification: whether the response asks for clarification; used on UNDERSPECIFIED tasks only.
    """
    if answerability is Answerability.CONVERSATIONAL:
        return Score(None, LEFT_OUT)
    if answerability is Answerability.UNDERSPECIFIED:
        return Score(None, NO_CLARIFICATION) if clarification is None else Score(float(clarification))
    if verdict is None:
        return Score(None, NO_VERDICT)
    is_refusal = verdict is IdkVerdict.YES
    if answerability is Answerability.UNANSWERABLE:
        return Score(float(is_refusal))
    return Score(0.0) if is_refusal else score


def is_settled(answerability: Answerability, verdict: IdkVerdict | None) -> bool:
    """Return whether label and verdict alone determine the result of `condition_paper`, without a raw score.

    A task without a verdict is not settled, unless its label alone decides.
    """
    if answerability in UNDEFINED_ON or verdict is IdkVerdict.YES:
        return True
    return answerability is Answerability.UNANSWERABLE and verdict is not None


def condition_ibm(
    raw: float | None,
    answerability: Answerability | None,
    verdict: IdkVerdict | None,
    *,
    clarification: bool | None = None,
) -> Score:
    """Return a raw score conditioned as in the official script, quirks included.

    The first rule that applies decides:

    1. UNDERSPECIFIED: 1 if `clarification` is True, else 0 (also without a verdict).
    2. UNANSWERABLE and CONVERSATIONAL with a verdict: 1 for `yes`, 0 for `no` or `partial`.
    3. Any other `yes`: 0.
    4. Otherwise the raw score.

    Differences from `condition_paper`: conversational tasks count as unanswerable. Without a verdict the raw score is
    kept, so after an off-format judge reply a hallucination on an UNANSWERABLE task keeps its score. An underspecified
    task without a clarification verdict scores 0. If the script does not see the answerability
    (`ibm_visible_answerability`), a correct refusal scores 0 and a hallucination keeps its score.

    Source: IBM/mt-rag-benchmark, judges of scripts/evaluation, commit cc5b1d4. Its numbers 1, 0.5 and 0 are `yes`,
    `partial` and `no` here, its text "unknown" is None.
    """
    if answerability is Answerability.UNDERSPECIFIED:
        return Score(1.0 if clarification else 0.0)
    is_refusal = verdict is IdkVerdict.YES
    if verdict is not None and answerability in (Answerability.UNANSWERABLE, Answerability.CONVERSATIONAL):
        return Score(float(is_refusal))
    if is_refusal:
        return Score(0.0)
    return Score(None, _NO_RAW) if raw is None or math.isnan(raw) else Score(raw)


def ibm_visible_answerability(answerability: Answerability, file_key: str) -> Answerability | None:
    """Return the label that the official script reads from a file with the key `file_key`; None if it reads none.

    The script reads the lower-case key `answerability` only. MTRAG's task files use `Answerability`, so the script
    conditions their tasks as if every one had an answer. MTRAG-UN's files use the lower-case key.

    Source: IBM/mt-rag-benchmark, judges of scripts/evaluation, commit cc5b1d4.
    """
    return answerability if file_key == _OFFICIAL_KEY else None
