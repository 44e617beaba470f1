"""A refusal is right on an unanswerable task and wrong on any other: scores conditioned on answerability.

The raw metrics compare a response with texts, and a refusal resembles none of them. So whether to refuse was right
decides first, and the raw score counts only where the task has an answer and the response tries to give it. Two
tables: the paper's, and the official script's, which answers where the paper says nothing or leaves a task out.
"""

from __future__ import annotations

import math

from ragtasks.metrics._answerability import NO_VERDICT
from ragtasks.records import Answerability, IdkVerdict, Score

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

    Args:
        raw: the raw metric, passed through in any range; None and NaN, which the script leaves out of its means,
            become a Score without a value.
        answerability: the label that the script sees; None where it sees none.
        verdict: whether the response says that it does not know; None where the judge's reply had no label.
        clarification: whether the response asks what is meant; used on UNDERSPECIFIED tasks only.
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


__all__ = [
    "LEFT_OUT",
    "NO_CLARIFICATION",
    "condition_ibm",
    "condition_paper",
    "ibm_visible_answerability",
]
