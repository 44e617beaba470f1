"""Judges in a mean: the effect of a judge's noise, and judge scores that supplement a few human ratings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ragtasks.statistics._means import (
    LEVEL,
    MIN_CLUSTERS,
    ROUNDING,
    TIE,
    TOO_FEW_CLUSTERS,
    UNBOUNDED,
    Estimate,
    Floats,
    estimate_mean,
    jackknife_error,
)
from ragtasks.tables import Value

# A judge's score is the sum of three parts: the answer's true score, noise of this verdict, and an effect of the
# judging run on all of its verdicts. The interval of a mean over conversations includes the noise of single verdicts,
# which is part of the spread between conversations. It cannot include the effect of a judging run, since all scores are
# from one run. Judging some answers again shows both: how far single verdicts move, and whether they move together.

NO_SHARED = "no answer is scored in every judging"
EXACT = "every value is the same each time"


@dataclass(frozen=True, slots=True)
class Repeatability:
    """Changes of a mean when a judge runs again, estimated from some answers that were judged several times."""

    n_judgings: int
    """Number of judging runs of these answers, including the first."""
    n_answers: int
    """Answers that every run scored."""
    n_clusters: int
    n_lost: int
    """Answers that some runs scored and others did not; left out."""
    identical: float | None
    """Share of pairs of runs with the same value of an answer; None without answers."""
    move: float | None
    """Mean absolute difference of two values of an answer; None without answers."""
    shift: float | None
    """Largest difference of the means of two runs, over these answers."""
    shift_p: float | None
    """Chance that noise of single verdicts alone gives means this different; None if there is a `reason`."""
    own_share: float | None
    """Share of the mean's variance over conversations that is the judge's noise, 0 to 1; None if unknown."""
    shift_error: float
    """Standard deviation of the effect of a run on all its verdicts; 0 unless the means differ significantly."""
    mean_move: tuple[float, float, float] | None
    """Expected absolute difference of two runs' means over all answers, with its 95 % interval; None for a `reason`."""
    again: tuple[float, float] | None
    """95 % prediction interval of the mean of one more run over all answers; None if there is a `reason`."""
    reason: str = ""
    """Why there is no error estimate; empty if there is one."""

    def widened(self, cell: Value, error: float | None, bounds: tuple[float, float] = UNBOUNDED) -> Value:
        """Return a mean whose interval includes the variance between judging runs; unchanged if there is none."""
        if not self.shift_error or not error or cell.value is None or cell.low is None or cell.high is None:
            return cell
        factor = math.sqrt(1 + (self.shift_error / error) ** 2)
        low, high = (cell.value + factor * (end - cell.value) for end in (cell.low, cell.high))
        return replace(cell, low=max(bounds[0], low), high=min(bounds[1], high))


def repeatability(
    judgings: Sequence[Sequence[float | None]],
    clusters: Sequence[str],
    overall: Estimate,
    bounds: tuple[float, float] = UNBOUNDED,
) -> Repeatability:
    """Return how far the mean of all answers moves when they are judged again.

    `judgings` are at least two judging runs of the same answers, `clusters` their conversations, `overall` the mean of
    the first run over all answers, including these.
    """
    rows = list(zip(*judgings, strict=True))
    scored = [index for index, row in enumerate(rows) if None not in row]
    n_lost = sum(None in row and any(value is not None for value in row) for row in rows)
    values = np.array([rows[index] for index in scored], dtype=np.float64).reshape(len(scored), len(judgings))
    names = [clusters[index] for index in scored]
    pairs = list(itertools.combinations(range(len(judgings)), 2))
    gaps = np.abs(np.stack([values[:, first] - values[:, second] for first, second in pairs]))
    means = values.mean(axis=0) if scored else None
    result = Repeatability(
        n_judgings=len(judgings),
        n_answers=len(scored),
        n_clusters=len(set(names)),
        n_lost=n_lost,
        identical=float((gaps <= TIE).mean()) if scored else None,
        move=float(gaps.mean()) if scored else None,
        shift=None if means is None else float(means.max() - means.min()),
        shift_p=None,
        own_share=None,
        shift_error=0.0,
        mean_move=None,
        again=None,
    )
    if not result.n_answers:
        return replace(result, reason=NO_SHARED)
    if result.n_clusters < MIN_CLUSTERS:
        return replace(result, reason=TOO_FEW_CLUSTERS)
    if gaps.max() <= TIE:
        return replace(result, reason=EXACT)
    return _with_errors(result, values, names, overall, bounds)


def _with_errors(
    result: Repeatability, values: Floats, names: Sequence[str], overall: Estimate, bounds: tuple[float, float]
) -> Repeatability:
    from scipy.special import chdtri, fdtrc, stdtrit

    n = result.n_judgings
    noise, between, n_effective = _noise_of_means(values, names)
    freedom = (n_effective - 1) * (n - 1)
    p = float(fdtrc(n - 1, freedom, between / noise)) if noise else 0.0
    noise_of_all = noise * result.n_answers / max(overall.n_values, result.n_answers)
    shift_error = math.sqrt(max(0.0, between - noise)) if p <= LEVEL else 0.0
    variance = noise_of_all + shift_error**2
    # A shift is estimated from one value per run; the upper end does not include the uncertainty of this estimate.
    ends = (
        noise_of_all * freedom / float(chdtri(freedom, LEVEL / 2)),
        variance * freedom / float(chdtri(freedom, 1 - LEVEL / 2)),
    )
    reach = float(stdtrit(freedom, 1 - LEVEL / 2)) * math.sqrt(2 * variance)
    mean = overall.value or 0.0
    return replace(
        result,
        shift_p=p,
        own_share=min(1.0, noise_of_all / overall.standard_error**2) if overall.standard_error else None,
        shift_error=shift_error,
        mean_move=(_distance(variance), _distance(ends[0]), _distance(ends[1])),
        again=(max(bounds[0], mean - reach), min(bounds[1], mean + reach)),
    )


def _distance(variance: float) -> float:
    """Return the expected absolute difference of two normal means with this variance."""
    return 2 * math.sqrt(variance / math.pi)


def _noise_of_means(values: Floats, names: Sequence[str]) -> tuple[float, float, float]:
    """Return (variance of a run's mean by verdict noise, variance of the runs' means, effective number of clusters).

    The first variance is over conversations, so it includes noise that the verdicts on a conversation share. It
    excludes the effect of each run on all verdicts; the second includes both. The effective number is that of equally
    large clusters with the same information.
    """
    n_answers, n = values.shape
    moves = values - values.mean(axis=1, keepdims=True)
    common = moves.mean(axis=0)
    ids, index = np.unique(np.array(names), return_inverse=True)
    sums = np.zeros((len(ids), n))
    np.add.at(sums, index, moves - common)
    k = len(ids)
    noise = k / (k - 1) * float((sums**2).sum()) / (n - 1) / n_answers**2
    sizes = np.bincount(index)
    return noise, float((common**2).sum()) / (n - 1), n_answers**2 / float(sizes @ sizes)


# Mean of human ratings over all answers, from ratings of a few and a judge's scores of all.

NO_PROXY = "the judge agrees too little with the ratings to make the mean more precise"
"""Reason of a mean of human ratings alone: the judge does not make it more precise."""
_WORTH = 0.95  # a judge is used only if it reduces the standard error to less than this share


@dataclass(frozen=True, slots=True)
class AssistedMean:
    """Mean human rating over all answers, from ratings of some and a judge's scores of all."""

    alone: Estimate
    value: float | None
    """The mean; that of the ratings alone if the judge is not used; None without ratings."""
    low: float | None
    """Lower end of the 95 % interval over conversations; None if there is none."""
    high: float | None
    weight: float
    """Factor of the judge's mean over unrated minus rated answers, in rating points per judge point; 0 if unused."""
    saved: float
    """Share of the ratings that the judge saves: 1 - the squared ratio of standard errors."""
    reason: str = ""
    """Why the judge is not used, or why there is no interval."""


def assisted_mean(
    people: Sequence[float | None],
    judge: Sequence[float],
    clusters: Sequence[str],
    bounds: tuple[float, float] = UNBOUNDED,
) -> AssistedMean:
    """Return the mean human rating over all answers, from the rated answers and a judge's scores of all.

    The mean of the ratings is corrected by the judge's mean over the unrated answers minus that over the rated answers,
    times the weight that minimizes the variance (power tuning). All sums are by conversation. The error is a jackknife
    over conversations that recomputes the weight each time. The rated answers must be a random sample, of answers or of
    conversations.

    Source: A. N. Angelopoulos, J. C. Duchi and T. Zrnic, PPI++: Efficient prediction-powered inference (2023).
    """
    alone = estimate_mean(people, clusters, bounds)
    fallback = AssistedMean(alone, alone.value, alone.low, alone.high, 0.0, 0.0)
    sums = _sums_by_cluster(people, judge, clusters)
    if alone.reason or sums.n_unrated.sum() == 0:
        return replace(fallback, reason=alone.reason or "every answer is rated")
    value, weight, _ = _tuned(sums)
    jackknife = np.array([_tuned(sums.without(index)) for index in range(len(sums.rated))])
    error, plain_error = (jackknife_error(jackknife[:, column]) for column in (0, 2))
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
    people: Floats
    judge: Floats
    n_unrated: Floats
    judge_unrated: Floats

    def without(self, index: int) -> _Sums:
        """Return the sums without one conversation."""
        return _Sums(*(np.delete(getattr(self, name), index) for name in self.__slots__))


def _sums_by_cluster(people: Sequence[float | None], judge: Sequence[float], clusters: Sequence[str]) -> _Sums:
    ids, index = np.unique(np.array(clusters), return_inverse=True)
    is_rated = np.array([value is not None for value in people], dtype=bool)
    ratings = np.array([0.0 if value is None else value for value in people])
    scores = np.asarray(judge, dtype=np.float64)
    columns = (is_rated, ratings, scores * is_rated, ~is_rated, scores * ~is_rated)
    return _Sums(*(np.bincount(index, column, len(ids)).astype(np.float64) for column in columns))


def _tuned(sums: _Sums) -> tuple[float, float, float]:
    """Return (corrected mean, weight of the judge, mean of the ratings alone)."""
    n, n_rest = sums.rated.sum(), sums.n_unrated.sum()
    people, judge, judge_unrated = sums.people.sum() / n, sums.judge.sum() / n, sums.judge_unrated.sum() / n_rest
    gaps = (sums.people - people * sums.rated) / n
    moves = (sums.judge - judge * sums.rated) / n - (sums.judge_unrated - judge_unrated * sums.n_unrated) / n_rest
    weight = max(0.0, float(gaps @ moves) / float(moves @ moves)) if (moves @ moves) > ROUNDING else 0.0
    return float(people - weight * (judge - judge_unrated)), weight, float(people)
