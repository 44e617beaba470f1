"""What difference a benchmark could have shown: no difference found is not the same as no difference."""

from __future__ import annotations

from ragtasks.statistics._bootstrap import MIN_CLUSTERS, Estimate
from ragtasks.statistics._student import student_quantile

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
    return (student_quantile(1 - LEVEL / 2, freedom) + student_quantile(POWER, freedom)) * difference.standard_error


__all__ = ["LEVEL", "POWER", "detectable_difference"]
