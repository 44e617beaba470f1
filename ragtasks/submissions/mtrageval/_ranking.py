"""Scores as the official evaluation reads them: 32-bit floats, equal ones ordered by document id descending.

Two different scores can be equal as 32-bit floats, which changes the ranking. Written scores therefore fall strictly as
32-bit floats.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Sequence


def single(score: float) -> float:
    """Return a score as trec_eval holds it: the nearest 32-bit float; infinite beyond their range, NaN for NaN."""
    try:
        return ctypes.c_float(score).value
    except OverflowError:  # a whole number that is too large for any float
        return math.inf if score > 0 else -math.inf


def falls_strictly(scores: Sequence[float]) -> bool:
    """Return whether every score is finite and smaller than the one before it, as 32-bit floats; True for none."""
    values = [single(score) for score in scores]
    return all(map(math.isfinite, values)) and all(first > second for first, second in itertools.pairwise(values))


def rank_scores(n: int) -> tuple[float, ...]:
    """Return n, n - 1, ..., 1: scores that say no more than the rank."""
    return tuple(float(n - index) for index in range(n))


def official_scores(scores: Sequence[float]) -> tuple[float, ...]:
    """Return scores under which a list ranks officially as it stands: its own where they do, else by rank."""
    return tuple(map(float, scores)) if falls_strictly(scores) else rank_scores(len(scores))
