"""The arena: pairwise comparison of answers by judges and people, and ratings of systems from their votes.

The design follows Ragnarök's arena and the win rate of MTRAG's human evaluation. `battles` pairs saved answers and
sends them to judges. `votes` and `store` store votes, `ratings` computes ratings, and `web` serves pages for raters and
an API.
"""

from ragtasks.arena.votes import Preference, RaterKind, Vote, VotedAnswer

__all__ = ["Preference", "RaterKind", "Vote", "VotedAnswer"]
