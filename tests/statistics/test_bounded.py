"""Intervals of scores between two bounds: by hand, by properties, and by simulation near the bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ragtasks.statistics import Clustered, cluster, estimate_means
from ragtasks.statistics._bounded import bounded_interval
from ragtasks.statistics._student import student_quantile

N_BENCHMARKS = 400
VALUES = st.lists(st.lists(st.integers(0, 8).map(lambda n: n / 8), min_size=1, max_size=4), min_size=12, max_size=15)


def ends(column: Clustered, level: float = 0.95) -> tuple[float, float]:
    (found,) = estimate_means([column], level=level)
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


def clustered(parts: list[list[float]], bounds: tuple[float, float] = (0.0, 1.0)) -> Clustered:
    names = [f"{number:03}" for number, part in enumerate(parts) for _ in part]
    return cluster([value for part in parts for value in part], names, bounds)


@pytest.mark.parametrize("freedom", [1, 1.5, 2.25, 3, 9, 24.7, 109, 1e6])
@pytest.mark.parametrize("probability", [0.5, 0.8, 0.975, 0.995])
def test_quantiles_are_scipys(freedom: float, probability: float) -> None:
    assert student_quantile(probability, freedom) == pytest.approx(stats.t.ppf(probability, freedom), abs=1e-7)


def test_one_conversation_of_eighteen_by_hand() -> None:
    """17 of 18 conversations with one task each are right: CR2 is sqrt(18/17 * 17/18) / 18, and 3.2 degrees of freedom.

    What carries the spread is 17 squares of 1/18 and one of 17/18: 1.12 conversations.
    """
    column = clustered([[1.0]] * 17 + [[0.0]])
    share, error = 17 / 18, 1 / 18
    reach = stats.t.ppf(0.975, round(2 * (17 * 18) ** 2 / (17 + 17**4) + 1, 2)) * error
    # Wilson: the shares p with |p - 17/18| = reach * sqrt(p (1 - p) / (17/18 * 1/18)).
    pull = reach**2 / (share * (1 - share))
    low, high = sorted(np.roots([1 + pull, -2 * share - pull, share**2]))
    assert ends(column) == pytest.approx((low, high), abs=1e-6)


@given(VALUES, st.floats(0.1, 10), st.floats(-5, 5))
@settings(max_examples=30)
def test_the_interval_is_within_the_bounds_around_the_mean_and_of_any_unit(
    parts: list[list[float]], scale: float, shift: float
) -> None:
    column = clustered(parts)
    (found,) = estimate_means([column])
    if found.reason:
        return
    low, high = ends(column)
    assert 0 <= low <= column.mean <= high <= 1  # type: ignore[operator]
    narrow = ends(column, 0.5)
    assert low <= narrow[0]
    assert narrow[1] <= high
    moved = clustered([[scale * value + shift for value in part] for part in parts], (shift, shift + scale))
    assert ends(moved) == pytest.approx((scale * low + shift, scale * high + shift), abs=1e-6)
    mirrored = clustered([[1 - value for value in part] for part in parts])
    assert ends(mirrored) == pytest.approx((1 - high, 1 - low), abs=1e-9)


def test_a_mean_that_is_not_between_its_bounds_has_itself_for_both_ends() -> None:
    column = clustered([[1.5]] * 8 + [[1.25]] * 8)
    assert bounded_interval(column, 0.95) == (column.mean, column.mean)


def test_many_alike_conversations_have_the_usual_interval() -> None:
    chance = np.random.default_rng(0)
    column = clustered(chance.beta(5, 5, (400, 4)).tolist())
    (found,) = estimate_means([column])
    reach = stats.t.ppf(0.975, 399) * (found.standard_error or math.nan)
    assert ends(column) == pytest.approx(((found.value or 0) - reach, (found.value or 0) + reach), abs=0.05 * reach)


@pytest.mark.parametrize(("share", "icc"), [(0.5, 0.1), (0.9, 0.1), (0.97, 0.1), (0.05, 0.3)])
@pytest.mark.parametrize("n_clusters", [10, 25, 50])
def test_shares_near_the_bounds_are_covered_with_few_conversations(share: float, icc: float, n_clusters: int) -> None:
    """Each conversation has a share of its own; those benchmarks where all conversations are alike have no interval."""
    chance = np.random.default_rng(30)
    weight = 1 / icc - 1
    columns = []
    for _ in range(N_BENCHMARKS):
        own = chance.beta(share * weight, (1 - share) * weight, n_clusters)
        columns.append(clustered([(chance.random(chance.integers(2, 14)) < one).astype(float).tolist() for one in own]))
    found = [item for item in estimate_means(columns) if not item.reason]
    assert len(found) >= 0.75 * N_BENCHMARKS or n_clusters == 10
    covered = np.mean([(item.low or 0) <= share <= (item.high or 0) for item in found])
    assert covered >= 0.915
    widths = [(item.high or 0) - (item.low or 0) for item in found]
    assert np.mean(widths) < {10: 0.36, 25: 0.22, 50: 0.15}[n_clusters]
