"""Values summed by cluster."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.statistics import cluster
from tests._messages import raises

ITEMS = st.lists(st.tuples(st.none() | st.integers(-8, 8).map(lambda n: n / 8), st.sampled_from("abcd")), max_size=30)


def test_sums_counts_and_unscored_values() -> None:
    result = cluster([1.0, None, 0.5, 0.25, None], ["b", "b", "a", "b", "c"])
    assert result.ids == ("a", "b")
    assert result.sums.tolist() == [0.5, 1.25]
    assert result.counts.tolist() == [1, 2]
    assert (result.n_values, result.n_unscored) == (3, 2)
    assert result.mean == pytest.approx(1.75 / 3)


@given(ITEMS)
def test_mean_and_spread_are_over_scored_values(items: list[tuple[float | None, str]]) -> None:
    result = cluster([value for value, _ in items], [name for _, name in items])
    scored = [value for value, _ in items if value is not None]
    assert result.n_values == len(scored) == result.counts.sum()
    assert result.n_unscored == len(items) - len(scored)
    if scored:
        assert result.mean == pytest.approx(statistics.fmean(scored))
        assert result.spread == pytest.approx(statistics.pvariance(scored) * len(scored), abs=1e-12)
    else:
        assert result.mean is None


@given(ITEMS, st.randoms(use_true_random=False))
def test_the_order_of_items_does_not_matter(items: list[tuple[float | None, str]], chance: random.Random) -> None:
    shuffled = list(items)
    chance.shuffle(shuffled)
    first, second = (
        cluster([value for value, _ in result], [name for _, name in result]) for result in (items, shuffled)
    )
    assert first.ids == second.ids
    assert first.sums.tolist() == second.sums.tolist()
    assert first.counts.tolist() == second.counts.tolist()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_an_error(bad: float) -> None:
    with pytest.raises(ValueError, match="write None"):
        cluster([0.5, bad], ["a", "b"])


def test_columns_of_different_length_are_an_error() -> None:
    with raises(ValueError):
        cluster([0.5, 0.5], ["a"])
