"""Survival over turns: the share of conversations that have not failed yet, if some end without a failure.

Source: E. L. Kaplan and P. Meier, Nonparametric estimation from incomplete observations (1958), with Greenwood's
variance on the log-log scale, which keeps intervals between 0 and 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragtasks.statistics._means import LEVEL, MIN_CLUSTERS
from ragtasks.tables import Value


@dataclass(frozen=True, slots=True)
class SurvivalStep:
    """The state after one turn."""

    turn: int
    n_at_risk: int
    """Conversations that reached the turn without a failure."""
    n_failed: int
    """Conversations whose first failure is this turn."""
    share: Value
    """Estimated share without a failure up to and including this turn."""


def survival(last_turns: Sequence[int], are_failures: Sequence[bool]) -> list[SurvivalStep]:
    """Return the Kaplan-Meier estimate for each turn from 1 to the last one with a conversation at risk.

    Args:
        last_turns: for each conversation, the turn of its first failure, or its last turn if it had none.
        are_failures: whether that turn is a failure; otherwise, the conversation is censored after it.
    """
    from scipy.special import ndtri

    ends, failed = np.asarray(last_turns, dtype=int), np.asarray(are_failures, dtype=bool)
    turns = np.arange(1, ends.max(initial=0) + 1)
    at_risk, n_failed = (ends >= turns[:, None]).sum(axis=1), (ends[failed] == turns[:, None]).sum(axis=1)
    shares = np.cumprod((at_risk - n_failed) / at_risk)
    # Before the first failure, and after the last conversation failed, the interval is undefined.
    with np.errstate(divide="ignore", invalid="ignore"):
        variances = 1 / np.log(shares) ** 2 * np.cumsum(n_failed / (at_risk * (at_risk - n_failed)))
        centers, reach = np.log(-np.log(shares)), ndtri(1 - LEVEL / 2) * np.sqrt(variances)
    lows, highs = np.exp(-np.exp(centers + reach)), np.exp(-np.exp(centers - reach))
    steps = []
    for turn, n, n_out, share, low, high in zip(turns, at_risk, n_failed, shares, lows, highs, strict=True):
        has_interval = len(ends) >= MIN_CLUSTERS and low < high
        value = Value(float(share), int(n), int(n), *((float(low), float(high)) if has_interval else ()))
        steps.append(SurvivalStep(int(turn), int(n), int(n_out), value))
    return steps
