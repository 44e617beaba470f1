"""Intervals of means: against scipy where clusters are of one size, by their definition, and by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ragtasks.statistics import MIN_CLUSTERS, Clustered, Estimate, cluster, estimate_means
from ragtasks.statistics._bootstrap import NOTHING_SCORED, NOTHING_VARIES, TOO_FEW_CLUSTERS, TOO_FEW_DIFFER

N_BENCHMARKS = 500
ONE_FOR_EACH = [f"{number:02}" for number in range(12)]


def estimate(values: list[float | None], clusters: list[str], **options: int) -> Estimate:
    (found,) = estimate_means([cluster(values, clusters)], **options)
    return found


def ends(found: Estimate) -> tuple[float, float]:
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


def pivot(sample: np.ndarray, mean: float) -> np.ndarray:
    """Return how many of its own standard errors a sample's mean is from a mean."""
    return np.abs(sample.mean(axis=-1) - mean) / stats.sem(sample, axis=-1)


@pytest.mark.parametrize("seed", range(3))
def test_equal_clusters_are_scipys_bootstrap_of_their_means(seed: int) -> None:
    chance = np.random.default_rng(seed)
    means = chance.exponential(size=30)
    values = means[:, None] + chance.normal(size=(30, 1)) * np.array([-1, 0, 1])
    found = estimate(values.ravel().tolist(), [f"{n:02}" for n in range(30) for _ in range(3)])
    assert found.value == pytest.approx(means.mean())
    assert found.standard_error == pytest.approx(stats.sem(means))
    assert found.independent_error == pytest.approx(stats.sem(values.ravel()))
    # The interval reaches as many standard errors as 95 % of the resamples stay within: one-sided, of the distances.
    centre = means.mean()
    oracle = stats.bootstrap(
        (means,),
        lambda sample, axis: pivot(np.moveaxis(sample, axis, -1), centre),
        n_resamples=20_000,
        method="percentile",
        alternative="less",
        confidence_level=0.95,
        rng=np.random.default_rng(99),
    )
    reach = oracle.confidence_interval.high * stats.sem(means)
    assert ends(found) == pytest.approx((centre - reach, centre + reach), abs=0.03 * reach)


def test_every_resample_is_measured_by_its_own_standard_error() -> None:
    """With as many resamples as level 0.5 needs for the middle one, the whole bootstrap can be done by hand."""
    chance = np.random.default_rng(5)
    sizes = chance.integers(1, 6, 12)
    values = chance.random(sizes.sum())
    names = np.repeat(ONE_FOR_EACH, sizes)
    column = cluster(values.tolist(), names.tolist())
    (found,) = estimate_means([column], level=0.5, n_resamples=9, seed=7)
    drawn = np.random.default_rng(7).integers(12, size=(9, 12))
    distances = []
    for row in drawn:
        parts = [values[names == ONE_FOR_EACH[index]] for index in row]
        mean = np.concatenate(parts).mean()
        gaps = [part.sum() - mean * len(part) for part in parts]
        error = math.sqrt(12 / 11 * sum(gap**2 for gap in gaps)) / sum(map(len, parts))
        distances.append(abs(mean - values.mean()) / error)
    low, high = ends(found)
    reach = sorted(distances)[4] * (found.standard_error or 0)
    assert (low, high) == pytest.approx((values.mean() - reach, values.mean() + reach))


def test_the_standard_error_of_unequal_clusters_by_hand() -> None:
    """Sums 2 and 0, counts 1 and 3: mean 1/2, gaps 3/2 and -3/2, so sqrt(2 * 9/2) / 4."""
    found = estimate([2.0, 0.0, 0.0, 0.0], ["a", "b", "b", "b"])
    assert found.value == 0.5
    assert found.standard_error == pytest.approx(3 / 4)
    assert (found.low, found.high, found.reason) == (None, None, TOO_FEW_CLUSTERS)


VALUES = st.lists(st.lists(st.integers(0, 8).map(lambda n: n / 8), min_size=1, max_size=4), min_size=12, max_size=15)


def flat(parts: list[list[float]]) -> tuple[list[float], list[str]]:
    return [value for part in parts for value in part], [f"{n:02}" for n, part in enumerate(parts) for _ in part]


@given(VALUES, st.floats(0.1, 10), st.floats(-5, 5))
@settings(max_examples=20)
def test_other_units_give_the_same_interval_in_other_units(
    parts: list[list[float]], scale: float, shift: float
) -> None:
    values, names = flat(parts)
    plain = estimate(list(values), names, n_resamples=199)
    moved = estimate([scale * value + shift for value in values], names, n_resamples=199)
    assert moved.reason == plain.reason
    if not plain.reason:
        assert ends(moved) == pytest.approx([scale * end + shift for end in ends(plain)], abs=1e-6)


@given(VALUES)
@settings(max_examples=40)
def test_the_interval_is_around_the_mean_and_grows_with_the_level(parts: list[list[float]]) -> None:
    column = cluster(*flat(parts))
    (narrow,), (wide,) = (estimate_means([column], level=level, n_resamples=199) for level in (0.5, 0.9))
    if not wide.reason:
        assert wide.low <= narrow.low <= narrow.value <= narrow.high <= wide.high  # type: ignore[operator]
        assert wide.high - wide.value == pytest.approx(wide.value - wide.low)  # type: ignore[operator]


@given(VALUES, st.floats(-1, 1))
@settings(max_examples=40)
def test_an_interval_ends_at_a_single_bound_and_is_else_the_same(parts: list[list[float]], lowest: float) -> None:
    values, names = flat(parts)
    free, bound = estimate_means([cluster(values, names), cluster(values, names, (lowest, math.inf))], n_resamples=199)
    assert (bound.value, bound.standard_error, bound.reason) == (free.value, free.standard_error, free.reason)
    if not free.reason:
        assert bound.value is not None
        low, high = ends(free)
        assert ends(bound) == (min(bound.value, max(low, lowest)), max(bound.value, high))


def test_an_interval_depends_on_no_other_column_and_no_call() -> None:
    chance = np.random.default_rng(1)
    columns = [cluster(chance.random(n).tolist(), [f"{i:03}" for i in range(n)]) for n in (12, 40, 12, 15, 40)] * 20
    together = estimate_means(columns)
    for column, first, last in zip(columns[:5], together[:5], together[-5:], strict=True):
        (alone,) = estimate_means([column])
        assert (alone.low, alone.high) == pytest.approx((first.low, first.high), rel=1e-9)
        assert (alone.low, alone.high) == pytest.approx((last.low, last.high), rel=1e-9)


def test_nothing_is_invented_where_there_is_no_interval() -> None:
    nothing = estimate([None, None], ["a", "b"])
    assert (nothing.value, nothing.low, nothing.standard_error, nothing.reason) == (None, None, None, NOTHING_SCORED)
    assert nothing.n_unscored == 2
    one = estimate([0.25, 0.75], ["a", "a"])
    assert (one.value, one.standard_error, one.reason) == (0.5, None, TOO_FEW_CLUSTERS)
    alike = estimate([0.1] * 36, ONE_FOR_EACH * 3)
    assert (alike.standard_error, alike.low, alike.reason) == (0, None, NOTHING_VARIES)
    rare = estimate([1.0] + [0.0] * 99, [f"{n:03}" for n in range(100)])
    assert (rare.value, rare.low, rare.reason) == (0.01, None, TOO_FEW_DIFFER)
    assert estimate_means([]) == []


def test_an_interval_needs_ten_conversations() -> None:
    values = [float(n) for n in range(MIN_CLUSTERS)]
    assert estimate(values[1:], ONE_FOR_EACH[: MIN_CLUSTERS - 1]).reason == TOO_FEW_CLUSTERS
    assert estimate(values, ONE_FOR_EACH[:MIN_CLUSTERS]).reason == ""


@pytest.mark.parametrize(("level", "n_resamples"), [(0.95, 18), (0, 999), (1, 999)])
def test_a_level_that_the_resamples_cannot_give_is_refused(level: float, n_resamples: int) -> None:
    with pytest.raises(ValueError, match="cannot give an interval at level"):
        estimate_means([], level=level, n_resamples=n_resamples)


def normal(chance: np.random.Generator, cluster_of: np.ndarray) -> np.ndarray:
    """Return values of which a conversation shares 30 % of the variance; true mean 0."""
    shared = chance.standard_normal(cluster_of.max() + 1)[cluster_of]
    return math.sqrt(0.3) * shared + math.sqrt(0.7) * chance.standard_normal(len(cluster_of))


def outcomes(chance: np.random.Generator, cluster_of: np.ndarray) -> np.ndarray:
    """Return 0/1 values, 80 % of them 1, with a correlation of 0.3 in a conversation."""
    own = chance.beta(0.8 * 7 / 3, 0.2 * 7 / 3, cluster_of.max() + 1)[cluster_of]
    return (chance.random(len(cluster_of)) < own) * 1.0


Draw = Callable[[np.random.Generator, np.ndarray], np.ndarray]


def benchmarks(draw: Draw, n_clusters: int) -> list[Clustered]:
    """Return simulated benchmarks of conversations with 2 to 13 tasks."""
    chance = np.random.default_rng(20)
    made = []
    for _ in range(N_BENCHMARKS):
        cluster_of = np.repeat(np.arange(n_clusters), chance.integers(2, 14, n_clusters))
        made.append(cluster(draw(chance, cluster_of).tolist(), [f"{number:03}" for number in cluster_of]))
    return made


@pytest.mark.parametrize(("draw", "truth"), [(normal, 0.0), (outcomes, 0.8)])
@pytest.mark.parametrize("n_clusters", [25, 110])
def test_95_of_100_intervals_hold_the_true_mean_and_those_of_independent_tasks_do_not(
    draw: Draw, truth: float, n_clusters: int
) -> None:
    found = estimate_means(benchmarks(draw, n_clusters), n_resamples=999)
    ours = [low <= truth <= high for low, high in map(ends, found)]
    naive = [abs((e.value or 0) - truth) <= 1.96 * (e.independent_error or 0) for e in found]
    assert 0.93 <= np.mean(ours) <= 0.97
    assert np.mean(naive) < 0.80
