"""Nugget recall: how much of what a good answer must say, and may say, an answer does say.

A judge assigns every nugget a grade; the scores here are shares over all nuggets or over the vital ones. `strict`
counts full support only, the others count a partial one half. The weighted scores count an okay nugget half.

Sources: castorini/nuggetizer at d00dc3e, `core/metrics.py` (the four scores of TREC RAG 2024); the weighted ones as a
third party gives them after arXiv 2411.09607, except that a list without vital or okay nuggets is not padded there.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragtasks.benchmarks.trec_rag import Grade, Importance
from ragtasks.records import Score

NUGGET_SCORES = (
    "strict_vital_score",
    "strict_all_score",
    "vital_score",
    "all_score",
    "weighted_score",
    "strict_weighted_score",
)
"""Names of the scores; the first four are those of the track's metrics files."""

OKAY_WEIGHT = 0.5
"""What an okay nugget counts in the weighted scores; a vital one counts 1."""

_PARTIAL = 0.5


def nugget_scores(importance: Sequence[Importance], grades: Sequence[Grade | None]) -> dict[str, Score]:
    """Return the six scores of one answer, 0 to 1, higher is better.

    A nugget without a grade leaves all of them without a value, and so does a list without the nuggets that a score
    counts: nothing is known of the answer then.

    Args:
        importance: one item a nugget.
        grades: one item a nugget, None where no judge gave one.
    """
    missing = sum(grade is None for grade in grades)
    if missing:
        return dict.fromkeys(NUGGET_SCORES, Score(None, f"{missing} of {len(grades)} nuggets have no grade"))
    vital = [float(item is Importance.VITAL) for item in importance]
    every = [1.0] * len(importance)
    weighted = [1.0 if item is Importance.VITAL else OKAY_WEIGHT for item in importance]
    return {
        "strict_vital_score": _share(vital, grades, partial=0.0),
        "strict_all_score": _share(every, grades, partial=0.0),
        "vital_score": _share(vital, grades, partial=_PARTIAL),
        "all_score": _share(every, grades, partial=_PARTIAL),
        "weighted_score": _share(weighted, grades, partial=_PARTIAL),
        "strict_weighted_score": _share(weighted, grades, partial=0.0),
    }


def nugget_scores_official(importance: Sequence[Importance], grades: Sequence[Grade | None]) -> dict[str, float]:
    """Return the four scores of the track's files by its own convention: what is not known counts 0.

    A nugget without a grade counts as not supported, and a score over no nuggets is 0.
    """
    known = [grade or Grade.NOT_SUPPORT for grade in grades]
    return {name: nugget_scores(importance, known)[name].value or 0.0 for name in NUGGET_SCORES[:4]}


def _share(weights: Sequence[float], grades: Sequence[Grade | None], *, partial: float) -> Score:
    """Return the weighted mean of the grades' worth."""
    total = sum(weights)
    if not total:
        return Score(None, "the topic has no such nuggets")
    worth = {Grade.SUPPORT: 1.0, Grade.PARTIAL_SUPPORT: partial}
    pairs = zip(weights, grades, strict=True)
    return Score(sum(weight * worth.get(grade, 0.0) for weight, grade in pairs if grade is not None) / total)


__all__ = ["NUGGET_SCORES", "OKAY_WEIGHT", "nugget_scores", "nugget_scores_official"]
