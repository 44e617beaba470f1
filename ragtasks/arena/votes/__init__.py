"""Where votes are kept: files of JSON lines, the database of a server, and who votes on what next."""

from ragtasks.arena.votes._database import Assignment, VoteRefusedError, VoteStore
from ragtasks.arena.votes._queue import BattleQueue, Standing
from ragtasks.arena.votes._vote_file import read_votes, write_votes

__all__ = [
    "Assignment",
    "BattleQueue",
    "Standing",
    "VoteRefusedError",
    "VoteStore",
    "read_votes",
    "write_votes",
]
