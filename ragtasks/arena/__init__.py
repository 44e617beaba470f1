"""The arena: which of two answers is better, by judges and by people, and ratings of systems from their votes.

After Ragnarök's arena and the win rate of MTRAG's human evaluation. `battles` puts saved answers into pairs and asks
judges, `votes` keeps votes, `ratings` says what they mean, `web` serves pages and an interface for raters.
"""

from ragtasks.arena.votes import Preference, RaterKind, Vote, VotedAnswer

__all__ = ["Preference", "RaterKind", "Vote", "VotedAnswer"]
