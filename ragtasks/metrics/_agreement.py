"""Agreement between raters, or between two columns of scores.

Krippendorff's alpha accepts any number of raters, and missing ratings. Spearman's rho compares two columns by rank, so
judges may use different scales. Ratings that do not vary are unscored: raters who cannot disagree do not show an
agreement of 1. The code is plain Python and needs well under a second for thousands of items.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from ragtasks.records import Score

TOO_FEW = "fewer than two items that two raters have rated"
NOTHING_VARIES = "the ratings do not vary, so agreement is not defined"
"""Reason of an unscored agreement: the agreement expected by chance is already perfect."""


class Level(str, Enum):
    """Level of measurement of the ratings."""

    NOMINAL = "nominal"
    """Labels: equal or different."""
    ORDINAL = "ordinal"
    """Ranks: distance is the number of ratings in between."""
    INTERVAL = "interval"
    """Numbers: distance is the difference."""


def krippendorff_alpha(ratings: Iterable[Sequence[float | None]], level: Level) -> Score:
    """Return Krippendorff's alpha: 1 for full agreement, 0 for chance agreement, below 0 for less than chance.

    alpha = 1 - observed disagreement / expected disagreement. Both are means of a squared distance: over the pairs of
    ratings within an item, and over all pairs of ratings. An item with m ratings has weight m in the first mean. An
    item with fewer than two ratings is left out of both.

    Unscored if fewer than two items have two ratings, or if all ratings are equal.

    Source: K. Krippendorff, Content Analysis (4th ed., 2018), chapter 12, with the distances of its three levels.

    Args:
        ratings: one row per item, one column per rater, None for a missing rating. Order does not matter.
        level: level of measurement, which sets the distance.

    Raises:
        ValueError: a rating is NaN or infinite.
    """
    items = [[rating for rating in row if rating is not None] for row in ratings]
    items = [item for item in items if len(item) > 1]
    if not all(math.isfinite(rating) for item in items for rating in item):
        raise ValueError("a rating is NaN or infinite: write None for a missing rating")
    if len(items) < 2:
        return Score(None, TOO_FEW)
    everything = [rating for item in items for rating in item]
    disagreement = _DISAGREEMENTS[level](Counter(everything))
    n = len(everything)
    expected = disagreement(everything) / (n * (n - 1))
    if expected == 0:
        return Score(None, NOTHING_VARIES)
    observed = math.fsum(disagreement(item) / (len(item) - 1) for item in items) / n
    return Score(1 - observed / expected)


@dataclass(frozen=True, slots=True)
class RaterAgreement:
    """Shares of the rated items on which raters agree, 0 to 1. Each share includes the previous share."""

    absolute: float
    """All raters gave the same score."""
    high: float
    """At least two raters gave the same score, and every other score is at most one step away."""
    majority: float
    """At least two raters gave the same score."""
    n: int
    """Items with at least two ratings."""


def rater_agreement(ratings: Iterable[Sequence[float]], step: float = 1.0) -> RaterAgreement | None:
    """Return how often raters agree, not corrected for chance; None if no item has two ratings.

    Source: MTRAG paper, appendix E (absolute, high). Its published shares are those of `majority`.

    Args:
        ratings: one row per item, in any order. Items with fewer than two ratings are left out.
        step: one point of the scale.
    """
    items = [row for row in ratings if len(row) > 1]
    if not items:
        return None
    return RaterAgreement(
        sum(len(set(row)) == 1 for row in items) / len(items),
        sum(any(_is_high(row, score, step) for score in row) for row in items) / len(items),
        sum(len(set(row)) < len(row) for row in items) / len(items),
        len(items),
    )


def _is_high(row: Sequence[float], score: float, step: float) -> bool:
    return row.count(score) > 1 and all(abs(rating - score) <= step for rating in row)


def cohen_kappa(first: Sequence[float], second: Sequence[float]) -> Score:
    """Return Cohen's kappa of two raters' labels: 1 for full agreement, 0 for chance agreement.

    Unscored with fewer than two items, or if both raters give all items the same label.

    Source: J. Cohen, A coefficient of agreement for nominal scales (1960).

    Args:
        first: one label per item.
        second: the other rater's labels of the same items.

    Raises:
        ValueError: lengths differ.
    """
    n = len(first)
    if n != len(second):
        raise ValueError(f"columns differ in length: {n}, {len(second)}")
    if n < 2:
        return Score(None, TOO_FEW)
    first_counts, second_counts = Counter(first), Counter(second)
    by_chance = math.fsum(first_counts[label] * second_counts[label] for label in first_counts) / n**2
    if by_chance == 1:
        return Score(None, NOTHING_VARIES)
    agreed = sum(a == b for a, b in zip(first, second, strict=True)) / n
    return Score((agreed - by_chance) / (1 - by_chance))


def spearman(first: Sequence[float], second: Sequence[float]) -> Score:
    """Return Spearman's rank correlation, -1 to 1: Pearson's correlation of the ranks, with mean ranks for ties.

    Unscored with fewer than two pairs, or if a column does not vary.

    Source: C. Spearman, The proof and measurement of association between two things (1904).

    Args:
        first: one column.
        second: the other column, of the same length.

    Raises:
        ValueError: lengths differ, or a value is not finite.
    """
    if len(first) != len(second):
        raise ValueError(f"columns differ in length: {len(first)}, {len(second)}")
    if not all(map(math.isfinite, itertools.chain(first, second))):
        raise ValueError("a value is NaN or infinite: leave out pairs without a value")
    if len(first) < 2:
        return Score(None, TOO_FEW)
    ranks = [_ranks(column, [1.0] * len(column)) for column in (first, second)]
    first_gaps, second_gaps = ([rank - math.fsum(column) / len(column) for rank in column] for column in ranks)
    spreads = [math.fsum(gap * gap for gap in gaps) for gaps in (first_gaps, second_gaps)]
    # Rounding can move equal ranks off their own mean, so equality is tested on the values, not by a spread of 0.
    if min(len({*first}), len({*second})) < 2 or 0 in spreads:
        return Score(None, NOTHING_VARIES)
    product = math.fsum(x * y for x, y in zip(first_gaps, second_gaps, strict=True))
    return Score(max(-1.0, min(1.0, product / math.sqrt(spreads[0]) / math.sqrt(spreads[1]))))


def pairwise_spearman(columns: Mapping[str, Sequence[float | None]]) -> dict[tuple[str, str], Score]:
    """Return each pair of raters -> `spearman` over the items that both rated; {} for fewer than two raters.

    Pairs are in the order of `columns`, each once.

    Args:
        columns: rater -> one rating per item, None for a missing rating; all of the same length.

    Raises:
        ValueError: lengths differ, or a rating is not finite.
    """
    return {
        (rater, second_rater): _over_common(columns[rater], columns[second_rater])
        for rater, second_rater in itertools.combinations(columns, 2)
    }


def _over_common(first: Sequence[float | None], second: Sequence[float | None]) -> Score:
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    return spearman([a for a, _ in pairs], [b for _, b in pairs])


def _ranks(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return each value's rank: the weight of smaller values plus half the weight of equal values."""
    weight_at: dict[float, float] = {}
    for value, weight in zip(values, weights, strict=True):
        weight_at[value] = weight_at.get(value, 0.0) + weight
    rank_of, below = {}, 0.0
    for value in sorted(weight_at):
        rank_of[value] = below + weight_at[value] / 2
        below += weight_at[value]
    return [rank_of[value] for value in values]


_Disagreement = Callable[[Sequence[float]], float]


def _nominal(_: Counter[float]) -> _Disagreement:
    """Return a function: ratings -> number of ordered pairs that differ."""
    return lambda ratings: float(len(ratings) ** 2 - sum(n * n for n in Counter(ratings).values()))


def _interval(totals: Counter[float]) -> _Disagreement:
    """Return a function: ratings -> sum of squared differences over all ordered pairs."""
    return _squared_differences({value: value for value in totals})


def _ordinal(totals: Counter[float]) -> _Disagreement:
    """Return a function as `_interval` does, in ranks: the ratings in between, plus half of those at either end."""
    values = sorted(totals)
    return _squared_differences(dict(zip(values, _ranks(values, [float(totals[v]) for v in values]), strict=True)))


def _squared_differences(position_of: Mapping[float, float]) -> _Disagreement:
    """Return the sum over ordered pairs without forming pairs: 2n times the sum of squared deviations from the mean."""

    def disagreement(ratings: Sequence[float]) -> float:
        if len(set(ratings)) < 2:
            return 0.0
        positions = [position_of[rating] for rating in ratings]
        mean = math.fsum(positions) / len(positions)
        return 2 * len(positions) * math.fsum((position - mean) ** 2 for position in positions)

    return disagreement


_DISAGREEMENTS: Mapping[Level, Callable[[Counter[float]], _Disagreement]] = {
    Level.NOMINAL: _nominal,
    Level.ORDINAL: _ordinal,
    Level.INTERVAL: _interval,
}
