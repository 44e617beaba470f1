"""Where votes are kept: files of JSON lines, the database of a server, and who votes on what next."""

from ragtasks.arena.votes._queue import LEASE_SECONDS, Assignment, Queue, Standing, VoteRefusedError
from ragtasks.arena.votes._store import LONGEST_NAME, VoteStore, clean_name
from ragtasks.arena.votes._vote_file import read_votes, write_events, write_votes

__all__ = [
    "LEASE_SECONDS",
    "LONGEST_NAME",
    "Assignment",
    "Queue",
    "Standing",
    "VoteRefusedError",
    "VoteStore",
    "clean_name",
    "read_votes",
    "write_events",
    "write_votes",
]
