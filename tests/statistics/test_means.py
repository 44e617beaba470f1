"""Means, intervals and p values: by hand, by properties, and by simulation of their error rates."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from ragtasks.statistics import (
    MIN_CLUSTERS,
    NOTHING_SCORED,
    NOTHING_VARIES,
    TOO_FEW_CLUSTERS,
    UNBOUNDED,
    Clustered,
    Estimate,
    cluster,
    estimate_mean,
    estimate_means,
    estimate_quantile,
    shared_error,
)

N_BENCHMARKS = 400
DIFFERENCES = (-1.0, 1.0)
VALUES = st.lists(st.lists(st.integers(-8, 8).map(lambda n: n / 8), min_size=1, max_size=4), min_size=10, max_size=15)
BOUNDS = st.sampled_from([DIFFERENCES, UNBOUNDED])


def clustered(parts: list[list[float]], bounds: tuple[float, float] = UNBOUNDED) -> Clustered:
    names = [f"{number:03}" for number, part in enumerate(parts) for _ in part]
    return cluster([value for part in parts for value in part], names, bounds)


def estimate(column: Clustered, level: float = 0.95, tested: float | None = 0.0) -> Estimate:
    (result,) = estimate_means([column], level=level, tested=tested)
    return result


def ends(estimated: Estimate) -> tuple[float, float]:
    assert estimated.low is not None
    assert estimated.high is not None
    return estimated.low, estimated.high


def p_value(column: Clustered, tested: float = 0.0) -> float:
    result = estimate(column, tested=tested).p
    assert result is not None
    return result


# Reported values, by hand.


def test_standard_errors_of_equal_clusters_equal_scipy() -> None:
    chance = np.random.default_rng(0)
    means = chance.exponential(size=30)
    values = means[:, None] + chance.normal(size=(30, 1)) * np.array([-1, 0, 1])
    result = estimate(clustered(values.tolist()))
    assert result.value == pytest.approx(means.mean())
    assert result.standard_error == pytest.approx(stats.sem(means))
    assert result.independent_error == pytest.approx(stats.sem(values.ravel()))


def test_the_standard_error_of_unequal_clusters_by_hand() -> None:
    """Sums 2 and 0, counts 1 and 3: mean 1/2, gaps 3/2 and -3/2, so sqrt(2 * 9/2) / 4."""
    result = estimate(clustered([[2.0], [0.0, 0.0, 0.0]]))
    assert result.value == 0.5
    assert result.standard_error == pytest.approx(3 / 4)
    assert (result.low, result.high, result.p, result.reason) == (None, None, None, TOO_FEW_CLUSTERS)


def test_differences_without_skewness_are_a_t_test_with_two_degrees_fewer() -> None:
    """Equal conversations: CR2 is the error of their means, with n - 1 degrees of freedom; two more are subtracted."""
    values = [0.3 + side * step for step in (1, 2, 3, 4, 5, 6) for side in (-0.1, 0.1)]
    t = 0.3 / stats.sem(values)
    assert p_value(clustered([[value] for value in values])) == pytest.approx(2 * stats.t.sf(t, 9))
    reach = stats.t.ppf(0.975, 9) * stats.sem(values)
    assert ends(estimate(clustered([[value] for value in values]))) == pytest.approx((0.3 - reach, 0.3 + reach))


def test_unequal_conversations_by_hand() -> None:
    """Nine conversations of one task, and one of nine tasks, which has half of the weight in the mean."""
    parts = [[0.25], [-0.25]] * 4 + [[0.5], [0.5] * 9]
    counts = np.array([1.0] * 9 + [9.0])
    sums = np.array([sum(part) for part in parts])
    mean = sums.sum() / 18
    gaps = sums - mean * counts
    share = 1 / (1 - counts / 18)
    error = math.sqrt((share * gaps**2).sum()) / 18
    # Satterthwaite: the variance as a quadratic form in independent tasks, by its matrix.
    parts_of = np.repeat(np.eye(10), counts.astype(int), axis=1)
    form = sum(
        weight * np.outer(row - size / 18, row - size / 18)
        for weight, row, size in zip(share, parts_of, counts, strict=True)
    )
    freedom = np.trace(form) ** 2 / np.trace(form @ form) - 2
    skewness = 2 * math.sqrt(10) * (gaps**3).sum() / (gaps**2).sum() ** 1.5
    assert freedom > 1
    for tested in (0.0, 0.2, 0.36, 0.4):
        w = (mean - tested) / error / math.sqrt(10)
        hall = math.copysign(math.sqrt(10), w) * (w + skewness * w**2 / 3 + skewness**2 * w**3 / 27 + skewness / 60)
        is_in_tail = w * skewness < 0
        assert not is_in_tail or abs(skewness * w) < 1.25
        distance = max(0, min(hall, abs(mean - tested) / error)) if is_in_tail else abs(mean - tested) / error
        assert p_value(clustered(parts), tested) == pytest.approx(2 * stats.t.sf(distance, freedom))


def test_one_conversation_of_eighteen_by_hand() -> None:
    """17 of 18 conversations with one task each are right: Wilson's upper end, and Hall's lower end."""
    column = clustered([[1.0]] * 17 + [[0.0]], (0.0, 1.0))
    share, error = 17 / 18, math.sqrt(17 / 18 / 18 / 17)
    reach = stats.t.ppf(0.975, 15)
    skewness = -16 / math.sqrt(17) * (1 + 100 / 18**2)

    def cubic(w: float) -> float:
        return w + skewness * w**2 / 3 + skewness**2 * w**3 / 27 + skewness / 108

    def hall(mean: float) -> float:
        """Linear beyond 5/4 of the inverse skewness, with the slope at that point."""
        w, bend = (share - mean) / error / math.sqrt(18), 1.25 / -skewness
        return math.sqrt(18) * (cubic(min(w, bend)) + max(0, w - bend) * (1 - 1.25 / 3) ** 2) - reach

    pull = (reach * error) ** 2 / (share * (1 - share))
    wilson = sorted(np.roots([1 + pull, -2 * share - pull, share**2]))
    assert ends(estimate(column)) == pytest.approx((min(wilson[0], optimize.brentq(hall, -1, share)), wilson[1]))


# p and interval.


@given(VALUES, BOUNDS, st.sampled_from([0.5, 0.8, 0.95, 0.99]), st.integers(-7, 7).map(lambda n: n / 8 + 0.01))
@settings(max_examples=150)
def test_p_is_small_exactly_if_the_interval_excludes_the_mean(
    parts: list[list[float]], bounds: tuple[float, float], level: float, tested: float
) -> None:
    result = estimate(clustered(parts, bounds), level, tested)
    assume(not result.reason)
    low, high = ends(result)
    assert 0 <= result.p <= 1
    assert (result.p <= 1 - level) == (tested < low or tested > high)


@given(VALUES, BOUNDS)
@settings(max_examples=60)
def test_the_ends_are_the_extreme_means_that_are_not_rejected(
    parts: list[list[float]], bounds: tuple[float, float]
) -> None:
    column = clustered(parts, bounds)
    result = estimate(column)
    assume(not result.reason)
    for end in ends(result):
        if abs(end) < 1 or bounds == UNBOUNDED:
            assert p_value(column, end) == pytest.approx(0.05, abs=1e-6)


@given(VALUES, BOUNDS)
@settings(max_examples=60)
def test_the_interval_is_within_the_bounds_around_the_mean_and_grows_with_the_level(
    parts: list[list[float]], bounds: tuple[float, float]
) -> None:
    column = clustered(parts, bounds)
    narrow, wide = estimate(column, 0.5), estimate(column, 0.95)
    assume(not wide.reason)
    assert bounds[0] <= wide.low <= narrow.low <= narrow.value <= narrow.high <= wide.high <= bounds[1]  # type: ignore[operator]


@given(VALUES, BOUNDS, st.floats(0.1, 10), st.floats(-5, 5))
@settings(max_examples=60)
def test_order_side_and_unit_do_not_matter(
    parts: list[list[float]], bounds: tuple[float, float], scale: float, shift: float
) -> None:
    result = estimate(clustered(parts, bounds))
    turned = estimate(clustered([[-value for value in part] for part in parts], (-bounds[1], -bounds[0])))
    shuffled = estimate(clustered([part[::-1] for part in parts[::-1]], bounds))
    moved_bounds = (scale * bounds[0] + shift, scale * bounds[1] + shift)
    moved = estimate(clustered([[scale * v + shift for v in part] for part in parts], moved_bounds), tested=shift)
    assert result.reason == turned.reason == shuffled.reason == moved.reason
    if result.reason:
        return
    assert [turned.p, shuffled.p, moved.p] == pytest.approx([result.p] * 3, rel=1e-6, abs=1e-12)
    low, high = ends(result)
    assert ends(turned) == pytest.approx((-high, -low), abs=1e-9)
    assert ends(shuffled) == pytest.approx((low, high), abs=1e-9)
    assert ends(moved) == pytest.approx((scale * low + shift, scale * high + shift), abs=1e-6)


@given(VALUES, st.floats(-1, 1))
@settings(max_examples=40)
def test_a_single_bound_only_limits_the_interval(parts: list[list[float]], lowest: float) -> None:
    free, bound = estimate(clustered(parts)), estimate(clustered(parts, (lowest, math.inf)))
    assert (bound.value, bound.standard_error, bound.reason) == (free.value, free.standard_error, free.reason)
    if not free.reason:
        assert bound.value is not None
        low, high = ends(free)
        assert ends(bound) == (min(bound.value, max(low, lowest)), max(bound.value, high))


def test_the_interval_contains_a_mean_outside_its_bounds() -> None:
    result = estimate(clustered([[1.5]] * 8 + [[1.25]] * 8, (0.0, 1.0)), tested=0.5)
    assert result.high == result.value == 1.375
    assert result.low > 1.25
    assert result.p < 0.001


def test_an_estimate_is_independent_of_other_columns_and_calls() -> None:
    chance = np.random.default_rng(1)
    columns = [clustered(chance.random((n, 1)).tolist()) for n in (12, 40, 12, 9, 15, 40)]
    assert estimate_means(columns, tested=0.5) == [estimate(column, tested=0.5) for column in columns]
    assert [result.p for result in estimate_means(columns)] == [None] * 6
    assert estimate_means([]) == []


# Missing intervals.


def test_missing_intervals_have_a_reason() -> None:
    nothing = estimate(cluster([None, None], ["a", "b"]))
    assert (nothing.value, nothing.low, nothing.standard_error, nothing.p) == (None, None, None, None)
    assert (nothing.reason, nothing.n_unscored) == (NOTHING_SCORED, 2)
    single = estimate(clustered([[0.25, 0.75]]))
    assert (single.value, single.standard_error, single.p, single.reason) == (0.5, None, None, TOO_FEW_CLUSTERS)
    alike = estimate(clustered([[0.1] * 3] * 12))
    assert (alike.standard_error, alike.low, alike.p, alike.reason) == (0, None, None, NOTHING_VARIES)


def test_an_interval_and_a_p_value_need_ten_conversations() -> None:
    parts = [[float(n)] for n in range(MIN_CLUSTERS)]
    few, enough = estimate(clustered(parts[1:])), estimate(clustered(parts))
    assert (few.reason, few.low, few.p) == (TOO_FEW_CLUSTERS, None, None)
    assert enough.reason == ""
    assert estimate(clustered([[0.0]] * 9, DIFFERENCES)).p is None


def test_equal_conversations_are_tested_exactly() -> None:
    """A sample of equal means most likely misses a share q of conversations at -1 if (1 - q) / 10 = q: q = 1/11."""
    tenth = clustered([[0.1]] * 30, DIFFERENCES)
    assert estimate(tenth).reason == NOTHING_VARIES
    assert p_value(tenth) == pytest.approx(2 * (10 / 11) ** 30)
    assert p_value(clustered([[-0.1]] * 30, DIFFERENCES)) == pytest.approx(2 * (10 / 11) ** 30)
    assert p_value(clustered([[1.0]] * 10, DIFFERENCES)) == pytest.approx(2 / 2**10)
    assert p_value(clustered([[0.1]] * 10, DIFFERENCES)) == pytest.approx(2 * (10 / 11) ** 10)
    assert p_value(clustered([[0.01]] * 10, DIFFERENCES)) == 1
    # Conversations have one or three tasks, two on average. A missed conversation may have three: q = 0.2 / 3.2.
    assert p_value(clustered([[0.1], [0.1] * 3] * 15, DIFFERENCES)) == pytest.approx(2 * (3 / 3.2) ** 30)
    for bounds in (DIFFERENCES, UNBOUNDED):
        assert p_value(clustered([[0.25, -0.25]] * 10, bounds)) == 1


@pytest.mark.parametrize("level", [0, 1])
def test_an_invalid_level_is_an_error(level: float) -> None:
    with pytest.raises(ValueError, match="a level between 0 and 1"):
        estimate_means([], level=level)


# Error rates, by small simulations; perf/mean_tests.py and perf/interval_coverage.py run the large ones.

Draw = Callable[[np.random.Generator, np.ndarray], np.ndarray]


def of_conversations(draw: Callable[[np.random.Generator, int], np.ndarray]) -> Draw:
    """Return a generator of values that are equal within a conversation."""
    return lambda chance, cluster_of: draw(chance, int(cluster_of.max()) + 1)[cluster_of]


def normal(chance: np.random.Generator, cluster_of: np.ndarray) -> np.ndarray:
    """Return values with 30 % of the variance between conversations; true mean 0."""
    shared = chance.standard_normal(cluster_of.max() + 1)[cluster_of]
    return math.sqrt(0.3) * shared + math.sqrt(0.7) * chance.standard_normal(len(cluster_of))


def outcomes(share: float, icc: float = 0.3) -> Draw:
    """Return a generator of 0/1 values that correlate within a conversation."""

    def draw(chance: np.random.Generator, cluster_of: np.ndarray) -> np.ndarray:
        own = chance.beta(share * (1 / icc - 1), (1 - share) * (1 / icc - 1), cluster_of.max() + 1)[cluster_of]
        return (chance.random(len(cluster_of)) < own) * 1.0

    return draw


def benchmarks(draw: Draw, n_clusters: int, bounds: tuple[float, float], shift: float = 0.0) -> list[Clustered]:
    """Return simulated benchmarks of conversations with 2 to 13 tasks."""
    chance = np.random.default_rng(20)
    made = []
    for _ in range(N_BENCHMARKS):
        cluster_of = np.repeat(np.arange(n_clusters), chance.integers(2, 14, n_clusters))
        values = draw(chance, cluster_of) + shift
        made.append(cluster(values.tolist(), [f"{number:03}" for number in cluster_of], bounds))
    return made


FAILING = of_conversations(lambda chance, n: np.where(chance.random(n) < 0.1, -0.9, 0.1))
"""Constant 0.9 against 1, except for a tenth of the conversations, which fail completely."""
SKEWED = of_conversations(lambda chance, n: chance.beta(4.5, 0.5, n) - 0.9)
"""Constant 0.9 against conversations with a long tail to 0."""


def equal_sides(chance: np.random.Generator, cluster_of: np.ndarray) -> np.ndarray:
    """Return differences of two systems with equal accuracy."""
    return outcomes(0.8)(chance, cluster_of) - outcomes(0.8)(chance, cluster_of)


@pytest.mark.parametrize("draw", [FAILING, SKEWED, equal_sides])
@pytest.mark.parametrize("n_clusters", [10, 18, 30])
def test_equal_means_are_called_different_in_at_most_6_of_100_benchmarks(draw: Draw, n_clusters: int) -> None:
    result = estimate_means(benchmarks(draw, n_clusters, DIFFERENCES), tested=0.0)
    assert (
        np.mean([result_of_benchmark.p is not None and result_of_benchmark.p <= 0.05 for result_of_benchmark in result])
        <= 0.06
    )


@pytest.mark.parametrize(("draw", "bounds", "truth"), [(normal, UNBOUNDED, 0.0), (outcomes(0.8), (0.0, 1.0), 0.8)])
@pytest.mark.parametrize("n_clusters", [25, 110])
def test_intervals_cover_the_true_mean_in_95_percent_of_cases(
    draw: Draw, bounds: tuple[float, float], truth: float, n_clusters: int
) -> None:
    result = estimate_means(benchmarks(draw, n_clusters, bounds))
    ours = [low <= truth <= high for low, high in map(ends, result)]
    naive = [abs((e.value or 0) - truth) <= 1.96 * (e.independent_error or 0) for e in result]
    assert 0.93 <= np.mean(ours) <= 0.98
    assert np.mean(naive) < 0.80


@pytest.mark.parametrize(("share", "icc"), [(0.5, 0.1), (0.9, 0.1), (0.97, 0.1), (0.05, 0.3)])
@pytest.mark.parametrize("n_clusters", [10, 25, 50])
def test_shares_near_the_bounds_are_covered_with_few_conversations(share: float, icc: float, n_clusters: int) -> None:
    """Benchmarks in which all conversations are equal have no interval."""
    result = [e for e in estimate_means(benchmarks(outcomes(share, icc), n_clusters, (0.0, 1.0))) if not e.reason]
    assert len(result) >= 0.75 * N_BENCHMARKS or n_clusters == 10
    assert np.mean([low <= share <= high for low, high in map(ends, result)]) >= 0.92
    widths = [high - low for low, high in map(ends, result)]
    assert np.mean(widths) < {10: 0.5, 25: 0.24, 50: 0.15}[n_clusters]


def test_an_extra_error_widens_the_interval_and_increases_p() -> None:
    values, names = [0.1 * (index % 10) for index in range(40)], [f"c{index // 2}" for index in range(40)]
    plain = estimate_mean(values, names)
    error = plain.standard_error
    assert error is not None
    wider = estimate_mean(values, names, extra_error=error)
    assert wider.value == plain.value
    assert wider.value - wider.low == pytest.approx(math.sqrt(2) * (wider.value - plain.low), rel=0.01)
    assert wider.standard_error == pytest.approx(math.sqrt(2) * error)
    (tested,), (widely,) = (
        estimate_means([cluster(values, names, extra_error=extra)], tested=0.3) for extra in (0.0, error)
    )
    assert widely.p > tested.p
    assert estimate_mean(values, names, (0.0, 1.0), extra_error=10.0).low == 0


def test_the_error_of_a_map_is_a_jackknife_over_its_data() -> None:
    moves = [(0.1, -0.1, 0.0, 0.0)] * 5
    assert shared_error(moves, 5) == pytest.approx(math.sqrt(3 / 4 * 0.02))
    assert shared_error(moves, 10) == pytest.approx(shared_error(moves, 5) / 2), "half of the values are mapped"
    assert shared_error([], 5) == shared_error(moves, 0) == 0


# Quantiles: n conversations with one value each, so that the exact binomial interval is the oracle.


@pytest.mark.parametrize("share", [0.5, 0.75, 0.9, 0.95])
def test_a_quantile_needs_enough_conversations_below_for_an_upper_end(share: float) -> None:
    """If all n are below a point, the share below it is at least .025 ** (1 / n), the exact interval's lower end."""
    for n in range(MIN_CLUSTERS, 90):
        result = estimate_quantile([float(index) for index in range(n)], [f"c{index}" for index in range(n)], share)
        lowest = stats.binomtest(n, n).proportion_ci(0.95, "exact").low
        assert (result.high is not None) is bool(lowest >= share), n
        assert (result.low is None) is (result.high is None)
        assert result.value == math.ceil(round(share * n, 9)) - 1
        if result.high is not None and result.low is not None:
            assert result.low <= result.value <= result.high <= n - 1


def test_quantile_intervals_cover_the_true_value_in_95_percent_of_cases() -> None:
    chance, n_covered = np.random.default_rng(3), 0
    for _ in range(N_BENCHMARKS):
        values = chance.exponential(size=60)
        result = estimate_quantile(values.tolist(), [f"c{index}" for index in range(60)], 0.9)
        n_covered += result.low <= math.log(10) <= result.high
    assert 0.93 <= n_covered / N_BENCHMARKS <= 0.995


def test_the_interval_of_equal_sized_conversations_without_skew_is_students() -> None:
    """CR2 has n - 1 degrees of freedom in this case; two are subtracted for skewness and spread."""
    for n in (10, 16, 40):
        values = [float(index) for index in range(n)]
        result = estimate_mean(values, [f"c{index}" for index in range(n)])
        reach = stats.t.ppf(0.975, n - 3) * np.std(values, ddof=1) / math.sqrt(n)
        assert (result.low, result.high) == (
            pytest.approx(np.mean(values) - reach),
            pytest.approx(np.mean(values) + reach),
        )


def test_rare_failures_hide_a_drop_of_the_margin_in_at_most_1_of_40_benchmarks() -> None:
    """Scores are 0 or 1, two systems differ in 2 of 100 tasks, and 2 of 100 answers of the second system fail."""
    chance, names, margin, n = np.random.default_rng(1), [f"{number:03}" for number in range(400)], 0.02, 1200
    n_passed = 0
    for _ in range(n):
        gaps = np.select(
            [chance.random(400) < margin, chance.random(400) < 0.01, chance.random(400) < 0.01], [-1, 1, -1]
        )
        column = cluster(gaps.astype(float).tolist(), names, DIFFERENCES)
        (result,) = estimate_means([column], tested=-margin, is_discrete=True)
        n_passed += result.p is not None and result.p <= 0.05 and (column.mean or 0.0) > -margin
    assert n_passed / n <= 0.025


def test_the_grid_correction_is_half_a_step_and_zero_without_a_grid() -> None:
    names = [f"{number:03}" for number in range(60)]
    for values, step in (
        ([(number % 3 - 1.0) for number in range(60)], 1.0),
        ([(number % 4) / 4 for number in range(60)], 0.25),
        ([(number % 5) / 3 for number in range(60)], 1 / 3),
        ([0.5 + 0.0137 * (number % 11) for number in range(60)], 0.0),
    ):
        column = cluster(values, names, DIFFERENCES)
        assert column.half_step == pytest.approx(step / 120)
        plain, result = (estimate_means([column], tested=-0.3, is_discrete=given)[0] for given in (False, True))
        assert plain.low is not None
        assert result.low is not None
        if not step:
            assert result == plain
            continue
        assert plain.low - result.low >= step / 120 * (1 - 1e-9)
        (at_end,) = estimate_means([column], tested=result.low, is_discrete=True)
        assert at_end.p == pytest.approx(0.05, abs=1e-6), "p and interval use the same test"
