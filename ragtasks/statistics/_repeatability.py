"""What a judge's noise does to a mean: the same answers judged several times."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ragtasks.statistics._means import LEVEL, MIN_CLUSTERS, TIE, TOO_FEW_CLUSTERS, UNBOUNDED, Estimate, Floats
from ragtasks.tables import Value

# A verdict is the answer's own score, plus noise of its own, plus what a whole judging adds to all its verdicts. The
# interval of a mean over conversations holds the noise of single verdicts already: each conversation shows one draw of
# it, which is in the spread between conversations. It cannot hold what a judging adds to all verdicts, since it sees
# one judging. Judging some answers again shows both: how far single verdicts move, and whether they move together.

NO_SHARED = "no answer is scored in every judging"
"""The reason of a repeatability without values."""
EXACT = "every value is the same each time"
"""The reason of a repeatability without an error: there is no noise to extrapolate."""


@dataclass(frozen=True, slots=True)
class Repeatability:
    """How far a mean moves where a judge is asked again, from some answers that were judged several times."""

    n_judgings: int
    """Judgings of these answers, the first one included."""
    n_answers: int
    """Answers that every judging scored."""
    n_clusters: int
    """Conversations of these answers."""
    n_lost: int
    """Answers that some judging scored and another did not: left out."""
    identical: float | None
    """Share of pairs of judgings of one answer with the same value; None without answers."""
    move: float | None
    """Mean distance of two values of one answer; None without answers."""
    shift: float | None
    """Largest distance of the means of two of the judgings, over these answers."""
    shift_p: float | None
    """Chance of so different means from noise of single verdicts alone; None as the reason says."""
    own_share: float | None
    """Share of the mean's variance over conversations that is the judge's noise, 0 to 1; None as the reason says."""
    shift_error: float
    """Standard deviation of what a judging adds to all its verdicts: 0 unless means differ by more than chance."""
    mean_move: tuple[float, float, float] | None
    """Expected distance of the means of two judgings of all answers, and its 95 % interval."""
    again: tuple[float, float] | None
    """Where the mean of one more judging of all answers lies in 95 of 100 cases."""
    reason: str = ""
    """Why there is no error; empty where there is one."""

    def widened(self, cell: Value, error: float | None, bounds: tuple[float, float] = UNBOUNDED) -> Value:
        """Return a mean with what whole judgings add to its variance in its interval; as it is where they add none."""
        if not self.shift_error or not error or cell.value is None or cell.low is None or cell.high is None:
            return cell
        factor = math.sqrt(1 + (self.shift_error / error) ** 2)
        low, high = (cell.value + factor * (end - cell.value) for end in (cell.low, cell.high))
        return replace(cell, low=max(bounds[0], low), high=min(bounds[1], high))


def repeatability(
    judgings: Sequence[Sequence[float | None]],
    clusters: Sequence[str],
    whole: Estimate,
    bounds: tuple[float, float] = UNBOUNDED,
) -> Repeatability:
    """Return how far the mean of all answers moves where they are judged again.

    Args:
        judgings: at least two judgings of the same answers, the values in one order, None where unscored.
        clusters: the conversation of each of these answers.
        whole: the mean over all answers, these included, in the first judging.
        bounds: smallest and largest value that can be.
    """
    rows = list(zip(*judgings, strict=True))
    scored = [place for place, row in enumerate(rows) if None not in row]
    n_lost = sum(None in row and any(value is not None for value in row) for row in rows)
    values = np.array([rows[place] for place in scored], dtype=np.float64).reshape(len(scored), len(judgings))
    names = [clusters[place] for place in scored]
    pairs = list(itertools.combinations(range(len(judgings)), 2))
    gaps = np.abs(np.stack([values[:, one] - values[:, other] for one, other in pairs]))
    means = values.mean(axis=0) if scored else None
    found = Repeatability(
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
    if reason := _no_noise(found, gaps):
        return replace(found, reason=reason)
    return _with_errors(found, values, names, whole, bounds)


def _no_noise(found: Repeatability, gaps: Floats) -> str:
    if not found.n_answers:
        return NO_SHARED
    if found.n_clusters < MIN_CLUSTERS:
        return TOO_FEW_CLUSTERS
    return EXACT if gaps.max() <= TIE else ""


def _with_errors(
    found: Repeatability, values: Floats, names: Sequence[str], whole: Estimate, bounds: tuple[float, float]
) -> Repeatability:
    from scipy.special import chdtri, fdtrc, stdtrit

    n = found.n_judgings
    noise, between, n_alike = _noise_of_means(values, names)
    freedom = (n_alike - 1) * (n - 1)
    p = float(fdtrc(n - 1, freedom, between / noise)) if noise else 0.0
    of_all = noise * found.n_answers / max(whole.n_values, found.n_answers)
    shift_error = math.sqrt(max(0.0, between - noise)) if p <= LEVEL else 0.0
    variance = of_all + shift_error**2
    # A shift is known from as many values as there are judgings: its own uncertainty has no place in the upper end.
    ends = (
        of_all * freedom / float(chdtri(freedom, LEVEL / 2)),
        variance * freedom / float(chdtri(freedom, 1 - LEVEL / 2)),
    )
    reach = float(stdtrit(freedom, 1 - LEVEL / 2)) * math.sqrt(2 * variance)
    mean = whole.value or 0.0
    return replace(
        found,
        shift_p=p,
        own_share=min(1.0, of_all / whole.standard_error**2) if whole.standard_error else None,
        shift_error=shift_error,
        mean_move=(_distance(variance), _distance(ends[0]), _distance(ends[1])),
        again=(max(bounds[0], mean - reach), min(bounds[1], mean + reach)),
    )


def _distance(variance: float) -> float:
    """Return how far apart two normal means with this variance are on average."""
    return 2 * math.sqrt(variance / math.pi)


def _noise_of_means(values: Floats, names: Sequence[str]) -> tuple[float, float, float]:
    """Return the variance of a judging's mean by the noise of its verdicts, that of the judgings' means, and clusters.

    The first is over conversations, so that noise which verdicts on one conversation share counts as such, and without
    what each judging adds to all verdicts; the second holds both. The clusters are as many as would be as informative
    if all were equally large.
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
