"""What a server's database holds: votes, who is invited, live battles, forms, reviews, and everything that happened."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragtasks.arena._vote import Vote
from ragtasks.arena.votes._database import Database
from ragtasks.errors import ConfigurationError

LONGEST_NAME = 60
"""Characters of a rater's name."""
_TOKEN_BYTES = 24


class VoteStore:
    """The database; may be used by several threads, and its file by several servers."""

    def __init__(self, path: Path, *, is_read_only: bool = False) -> None:
        """Open a database, or make one.

        Args:
            path: the file.
            is_read_only: whether it is only read: then nothing of it is changed, whatever its version.

        Raises:
            CacheError: the file cannot be used.
        """
        self.database = Database(path, is_read_only=is_read_only)

    def close(self) -> None:
        """Close the file."""
        self.database.close()

    @property
    def secret(self) -> bytes:
        """What cookies are signed with; stays beside the file, so that a server that starts again knows its raters."""
        return self.database.secret

    def invite(self, name: str) -> tuple[str, str]:
        """Return a rater's name in one line, and the token that lets this rater in; an earlier one does no longer.

        Raises:
            ConfigurationError: the name is empty.
        """
        rater = clean_name(name)
        if not rater:
            raise ConfigurationError(f"a rater needs a name: {name!r} is none")
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        with self.database.transaction() as connection:
            row = (rater, _hash(token), time.time())
            connection.execute("INSERT OR REPLACE INTO invitations VALUES (?, ?, ?)", row)
        return rater, token

    def invited(self, token: str) -> str | None:
        """Return whose token it is; None for nobody's."""
        rows = self.database.rows("SELECT rater FROM invitations WHERE hash = ?", _hash(token))
        return str(rows[0][0]) if rows else None

    def invitation(self, rater: str) -> str | None:
        """Return the hash of the token that lets a rater in; None for nobody who is invited."""
        rows = self.database.rows("SELECT hash FROM invitations WHERE rater = ?", rater)
        return str(rows[0][0]) if rows else None

    @property
    def has_invitations(self) -> bool:
        """Whether anybody is invited."""
        return bool(self.database.rows("SELECT 1 FROM invitations LIMIT 1"))

    def votes(self) -> list[Vote]:
        """Return all votes that count, in the order in which they came."""
        query = "SELECT vote FROM votes WHERE undone IS NULL ORDER BY place"
        return self.database.parsed(query, lambda row: _vote(row[0]))

    def import_votes(self, votes: Sequence[Vote]) -> int:
        """Keep votes that came from elsewhere, and return how many of them were new."""
        with self.database.transaction() as connection:
            before = connection.total_changes
            rows = [(vote.vote_id, vote.rater, vote.model_dump_json()) for vote in votes]
            connection.executemany("INSERT OR IGNORE INTO votes (vote_id, rater, vote) VALUES (?, ?, ?)", rows)
            return connection.total_changes - before

    def events(self) -> list[dict[str, Any]]:
        """Return everything that happened on pairs and forms, in order, a vote that was undone with what it said.

        `given`: a rater got it, or got it again after its time was over; `names_shown`: the rater learnt which systems
        they are; `voted`, `skipped`, and `undone` of either.
        """
        query = (
            "SELECT e.time, e.event, e.rater, e.battle_id, e.assignment_id, a.view, e.vote_id, v.vote FROM events e "
            "LEFT JOIN assignments a USING (assignment_id) "
            "LEFT JOIN votes v ON v.vote_id = e.vote_id AND e.event = 'voted' "
            "ORDER BY e.time, e.place"
        )
        return self.database.parsed(query, _event)

    def keep_live(self, battle_id: str, content: str) -> None:
        """Keep the answers of a live battle, which are in no file."""
        with self.database.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO live VALUES (?, ?)", (battle_id, content))

    def live(self, battle_id: str) -> str | None:
        """Return what was kept of a live battle; None for an unknown one."""
        rows = self.database.rows("SELECT content FROM live WHERE battle_id = ?", battle_id)
        return str(rows[0][0]) if rows else None

    def forms(self) -> list[tuple[str, str, str, float]]:
        """Return (rater, item, content, time) of all forms, oldest first."""
        query = "SELECT rater, item, content, time FROM forms ORDER BY time, rater, item"
        return self.database.parsed(query, _signed)

    def keep_review(self, reviewer: str, pair: str, content: str, at: float) -> None:
        """Keep one reviewer's decision on a pair; earlier ones stay in the file. On disk when this returns."""
        with self.database.transaction() as connection:
            query = "INSERT INTO reviews (reviewer, pair, content, time) VALUES (?, ?, ?, ?)"
            connection.execute(query, (reviewer, pair, content, at))

    def reviews(self) -> list[tuple[str, str, str, float]]:
        """Return (reviewer, pair, content, time) of all decisions, in the order in which they came."""
        query = "SELECT reviewer, pair, content, time FROM reviews ORDER BY place"
        return self.database.parsed(query, _signed)


def clean_name(name: str) -> str:
    """Return a rater's name on one line without control characters, at most 60 characters; empty for none."""
    return re.sub(r"\s+", " ", "".join(c if c.isprintable() else " " for c in name)).strip()[:LONGEST_NAME]


def _vote(text: object) -> Vote:
    return Vote.model_validate_json(str(text))


def _event(row: tuple[Any, ...]) -> dict[str, Any]:
    at, *fields, text = row
    names = ("event", "rater", "battle_id", "assignment_id", "view", "vote_id")
    event: dict[str, Any] = {"time": float(at)}
    event |= {name: None if value is None else str(value) for name, value in zip(names, fields, strict=True)}
    if text is not None:
        vote = _vote(text)
        event |= {"view": vote.view, "preference": vote.preference, "reason": vote.reason}
    return event


def _signed(row: tuple[Any, ...]) -> tuple[str, str, str, float]:
    """Return the row of a form or a review: who, on what, the content, when."""
    who, what, content, at = row
    return str(who), str(what), str(content), float(at)


def _hash(token: str) -> str:
    """Return what is kept of a token: enough to know it again, too little to come in with."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
