"""What votes say of systems: ratings with intervals, who wins against whom, how far raters agree."""

from ragtasks.arena.ratings._elo import Elo, elo
from ragtasks.arena.ratings._fit import Comparison, Fit, fit
from ragtasks.arena.ratings._rate import POINTS, Effect, Pair, Rating, Ratings, rate
from ragtasks.arena.ratings._tables import rating_sections
from ragtasks.arena.ratings._vote_agreement import VoteAgreement, vote_agreement

__all__ = [
    "POINTS",
    "Comparison",
    "Effect",
    "Elo",
    "Fit",
    "Pair",
    "Rating",
    "Ratings",
    "VoteAgreement",
    "elo",
    "fit",
    "rate",
    "rating_sections",
    "vote_agreement",
]
