"""The detectable difference: its power by scipy's noncentral t, and in simulated benchmarks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ragtasks.statistics import Estimate, cluster, estimate_means
from ragtasks.statistics._detectable import detectable_difference
from ragtasks.statistics._permutation import sign_flip_p_values


def estimate(error: float | None, n_clusters: int) -> Estimate:
    return Estimate(0.0, None, None, error, None, n_clusters, n_clusters, 0)


@pytest.mark.parametrize("n_clusters", [10, 25, 110, 1000])
def test_a_t_test_finds_it_four_times_out_of_five(n_clusters: int) -> None:
    found = detectable_difference(estimate(0.25, n_clusters))
    assert found is not None
    freedom = n_clusters - 1
    power = stats.nct.sf(stats.t.ppf(0.975, freedom), freedom, found / 0.25)
    assert power == pytest.approx(0.8, abs=0.002)


def test_many_conversations_need_the_normal_quantiles() -> None:
    expected = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    assert detectable_difference(estimate(1.0, 10**6)) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("error", "n_clusters"), [(None, 1), (0.0, 50), (0.1, 9)])
def test_unknown_where_the_error_is(error: float | None, n_clusters: int) -> None:
    assert detectable_difference(estimate(error, n_clusters)) is None


def test_the_permutation_test_finds_it_four_times_out_of_five() -> None:
    """Conversations of 2 to 13 tasks, differences with an ICC of 0.3, and a true one of the detectable size."""
    chance = np.random.default_rng(2)

    def draw(shift: float) -> list[float]:
        sizes = chance.integers(2, 14, 110)
        shared = np.repeat(chance.normal(0, np.sqrt(0.3), 110), sizes)
        values[:] = (shift + shared + chance.normal(0, np.sqrt(0.7), sizes.sum())).tolist()
        names[:] = np.repeat([f"{n:03}" for n in range(110)], sizes).tolist()
        return values

    values: list[float] = []
    names: list[str] = []
    first = estimate_means([cluster(draw(0.0), names)], n_resamples=99)[0]
    size = detectable_difference(first)
    assert size is not None
    p_values = sign_flip_p_values([cluster(draw(size), names) for _ in range(200)])
    assert 0.70 <= np.mean([p is not None and p <= 0.05 for p in p_values]) <= 0.90
