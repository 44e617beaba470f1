"""Agreement against a published example, scipy, and brute force from the definitions."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from ragtasks.metrics import (
    Level,
    krippendorff_alpha,
    pairwise_spearman,
    rater_agreement,
    spearman,
)
from ragtasks.metrics._agreement import NOTHING_VARIES, TOO_FEW
from tests._messages import raises

Item = Sequence[float | None]
RATERS = (
    (1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None),
    (1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3),
    (None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None),
    (1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None),
)
"""Four observers of twelve units: Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), example C."""

RATINGS = st.lists(st.lists(st.one_of(st.none(), st.integers(1, 5)), min_size=1, max_size=4), min_size=2, max_size=12)
PAIRS = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=30)


def distance(level: Level, a: float, b: float, everything: Sequence[float]) -> float:
    if level is Level.NOMINAL:
        return float(a != b)
    if level is Level.INTERVAL:
        return (a - b) ** 2
    low, high = min(a, b), max(a, b)
    between = sum(low <= value <= high for value in everything)
    return (between - (everything.count(a) + everything.count(b)) / 2) ** 2 if a != b else 0.0


def brute_alpha(ratings: Sequence[Item], level: Level) -> float | None:
    """Return alpha by the definition's double sums over single ratings."""
    items = [[value for value in item if value is not None] for item in ratings]
    items = [item for item in items if len(item) > 1]
    everything = [value for item in items for value in item]
    n = len(everything)
    expected = sum(distance(level, a, b, everything) for a, b in itertools.permutations(everything, 2))
    if len(items) < 2 or expected == 0:
        return None
    observed = sum(
        distance(level, a, b, everything) / (len(item) - 1)
        for item in items
        for a, b in itertools.permutations(item, 2)
    )
    return 1 - (observed / n) / (expected / (n * (n - 1)))


@pytest.mark.parametrize(
    ("level", "expected"), [(Level.NOMINAL, 0.743), (Level.ORDINAL, 0.815), (Level.INTERVAL, 0.849)]
)
def test_alpha_of_the_published_example(level: Level, expected: float) -> None:
    value = krippendorff_alpha(list(zip(*RATERS, strict=True)), level).value
    assert value == pytest.approx(expected, abs=5e-4)


@given(RATINGS, st.sampled_from(Level))
def test_alpha_equals_its_definition(ratings: list[list[int | None]], level: Level) -> None:
    assert krippendorff_alpha(ratings, level).value == pytest.approx(brute_alpha(ratings, level), abs=1e-9)


@pytest.mark.parametrize(
    ("ratings", "reason"),
    [
        ([], TOO_FEW),
        ([(1, 2)], TOO_FEW),
        ([(1, None), (None, 2), (3,)], TOO_FEW),
        ([(4, 4), (4, 4, None)], NOTHING_VARIES),
    ],
)
def test_alpha_of_too_few_ratings_is_unscored(ratings: list[Item], reason: str) -> None:
    score = krippendorff_alpha(ratings, Level.ORDINAL)
    assert (score.value, score.reason) == (None, reason)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_rating_that_is_not_finite_is_an_error(bad: float) -> None:
    with pytest.raises(ValueError, match="write None"):
        krippendorff_alpha([(1, bad), (1, 2)], Level.INTERVAL)
    with pytest.raises(ValueError, match="NaN or infinite"):
        spearman([1, 2], [1, bad])


def oracle(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return scipy's rho; None if a column does not vary, about which scipy warns."""
    if min(len(set(first)), len(set(second))) < 2:
        return None
    return float(spearmanr(first, second).statistic)


@given(PAIRS)
def test_spearman_equals_scipy(rows: list[tuple[int, int]]) -> None:
    first, second = zip(*rows, strict=True)
    assert spearman(first, second).value == pytest.approx(oracle(first, second), abs=1e-9)


@pytest.mark.parametrize(
    ("first", "second", "reason"), [([], [], TOO_FEW), ([1], [1], TOO_FEW), ([1, 1], [1, 2], NOTHING_VARIES)]
)
def test_spearman_of_too_few_pairs_is_unscored(first: list[float], second: list[float], reason: str) -> None:
    score = spearman(first, second)
    assert (score.value, score.reason) == (None, reason)


def test_invalid_columns_are_an_error() -> None:
    with raises(ValueError):
        spearman([1, 2], [1])


def test_pairs_of_raters_are_compared_on_common_items() -> None:
    columns = {"a": (1, 2, 3, None), "b": (3, 2, 1, 9), "c": (None, 1, 2, 3)}
    result = pairwise_spearman(columns)
    assert list(result) == [("a", "b"), ("a", "c"), ("b", "c")]
    # Raters b and c have the last three items in common: 2 1 9 and 1 2 3.
    assert [score.value for score in result.values()] == pytest.approx([-1, 1, 0.5])
    assert pairwise_spearman({"a": (1, 2)}) == {}
    assert pairwise_spearman({"a": (1, None), "b": (None, 1)})["a", "b"].reason == TOO_FEW
    with pytest.raises(ValueError, match="zip"):
        pairwise_spearman({"a": (1, 2), "b": (1,)})


def test_rater_agreement_as_in_the_mtrag_appendix() -> None:
    rows = [(4, 4, 4), (4, 3, 4), (4, 2, 4), (2, 3, 4), (3, 3), (3, 4), (1,)]
    result = rater_agreement(rows)
    assert (result.absolute, result.high, result.majority, result.n) == (2 / 6, 3 / 6, 4 / 6, 6)
    assert rater_agreement([(1,), ()]) is None


def test_the_step_of_the_scale_can_be_set() -> None:
    rows = [(0, 50, 50), (0, 100, 100)]
    shares = [result.high for step in (1, 50, 100) if (result := rater_agreement(rows, step)) is not None]
    assert shares == [0, 0.5, 1]


@given(st.lists(st.lists(st.integers(1, 5), min_size=2, max_size=5), min_size=1, max_size=12), st.randoms())
def test_rater_agreement_is_nested_and_independent_of_order(rows: list[list[int]], order: random.Random) -> None:
    result = rater_agreement(rows)
    assert 0 <= result.absolute <= result.high <= result.majority <= 1
    for row in rows:
        order.shuffle(row)
    order.shuffle(rows)
    assert rater_agreement(rows) == result
