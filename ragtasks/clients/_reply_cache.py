"""Replies that were paid for, in SQLite: a second call asks nothing, a killed one asks only what is not answered.

A reply is stored the moment it comes, under a hash of everything that decides it. Several processes may share one file.
Each says in it what it is asking, so that the others wait for that reply instead of asking the same. Such a claim is
good for as long as its owner gives signs of life: nobody waits for a process that was killed.
"""

from __future__ import annotations

import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, fields
from enum import Enum, auto
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson

from ragtasks.clients._protocol import CallUsage, Outcome, Reply, Spent
from ragtasks.errors import CacheError, ConfigurationError, close_matches
from ragtasks.files import lock_holders

_BUSY_SECONDS = 60.0
_OPENING_SECONDS = 5.0  # the first look at a file: who holds it for longer does not let it go soon
_RETRY_SECONDS = 0.02
_STORED = tuple(field.name for field in fields(Reply) if field.name not in {"from_cache", "is_shared"})
_ROOM_BYTES = 1 << 20

LIFE_SECONDS = 15.0
"""How long an owner may be silent before others take over what it claims."""


class Claim(Enum):
    """Whose it is to ask a prompt that nobody has answered."""

    OURS = auto()
    """The caller's, until it stores a reply or lets go."""
    THEIRS = auto()
    """Somebody else's, who is alive."""


@dataclass(frozen=True, slots=True)
class CachedReply:
    """A reply with what is stored beside it."""

    key: str
    """Hash of everything that decides the reply."""
    request: Mapping[str, Any]
    """What the hash is over, for the record."""
    reply: Reply
    """What came back."""
    kind: str = ""
    """What was asked for, see `Prompt.kind`."""
    is_history: bool = False
    """Whether it is an earlier attempt, kept with a later one that could be used: nobody need ask it again."""


class ReplyCache(AbstractContextManager["ReplyCache"]):
    """Replies by key, in one file; usable from any thread, closed by `close` or at the end of a `with`."""

    def __init__(self, path: Path, *, life_seconds: float = LIFE_SECONDS) -> None:
        """Open the file, or make it; one of an older version of ragtasks is brought up to date."""
        self.path, self.life_seconds = path, life_seconds
        self._lock = threading.RLock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Autocommit: a statement outside of a transaction is whole on its own, and keeps nobody waiting.
            self._connection = sqlite3.connect(
                path, timeout=_OPENING_SECONDS, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise self._error(error) from error
        try:
            self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        # Other processes may open the same new file now: one at a time looks at it and marks it.
        with self._transaction() as connection:
            found = prepare(connection, self.path)
            if found:
                raise self._error(found)
        self._write_ahead()
        # Enough for a killed process, which is the common case; a power cut may take the last replies with it.
        self.execute("PRAGMA synchronous=NORMAL")
        self.execute(f"PRAGMA busy_timeout={_BUSY_SECONDS * 1000:.0f}")  # of a file that others use too, at work

    def _write_ahead(self) -> None:
        """Switch the file to write-ahead logging; SQLite's own waiting for other processes leaves this step out."""
        deadline = time.monotonic() + _OPENING_SECONDS
        while True:
            try:
                self.execute("PRAGMA journal_mode=WAL")
            except CacheError as error:
                if "locked" not in str(error.__cause__) or time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_SECONDS)
            else:
                return

    def get(self, key: str) -> CachedReply | None:
        """Return the stored reply, or None; its request is not read again."""
        rows = self.execute("SELECT reply, kind, is_history FROM replies WHERE key = ?", (key,))
        return self._cached_reply(key, *rows[0]) if rows else None

    def put(self, kept: Iterable[CachedReply], owner: str = "") -> None:
        """Store replies at once, and end the owner's claims on them; the first one stored under a key stays."""
        with self._transaction() as connection:
            for item in kept:
                stored = {name: getattr(item.reply, name) for name in _STORED}
                cells = cells_of(item.request, item.reply.outcome.value, item.kind, time.time())
                row = {
                    "key": item.key,
                    "request": orjson.dumps(dict(item.request)).decode(),
                    "reply": orjson.dumps(stored).decode(),
                    "is_history": item.is_history,
                    **cells,
                }
                connection.execute(INSERT, row)
                connection.execute("DELETE FROM claims WHERE key = ? AND owner = ?", (item.key, owner))

    def note_unused(self, key: str, calls: Iterable[CallUsage]) -> None:
        """Keep what replies took that are not kept themselves: they cost, whoever asks the prompt again."""
        with self._transaction() as connection:
            rows = [(key, orjson.dumps(call.json_values).decode()) for call in calls]
            connection.executemany("INSERT INTO unused VALUES (?, ?)", rows)

    def unused(self, key: str) -> tuple[CallUsage, ...]:
        """Return what earlier replies to a prompt took that are not kept."""
        rows = self.execute("SELECT call FROM unused WHERE key = ? ORDER BY rowid", (key,))
        return tuple(_call(orjson.loads(call)) for (call,) in rows)

    def take(self, key: str, owner: str, is_usable: Callable[[CachedReply], bool]) -> CachedReply | Claim:
        """Return the stored reply where there is one that can be used, else whose it is to ask: one transaction.

        A stored reply that cannot be used goes when the prompt becomes the owner's.
        """
        with self._transaction() as connection:
            cached = self.get(key)
            if cached is not None and is_usable(cached):
                return cached
            holder = connection.execute(HOLDER, (key, *self._alive())).fetchone()
            if holder is not None and holder[0] != owner:
                return Claim.THEIRS
            connection.execute(LOST_CLAIM, (_LOST, key, owner))
            connection.execute("INSERT OR REPLACE INTO claims VALUES (?, ?)", (key, owner))
            connection.execute("DELETE FROM replies WHERE key = ?", (key,))
            return Claim.OURS

    def release(self, key: str, owner: str) -> None:
        """Let go of a claim without a reply: others may ask."""
        self.execute("DELETE FROM claims WHERE key = ? AND owner = ?", (key, owner))

    def show_life(self, owner: str) -> None:
        """Say that an owner of claims is alive."""
        self.execute("INSERT OR REPLACE INTO owners VALUES (?, ?)", (owner, time.time()))

    def owners(self) -> list[str]:
        """Return all who have shown life and not left."""
        return [owner for (owner,) in self.execute("SELECT owner FROM owners")]

    def leave(self, owner: str, *, is_lost: bool = False) -> None:
        """Let go of everything that an owner claims, and of what the dead have left.

        What the dead, or an owner that is lost, were asking may have cost: nobody saw the reply, which is noted.
        """
        with self._transaction() as connection:
            connection.execute("DELETE FROM owners WHERE owner = ?", (owner,))
            if not is_lost:
                connection.execute("DELETE FROM claims WHERE owner = ?", (owner,))
            connection.execute(DEAD_OWNERS, self._alive())
            connection.execute(LOST_CLAIMS, (_LOST,))
            connection.execute(CLAIMS_OF_NOBODY)

    def _alive(self) -> tuple[float, float]:
        """Return the times between which an owner that lives has last said so."""
        now = time.time()
        return now - self.life_seconds, now + self.life_seconds

    def forget(self, keys: Iterable[str]) -> None:
        """Delete the replies under some keys; a key without one is no error."""
        with self._transaction() as connection:
            named = [(key,) for key in keys]
            connection.executemany("DELETE FROM replies WHERE key = ?", named)
            connection.executemany("DELETE FROM unused WHERE key = ?", named)

    def has_replies_without_address(self) -> bool:
        """Return whether any reply is kept without the address that gave it, as older versions did."""
        return bool(self.execute("SELECT 1 FROM replies WHERE address = '' LIMIT 1"))

    def check(self) -> None:
        """Return where the whole file can be read, and has room to grow; it reads all of it."""
        (found,) = self.execute("PRAGMA quick_check(1)")[0]
        if found != "ok":
            raise self._error(found)
        self.show_life("check")
        self.leave("check")
        try:
            # A commit finds room in pages that are free by chance: the first replies would fit, and the others not.
            with tempfile.TemporaryFile(dir=self.path.parent) as file:
                file.write(bytes(_ROOM_BYTES))
        except OSError as error:
            raise self._error(error) from error

    def __len__(self) -> int:
        (count,) = self.execute("SELECT count(*) FROM replies")[0]
        return int(count)

    def close(self) -> None:
        """Close the file; safe to repeat."""
        self._connection.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def execute(self, statement: str, cells: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of one statement."""
        with self._reported(), self._lock:
            return self._connection.execute(statement, cells).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._reported(), self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the second: an error whose text is corrupt
            raise self._error(error) from error

    def _cached_reply(self, key: str, reply: str, kind: str, is_history: int) -> CachedReply:
        try:
            stored = orjson.loads(reply)
            unused = tuple(map(_call, stored.get("unused", ())))
            found = Reply(**{**stored, "outcome": Outcome(stored["outcome"]), "unused": unused, "from_cache": True})
        except (ValueError, TypeError, KeyError) as error:
            raise self._error(f"a reply that cannot be read: {error}") from error
        return CachedReply(key, {}, found, kind, bool(is_history))

    def _error(self, found: object) -> CacheError:
        if "locked" in str(found):
            found = f"{found}: {lock_holders(self.path)}"
        return CacheError(
            "reply cache",
            where=str(self.path),
            expected="a reply cache of ragtasks that can be read and written",
            found=str(found),
            next_step="make room, or move the file away (its replies are then asked again), or name another one",
        )


def _call(values: Mapping[str, Any]) -> CallUsage:
    return CallUsage(**{**values, "spent": Spent.BEFORE})


def check_reply_cache(path: Path) -> None:
    """Return where replies can be kept in a file, so that nobody finds out after a model has answered."""
    with ReplyCache(path) as cache:
        cache.check()


# The tables of a reply cache, and how a file of an older version becomes one of this version.
# Version 1 kept key, request and reply only. Its rows get the columns that its successors have; the address that
# replied was not written down then, and stays empty. Version 3 keeps what replies took that are not kept.

APPLICATION_ID = 0x72677473
"""`rgts`: tells our files from other people's."""
VERSION = 3

_REPLIES_1 = "CREATE TABLE replies (key TEXT PRIMARY KEY, request TEXT NOT NULL, reply TEXT NOT NULL)"
_NEW_COLUMNS = (
    "is_history INTEGER NOT NULL DEFAULT 0",
    "model TEXT NOT NULL DEFAULT ''",
    "address TEXT NOT NULL DEFAULT ''",
    "kind TEXT NOT NULL DEFAULT ''",
    "outcome TEXT NOT NULL DEFAULT ''",
    "stored REAL NOT NULL DEFAULT 0",
)
_COLUMNS = ("model", "address", "kind", "outcome", "stored")
_CLAIMS = "CREATE TABLE claims (key TEXT PRIMARY KEY, owner TEXT NOT NULL)"
_OWNERS = "CREATE TABLE owners (owner TEXT PRIMARY KEY, seen REAL NOT NULL)"
_UNUSED = "CREATE TABLE unused (key TEXT NOT NULL, call TEXT NOT NULL)"

INSERT = (
    f"INSERT OR IGNORE INTO replies (key, request, reply, is_history, {', '.join(_COLUMNS)}) VALUES"
    f" (:key, :request, :reply, :is_history, {', '.join(f':{name}' for name in _COLUMNS)})"
)
HOLDER = (
    "SELECT claims.owner FROM claims JOIN owners ON owners.owner = claims.owner"
    " WHERE claims.key = ? AND owners.seen BETWEEN ? AND ?"
)
"""Owner of the claim on a key, if it has shown life between two times: a clock that was set back counts as silence."""
DEAD_OWNERS = "DELETE FROM owners WHERE seen NOT BETWEEN ? AND ?"
CLAIMS_OF_NOBODY = "DELETE FROM claims WHERE owner NOT IN (SELECT owner FROM owners)"
LOST_CLAIMS = "INSERT INTO unused SELECT key, ? FROM claims WHERE owner NOT IN (SELECT owner FROM owners)"
LOST_CLAIM = "INSERT INTO unused SELECT key, ? FROM claims WHERE key = ? AND owner <> ?"
_LOST = orjson.dumps(CallUsage(is_used=False).json_values).decode()


def prepare(connection: sqlite3.Connection, path: Path) -> str:
    """Make the tables, or bring them up to date; return what the file is where it is none of ours, else nothing."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (n_tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if n_tables and application != APPLICATION_ID:
        return "a database of something else"
    if n_tables and version > VERSION:
        return f"a reply cache of a newer version of ragtasks (format {version}, this version writes {VERSION})"
    if not n_tables:
        connection.execute(_REPLIES_1)
    if not n_tables or version < 3:
        connection.execute(_UNUSED)
    if not n_tables or version < 2:
        for column in _NEW_COLUMNS:
            connection.execute(f"ALTER TABLE replies ADD COLUMN {column}")
        connection.execute(_CLAIMS)
        connection.execute(_OWNERS)
        _fill(connection, path.stat().st_mtime if path.is_file() else 0.0)
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={VERSION}")
    return ""


def _fill(connection: sqlite3.Connection, stored: float) -> None:
    """Fill the new columns of old rows; when they were stored is not known, at the latest when the file last changed.

    A request or reply that cannot be read stays as it is: whoever asks for it is told.
    """
    connection.execute(
        "UPDATE replies SET stored = ?, model = coalesce(json_extract(request, '$.client.model'), ''),"
        " outcome = coalesce(json_extract(reply, '$.outcome'), '') WHERE json_valid(request) AND json_valid(reply)",
        (stored,),
    )


def cells_of(request: Mapping[str, Any], outcome: str, kind: str, stored: float) -> dict[str, Any]:
    """Return the columns of a row by which people look for replies."""
    return {
        "model": str(request.get("client", {}).get("model", "")),
        "address": str(request.get("address", "")),
        "kind": kind,
        "outcome": outcome,
        "stored": stored,
    }


# What a reply cache holds, counted, and how parts of it are removed.

_DAY_SECONDS = 86_400.0
_UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class Count:
    """How many replies are alike in what follows."""

    model: str
    """The model that was asked, as the user named it."""
    address: str
    """Where it was asked; empty for models of the same process, shared replies and those of older versions."""
    kind: str
    """What was asked for, such as a rubric; empty for replies of older versions."""
    outcome: str
    """What came back; `... (then asked again)` for attempts before the reply that could be used."""
    n: int
    """Replies."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which replies are meant: those that fit everything that is given."""

    older_than_days: float | None = None
    """Stored more days ago than this."""
    model: str | None = None
    """Replies of this model."""
    outcome: str | None = None
    """A value of `Outcome`."""

    def condition(self) -> tuple[str, tuple[str | float, ...]]:
        """Return the choice as SQL with its values."""
        outcomes = [outcome.value for outcome in Outcome]
        if self.outcome is not None and self.outcome not in outcomes:
            raise ConfigurationError(f"unknown outcome {self.outcome!r}: {close_matches(self.outcome, outcomes)}")
        parts: dict[str, str | float] = {}
        if self.older_than_days is not None:
            parts["stored < ?"] = time.time() - self.older_than_days * _DAY_SECONDS
        if self.model is not None:
            parts["model = ?"] = self.model
        if self.outcome is not None:
            parts["outcome = ?"] = self.outcome
        if not parts:
            raise ConfigurationError("nothing is chosen: give --older-than, --model or --outcome")
        return " AND ".join(parts), tuple(parts.values())


def count_replies(cache: ReplyCache) -> list[Count]:
    """Return the replies of a cache by model, address, kind and outcome, in that order."""
    rows = cache.execute(
        "SELECT model, address, kind, outcome || iif(is_history, ' (then asked again)', '') AS found, count(*)"
        " FROM replies GROUP BY model, address, kind, found ORDER BY model, address, kind, found"
    )
    return [Count(*row) for row in rows]


def prune(cache: ReplyCache, choice: Choice, *, dry_run: bool = False) -> int:
    """Remove the chosen replies, which are then asked again, and return how many."""
    condition, values = choice.condition()
    ((n_chosen,),) = cache.execute(f"SELECT count(*) FROM replies WHERE {condition}", values)
    if n_chosen and not dry_run:
        cache.execute(f"DELETE FROM replies WHERE {condition}", values)
        with suppress(CacheError):  # another process reads now: its room is used again for the next replies
            cache.execute("VACUUM")
            cache.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return int(n_chosen)


def describe_cache(path: Path) -> list[str]:
    """Return lines on a file of replies: where it is, its size, and how many of what it holds; makes no file."""
    if not path.exists():
        return [f"{path}: no cached replies yet"]
    with ReplyCache(path) as cache:
        counts = count_replies(cache)
    # With the write-ahead log, which is a part of it while another process writes.
    n_bytes = sum(file.stat().st_size for file in (path, path.with_name(f"{path.name}-wal")) if file.exists())
    total = sum(count.n for count in counts)
    rows = [("model", "address", "kind", "outcome", "replies")]
    rows += [
        (item.model or _UNKNOWN, item.address or _UNKNOWN, item.kind or _UNKNOWN, item.outcome, f"{item.n:,}")
        for item in counts
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [f"{path}: {total:,} replies, {n_bytes / 1e6:.1f} MB", *(table if counts else [])]
