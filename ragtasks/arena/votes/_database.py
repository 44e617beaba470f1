"""The votes of a server: SQLite with a write-ahead log, one transaction a vote, on disk before it is acknowledged.

A rater is assigned one battle at a time. The assignment decides which answer is shown first, and takes one vote: two
tabs of one rater show the same assignment, and the second vote is refused by the database. A vote that is taken back
stays in the file with the time of it, and no longer counts.
"""

from __future__ import annotations

import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ragtasks.arena._vote import Vote
from ragtasks.arena.votes._log import Log
from ragtasks.errors import CacheError, RagtasksError, clear_error

_APPLICATION = 0x41524E41  # "ARNA"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS secret (value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS assignments (
    assignment_id TEXT PRIMARY KEY, rater TEXT NOT NULL, battle_id TEXT NOT NULL, view TEXT NOT NULL,
    is_turned INTEGER NOT NULL, state TEXT NOT NULL, time REAL NOT NULL, UNIQUE (rater, battle_id, view)
);
CREATE TABLE IF NOT EXISTS votes (
    place INTEGER PRIMARY KEY, vote_id TEXT NOT NULL UNIQUE, assignment_id TEXT, rater TEXT NOT NULL,
    vote TEXT NOT NULL, undone REAL
);
CREATE UNIQUE INDEX IF NOT EXISTS one_vote ON votes (assignment_id) WHERE undone IS NULL;
CREATE TABLE IF NOT EXISTS live (battle_id TEXT PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS forms (
    rater TEXT NOT NULL, item TEXT NOT NULL, content TEXT NOT NULL, time REAL NOT NULL, PRIMARY KEY (rater, item)
);
CREATE TABLE IF NOT EXISTS reviews (
    place INTEGER PRIMARY KEY, reviewer TEXT NOT NULL, pair TEXT NOT NULL, content TEXT NOT NULL, time REAL NOT NULL
);
"""


class VoteRefusedError(RagtasksError):
    """A vote that cannot be taken: the assignment has one, was skipped, or is not this rater's."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """One battle, to be voted on by one rater."""

    assignment_id: str
    """Drawn by chance, so that it says nothing."""
    rater: str
    """Who votes."""
    battle_id: str
    """What about."""
    view: str
    """`blinded` or `side_by_side`."""
    is_turned: bool
    """Whether the second answer of the battle is shown first."""
    state: str
    """`open`, `voted` or `skipped`."""


class VoteStore:
    """The database; may be used by several threads."""

    def __init__(self, path: Path) -> None:
        """Open a database, or make one.

        Raises:
            CacheError: the file cannot be used, or is another program's.
        """
        self.path = path
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
            self._open()
        except (OSError, sqlite3.Error) as error:
            raise CacheError(_unusable(path, str(error))) from error

    def _open(self) -> None:
        application = self._connection.execute("PRAGMA application_id").fetchone()[0]
        tables = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and application != _APPLICATION:
            raise sqlite3.Error("it is no database of votes")
        self._connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        has_log = self._connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] == "wal"
        self._connection.execute(f"PRAGMA synchronous = {'NORMAL' if has_log else 'FULL'}")
        self._connection.executescript(_SCHEMA)
        self._log = Log(self.path) if has_log else None
        with self._transaction() as connection:
            if connection.execute("SELECT count(*) FROM secret").fetchone()[0] == 0:
                connection.execute("INSERT INTO secret VALUES (?)", (secrets.token_hex(32),))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()
            if self._log:
                self._log.close()

    @contextmanager
    def _transaction(self, *, is_on_disk: bool = True) -> Iterator[sqlite3.Connection]:
        """Hold the database for one transaction, which no later kill undoes.

        Args:
            is_on_disk: whether it is on disk, and those before it, when the block ends: then a power cut undoes nothing
                either. Those that wait at once share one write.
        """
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")
            number = self._log.committed() if self._log else 0
        if self._log and is_on_disk:
            self._log.put_on_disk(number)

    def _rows(self, query: str, *values: object) -> list[tuple[object, ...]]:
        with self._lock:
            return self._connection.execute(query, values).fetchall()

    @property
    def secret(self) -> bytes:
        """What cookies are signed with; stays with the file, so that a server that starts again knows its raters."""
        return bytes.fromhex(str(self._rows("SELECT value FROM secret")[0][0]))

    def assign(self, rater: str, battle_id: str, view: str, *, is_turned: bool | None = None) -> Assignment:
        """Return the assignment of a battle to a rater, as it is or made now; the order is drawn where not given."""
        drawn = secrets.randbelow(2) if is_turned is None else int(is_turned)
        made = (secrets.token_hex(12), rater, battle_id, view, drawn, "open", time.time())
        with self._transaction(is_on_disk=False) as connection:
            connection.execute("INSERT OR IGNORE INTO assignments VALUES (?, ?, ?, ?, ?, ?, ?)", made)
        (found,) = self._assignments("rater = ? AND battle_id = ? AND view = ?", rater, battle_id, view)
        return found

    def assignment(self, assignment_id: str) -> Assignment | None:
        """Return an assignment; None for an unknown one."""
        return next(iter(self._assignments("assignment_id = ?", assignment_id)), None)

    def assignments(self, view: str = "blinded") -> list[Assignment]:
        """Return all assignments of a view, oldest first."""
        return self._assignments("view = ? ORDER BY time", view)

    def _assignments(self, condition: str, *values: object) -> list[Assignment]:
        columns = "assignment_id, rater, battle_id, view, is_turned, state"
        rows = self._rows(f"SELECT {columns} FROM assignments WHERE {condition}", *values)
        return [Assignment(str(i), str(r), str(b), str(v), bool(turned), str(s)) for i, r, b, v, turned, s in rows]

    def vote(self, assignment: Assignment, vote: Vote) -> None:
        """Keep the vote of an assignment; on disk when this returns.

        Raises:
            VoteRefusedError: the assignment is not open any more.
        """
        with self._transaction() as connection:
            self._close(connection, assignment, "voted")
            row = (vote.vote_id, assignment.assignment_id, vote.rater, vote.model_dump_json())
            connection.execute("INSERT INTO votes (vote_id, assignment_id, rater, vote) VALUES (?, ?, ?, ?)", row)

    def skip(self, assignment: Assignment) -> None:
        """Close an assignment without a vote.

        Raises:
            VoteRefusedError: it is not open any more.
        """
        with self._transaction() as connection:
            self._close(connection, assignment, "skipped")

    def _close(self, connection: sqlite3.Connection, assignment: Assignment, state: str) -> None:
        query = "UPDATE assignments SET state = ? WHERE assignment_id = ? AND state = 'open'"
        if connection.execute(query, (state, assignment.assignment_id)).rowcount != 1:
            raise VoteRefusedError("this pair has your vote already, or was skipped")

    def undo(self, rater: str) -> Assignment | None:
        """Take a rater's last vote back and return its assignment, open again; None where there is no vote."""
        with self._transaction() as connection:
            query = (
                "SELECT place, assignment_id FROM votes WHERE rater = ? AND undone IS NULL "
                "AND assignment_id IS NOT NULL ORDER BY place DESC LIMIT 1"
            )
            row = connection.execute(query, (rater,)).fetchone()
            if row is None:
                return None
            connection.execute("UPDATE votes SET undone = ? WHERE place = ?", (time.time(), row[0]))
            connection.execute("UPDATE assignments SET state = 'open' WHERE assignment_id = ?", (row[1],))
        return self.assignment(row[1])

    def vote_of(self, assignment: Assignment) -> Vote | None:
        """Return the vote that counts for an assignment; None without one."""
        rows = self._rows("SELECT vote FROM votes WHERE assignment_id = ? AND undone IS NULL", assignment.assignment_id)
        return Vote.model_validate_json(str(rows[0][0])) if rows else None

    def votes(self) -> list[Vote]:
        """Return all votes that count, in the order in which they came."""
        rows = self._rows("SELECT vote FROM votes WHERE undone IS NULL ORDER BY place")
        return [Vote.model_validate_json(str(row[0])) for row in rows]

    def import_votes(self, votes: Sequence[Vote]) -> int:
        """Keep votes that came from elsewhere, and return how many of them were new."""
        with self._transaction() as connection:
            before = connection.total_changes
            rows = [(vote.vote_id, vote.rater, vote.model_dump_json()) for vote in votes]
            connection.executemany("INSERT OR IGNORE INTO votes (vote_id, rater, vote) VALUES (?, ?, ?)", rows)
            return connection.total_changes - before

    def keep_live(self, battle_id: str, content: str) -> None:
        """Keep the answers of a live battle, which are in no file."""
        with self._transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO live VALUES (?, ?)", (battle_id, content))

    def live(self, battle_id: str) -> str | None:
        """Return what was kept of a live battle; None for an unknown one."""
        rows = self._rows("SELECT content FROM live WHERE battle_id = ?", battle_id)
        return str(rows[0][0]) if rows else None

    def keep_form(self, rater: str, item: str, content: str) -> None:
        """Keep one rater's form on an item; a second one takes the place of the first."""
        with self._transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO forms VALUES (?, ?, ?, ?)", (rater, item, content, time.time()))

    def forms(self) -> list[tuple[str, str, str, float]]:
        """Return (rater, item, content, time) of all forms, oldest first."""
        rows = self._rows("SELECT rater, item, content, time FROM forms ORDER BY time, rater, item")
        return [(str(rater), str(item), str(content), float(str(at))) for rater, item, content, at in rows]

    def keep_review(self, reviewer: str, pair: str, content: str, at: float) -> None:
        """Keep one reviewer's decision on a pair; earlier ones stay in the file. On disk when this returns."""
        with self._transaction() as connection:
            query = "INSERT INTO reviews (reviewer, pair, content, time) VALUES (?, ?, ?, ?)"
            connection.execute(query, (reviewer, pair, content, at))

    def reviews(self) -> list[tuple[str, str, str, float]]:
        """Return (reviewer, pair, content, time) of all decisions, in the order in which they came."""
        rows = self._rows("SELECT reviewer, pair, content, time FROM reviews ORDER BY place")
        return [(str(reviewer), str(pair), str(content), float(str(at))) for reviewer, pair, content, at in rows]


def _unusable(path: Path, found: str) -> str:
    return clear_error(
        "votes",
        where=str(path),
        expected="a database of votes that this process may write, or no file",
        found=found,
        next_step="name another file with --database",
    )


__all__ = ["Assignment", "VoteRefusedError", "VoteStore"]
