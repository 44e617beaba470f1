"""Elo ratings of votes, averaged over many orders: the order of the votes contains no information on systems.

After each vote a rating moves by K times the difference between result and expectation. The value is the mean over
random orders; its interval comes from resampled conversations in random orders. Quote the Bradley-Terry ratings; Elo is
shown because arenas use it. evalica, the oracle of the tests, gives the same ratings for one order and is six times
slower over all of them.
Source: A. E. Elo, The rating of chessplayers, past and present (1978).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragtasks.arena.bradley_terry import Comparison

INITIAL, SCALE, K_FACTOR = 1000.0, 400.0, 4.0
"""Where ratings start; the difference that wins ten of eleven; points that one vote can move."""
_N_ORDERS = 200


@dataclass(frozen=True, slots=True)
class Elo:
    """One system's rating."""

    rating: float
    """Mean over orders."""
    low: float
    """2.5 % of the resamples lie below."""
    high: float
    """2.5 % of the resamples lie above."""


def elo(comparisons: Sequence[Comparison], conversations: Sequence[str]) -> dict[str, Elo]:
    """Return system -> its Elo rating, in order of names; {} for no vote."""
    systems = sorted({system for one, other, _ in comparisons for system in (one, other)})
    place = {system: index for index, system in enumerate(systems)}
    votes = [(place[one], place[other], share) for one, other, share in comparisons]
    members: dict[str, list[int]] = {}
    for index, name in enumerate(conversations):
        members.setdefault(name, []).append(index)
    groups = [members[name] for name in sorted(members)]
    chance = np.random.default_rng(0)
    ordered, resampled = [], []
    for _ in range(_N_ORDERS if votes else 0):
        ordered.append(_played(votes, chance.permutation(len(votes)).tolist(), len(systems)))
        drawn = [index for number in chance.integers(len(groups), size=len(groups)) for index in groups[number]]
        resampled.append(_played(votes, chance.permutation(drawn).tolist(), len(systems)))
    return {
        system: Elo(
            float(np.mean([run[index] for run in ordered])),
            float(np.quantile([run[index] for run in resampled], 0.025)),
            float(np.quantile([run[index] for run in resampled], 0.975)),
        )
        for index, system in enumerate(systems)
    }


def _played(votes: Sequence[tuple[int, int, float]], order: Sequence[int], n_systems: int) -> list[float]:
    """Return the ratings after the votes of one order."""
    ratings = [INITIAL] * n_systems
    for index in order:
        one, other, share = votes[index]
        expected = 1 / (1 + 10 ** ((ratings[other] - ratings[one]) / SCALE))
        change = K_FACTOR * (share - expected)
        ratings[one] += change
        ratings[other] -= change
    return ratings
