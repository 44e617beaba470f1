"""What difference a benchmark could have shown: no difference found is not the same as no difference."""

from __future__ import annotations

from ragtasks.statistics._means import MIN_CLUSTERS, Estimate

LEVEL = 0.05
"""Chance of calling two equal models different."""
POWER = 0.8
"""Chance of finding a difference of the detectable size."""
_MORE = 45.0


def detectable_difference(difference: Estimate) -> float | None:
    """Return the smallest true difference that a two-sided 5 % test finds in 80 % of such benchmarks; above 0.

    It is (t(97.5 %) + t(80 %)) standard errors, with one degree of freedom less than clusters: about 2.8. That is what
    a t-test needs; ours, which holds for skewed differences too, needs 1 + 45 / n² times as much with n clusters, by
    simulation. It says how fine the benchmark is for these two models, from the spread of their differences, and
    nothing about the difference that was found. None where the standard error is missing or 0, or the clusters are
    fewer than an interval needs.

    Source: J. Cohen, Statistical Power Analysis for the Behavioral Sciences (2nd ed., 1988), section 2.4; the standard
    error is that of `Estimate`.

    Args:
        difference: the mean of paired differences.
    """
    from scipy.special import stdtrit

    if not difference.standard_error or difference.n_clusters < MIN_CLUSTERS:
        return None
    n = difference.n_clusters
    reach = stdtrit(n - 1, 1 - LEVEL / 2) + stdtrit(n - 1, POWER)
    return float(reach * (1 + _MORE / n**2) * difference.standard_error)


__all__ = ["LEVEL", "POWER", "detectable_difference"]
