"""Changes of a mean when its judge runs again, estimated from some answers that were judged several times."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.special import stdtrit

from ragtasks.statistics import EXACT, TOO_FEW_CLUSTERS, Repeatability, estimate_mean, repeatability
from ragtasks.statistics._judges import NO_SHARED

Floats = Sequence[float | None]


def repeatability_of(
    *judgings: Floats, every_value: Floats | None = None, names: Sequence[str] | None = None
) -> Repeatability:
    """Return the repeatability of judging runs of answers, one conversation each unless given."""
    clusters = names or [f"c{index}" for index in range(len(judgings[0]))]
    everything = every_value or judgings[0]
    ids = clusters if every_value is None else [f"w{index}" for index in range(len(everything))]
    return repeatability(judgings, clusters, estimate_mean(everything, ids, (0.0, 1.0)), (0.0, 1.0))


def test_two_runs_equal_a_paired_standard_error() -> None:
    rng = np.random.default_rng(1)
    first = rng.uniform(0.2, 0.8, 40)
    second = first + rng.normal(0, 0.1, 40)
    result = repeatability_of(list(first), list(second))
    gaps = second - first
    assert result.move == pytest.approx(np.abs(gaps).mean())
    assert result.shift == pytest.approx(abs(gaps.mean()))
    # The mean of a half-normal, from the standard error of the paired differences.
    assert result.mean_move[0] == pytest.approx(gaps.std(ddof=1) / math.sqrt(40) * math.sqrt(2 / math.pi))
    assert result.mean_move[1] < result.mean_move[0] < result.mean_move[2]
    # A further run differs from the first like the second: a t interval of 40 paired differences.
    reach = float(stdtrit(39, 0.975)) * gaps.std(ddof=1) / math.sqrt(40)
    assert result.again == pytest.approx((first.mean() - reach, first.mean() + reach))
    assert result.identical == 0


def test_answers_judged_once_also_reduce_the_error_of_the_mean() -> None:
    rng = np.random.default_rng(2)
    every_value = list(rng.uniform(0.2, 0.8, 160))
    second = [value + rng.normal(0, 0.1) for value in every_value[:40]]
    some, everything = (
        repeatability_of(every_value[:40], second),
        repeatability_of(every_value[:40], second, every_value=every_value),
    )
    assert everything.mean_move[0] == pytest.approx(some.mean_move[0] / 2)


def test_noise_shared_by_a_conversation_counts_as_shared() -> None:
    rng = np.random.default_rng(3)
    names = [f"c{index // 4}" for index in range(80)]
    first = np.full(80, 0.5)
    shared = first + np.repeat(rng.normal(0, 0.1, 20), 4)
    alone = first + rng.normal(0, 0.1, 80)
    wide, narrow = (
        repeatability_of(list(first), list(shared), names=names),
        repeatability_of(list(first), list(alone), names=names),
    )
    assert 1.4 < wide.mean_move[0] / narrow.mean_move[0] < 2.9  # twice, by four answers each


def test_a_shift_between_runs_is_detected_and_widens_the_interval() -> None:
    rng = np.random.default_rng(4)
    first = rng.uniform(0.2, 0.7, 60)
    names = [f"c{index}" for index in range(60)]
    overall = estimate_mean(list(first), names, (0.0, 1.0))
    still, moved = (
        repeatability([list(first), list(first + shift + noise)], names, overall, (0.0, 1.0))
        for noise in [rng.normal(0, 0.05, 60)]
        for shift in (-float(noise.mean()), 0.08)
    )
    assert still.shift_p > 0.9
    assert still.shift_error == 0
    assert still.widened(overall.cell, overall.standard_error) == overall.cell
    assert moved.shift_p < 0.001
    assert moved.shift_error == pytest.approx(0.08 / math.sqrt(2), rel=0.1)
    cell = moved.widened(overall.cell, overall.standard_error)
    assert overall.standard_error
    factor = math.hypot(1, moved.shift_error / overall.standard_error)
    assert cell.high - cell.low == pytest.approx(factor * (overall.high - overall.low))
    assert cell.value == overall.value


def test_missing_estimates_have_a_reason() -> None:
    values = [0.1 * index for index in range(12)]
    assert repeatability_of(values, values).reason == EXACT
    assert repeatability_of(values, values).identical == 1
    few = repeatability_of(values[:9], [0.5] * 9)
    assert (few.reason, few.mean_move, few.again) == (TOO_FEW_CLUSTERS, None, None)
    assert few.move is not None
    nothing = repeatability_of([None] * 12, values)
    assert (nothing.reason, nothing.identical, nothing.n_lost) == (NO_SHARED, None, 12)


def test_answers_unscored_in_a_run_are_left_out_and_counted() -> None:
    values: list[float | None] = [0.1 * index for index in range(12)]
    result = repeatability_of(values, [None, *values[1:]])
    assert (result.n_answers, result.n_lost, result.identical) == (11, 1, 1.0)


@pytest.mark.slow
def test_one_more_run_lies_within_its_prediction_interval() -> None:
    rng = np.random.default_rng(5)
    n_inside = n_shifts = 0
    for _ in range(300):
        sizes = rng.integers(2, 13, 60)
        names = [f"c{index}" for index, size in enumerate(sizes) for _ in range(size)]
        truth = 0.6 + np.repeat(rng.normal(0, 0.1, 60), sizes) + rng.normal(0, 0.2, len(names))
        first, second, third = (list(truth + rng.normal(0, 0.15, len(names))) for _ in range(3))
        m = int(sizes[:20].sum())
        result = repeatability([first[:m], second[:m]], names[:m], estimate_mean(first, names))
        n_inside += result.again[0] <= float(np.mean(third)) <= result.again[1]
        n_shifts += result.shift_p <= 0.05
    assert 0.91 <= n_inside / 300 <= 0.98
    assert n_shifts / 300 <= 0.09
