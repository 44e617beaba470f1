"""People's mean over all answers, from their ratings of a few and a judge's scores of every one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ragtasks.statistics._means import LEVEL, ROUNDING, UNBOUNDED, Estimate, Floats, estimate_mean

NO_PROXY = "the judge says too little of people's ratings to make it more exact"
"""Why a mean is of people's ratings alone: the judge does not make it more exact."""
_WORTH = 0.95  # of the standard error: a proxy that saves less is left out


@dataclass(frozen=True, slots=True)
class AssistedMean:
    """People's mean over all answers, from ratings of some and a judge's scores of all."""

    alone: Estimate
    """Mean of the ratings alone."""
    value: float | None
    """The mean; people's own where the judge is no help; None without ratings."""
    low: float | None
    """Lower end of the 95 % interval over conversations; None where there is none."""
    high: float | None
    """Upper end of it."""
    weight: float
    """Of the judge's difference between all and rated answers, in units of people's scale; 0 where it is not used."""
    saved: float
    """Share of the ratings that the judge stands in for: 1 - the squared ratio of standard errors."""
    reason: str = ""
    """Why the judge is not used, or why there is no interval."""


def assisted_mean(
    people: Sequence[float | None],
    judge: Sequence[float],
    clusters: Sequence[str],
    bounds: tuple[float, float] = UNBOUNDED,
) -> AssistedMean:
    """Return people's mean over all answers, from those that they rated and a judge's scores of every one.

    The mean of the ratings is moved by the judge's mean over the rest less that over the rated answers, times the
    weight that makes the variance least (power tuning). All is summed by conversation, and the error is that of a
    jackknife over conversations which finds the weight anew each time. The rated answers must be chosen by chance, as
    whole conversations or not.

    Source: A. N. Angelopoulos, J. C. Duchi and T. Zrnic, PPI++: Efficient prediction-powered inference (2023).

    Args:
        people: a rating for each answer, None where nobody rated it.
        judge: the judge's score of each, on any scale.
        clusters: the conversation of each.
        bounds: the scale of the ratings.
    """
    alone = estimate_mean(people, clusters, bounds)
    fallback = AssistedMean(alone, alone.value, alone.low, alone.high, 0.0, 0.0)
    sums = _sums_by_cluster(people, judge, clusters)
    if alone.reason or sums.rest.sum() == 0:
        return replace(fallback, reason=alone.reason or "every answer is rated")
    value, weight, _ = _tuned(sums)
    jackknife = np.array([_tuned(sums.without(place)) for place in range(len(sums.rated))])
    error, plain_error = (_jackknife_error(jackknife[:, column]) for column in (0, 2))
    if weight <= 0 or error >= _WORTH * plain_error:
        return replace(fallback, reason=NO_PROXY)
    from scipy.special import stdtrit

    reach = float(stdtrit(alone.n_clusters - 2, 1 - LEVEL / 2)) * error
    low, high = max(bounds[0], value - reach), min(bounds[1], value + reach)
    return AssistedMean(alone, min(max(value, bounds[0]), bounds[1]), low, high, weight, 1 - (error / plain_error) ** 2)


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """Sums over conversations, each of shape (conversations,)."""

    rated: Floats
    """Number of rated answers."""
    people: Floats
    """Sum of their ratings."""
    judge: Floats
    """Sum of the judge's scores of them."""
    rest: Floats
    """Number of the others."""
    judge_rest: Floats
    """Sum of the judge's scores of those."""

    def without(self, place: int) -> _Sums:
        """Return the sums without one conversation."""
        return _Sums(*(np.delete(getattr(self, name), place) for name in self.__slots__))


def _sums_by_cluster(people: Sequence[float | None], judge: Sequence[float], clusters: Sequence[str]) -> _Sums:
    ids, index = np.unique(np.array(clusters), return_inverse=True)
    is_rated = np.array([value is not None for value in people], dtype=bool)
    ratings = np.array([0.0 if value is None else value for value in people])
    scores = np.asarray(judge, dtype=np.float64)
    columns = (is_rated, ratings, scores * is_rated, ~is_rated, scores * ~is_rated)
    return _Sums(*(np.bincount(index, column, len(ids)).astype(np.float64) for column in columns))


def _tuned(sums: _Sums) -> tuple[float, float, float]:
    """Return the mean, the weight of the judge in it, and the mean of the ratings alone."""
    n, n_rest = sums.rated.sum(), sums.rest.sum()
    people, judge, rest = sums.people.sum() / n, sums.judge.sum() / n, sums.judge_rest.sum() / n_rest
    gaps = (sums.people - people * sums.rated) / n
    moves = (sums.judge - judge * sums.rated) / n - (sums.judge_rest - rest * sums.rest) / n_rest
    weight = max(0.0, float(gaps @ moves) / float(moves @ moves)) if (moves @ moves) > ROUNDING else 0.0
    return float(people - weight * (judge - rest)), weight, float(people)


def _jackknife_error(values: Floats) -> float:
    n = len(values)
    return float(np.sqrt((n - 1) / n * ((values - values.mean()) ** 2).sum()))
