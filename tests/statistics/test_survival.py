"""Survival over turns: the product of the shares that pass each turn, and its interval on the log-log scale."""

from __future__ import annotations

import math
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import CensoredData, ecdf

from ragtasks.statistics import survival

ENDS = (1, 2, 2, 3, 5, 5, 5, 5, 4, 4, 3, 6, 6)
FAILED = (1, 0, 1, 1, 0, 0, 1, 0, 1, 0, 0, 0, 1)


def test_the_curve_is_the_product_over_turns_of_the_conversations_that_pass() -> None:
    steps = survival(ENDS, [bool(value) for value in FAILED])
    assert [(step.turn, step.n_at_risk, step.n_failed) for step in steps] == [
        *((1, 13, 1), (2, 12, 1), (3, 10, 1), (4, 8, 1), (5, 6, 1), (6, 2, 1)),
    ]
    share, variance = 1.0, 0.0
    for step in steps:
        share *= 1 - step.n_failed / step.n_at_risk
        variance += step.n_failed / (step.n_at_risk * (step.n_at_risk - step.n_failed))
        assert step.share.value == pytest.approx(share)
        reach = 1.959964 * math.sqrt(variance) / abs(math.log(share))
        assert step.share.low == pytest.approx(share ** math.exp(reach), rel=1e-5)
        assert step.share.high == pytest.approx(share ** math.exp(-reach), rel=1e-5)


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=10, max_size=40))
def test_shares_and_intervals_equal_those_of_scipy(ends: list[tuple[int, bool]]) -> None:
    failures, censored = ([turn for turn, has_failed in ends if has_failed is kind] for kind in (True, False))
    curve = ecdf(CensoredData(uncensored=failures, right=censored)).sf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        interval = curve.confidence_interval(0.95, method="log-log")
    for step in survival(*zip(*ends, strict=True)):
        low, high = (float(side.evaluate(step.turn)) for side in (interval.low, interval.high))
        assert step.share.value == pytest.approx(float(curve.evaluate(step.turn)), rel=1e-12)
        if low < high:
            assert (step.share.low, step.share.high) == pytest.approx((low, high), rel=1e-9)
        else:
            assert step.share.low is None


def test_a_censored_conversation_is_at_risk_in_its_last_turn_and_not_after_it() -> None:
    first, second = survival([1, 2], [False, True])
    assert (first.n_at_risk, first.n_failed, first.share.value) == (2, 0, 1.0)
    assert (second.n_at_risk, second.n_failed, second.share.value) == (1, 1, 0.0)


def test_there_is_no_interval_before_a_failure_or_for_few_conversations() -> None:
    assert [step.share.low for step in survival([2] * 12, [False] * 12)] == [None, None]
    assert [step.share.low for step in survival([1, 2, 2, 2], [True, False, False, True])] == [None, None]
    assert survival([], []) == []
