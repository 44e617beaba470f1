"""The database of an arena server, and the queue that assigns pairs to raters."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ragtasks.arena.votes import Vote
from ragtasks.errors import CacheError, ConfigurationError, RagtasksError
from ragtasks.files import atomic_file, transaction

# Names of raters, and rows of the database.

LONGEST_NAME = 60
"""Maximum characters of a rater's name."""
_TOKEN_BYTES = 24


def clean_name(name: str) -> str:
    """Return a rater's name on one line without control characters, at most 60 characters."""
    return re.sub(r"\s+", " ", "".join(c if c.isprintable() else " " for c in name)).strip()[:LONGEST_NAME]


def _vote(row: tuple[Any, ...]) -> Vote:
    return Vote.model_validate_json(str(row[-1]))


def _event(row: tuple[Any, ...]) -> dict[str, Any]:
    at, *fields, text = row
    names = ("event", "rater", "battle_id", "assignment_id", "view", "vote_id")
    event: dict[str, Any] = {"time": float(at)}
    event |= {name: None if value is None else str(value) for name, value in zip(names, fields, strict=True)}
    if text is not None:
        vote = _vote(row)
        event |= {"view": vote.view, "preference": vote.preference, "reason": vote.reason}
    return event


def _form_row(row: tuple[Any, ...]) -> tuple[str, str, str, float]:
    """Return the row of a form or a review: person, item, content, time."""
    person, item, content, at = row
    return str(person), str(item), str(content), float(at)


def _hash(token: str) -> str:
    """Return the stored hash of a token, which verifies the token but cannot be used to sign in."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


# The SQLite file of a server: votes, invitations, live battles, forms, reviews and events. It uses a write-ahead log
# and one transaction per change, which is on disk before it is acknowledged. Several servers may share a file. The key
# that signs cookies is stored in a separate file in the same folder, so that access to the votes does not allow signing
# in as a rater. Read-only access uses a copy in memory and changes nothing.

_APPLICATION = 0x41524E41  # "ARNA"
_VERSION = 2
_TABLES = """
CREATE TABLE assignments (
    assignment_id TEXT PRIMARY KEY, rater TEXT NOT NULL, battle_id TEXT NOT NULL, view TEXT NOT NULL,
    is_turned INTEGER NOT NULL, state TEXT NOT NULL, time REAL NOT NULL, until REAL NOT NULL DEFAULT 0,
    UNIQUE (rater, battle_id, view)
);
CREATE TABLE votes (
    place INTEGER PRIMARY KEY, vote_id TEXT NOT NULL UNIQUE, assignment_id TEXT, rater TEXT NOT NULL,
    vote TEXT NOT NULL, undone REAL
);
CREATE TABLE events (
    place INTEGER PRIMARY KEY, time REAL NOT NULL, event TEXT NOT NULL, assignment_id TEXT NOT NULL,
    rater TEXT NOT NULL, battle_id TEXT NOT NULL, vote_id TEXT
);
CREATE TABLE invitations (rater TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, time REAL NOT NULL);
CREATE TABLE live (battle_id TEXT PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE forms (
    rater TEXT NOT NULL, item TEXT NOT NULL, content TEXT NOT NULL, time REAL NOT NULL, PRIMARY KEY (rater, item)
);
CREATE TABLE reviews (
    place INTEGER PRIMARY KEY, reviewer TEXT NOT NULL, pair TEXT NOT NULL, content TEXT NOT NULL, time REAL NOT NULL
);
CREATE UNIQUE INDEX one_vote ON votes (assignment_id) WHERE undone IS NULL;
CREATE INDEX who_has ON assignments (battle_id, state, until, rater);
CREATE INDEX has_what ON assignments (rater, battle_id, view, state);
CREATE INDEX what_happened ON events (rater, battle_id, event)
"""
_SECRET_BYTES = 32
_T = TypeVar("_T")


class VoteStore:
    """The database. It may be used by several threads, and its file by several servers."""

    def __init__(self, path: Path, *, is_read_only: bool = False) -> None:
        """Open a file, or create it."""
        self.path = path
        self._writing, self._reading = threading.Lock(), threading.Lock()
        try:
            _check_closed_file(path)
            if is_read_only:
                self._writer = self._reader = _in_memory(path)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._writer, self._reader = _opened(str(path)), _opened(str(path))
                try:
                    self._prepare()
                except BaseException:
                    self.close()
                    raise
        except (OSError, sqlite3.Error, ValueError) as error:  # ValueError: invalid text in a damaged file
            raise _unusable(path, str(error)) from error

    def _prepare(self) -> None:
        _require_format(self._writer)
        self._writer.execute("PRAGMA secure_delete = ON")
        self._writer.execute("PRAGMA journal_mode = WAL")
        self._writer.execute("PRAGMA synchronous = FULL")  # a transaction is on disk before it is acknowledged
        with self.transaction() as connection:
            _make_tables(connection)

    def close(self) -> None:
        """Close the connections."""
        with self._writing, self._reading:
            self._reader.close()
            self._writer.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a transaction with an exclusive write lock. It is durable once the block ends."""
        with self._writing, transaction(self._writer) as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection for reading, which does not wait for transactions."""
        with self._reading:
            yield self._reader

    def _text(self, query: str, *values: object) -> str | None:
        """Return the text in the first row of a query; None without rows."""
        return next(iter(self.parsed(query, lambda row: str(row[0]), *values)), None)

    def parsed(self, query: str, parse: Callable[[tuple[Any, ...]], _T], *values: object) -> list[_T]:
        """Return `parse(row)` for each row of a query. Raises CacheError for a damaged file."""
        try:
            with self.reading() as connection:
                return [parse(row) for row in connection.execute(query, values).fetchall()]
        except (sqlite3.Error, ValueError, TypeError) as error:
            problem = str(error).partition("\n")[0]
            raise _unusable(self.path, f"a damaged file: {problem}") from error

    @property
    def secret(self) -> bytes:
        """Key that signs cookies, from a separate file in the same folder, created if missing."""
        path = self.path.with_name(f"{self.path.name}.secret")
        with self.transaction():  # so that two servers create only one
            try:
                secret = path.read_bytes() if path.exists() else b""
                if len(secret) < _SECRET_BYTES:
                    secret = secrets.token_bytes(_SECRET_BYTES)
                    with atomic_file(path) as file:
                        Path(file.name).chmod(0o600)
                        file.write(secret)
            except OSError as error:
                raise CacheError(f"cannot use {path}: {error.strerror or error}") from error
        return secret

    def invite(self, name: str) -> tuple[str, str]:
        """Return a rater's cleaned name and a new invitation token, which invalidates an earlier token."""
        rater = clean_name(name)
        if not rater:
            raise ConfigurationError(f"a rater needs a name, found {name!r}")
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        with self.transaction() as connection:
            row = (rater, _hash(token), time.time())
            connection.execute("INSERT OR REPLACE INTO invitations VALUES (?, ?, ?)", row)
        return rater, token

    def invited(self, token: str) -> str | None:
        """Return the rater of an invitation token; None for an invalid token."""
        return self._text("SELECT rater FROM invitations WHERE hash = ?", _hash(token))

    def invitation(self, rater: str) -> str | None:
        """Return the hash of a rater's current token; None without an invitation."""
        return self._text("SELECT hash FROM invitations WHERE rater = ?", rater)

    @property
    def has_invitations(self) -> bool:
        """Whether any rater is invited."""
        return self._text("SELECT rater FROM invitations LIMIT 1") is not None

    def votes(self) -> list[Vote]:
        """Return all valid votes in the order of arrival."""
        query = "SELECT vote FROM votes WHERE undone IS NULL ORDER BY place"
        return self.parsed(query, _vote)

    def events(self) -> list[dict[str, Any]]:
        """Return all events of pairs and forms in order; `voted` events contain their vote, even if it was undone.

        Events are `given` (a rater received an item, or received it again after the lease expired), `names_shown` (the
        rater saw the systems' names), `voted`, `skipped`, and `undone` (a vote or a skip).
        """
        query = (
            "SELECT e.time, e.event, e.rater, e.battle_id, e.assignment_id, a.view, e.vote_id, v.vote FROM events e "
            "LEFT JOIN assignments a USING (assignment_id) "
            "LEFT JOIN votes v ON v.vote_id = e.vote_id AND e.event = 'voted' "
            "ORDER BY e.time, e.place"
        )
        return self.parsed(query, _event)

    def save_live(self, battle_id: str, content: str) -> None:
        """Store the answers of a live battle, which exist in no file."""
        with self.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO live VALUES (?, ?)", (battle_id, content))

    def live(self, battle_id: str) -> str | None:
        """Return the stored live battle; None if it is unknown."""
        return self._text("SELECT content FROM live WHERE battle_id = ?", battle_id)

    def forms(self) -> list[tuple[str, str, str, float]]:
        """Return (rater, item, content, time) of all forms, oldest first."""
        query = "SELECT rater, item, content, time FROM forms ORDER BY time, rater, item"
        return self.parsed(query, _form_row)

    def save_review(self, reviewer: str, pair: str, content: str, at: float) -> None:
        """Store a reviewer's decision on a pair durably. Earlier decisions are kept in the file."""
        with self.transaction() as connection:
            query = "INSERT INTO reviews (reviewer, pair, content, time) VALUES (?, ?, ?, ?)"
            connection.execute(query, (reviewer, pair, content, at))

    def reviews(self) -> list[tuple[str, str, str, float]]:
        """Return (reviewer, pair, content, time) of all decisions in the order of arrival."""
        query = "SELECT reviewer, pair, content, time FROM reviews ORDER BY place"
        return self.parsed(query, _form_row)


def _opened(name: str, *, uri: bool = False) -> sqlite3.Connection:
    return sqlite3.connect(name, isolation_level=None, check_same_thread=False, timeout=10, uri=uri)


def _check_closed_file(path: Path) -> None:
    """Raise an error for a file of another format, unless it is open. No write-ahead log is created next to it."""
    if path.is_file() and not Path(f"{path}-wal").exists():
        with closing(_opened(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            _require_format(connection)


def _in_memory(path: Path) -> sqlite3.Connection:
    """Return an in-memory copy of a file, which is not changed."""
    copy = _opened(":memory:")
    try:
        with closing(_opened(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as source:
            _require_format(source)
            source.backup(copy)
        _make_tables(copy)
    except BaseException:
        copy.close()
        raise
    return copy


def _require_format(connection: sqlite3.Connection) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if tables and application != _APPLICATION:
        raise sqlite3.DatabaseError("it is not a database of votes")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if tables and version != _VERSION:
        raise sqlite3.DatabaseError(f"format version {version}; this ragtasks only reads version {_VERSION}")


def _make_tables(connection: sqlite3.Connection) -> None:
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'votes'").fetchone():
        return
    for statement in _TABLES.split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {_VERSION}")


def _unusable(path: Path, found: str) -> CacheError:
    return CacheError(
        "votes",
        where=str(path),
        expected="a database of votes that this process may use, or no file",
        found=found,
        next_step="name another file with --database, which will be created",
    )


# The queue of raters: every pair is offered to the configured number of raters, with a lease for each. An assignment is
# a lease. A vote or a skip before it expires closes it. After expiry the pair may be offered to another rater, and a
# late vote is accepted only if the pair still needs one. Assignments are counted in the transaction that creates them,
# so several servers share a queue. Started pairs come first, because agreement requires several raters on the same
# pair. A rater votes on a pair once. The database records permanently whether the names were displayed, and later votes
# are marked. A displayed name also reveals the same answer in other pairs. These pairs are marked too, and the queue
# offers them last.

LEASE_SECONDS = 30 * 60.0
"""Default lease of an opened pair in seconds."""
_COLUMNS = "assignment_id, rater, battle_id, view, is_turned, state, until"
_TAKEN = "(state = 'voted' OR (state = 'open' AND until > ?))"


class VoteRefusedError(RagtasksError):
    """A vote that is not accepted: the pair already has this vote, was skipped, or needs no more raters."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A pair or form assigned to a rater."""

    assignment_id: str
    """Random, so that it reveals nothing."""
    rater: str
    battle_id: str
    view: str
    """`blinded`, `side_by_side` or `form`."""
    is_turned: bool
    """Whether the second answer of the pair is displayed first."""
    state: str
    """`open`, `voted` or `skipped`."""
    until: float
    """End of the lease in seconds since 1970. After it, an open assignment may go to other raters."""


@dataclass(frozen=True, slots=True)
class RaterProgress:
    """Progress of a rater."""

    n_done: int
    n_left: int
    """Number of items still available to this rater."""
    n_skipped: int = 0


class Queue:
    """Assigns the pairs, or forms, of a server to raters."""

    def __init__(
        self,
        store: VoteStore,
        items: Sequence[str],
        raters_per_item: int,
        *,
        lease_seconds: float = LEASE_SECONDS,
        view: str = "blinded",
        related: Callable[[str], Sequence[str]] = lambda _: (),
    ) -> None:
        """Set the items to assign. `related` maps an item to the items that contain one of its answers."""
        self._store, self._view, self._related = store, view, related
        self._items = {item: index for index, item in enumerate(dict.fromkeys(items))}
        self._wanted, self._lease = raters_per_item, lease_seconds
        self._rater_counts = RaterCounts(self._items, raters_per_item)

    def next_for(self, rater: str) -> Assignment | None:
        """Return a rater's open assignment, or a new one; None if no item is left for this rater."""
        with self._store.transaction() as connection:
            now, views = time.time(), self._views_of(connection, rater)
            waiting = self._new_items(connection, views, now)
            in_turn = _ordered(waiting, _pairs_with_known_names(connection, rater))
            for item in itertools.chain(self._open_items(connection, rater, views, now), in_turn):
                if self._has_room(connection, rater, item, now):
                    return self._assign(connection, rater, item, self._view)
            return None

    def _open_items(
        self, connection: sqlite3.Connection, rater: str, views: dict[str, set[tuple[str, str]]], now: float
    ) -> list[str]:
        """Return the items with an open assignment that the rater may still vote on."""
        opened = [item for item, states in views.items() if states == {(self._view, "open")} and item in self._items]
        free = [item for item in opened if self._has_room(connection, rater, item, now)]
        return sorted(free, key=self._items.__getitem__)

    def _new_items(
        self, connection: sqlite3.Connection, views: dict[str, set[tuple[str, str]]], now: float
    ) -> dict[str, int]:
        """Return item -> number of its raters, for the items that a rater can still be assigned."""
        free = self._rater_counts.free(connection, now)
        return {item: n for item, n in free.items() if item not in views}

    @staticmethod
    def _views_of(connection: sqlite3.Connection, rater: str) -> dict[str, set[tuple[str, str]]]:
        """Return item -> (view, state) of a rater's assignments."""
        views: dict[str, set[tuple[str, str]]] = {}
        query = "SELECT battle_id, view, state FROM assignments WHERE rater = ?"
        for battle_id, view, state in connection.execute(query, (rater,)):
            views.setdefault(battle_id, set()).add((view, state))
        return views

    def progress_of(self, rater: str) -> RaterProgress:
        """Return the progress of a rater."""
        with self._store.reading() as connection:
            now, views = time.time(), self._views_of(connection, rater)
            n_left = len(self._open_items(connection, rater, views, now)) + len(self._new_items(connection, views, now))
        states = [{state for _, state in item_states} for item, item_states in views.items() if item in self._items]
        n_done = sum("voted" in item_states for item_states in states)
        return RaterProgress(n_done, n_left, sum(item_states == {"skipped"} for item_states in states))

    def assign(self, rater: str, battle_id: str, view: str, *, is_turned: bool | None = None) -> Assignment:
        """Return a rater's assignment for a chosen pair. `side_by_side` records that the names were displayed."""
        with self._store.transaction() as connection:
            return self._assign(connection, rater, battle_id, view, is_turned=is_turned)

    def _assign(
        self,
        connection: sqlite3.Connection,
        rater: str,
        battle_id: str,
        view: str,
        *,
        is_turned: bool | None = None,
    ) -> Assignment:
        assignment = _first(
            connection, "rater = ? AND battle_id = ? ORDER BY state != 'voted', view DESC", rater, battle_id
        )
        if assignment and assignment.state == "voted":
            return assignment
        now = time.time()
        self._require_room(connection, rater, battle_id, now)
        if assignment is None:
            turned = secrets.randbelow(2) if is_turned is None else int(is_turned)
            row = (secrets.token_hex(12), rater, battle_id, view, turned, "open", now, 0.0)
            connection.execute("INSERT INTO assignments VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            assignment = Assignment(row[0], rater, battle_id, view, bool(turned), "open", 0.0)
        final_view = "side_by_side" if "side_by_side" in {view, assignment.view} else view
        turned = assignment.is_turned if is_turned is None else is_turned
        query = "UPDATE assignments SET view = ?, is_turned = ? WHERE assignment_id = ?"
        connection.execute(query, (final_view, int(turned), assignment.assignment_id))
        self._open(connection, assignment, now)
        if final_view == "side_by_side":
            self._note_names(connection, assignment, now)
        return _assignment(connection, assignment.assignment_id)

    def _require_room(self, connection: sqlite3.Connection, rater: str, battle_id: str, now: float) -> None:
        """Raise VoteRefusedError if enough other raters have an item."""
        if battle_id in self._items and not self._has_room(connection, rater, battle_id, now):
            raise VoteRefusedError("this pair already has enough other raters")

    def _has_room(self, connection: sqlite3.Connection, rater: str, battle_id: str, now: float) -> bool:
        query = f"SELECT count(DISTINCT rater) FROM assignments WHERE battle_id = ? AND rater != ? AND {_TAKEN}"
        return bool(connection.execute(query, (battle_id, rater, now)).fetchone()[0] < self._wanted)

    def _open(self, connection: sqlite3.Connection, assignment: Assignment, now: float) -> None:
        query = "UPDATE assignments SET state = 'open', until = ? WHERE assignment_id = ?"
        connection.execute(query, (now + self._lease, assignment.assignment_id))
        if assignment.until <= now:
            _note(connection, "given", assignment, now)

    def renew(self, assignment_id: str, rater: str) -> Assignment | None:
        """Return a rater's assignment and renew its lease if it is open; None if it belongs to another rater."""
        with self._store.transaction() as connection:
            assignment = _first(connection, "assignment_id = ? AND rater = ?", assignment_id, rater)
            if assignment and assignment.state == "open":
                self._require_time(connection, assignment)
                self._open(connection, assignment, time.time())
            return assignment

    def _require_time(self, connection: sqlite3.Connection, assignment: Assignment) -> None:
        now = time.time()
        if assignment.until <= now:
            self._require_room(connection, assignment.rater, assignment.battle_id, now)

    def vote(self, assignment: Assignment, vote: Vote) -> Vote:
        """Store the vote of an assignment durably, and return it with the rater's knowledge of the names (`view`)."""
        with self._store.transaction() as connection:
            closed = self._close(connection, assignment, "voted")
            unnamed = "revealed" if _knows_names(connection, closed) else "blinded"
            view = closed.view if closed.view == "side_by_side" else unnamed
            stored = vote.model_copy(update={"view": view})
            row = (stored.vote_id, closed.assignment_id, stored.rater, stored.model_dump_json())
            connection.execute("INSERT INTO votes (vote_id, assignment_id, rater, vote) VALUES (?, ?, ?, ?)", row)
            _note(connection, "voted", closed, time.time(), stored.vote_id)
            self._note_names(connection, closed, time.time())
        return stored

    def _note_names(self, connection: sqlite3.Connection, assignment: Assignment, now: float) -> None:
        """Record that a rater saw the names of a pair, and so those of its answers in other pairs."""
        _note(connection, "names_shown", assignment, now)
        named = _pairs_with_known_names(connection, assignment.rater)
        for battle_id in self._related(assignment.battle_id):
            if battle_id not in named:
                _note(connection, "names_shown", _assignment_on(connection, assignment.rater, battle_id), now)

    def skip(self, assignment: Assignment) -> None:
        """Close an assignment without a vote."""
        with self._store.transaction() as connection:
            _note(connection, "skipped", self._close(connection, assignment, "skipped"), time.time())

    def save_form(self, rater: str, item: str, content: str) -> None:
        """Store a rater's form on an item durably. It replaces an earlier form."""
        with self._store.transaction() as connection:
            assignment = self._assign(connection, rater, item, self._view)
            if assignment.state == "open":
                self._close(connection, assignment, "voted")
            now = time.time()
            connection.execute("INSERT OR REPLACE INTO forms VALUES (?, ?, ?, ?)", (rater, item, content, now))
            _note(connection, "voted", assignment, now)

    def _close(self, connection: sqlite3.Connection, assignment: Assignment, state: str) -> Assignment:
        """Close an assignment, and return it as it was before."""
        current = _assignment(connection, assignment.assignment_id)
        if current.state != "open":
            raise VoteRefusedError("you have already voted on this pair, or skipped it")
        if state == "voted":
            self._require_time(connection, current)
        connection.execute("UPDATE assignments SET state = ? WHERE assignment_id = ?", (state, current.assignment_id))
        return current

    def undo(self, rater: str) -> Assignment:
        """Undo a rater's last vote or skip, and return its assignment, which is open again."""
        with self._store.transaction() as connection:
            query = (
                "SELECT a.assignment_id, e.vote_id FROM events e JOIN assignments a USING (assignment_id) "
                "WHERE e.rater = ? AND a.rater = e.rater AND e.event = a.state AND a.view != 'form' "
                "ORDER BY e.place DESC LIMIT 1"
            )
            row = connection.execute(query, (rater,)).fetchone()
            if row is None:
                raise VoteRefusedError("you have no vote or skip to undo")
            assignment, now = _assignment(connection, row[0]), time.time()
            if assignment.state == "skipped":
                self._require_room(connection, rater, assignment.battle_id, now)
            undone = "UPDATE votes SET undone = ? WHERE assignment_id = ? AND rater = ? AND undone IS NULL"
            connection.execute(undone, (now, assignment.assignment_id, rater))
            _note(connection, "undone", assignment, now, row[1])
            self._open(connection, assignment, now)
            return _assignment(connection, assignment.assignment_id)

    def note_names(self, rater: str, battle_ids: Sequence[str]) -> None:
        """Record that a rater saw the names of pairs without voting on them."""
        with self._store.transaction() as connection:
            for battle_id in battle_ids:
                _note(connection, "names_shown", _assignment_on(connection, rater, battle_id), time.time())

    def knows_names(self, assignment: Assignment) -> bool:
        """Return whether a rater has seen the names of a pair."""
        with self._store.reading() as connection:
            return _knows_names(connection, assignment)

    def vote_of(self, assignment: Assignment) -> Vote | None:
        """Return the valid vote of an assignment; None without one."""
        query = "SELECT vote FROM votes WHERE assignment_id = ? AND undone IS NULL"
        return next(iter(self._store.parsed(query, _vote, assignment.assignment_id)), None)


def _ordered(waiting: Mapping[str, int], named: Collection[str]) -> Iterator[str]:
    """Yield started items before new ones, and items whose names the rater has seen last."""
    for is_named, is_fresh in itertools.product((False, True), (False, True)):
        for item, n in waiting.items():
            if (n == 0) is is_fresh and (item in named) is is_named:
                yield item


def _first(connection: sqlite3.Connection, condition: str, *values: object) -> Assignment | None:
    row = connection.execute(f"SELECT {_COLUMNS} FROM assignments WHERE {condition} LIMIT 1", values).fetchone()
    if row is None:
        return None
    assignment_id, rater, battle_id, view, is_turned, state, until = row
    return Assignment(assignment_id, rater, battle_id, view, bool(is_turned), state, until)


def _assignment(connection: sqlite3.Connection, assignment_id: str) -> Assignment:
    assignment = _first(connection, "assignment_id = ?", assignment_id)
    assert assignment
    return assignment


def _assignment_on(connection: sqlite3.Connection, rater: str, battle_id: str) -> Assignment:
    """Return a rater's assignment of a pair, or a placeholder without an id if the pair was not assigned."""
    placeholder = Assignment("", rater, battle_id, view="", is_turned=False, state="", until=0)
    return _first(connection, "rater = ? AND battle_id = ?", rater, battle_id) or placeholder


def _note(
    connection: sqlite3.Connection, event: str, assignment: Assignment, at: float, vote_id: str | None = None
) -> None:
    query = "INSERT INTO events (time, event, assignment_id, rater, battle_id, vote_id) VALUES (?, ?, ?, ?, ?, ?)"
    connection.execute(query, (at, event, assignment.assignment_id, assignment.rater, assignment.battle_id, vote_id))


def _knows_names(connection: sqlite3.Connection, assignment: Assignment) -> bool:
    query = "SELECT 1 FROM events WHERE rater = ? AND battle_id = ? AND event = 'names_shown' LIMIT 1"
    return connection.execute(query, (assignment.rater, assignment.battle_id)).fetchone() is not None


def _pairs_with_known_names(connection: sqlite3.Connection, rater: str) -> set[str]:
    query = "SELECT DISTINCT battle_id FROM events WHERE rater = ? AND event = 'names_shown'"
    return {battle_id for (battle_id,) in connection.execute(query, (rater,))}


# Raters per item, cached in memory so that 30,000 pairs are not counted for every page. Changes are read from the
# events in the database: every change of an assignment adds an event, except for a renewed lease. The cache only
# suggests free items. Before an assignment, the raters are counted in the database again.

_CHANGED = "SELECT DISTINCT battle_id FROM events WHERE place > ?"
_END = "max(CASE state WHEN 'voted' THEN 9e999 ELSE until END)"  # a vote never expires
_NOT_SKIPPED = "FROM assignments WHERE state != 'skipped'"
_ENDS = f"SELECT battle_id, {_END} {_NOT_SKIPPED} AND battle_id IN ({_CHANGED}) GROUP BY battle_id, rater"
_ENDS_OF = f"SELECT {_END} {_NOT_SKIPPED} AND battle_id = ? GROUP BY rater"


class RaterCounts:
    """The number of raters per item, by vote or lease. It may be used by several threads."""

    def __init__(self, items: Collection[str], wanted: int) -> None:
        """Start with an empty cache."""
        self._items, self._wanted = items, wanted
        self._n: dict[str, int] = {}
        self._free: dict[str, int] | None = None  # the returned value; None: rebuild it from `_n`
        self._leased: dict[str, float] = {}
        self._n_read = 0
        self._lock = threading.Lock()

    def free(self, connection: sqlite3.Connection, now: float) -> dict[str, int]:
        """Return item -> current number of raters, for the items that need another rater, in queue order."""
        with self._lock:
            self._read(connection)
            for item in [item for item, end in self._leased.items() if end <= now]:
                # A renewed lease adds no event, so the ends are read again.
                self._update(item, [end for (end,) in connection.execute(_ENDS_OF, (item,)) if end > now])
            if self._free is None:
                n_of, wanted = self._n, self._wanted
                self._free = {item: n for item in self._items if (n := n_of.get(item, 0)) < wanted}
            return self._free.copy()

    def _read(self, connection: sqlite3.Connection) -> None:
        """Read the items with events since the last call."""
        (newest,) = connection.execute("SELECT coalesce(max(place), 0) FROM events").fetchone()
        if newest <= self._n_read:
            return
        ends_of: dict[str, list[float]] = {item: [] for (item,) in connection.execute(_CHANGED, (self._n_read,))}
        for item, end in connection.execute(_ENDS, (self._n_read,)):
            ends_of.setdefault(item, []).append(end)
        for item, ends in ends_of.items():
            self._update(item, ends)
        self._n_read = newest

    def _update(self, item: str, ends: list[float]) -> None:
        """Update the number of raters of an item from the ends of their leases."""
        n = self._n[item] = len(ends)
        if self._free is not None and item in self._free:
            if n < self._wanted:
                self._free[item] = n
            else:
                del self._free[item]
        elif n < self._wanted and item in self._items:
            self._free = None  # free again: rebuild to restore its position
        self._leased.pop(item, None)
        if ends and not math.isinf(first := min(ends)):
            self._leased[item] = first
