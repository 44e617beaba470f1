"""Ratings from votes of one type, with intervals: ratings, wins of each pair, effects of length and refusals.

All intervals resample conversations with `ragtasks.statistics`. The interval of a rating is that of a mean. Each vote
has a value whose mean is the rating: the rating plus the number of votes times the influence of the vote. A rating
without an interval is not reported, because few votes give only noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragtasks.arena.bradley_terry import Comparison, Fit, fit
from ragtasks.arena.votes import Vote
from ragtasks.statistics import MIN_CLUSTERS, Estimate, Floats, cluster, estimate_means, holm
from ragtasks.tables import grouped

# Elo ratings, averaged over many orders, because the order of votes carries no information about systems. Each vote
# moves a rating by K times the difference between result and expectation. The value is the mean over random orders. Its
# interval comes from resampled conversations in random orders. Cite the Bradley-Terry ratings; Elo is included because
# arenas use it. The tests compare with evalica, which returns the same ratings for one order and takes six times as
# long for all orders. Source: A. E. Elo, The rating of chessplayers, past and present (1978).

INITIAL, SCALE, K_FACTOR = 1000.0, 400.0, 4.0
"""Initial rating; difference at which ten of eleven votes are won; maximum points per vote."""
_N_ORDERS = 200


@dataclass(frozen=True, slots=True)
class Elo:
    """The rating of a system."""

    rating: float
    """Mean over orders."""
    low: float
    """2.5 % quantile of the resamples."""
    high: float
    """97.5 % quantile of the resamples."""


def elo(comparisons: Sequence[Comparison], conversations: Sequence[str]) -> dict[str, Elo]:
    """Return system -> Elo rating, ordered by name; {} without votes."""
    systems = sorted({system for first, second, _ in comparisons for system in (first, second)})
    index_of = {system: index for index, system in enumerate(systems)}
    votes = [(index_of[first], index_of[second], share) for first, second, share in comparisons]
    members = grouped(range(len(conversations)), conversations.__getitem__)
    groups = [members[name] for name in sorted(members)]
    chance = np.random.default_rng(0)
    ordered, resampled = [], []
    for _ in range(_N_ORDERS if votes else 0):
        ordered.append(_elo_in_order(votes, chance.permutation(len(votes)).tolist(), len(systems)))
        indices = [index for number in chance.integers(len(groups), size=len(groups)) for index in groups[number]]
        resampled.append(_elo_in_order(votes, chance.permutation(indices).tolist(), len(systems)))
    return {
        system: Elo(
            float(np.mean([run[index] for run in ordered])),
            float(np.quantile([run[index] for run in resampled], 0.025)),
            float(np.quantile([run[index] for run in resampled], 0.975)),
        )
        for index, system in enumerate(systems)
    }


def _elo_in_order(votes: Sequence[tuple[int, int, float]], order: Sequence[int], n_systems: int) -> list[float]:
    """Return the ratings after the votes in one order."""
    ratings = [INITIAL] * n_systems
    for index in order:
        first, second, share = votes[index]
        expected = 1 / (1 + 10 ** ((ratings[second] - ratings[first]) / SCALE))
        change = K_FACTOR * (share - expected)
        ratings[first] += change
        ratings[second] -= change
    return ratings


POINTS = SCALE / math.log(10)
"""Rating points per unit of log-odds."""
TOO_FEW = f"votes on fewer than {MIN_CLUSTERS} conversations"
"""Reason for a missing rating: too few conversations to distinguish it from chance."""
LONGER = "points for an answer longer by one standard deviation"
"""Name of the effect of length, which is in points. All other effects are shares."""


@dataclass(frozen=True, slots=True)
class Rating:
    """A system with its ratings and counts."""

    system: str
    n_battles: int
    """Number of votes on the system."""
    n_wins: int
    n_losses: int
    n_ties: int
    """Votes for `tie`. Wins, losses, ties and `n_both_bad` sum to the votes."""
    n_both_bad: int
    """Votes for `both_bad`."""
    win_rate: Estimate
    """Share of its votes won, with ties and both bad as half."""
    rating: Estimate | None
    """Bradley-Terry with ties, 1000 on average; None without a finite rating or without an interval."""
    controlled: Estimate | None
    """The rating for answers of equal length; None as for `rating`."""
    elo: Elo | None
    """None without an interval."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class HeadToHead:
    """Two systems compared with each other."""

    first: str
    """The system of `share`."""
    second: str
    share: Estimate
    """Share of the votes that the first system won, with ties as half."""
    p: float | None
    """p-value of a share of one half, over conversations; None with fewer than ten conversations."""
    adjusted_p: float | None
    """Holm-corrected p-value over all pairs."""


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a property of answers on votes."""

    name: str
    estimate: Estimate
    """Share of the votes won by the answer with the property. For length: rating points per standard deviation."""


@dataclass(frozen=True, slots=True)
class Ratings:
    """All results from votes of one type on one benchmark."""

    systems: tuple[Rating, ...]
    """Ordered by rating, then systems without a rating by win rate."""
    pairs: tuple[HeadToHead, ...]
    """Every pair of systems with votes, ordered by name."""
    effects: tuple[Effect, ...]
    """Effects of length and refusals."""
    votes: tuple[Vote, ...]


def rate(votes: Sequence[Vote]) -> Ratings:
    """Return the ratings from votes of one type; without votes, all fields are empty.

    The length-controlled rating is that for answers of equal length. The fit includes the difference of the log word
    counts, in standard deviations. Source: Y. Dubois et al., Length-controlled AlpacaEval (2024).
    """
    comparisons = [(*vote.systems, vote.value) for vote in votes]
    conversations = [vote.conversation_id for vote in votes]
    plain, longer = fit(comparisons), _length_differences(votes)
    controlled = fit(comparisons, longer) if longer.any() else plain
    ratings, reasons = _strengths(plain, votes)
    at_equal_length, _ = _strengths(controlled, votes)
    systems = [
        _rating(votes, system, own_elo, ratings.get(system), at_equal_length.get(system), reasons.get(system, ""))
        for system, own_elo in elo(comparisons, conversations).items()
    ]
    effects = [*_length_effect(controlled, conversations), *_refusal_effects(votes)]
    return Ratings(tuple(sorted(systems, key=_rank)), tuple(_pairs(votes)), tuple(effects), tuple(votes))


def _length_differences(votes: Sequence[Vote]) -> Floats:
    """Return the length differences of votes: log words, first minus second, in standard deviations, or all 0."""
    differences = np.array([math.log((1 + vote.first.n_words) / (1 + vote.second.n_words)) for vote in votes])
    spread = math.sqrt(float((differences**2).mean())) if len(votes) else 0.0
    return np.asarray(differences / spread) if spread else np.zeros(len(votes))


def _strengths(fitted: Fit, votes: Sequence[Vote]) -> tuple[dict[str, Estimate], dict[str, str]]:
    """Return system -> rating in points, and system -> reason for a missing rating."""
    used = [votes[index] for index in fitted.votes]
    clusters = [vote.conversation_id for vote in used]
    columns = [
        cluster((INITIAL + POINTS * fitted.pseudo_values(index)).tolist(), clusters)
        for index in range(len(fitted.systems))
    ]
    estimates = dict(zip(fitted.systems, estimate_means(columns), strict=True))
    reasons = fitted.unrated | {
        system: estimate.reason for system, estimate in estimates.items() if estimate.low is None
    }
    for systems, counted in ((fitted.unrated, votes), (estimates, used)):
        few = [system for system in systems if _n_conversations(_votes_on(counted, system)) < MIN_CLUSTERS]
        reasons |= dict.fromkeys(few, TOO_FEW)
    return {system: estimate for system, estimate in estimates.items() if system not in reasons}, reasons


def _votes_on(votes: Sequence[Vote], system: str) -> list[Vote]:
    return [vote for vote in votes if system in vote.systems]


def _n_conversations(votes: Sequence[Vote]) -> int:
    return len({vote.conversation_id for vote in votes})


def _rating(  # noqa: PLR0917 (one parameter a column)
    votes: Sequence[Vote], system: str, own_elo: Elo, rating: Estimate | None, controlled: Estimate | None, reason: str
) -> Rating:
    battles = _votes_on(votes, system)
    shares = [vote.value_of(system) for vote in battles]
    (win_rate,) = estimate_means([cluster(shares, [vote.conversation_id for vote in battles], (0.0, 1.0))])
    n_both_bad = sum(vote.preference == "both_bad" for vote in battles)
    has_interval = _n_conversations(battles) >= MIN_CLUSTERS and own_elo.low < own_elo.high
    return Rating(
        system=system,
        n_battles=len(battles),
        n_wins=shares.count(1.0),
        n_losses=shares.count(0.0),
        n_ties=shares.count(0.5) - n_both_bad,
        n_both_bad=n_both_bad,
        win_rate=win_rate,
        rating=rating,
        controlled=controlled,
        elo=own_elo if has_interval else None,
        reason=reason,
    )


def _rank(rating: Rating) -> tuple[float, float, str]:
    value = rating.rating.value if rating.rating else None
    return -(value or -math.inf), -(rating.win_rate.value or 0.0), rating.system


def _pairs(votes: Sequence[Vote]) -> list[HeadToHead]:
    votes_of = grouped(votes, lambda vote: (min(vote.systems), max(vote.systems)))
    names = sorted(votes_of)
    shares = [
        cluster([v.value_of(name[0]) for v in votes_of[name]], [v.conversation_id for v in votes_of[name]], (0.0, 1.0))
        for name in names
    ]
    estimates = estimate_means(shares, tested=0.5)
    rows = zip(names, estimates, holm([share.p for share in estimates]), strict=True)
    return [HeadToHead(*name, share, share.p, adjusted_p) for name, share, adjusted_p in rows]


def _length_effect(fitted: Fit, conversations: Sequence[str]) -> list[Effect]:
    if fitted.slope is None:
        return []
    values = POINTS * fitted.pseudo_values(len(fitted.systems))
    (estimate,) = estimate_means([cluster(values.tolist(), [conversations[index] for index in fitted.votes])])
    return [Effect(LONGER, estimate)] if estimate.low is not None else []


def _refusal_effects(votes: Sequence[Vote]) -> list[Effect]:
    """Return how often an answer that refuses wins against an answer that does not, by answerability."""
    effects = []
    for label in sorted({vote.answerability for vote in votes}):
        relevant = [vote for vote in votes if vote.answerability == label and vote.first.refuses != vote.second.refuses]
        if relevant:
            shares = [vote.value if vote.first.refuses else 1 - vote.value for vote in relevant]
            (estimate,) = estimate_means([cluster(shares, [vote.conversation_id for vote in relevant], (0.0, 1.0))])
            effects.append(Effect(f"share won by the answer that refuses, {label or 'no label'}", estimate))
    return effects
