"""The detectable difference: its power by scipy's noncentral t, and in simulated benchmarks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from ragtasks.statistics import Clustered, Estimate, cluster, detectable_difference, estimate_means


def estimate(error: float | None, n_clusters: int) -> Estimate:
    return Estimate(0.0, None, None, error, None, n_clusters, n_clusters, 0)


@pytest.mark.parametrize("n_clusters", [25, 110, 1000])
def test_the_value_is_slightly_above_that_of_a_t_test(n_clusters: int) -> None:
    result = detectable_difference(estimate(0.25, n_clusters))
    freedom = n_clusters - 1
    power = stats.nct.sf(stats.t.ppf(0.975, freedom), freedom, result / 0.25 / (1 + 45 / n_clusters**2))
    assert power == pytest.approx(0.8, abs=0.002)


def test_many_conversations_need_the_normal_quantiles() -> None:
    expected = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    assert detectable_difference(estimate(1.0, 10**6)) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("error", "n_clusters"), [(None, 1), (0.0, 50), (0.1, 9)])
def test_the_value_is_unknown_without_a_standard_error(error: float | None, n_clusters: int) -> None:
    assert detectable_difference(estimate(error, n_clusters)) is None


@pytest.mark.parametrize("n_clusters", [10, 18, 30, 110])
def test_the_test_detects_the_difference_in_80_percent_of_cases(n_clusters: int) -> None:
    """Conversations of 2 to 13 tasks, differences with an ICC of 0.3, and a true difference of the detectable size."""
    chance = np.random.default_rng(2)

    def draw(shift: float) -> Clustered:
        sizes = chance.integers(2, 14, n_clusters)
        shared = np.repeat(chance.normal(0, np.sqrt(0.3), n_clusters), sizes)
        values = shift + 0.2 * (shared + chance.normal(0, np.sqrt(0.7), sizes.sum()))
        return cluster(values.tolist(), np.repeat([f"{n:03}" for n in range(n_clusters)], sizes).tolist(), (-1.0, 1.0))

    sizes = [detectable_difference(result) or 0.0 for result in estimate_means([draw(0.0) for _ in range(100)])]
    result = estimate_means([draw(math.sqrt(np.mean(np.square(sizes)))) for _ in range(300)], tested=0.0)
    assert 0.70 <= np.mean([estimate.p is not None and estimate.p <= 0.05 for estimate in result]) <= 0.90
