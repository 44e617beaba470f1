"""Survival over turns: the share of conversations that have not failed yet, if some end without a failure.

Source: E. L. Kaplan and P. Meier, Nonparametric estimation from incomplete observations (1958), with Greenwood's
variance on the log-log scale, which keeps intervals between 0 and 1.
"""

from __future__ import annotations

import warnings
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
    from scipy.stats import CensoredData, ecdf

    ends, failed = np.asarray(last_turns), np.asarray(are_failures, dtype=bool)
    if not len(ends):
        return []
    curve = ecdf(CensoredData(uncensored=ends[failed], right=ends[~failed])).sf
    turns = np.arange(1, ends.max() + 1)
    shares = curve.evaluate(turns)
    with warnings.catch_warnings():
        # Before the first failure, and after the last conversation failed, the interval is undefined.
        warnings.simplefilter("ignore", RuntimeWarning)
        interval = curve.confidence_interval(1 - LEVEL, method="log-log")
    lows, highs = interval.low.evaluate(turns), interval.high.evaluate(turns)
    steps = []
    for turn, share, low, high in zip(turns, shares, lows, highs, strict=True):
        n_at_risk = int((ends >= turn).sum())
        has_interval = len(ends) >= MIN_CLUSTERS and low < high
        value = Value(float(share), n_at_risk, n_at_risk, *((float(low), float(high)) if has_interval else ()))
        steps.append(SurvivalStep(int(turn), n_at_risk, int((failed & (ends == turn)).sum()), value))
    return steps
