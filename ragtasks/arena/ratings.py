"""Ratings from votes of one kind, with intervals: ratings, wins of each pair, effects of length and refusals.

All intervals resample conversations with `ragtasks.statistics`. A rating's interval is that of a mean: each vote has a
value whose mean is the rating, namely the rating plus the number of votes times the change that this vote causes. A
rating without an interval is not reported: with eight votes it would be noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragtasks.arena.bradley_terry import Comparison, Fit, fit
from ragtasks.arena.votes import Vote
from ragtasks.statistics import MIN_CLUSTERS, Estimate, Floats, cluster, estimate_means, holm

# Elo ratings of votes, averaged over many orders: the order of the votes contains no information on systems. After
# each vote a rating moves by K times the difference between result and expectation. The value is the mean over random
# orders; its interval comes from resampled conversations in random orders. Quote the Bradley-Terry ratings; Elo is
# shown because arenas use it. evalica, the oracle of the tests, gives the same ratings for one order and is six times
# slower over all. Source: A. E. Elo, The rating of chessplayers, past and present (1978).

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


POINTS = SCALE / math.log(10)
"""Points of a rating for one unit of log-odds."""
TOO_FEW = f"votes on fewer than {MIN_CLUSTERS} conversations"
"""The reason of a system without a rating: too little to tell it from chance."""
LONGER = "points for an answer that is longer by one standard deviation"
"""The name of length's effect, which is in points; all others are shares."""


@dataclass(frozen=True, slots=True)
class Rating:
    """One system."""

    system: str
    n_battles: int
    """Votes that it was in."""
    n_wins: int
    n_losses: int
    n_ties: int
    """Votes that both are equally good; with wins, losses and `n_both_bad` they add up to the votes."""
    n_both_bad: int
    """Votes that neither answer is good."""
    win_rate: Estimate
    """Share of its votes won, a tie and both bad counting half."""
    rating: Estimate | None
    """Bradley-Terry with ties, 1000 on average; None where there is no finite one, or none with an interval."""
    controlled: Estimate | None
    """The same for answers of equal length."""
    elo: Elo | None
    """Elo; None where it has no interval."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class HeadToHead:
    """Two systems against each other."""

    first: str
    """The one whose share is given."""
    second: str
    share: Estimate
    """Share of the votes that the first won, a tie counting half."""
    p: float | None
    """Of a share of a half, over conversations; None with fewer than ten of them."""
    adjusted_p: float | None
    """The same by Holm, over all pairs."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What something about answers does to votes."""

    name: str
    estimate: Estimate
    """Share of the votes that the answer with it won; of length, the rating's points for one standard deviation."""


@dataclass(frozen=True, slots=True)
class Ratings:
    """Everything that votes of one kind, on one benchmark, say."""

    systems: tuple[Rating, ...]
    """Best first: by rating, then those without one by win rate."""
    pairs: tuple[HeadToHead, ...]
    """Every two systems that met, by name."""
    effects: tuple[Effect, ...]
    """Of length and refusals."""
    votes: tuple[Vote, ...]


def rate(votes: Sequence[Vote]) -> Ratings:
    """Return the ratings of votes of one kind; nothing in it for no vote.

    The length-controlled rating is that of answers of equal length: the difference of the logs of their words, in
    standard deviations, takes part in the fit. Source: Y. Dubois et al., Length-controlled AlpacaEval (2024).
    """
    comparisons = [(vote.first.system, vote.second.system, vote.value) for vote in votes]
    conversations = [vote.conversation_id for vote in votes]
    plain, longer = fit(comparisons), _longer(votes)
    controlled = fit(comparisons, longer) if longer.any() else plain
    ratings, reasons = _strengths(plain, votes)
    at_equal_length, _ = _strengths(controlled, votes)
    systems = [
        _rating(votes, system, own_elo, ratings.get(system), at_equal_length.get(system), reasons.get(system, ""))
        for system, own_elo in elo(comparisons, conversations).items()
    ]
    effects = [*_length_effect(controlled, conversations), *_refusal_effects(votes)]
    return Ratings(tuple(sorted(systems, key=_rank)), tuple(_pairs(votes)), tuple(effects), tuple(votes))


def _longer(votes: Sequence[Vote]) -> Floats:
    """Return how much longer each first answer is: difference of log words, in standard deviations; 0 for all alike."""
    differences = np.array([math.log((1 + vote.first.n_words) / (1 + vote.second.n_words)) for vote in votes])
    spread = math.sqrt(float((differences**2).mean())) if len(votes) else 0.0
    return np.asarray(differences / spread) if spread else np.zeros(len(votes))


def _strengths(found: Fit, votes: Sequence[Vote]) -> tuple[dict[str, Estimate], dict[str, str]]:
    """Return system -> its rating in points with the interval over conversations, and system -> why it has none."""
    used = [votes[place] for place in found.votes]
    clusters = [vote.conversation_id for vote in used]
    columns = [
        cluster((INITIAL + POINTS * found.pseudo_values(place)).tolist(), clusters)
        for place in range(len(found.systems))
    ]
    estimates = dict(zip(found.systems, estimate_means(columns), strict=True))
    reasons = {system: TOO_FEW for system in found.unrated if _n_conversations(_of(votes, system)) < MIN_CLUSTERS}
    reasons |= {system: TOO_FEW for system in estimates if _n_conversations(_of(used, system)) < MIN_CLUSTERS}
    reasons = found.unrated | {system: item.reason for system, item in estimates.items() if item.low is None} | reasons
    return {system: item for system, item in estimates.items() if system not in reasons}, reasons


def _of(votes: Sequence[Vote], system: str) -> list[Vote]:
    return [vote for vote in votes if system in {vote.first.system, vote.second.system}]


def _n_conversations(votes: Sequence[Vote]) -> int:
    return len({vote.conversation_id for vote in votes})


def _rating(  # noqa: PLR0917 (one parameter a column)
    votes: Sequence[Vote], system: str, own_elo: Elo, rating: Estimate | None, controlled: Estimate | None, reason: str
) -> Rating:
    battles = _of(votes, system)
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
    met: dict[tuple[str, str], list[Vote]] = {}
    for vote in votes:
        one, other = sorted((vote.first.system, vote.second.system))
        met.setdefault((one, other), []).append(vote)
    names = sorted(met)
    shares = [
        cluster([v.value_of(name[0]) for v in met[name]], [v.conversation_id for v in met[name]], (0.0, 1.0))
        for name in names
    ]
    estimates = estimate_means(shares, tested=0.5)
    rows = zip(names, estimates, holm([share.p for share in estimates]), strict=True)
    return [HeadToHead(*name, share, share.p, adjusted_p) for name, share, adjusted_p in rows]


def _length_effect(found: Fit, conversations: Sequence[str]) -> list[Effect]:
    if found.slope is None:
        return []
    values = POINTS * found.pseudo_values(len(found.systems))
    (estimate,) = estimate_means([cluster(values.tolist(), [conversations[place] for place in found.votes])])
    return [Effect(LONGER, estimate)] if estimate.low is not None else []


def _refusal_effects(votes: Sequence[Vote]) -> list[Effect]:
    """Return how often an answer that refuses wins against one that does not, by what the corpus holds."""
    effects = []
    for label in sorted({vote.answerability for vote in votes}):
        relevant = [vote for vote in votes if vote.answerability == label and vote.first.refuses != vote.second.refuses]
        if relevant:
            shares = [vote.value if vote.first.refuses else 1 - vote.value for vote in relevant]
            (estimate,) = estimate_means([cluster(shares, [vote.conversation_id for vote in relevant], (0.0, 1.0))])
            effects.append(Effect(f"share won by the one that refuses, {label or 'no label'}", estimate))
    return effects
