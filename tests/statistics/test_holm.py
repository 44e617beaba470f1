"""Holm's correction, by hand and by its properties."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.statistics import holm, pairs_without_best

P_VALUES = st.lists(st.none() | st.floats(0, 1), max_size=12)


def test_adjusted_values_computed_by_hand() -> None:
    """Sorted .01 .02 .03 .04, times 4 3 2 1: .04 .06 .06 .04, then the running maximum."""
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.5, 0.6]) == [1, 1]
    assert holm([0.02]) == [0.02]
    assert holm([]) == []


def test_missing_p_values_do_not_count() -> None:
    assert holm([None, 0.02, None, 0.03]) == [None, 0.04, None, 0.04]


@given(P_VALUES)
def test_rejections_equal_the_step_down_procedure(p_values: list[float | None]) -> None:
    """Holm's procedure: the smallest first, against 5 % divided by the number left, until the first that fails."""
    tested = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    rejected = set()
    for rank, (p, index) in enumerate(tested):
        if (len(tested) - rank) * p > 0.05:
            break
        rejected.add(index)
    assert {index for index, p in enumerate(holm(p_values)) if p is not None and p <= 0.05} == rejected


@given(P_VALUES)
def test_adjusted_values_are_at_least_the_p_values_in_the_same_order(p_values: list[float | None]) -> None:
    pairs = [(p, q) for p, q in zip(p_values, holm(p_values), strict=True) if p is not None and q is not None]
    assert all(p <= q <= 1 for p, q in pairs)
    assert [q for _, q in sorted(pairs)] == sorted(q for _, q in pairs)
    assert [p is None for p in p_values] == [q is None for q in holm(p_values)]


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan])
def test_a_value_outside_0_to_1_is_an_error(bad: float) -> None:
    with pytest.raises(ValueError, match="not between 0 and 1"):
        holm([0.5, bad])


def test_additional_tests_count() -> None:
    assert holm([0.01, None, 0.004], 4) == pytest.approx([0.05, None, 0.024])
    assert [pairs_without_best(n) for n in (0, 1, 2, 3, 10)] == [0, 0, 0, 1, 36]  # of 45 pairs the best has 9
