"""Whether a refusal is right for its question, and scores conditioned on it.

A refusal is right on an unanswerable task and wrong on any other. Raw metrics compare a response with texts, and a
refusal resembles none of them. So answerability decides first, and the raw score counts only if the task has an answer
and the response tries to give it. There are two tables: the paper's, and the official script's, which also covers the
tasks that the paper leaves out.
"""

from __future__ import annotations

import math

from ragtasks.metrics._metric import Metric
from ragtasks.records import Answerability, IdkVerdict, Score

NO_VERDICT = "no IDK verdict"
"""The reason of every score that needs an IDK verdict and has none."""
UNDEFINED_ON = frozenset({Answerability.CONVERSATIONAL, Answerability.UNDERSPECIFIED})
"""Tasks without a right answer to whether to refuse: the paper leaves out the one, the other asks for a question."""


def answerability_correct(answerability: Answerability, verdict: IdkVerdict | None) -> bool | None:
    """Return whether a response refuses exactly where it should, or None where that is not defined.

    Right are `no` and `partial` on ANSWERABLE and PARTIAL, and `yes` on UNANSWERABLE. Not defined: CONVERSATIONAL
    (the paper leaves those tasks out), UNDERSPECIFIED (the right reply is a question back), and no verdict.

    Source: MTRAG paper, section 6.3.3 (Ans. Acc. of Table 5 is the mean).
    """
    if verdict is None or answerability in UNDEFINED_ON:
        return None
    return (verdict is IdkVerdict.YES) == (answerability is Answerability.UNANSWERABLE)


def answerability_accuracy(
    answerability: Answerability, verdict: IdkVerdict | None, *, is_answer: bool = True
) -> Score:
    """Return 1.0 where `answerability_correct` holds, 0.0 where it does not, else a Score without a value.

    The metric is the mean over scored responses; higher is better. A response that is no answer at all, such as empty
    text (`is_no_answer`), neither answers nor refuses: it is wrong on every task that has a right reply.
    """
    if not is_answer and answerability not in UNDEFINED_ON:
        return Score(0.0)
    correct = answerability_correct(answerability, verdict)
    if correct is not None:
        return Score(float(correct))
    if verdict is None:
        return Score(None, NO_VERDICT)
    return Score(None, f"answerability accuracy is not defined on {answerability.value} tasks")


ANS_ACC = Metric("ans_acc", "answerability accuracy: refuses exactly where it should", undefined_on=UNDEFINED_ON)


LEFT_OUT = "conversational tasks are left out (paper, section 6.3.3)"
"""The reason of a conversational task's score in the paper's profile."""
NO_CLARIFICATION = "no verdict on whether the response asks for clarification"
"""The reason of an underspecified task's score in the paper's profile, until such a verdict exists."""
_NO_RAW = "the raw metric has no value"
_OFFICIAL_KEY = "answerability"


def condition_paper(
    score: Score, answerability: Answerability, verdict: IdkVerdict | None, *, clarification: bool | None = None
) -> Score:
    """Return a raw score conditioned as the paper defines it.

    | task                | verdict no, partial | verdict yes |
    | ------------------- | ------------------- | ----------- |
    | ANSWERABLE, PARTIAL | the raw score       | 0           |
    | UNANSWERABLE        | 0                   | 1           |

    The raw score is passed through as it is, reason and range included, so an unscored one stays unscored; in the
    other three cells it is not looked at. CONVERSATIONAL is unscored. UNDERSPECIFIED, which came with MTRAG-UN, is 1
    where the response asks for clarification, 0 where it does not, unscored while that is unknown. Elsewhere no
    verdict means unscored.

    Source: MTRAG paper, section 6.3.3; its phi is one of RB_alg, RB_llm, RL_F.

    Args:
        score: the raw metric of the response.
        answerability: the task's label.
        verdict: whether the response says that it does not know; None where no detector could tell.
        clarification: whether the response asks what is meant; used on UNDERSPECIFIED tasks only.
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
    """Return whether `condition_paper` does not look at the raw score, whatever that is."""
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
    """Return a raw score conditioned as the official script does it, quirks included.

    In this order: UNDERSPECIFIED gives 1 with `clarification` True, else 0, even where nobody asked; UNANSWERABLE and
    CONVERSATIONAL give 1 with `yes`, 0 with `no` or `partial`; any other `yes` gives 0; the rest is the raw score.

    Known differences from `condition_paper`: conversational tasks count as unanswerable; without a verdict the raw
    score stands, so a judge that answers off-format lets a hallucination on an UNANSWERABLE task keep its score; an
    underspecified task without a clarification verdict is 0; where answerability is not visible to the script (see
    `ibm_visible_answerability`) a right refusal is 0 and a hallucination keeps its score.

    Source: IBM/mt-rag-benchmark, judges of scripts/evaluation, commit cc5b1d4. Its numbers 1, 0.5 and 0 are
    `yes`, `partial` and `no` here, its text "unknown" is None.
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
    """Return the label that the official script sees in a file that writes it under `file_key`, None for none.

    The script reads the key `answerability` in lower case only. MTRAG's task files write `Answerability`, so there it
    conditions as if every task had an answer; MTRAG-UN's write it in lower case.

    Source: IBM/mt-rag-benchmark, judges of scripts/evaluation, commit cc5b1d4.
    """
    return answerability if file_key == _OFFICIAL_KEY else None
