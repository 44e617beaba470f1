"""The paired permutation test: against scipy, by hand, and on benchmarks without a difference."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ragtasks.statistics import Clustered, cluster
from ragtasks.statistics._permutation import sign_flip_p_values

SUMS = st.lists(st.integers(-8, 8).map(lambda n: n / 8), min_size=1, max_size=8)


def column(values: list[float] | list[float | None]) -> Clustered:
    return cluster(values, [f"{number:04}" for number in range(len(values))])


def p_value(values: list[float]) -> float:
    (found,) = sign_flip_p_values([column(values)])
    assert found is not None
    return found


def test_three_equal_differences_by_hand() -> None:
    """Of the 8 turnings, all and none of the signs are as far from 0."""
    assert p_value([0.5, 0.5, 0.5]) == 2 / 8
    assert p_value([0.5, 0.0, -0.5]) == 1
    assert p_value([0.3]) == 1


@given(SUMS)
@settings(max_examples=60)
def test_few_conversations_are_counted_out(values: list[float]) -> None:
    turned = [abs(sum(s * v for s, v in zip(signs, values, strict=True))) for signs in signs_of(len(values))]
    expected = sum(found >= abs(sum(values)) for found in turned) / len(turned)
    assert p_value(values) == pytest.approx(expected)


def signs_of(n: int) -> list[tuple[int, ...]]:
    return list(itertools.product((-1, 1), repeat=n))


@pytest.mark.parametrize("shift", [0.0, 0.3, 0.6])
def test_exact_p_values_are_scipys(shift: float) -> None:
    values = np.random.default_rng(3).normal(shift, 1, 11)
    oracle = stats.permutation_test((values,), np.sum, permutation_type="samples", n_resamples=np.inf)
    assert p_value(values.tolist()) == pytest.approx(oracle.pvalue)


@pytest.mark.parametrize("shift", [0.0, 0.15, 0.3])
def test_drawn_p_values_are_near_the_normal_ones(shift: float) -> None:
    values = np.random.default_rng(4).normal(shift, 1, 110)
    z = abs(values.sum()) / np.sqrt((values**2).sum())
    assert p_value(values.tolist()) == pytest.approx(2 * stats.norm.sf(z), abs=0.01)


def test_drawn_p_values_are_near_the_exact_ones() -> None:
    """16 conversations are counted out; 17 are drawn. One more that hardly matters joins the two."""
    values = np.random.default_rng(5).normal(0.4, 1, 16).tolist()
    assert p_value([*values, 1e-6]) == pytest.approx(p_value(values), abs=0.01)


def test_a_drawn_p_value_is_never_zero() -> None:
    assert p_value([1.0] * 40) == 1 / 100_000


def test_conversations_without_a_difference_change_nothing() -> None:
    values = np.random.default_rng(6).normal(0.4, 1, 30).tolist()
    assert p_value([*values, *[0.0] * 50]) == p_value(values)
    assert p_value([0.0] * 50) == 1


@given(st.lists(st.integers(-8, 8).map(lambda n: n / 8), min_size=1, max_size=40))
@settings(max_examples=10)
def test_it_does_not_matter_which_is_the_first(values: list[float]) -> None:
    assert p_value([-value for value in values]) == pytest.approx(p_value(values), abs=0.01)


def test_a_p_value_depends_on_no_other_column() -> None:
    chance = np.random.default_rng(7)
    columns = [column(chance.normal(0.1, 1, n).tolist()) for n in (5, 30, 110, 30)]
    empty = column([None, None])
    together = sign_flip_p_values([*columns, empty])
    assert together == [*(sign_flip_p_values([found])[0] for found in columns), None]
    assert sign_flip_p_values([]) == []


def test_equal_models_are_called_different_in_5_of_100_benchmarks_and_not_more() -> None:
    """Tasks of a conversation differ together: a test that turns single tasks errs far more often."""
    chance = np.random.default_rng(8)
    sums = [(chance.normal(0, 1, 30) * chance.integers(2, 14, 30)).tolist() for _ in range(500)]
    p_values = [p for p in sign_flip_p_values([column(found) for found in sums]) if p is not None]
    assert 0.03 <= np.mean(np.array(p_values) <= 0.05) <= 0.07
