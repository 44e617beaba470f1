"""Nugget recall: how much of what a good answer must say, and may say, an answer does say.

A judge assigns every nugget a grade; the scores here are shares over all nuggets or over the vital ones. `strict`
counts full support only, the others count a partial one half. The weighted scores count an okay nugget half. Nuggets of
2025 name the part of the narrative that they belong to; how evenly an answer covers the parts is a score of ours.

Sources: castorini/nuggetizer at d00dc3e, `core/metrics.py` (the four scores of TREC RAG 2024); the weighted ones as a
third party gives them after arXiv 2411.09607, except that a list without vital or okay nuggets is not padded there.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from ragtasks.records import Grade, Importance, Nugget, Score

NUGGET_SCORES = (
    "strict_vital_score",
    "strict_all_score",
    "vital_score",
    "all_score",
    "weighted_score",
    "strict_weighted_score",
)
"""Names of the scores; the first four are those of the track's metrics files."""

SUB_NARRATIVE_SCORES = ("sub_narrative_score", "sub_narratives_answered")
"""Names of the scores over the parts of a narrative."""

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


def scores_by_part(
    nuggets: Sequence[Nugget], grades: Sequence[Grade | None]
) -> dict[str, tuple[int, dict[str, Score]]]:
    """Return sub-narrative -> (number of its nuggets, their six scores), in the order of the nuggets.

    A nugget that names no part is in none.

    Args:
        nuggets: those of one topic.
        grades: one item a nugget, None where no judge gave one.
    """
    parts: dict[str, list[tuple[Importance, Grade | None]]] = {}
    for nugget, grade in zip(nuggets, grades, strict=True):
        if nugget.sub_narrative:
            parts.setdefault(nugget.sub_narrative, []).append((nugget.importance, grade))
    return {
        name: (len(pairs), nugget_scores([item for item, _ in pairs], [grade for _, grade in pairs]))
        for name, pairs in parts.items()
    }


def sub_narrative_scores(nuggets: Sequence[Nugget], grades: Sequence[Grade | None]) -> dict[str, Score]:
    """Return two scores of one answer over the parts of its narrative, 0 to 1, higher is better.

    `sub_narrative_score` is the mean over the parts of the `all_score` of their nuggets: a part counts the same however
    many nuggets it has. `sub_narratives_answered` is the share of the parts of which at least one nugget is stated in
    full. Neither is the track's: it publishes the parts, and scores over all nuggets. Without parts, or with a nugget
    that has no grade, there is no value.

    Args:
        nuggets: those of one topic.
        grades: one item a nugget, None where no judge gave one.
    """
    missing = sum(grade is None for grade in grades)
    parts = scores_by_part(nuggets, grades)
    if missing or not parts:
        reason = f"{missing} of {len(grades)} nuggets have no grade" if missing else "no nugget names a sub-narrative"
        return dict.fromkeys(SUB_NARRATIVE_SCORES, Score(None, reason))
    shares = [scores["all_score"].value or 0.0 for _, scores in parts.values()]
    answered = [bool(scores["strict_all_score"].value) for _, scores in parts.values()]
    return {"sub_narrative_score": Score(fmean(shares)), "sub_narratives_answered": Score(fmean(answered))}


def _share(weights: Sequence[float], grades: Sequence[Grade | None], *, partial: float) -> Score:
    """Return the weighted mean of the grades' worth."""
    total = sum(weights)
    if not total:
        return Score(None, "the topic has no such nuggets")
    worth = {Grade.SUPPORT: 1.0, Grade.PARTIAL_SUPPORT: partial}
    pairs = zip(weights, grades, strict=True)
    return Score(sum(weight * worth.get(grade, 0.0) for weight, grade in pairs if grade is not None) / total)


__all__ = [
    "NUGGET_SCORES",
    "OKAY_WEIGHT",
    "SUB_NARRATIVE_SCORES",
    "nugget_scores",
    "nugget_scores_official",
    "scores_by_part",
    "sub_narrative_scores",
]
