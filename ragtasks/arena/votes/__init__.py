"""Where votes are kept: files of JSON lines, and the database of a server."""

from ragtasks.arena.votes._vote_file import read_votes, write_votes

__all__ = ["read_votes", "write_votes"]
