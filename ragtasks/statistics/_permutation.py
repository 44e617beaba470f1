"""A paired permutation test over clusters.

If two models were alike, either could have given either answer, so the sign of every conversation's difference could
have come out the other way. The test turns whole conversations: their tasks belong together. The p value is the share
of all turnings with a difference at least as large, both directions counted.

Sources: R. A. Fisher, The Design of Experiments (1935), section 21; B. Phipson and G. Smyth, Permutation p-values
should never be zero (2010), for the 1 that is added where turnings are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ragtasks.statistics._clusters import ROUNDING, Clustered, Floats

N_TURNINGS = 99_999
"""Turnings drawn where there are too many to try all: a hundred models and metrics leave room for Holm's correction."""

_ROWS_AT_ONCE = 10_000
_WIDTH = 64
_TIE = 1e-9  # a share of what a sum could reach: sums that differ by rounding only are equal


def sign_flip_p_values(differences: Sequence[Clustered], *, seed: int = 0) -> list[float | None]:
    """Return the two-sided p value of each column of differences, in (0, 1]; None without any value.

    All turnings are tried where there are at most 100,000 of them, else 99,999 are drawn. Conversations without a
    difference change nothing and are left out, so a column without any difference has p = 1. A column's p value does
    not depend on the other columns, and is the same at every call.

    Args:
        differences: paired differences, summed by cluster as from `cluster`.
        seed: start of the random numbers.
    """
    sums = [column.sums[np.abs(column.sums) > ROUNDING] for column in differences]
    p_values: list[float | None] = [1.0 if column.n_values else None for column in differences]
    drawn: dict[int, list[int]] = {}
    for index, found in enumerate(sums):
        if 2 ** len(found) <= N_TURNINGS + 1 and len(found):
            p_values[index] = _exact(found)
        elif len(found):
            drawn.setdefault(-(-len(found) // _WIDTH) * _WIDTH, []).append(index)
    for width, indices in drawn.items():
        found_p = _sampled([sums[index] for index in indices], width, seed)
        for index, p in zip(indices, found_p, strict=True):
            p_values[index] = p
    return p_values


def _exact(sums: Floats) -> float:
    n = len(sums)
    bits = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    return float(_at_least((2.0 * bits - 1) @ sums[:, None], sums[:, None])[0] / 2**n)


def _sampled(columns: Sequence[Floats], width: int, seed: int) -> list[float]:
    # Filled up with zeros to one of few widths, so that the signs do not depend on what else is tested.
    padded = np.stack([np.pad(column, (0, width - len(column))) for column in columns], axis=1)
    n_reached = sum(_at_least(signs @ padded, padded) for signs in _signs(width, seed))
    return [float(p) for p in (1 + np.asarray(n_reached)) / (N_TURNINGS + 1)]


def _signs(width: int, seed: int) -> Iterator[Floats]:
    """Yield rows of random signs, `N_TURNINGS` in all; shape (rows, width)."""
    chance = np.random.default_rng(seed)
    for start in range(0, N_TURNINGS, _ROWS_AT_ONCE):
        n_rows = min(_ROWS_AT_ONCE, N_TURNINGS - start)
        octets = chance.integers(256, size=(n_rows, width // 8), dtype=np.uint8)
        yield 2 * np.unpackbits(octets, axis=1).astype(np.float64) - 1


def _at_least(turned: Floats, sums: Floats) -> Floats:
    """Return for each column how many turned sums are as far from 0 as the sum that was found."""
    limit = np.abs(sums.sum(axis=0)) - _TIE * np.abs(sums).sum(axis=0)
    return np.asarray((np.abs(turned) >= limit).sum(axis=0), dtype=np.float64)


__all__ = ["N_TURNINGS", "sign_flip_p_values"]
