"""What difference a benchmark could have shown: no difference found is not the same as no difference."""

from __future__ import annotations

from statistics import NormalDist

from ragtasks.statistics._bootstrap import MIN_CLUSTERS, Estimate

LEVEL = 0.05
"""Chance of calling two equal models different."""
POWER = 0.8
"""Chance of finding a difference of the detectable size."""


def detectable_difference(difference: Estimate) -> float | None:
    """Return the smallest true difference that a two-sided 5 % test finds in 80 % of such benchmarks; above 0.

    It is (t(97.5 %) + t(80 %)) standard errors, with one degree of freedom less than clusters: about 2.8. It says how
    fine the benchmark is for these two models, from the spread of their differences, and nothing about the difference
    that was found. None where the standard error is missing or 0, or the clusters are fewer than an interval needs.

    Source: J. Cohen, Statistical Power Analysis for the Behavioral Sciences (2nd ed., 1988), section 2.4; the standard
    error is that of `Estimate`.

    Args:
        difference: the mean of paired differences.
    """
    if not difference.standard_error or difference.n_clusters < MIN_CLUSTERS:
        return None
    freedom = difference.n_clusters - 1
    return (_student(1 - LEVEL / 2, freedom) + _student(POWER, freedom)) * difference.standard_error


def _student(probability: float, freedom: int) -> float:
    """Return a quantile of Student's t by its expansion around the normal one; off by less than 1e-4 from 9 degrees on.

    Source: M. Abramowitz and I. Stegun, Handbook of Mathematical Functions (1964), formula 26.7.5.
    """
    z: float = NormalDist().inv_cdf(probability)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    )
    return float(z + sum(term / freedom**power for power, term in enumerate(terms, start=1)))


__all__ = ["LEVEL", "POWER", "detectable_difference"]
