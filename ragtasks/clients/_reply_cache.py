"""A cache of paid replies in SQLite: a repeated call sends nothing, and a resumed call only the missing prompts.

A reply is stored as soon as it arrives, under a hash of everything that determines it. Several processes may share one
file: SQLite lets one of them write at a time, and the others wait.
"""

from __future__ import annotations

import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import orjson

from ragtasks.clients._protocol import CallUsage, Outcome, Reply, Spent
from ragtasks.errors import CacheError, ConfigurationError, close_matches
from ragtasks.files import lock_holders, transaction

_BUSY_SECONDS = 60.0
_OPENING_SECONDS = 5.0  # for the first access: a longer lock will not be released soon
_RETRY_SECONDS = 0.02
_APPLICATION_ID, _FORMAT = 0x72677473, 3  # `rgts` identifies our files
_NEW_FILE = (
    "CREATE TABLE replies (key TEXT PRIMARY KEY, request TEXT NOT NULL, reply TEXT NOT NULL, "
    "is_history INTEGER NOT NULL, model TEXT NOT NULL, address TEXT NOT NULL, kind TEXT NOT NULL, "
    "outcome TEXT NOT NULL, stored REAL NOT NULL)",
    "CREATE TABLE unused (key TEXT NOT NULL, call TEXT NOT NULL)",
    f"PRAGMA application_id={_APPLICATION_ID}",
    f"PRAGMA user_version={_FORMAT}",
)
_STORED = tuple(field.name for field in fields(Reply) if field.name not in {"from_cache", "is_shared", "usage"})
_STORED_USAGE = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    **{name: name for name in ("cached_tokens", "dollars", "seconds")},
}
"""Name in a stored reply -> field of its usage."""
_ROOM_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class CachedReply:
    """A reply as stored, with its key and request."""

    key: str
    """Hash of everything that determines the reply."""
    request: Mapping[str, Any]
    """The hashed request, for inspection."""
    reply: Reply
    kind: str = ""
    is_history: bool = False
    """Whether this is an earlier attempt, stored with a later, usable reply; it is not requested again."""


class ReplyCache(AbstractContextManager["ReplyCache"]):
    """Replies by key in one file; thread-safe, closed by `close` or at the end of a `with` block."""

    def __init__(self, path: Path) -> None:
        """Open or create the file.

        Raises:
            CacheError: the file is not a reply cache, has another format, or cannot be used.
        """
        self.path = path
        self._lock = threading.RLock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Autocommit: a statement outside a transaction is complete on its own and blocks no other process.
            self._connection = sqlite3.connect(
                path, timeout=_OPENING_SECONDS, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise self._error(error) from error
        try:
            # Other processes may open the same new file now, so each checks and marks it in a transaction.
            with self._transaction() as connection:
                self._check_format(connection)
            self._write_ahead()
            # Safe if the process is killed, the common case; a power cut may lose the last replies.
            self.execute("PRAGMA synchronous=NORMAL")
            self.execute(f"PRAGMA busy_timeout={_BUSY_SECONDS * 1000:.0f}")  # for a file in use by other processes
        except BaseException:
            self._connection.close()
            raise

    def _check_format(self, connection: sqlite3.Connection) -> None:
        """Create the tables in a new file; refuse a file of another application or format."""
        application, version, n_tables = (
            connection.execute(query).fetchone()[0]
            for query in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
        )
        if not n_tables:
            for statement in _NEW_FILE:
                connection.execute(statement)
        elif application != _APPLICATION_ID:
            raise self._error("a database of something else")
        elif version != _FORMAT:
            raise self._error(
                f"format {version}, and this version of ragtasks reads format {_FORMAT} only",
                "move the file away and run the same command again: it creates a new file, and its replies are "
                "requested, and paid for, again",
            )

    def _write_ahead(self) -> None:
        """Switch the file to write-ahead logging; SQLite's own busy timeout does not cover this step."""
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
        """Return the stored reply, or None; its `request` is left empty."""
        rows = self.execute("SELECT reply, kind, is_history FROM replies WHERE key = ?", (key,))
        return self._cached_reply(key, *rows[0]) if rows else None

    def put(self, replies: Iterable[CachedReply]) -> None:
        """Store replies in one transaction; the first reply stored under a key is kept."""
        with self._transaction() as connection:
            _insert(connection, replies)

    def unused(self, key: str) -> tuple[CallUsage, ...]:
        """Return the usage of earlier requests of a prompt whose replies are not stored."""
        rows = self.execute("SELECT call FROM unused WHERE key = ? ORDER BY rowid", (key,))
        return tuple(_call(orjson.loads(call)) for (call,) in rows)

    def begin(self, key: str, is_usable: Callable[[CachedReply], bool]) -> CachedReply | tuple[CallUsage, ...]:
        """Return the stored reply if it is usable; else begin a request, and return the usage of earlier requests.

        An unusable stored reply is deleted. Until `end`, the request is listed as unused with unknown cost, in case its
        process is killed before the reply arrives. All of it is one transaction.
        """
        with self._transaction() as connection:
            cached = self.get(key)
            if cached is not None and is_usable(cached):
                return cached
            earlier = self.unused(key)
            connection.execute("DELETE FROM replies WHERE key = ?", (key,))
            _insert_unused(connection, key, [_UNSEEN])
            return earlier

    def end(self, key: str, replies: Iterable[CachedReply] = (), calls: Iterable[CallUsage] = ()) -> None:
        """End a request in one transaction: store its reply, or its usage if the reply is not stored."""
        with self._transaction() as connection:
            connection.execute(
                "DELETE FROM unused WHERE rowid = (SELECT rowid FROM unused WHERE key = ? AND call = ? LIMIT 1)",
                (key, _json(_UNSEEN)),
            )
            _insert(connection, replies)
            _insert_unused(connection, key, calls)

    def forget(self, keys: Iterable[str]) -> None:
        """Delete the replies under some keys; missing keys are ignored."""
        with self._transaction() as connection:
            rows = [(key,) for key in keys]
            connection.executemany("DELETE FROM replies WHERE key = ?", rows)
            connection.executemany("DELETE FROM unused WHERE key = ?", rows)

    def check(self) -> None:
        """Check that the file can be read and has room to grow; this reads the complete file.

        Raises:
            CacheError: the file is corrupt, or the disk is full.
        """
        (status,) = self.execute("PRAGMA quick_check(1)")[0]
        if status != "ok":
            raise self._error(status)
        self.begin("check", lambda _: False)
        self.end("check")
        try:
            # A commit may use free pages of the file: the first replies would fit, and later ones would not.
            with tempfile.TemporaryFile(dir=self.path.parent) as file:
                file.write(bytes(_ROOM_BYTES))
        except OSError as error:
            raise self._error(error) from error

    def __len__(self) -> int:
        (count,) = self.execute("SELECT count(*) FROM replies")[0]
        return int(count)

    def close(self) -> None:
        """Close the file; safe to repeat."""
        with self._lock:  # SQLite crashes if another thread is in the middle of a statement
            self._connection.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def execute(self, statement: str, cells: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Execute one statement and return its rows."""
        with self._sqlite_errors(), self._lock:
            return self._connection.execute(statement, cells).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._sqlite_errors(), self._lock, transaction(self._connection) as connection:
            yield connection

    @contextmanager
    def _sqlite_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:  # UnicodeDecodeError: an error with a corrupt message
            raise self._error(error) from error

    def _cached_reply(self, key: str, reply: str, kind: str, is_history: int) -> CachedReply:
        try:
            stored = orjson.loads(reply)
            usage = CallUsage(**{field: stored.pop(name, None) for name, field in _STORED_USAGE.items()})
            unused = tuple(map(_call, stored.pop("unused", ())))
            outcome = Outcome(stored.pop("outcome"))
            restored = Reply(outcome, **stored, usage=usage, unused=unused, from_cache=True)
        except (ValueError, TypeError, KeyError) as error:
            raise self._error(f"a reply that cannot be read: {error}") from error
        return CachedReply(key, {}, restored, kind, bool(is_history))

    def _error(self, found: object, next_step: str = "") -> CacheError:
        if "locked" in str(found):
            found = f"{found}: {lock_holders(self.path)}"
        return CacheError(
            "reply cache",
            where=str(self.path),
            expected="a reply cache of ragtasks that can be read and written",
            found=str(found),
            next_step=next_step
            or "free disk space, move the file away (its replies are then requested again), or name another file",
        )


def _call(values: Mapping[str, Any]) -> CallUsage:
    return CallUsage(**{**values, "spent": Spent.BEFORE})


_UNSEEN = CallUsage(is_used=False)
"""A request whose reply was not received."""


def _json(call: CallUsage) -> str:
    return orjson.dumps(call.json_values).decode()


def _insert(connection: sqlite3.Connection, replies: Iterable[CachedReply]) -> None:
    for cached in replies:
        usage = {name: getattr(cached.reply.usage, field) for name, field in _STORED_USAGE.items()}
        row = (
            cached.key,
            orjson.dumps(dict(cached.request)).decode(),
            orjson.dumps({name: getattr(cached.reply, name) for name in _STORED} | usage).decode(),
            cached.is_history,
            str(cached.request.get("client", {}).get("model", "")),
            str(cached.request.get("address", "")),
            cached.kind,
            cached.reply.outcome.value,
            time.time(),
        )
        connection.execute("INSERT OR IGNORE INTO replies VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def _insert_unused(connection: sqlite3.Connection, key: str, calls: Iterable[CallUsage]) -> None:
    connection.executemany("INSERT INTO unused VALUES (?, ?)", [(key, _json(call)) for call in calls])


def check_reply_cache(path: Path) -> None:
    """Check that replies can be stored in a file, before any model has replied.

    Raises:
        CacheError: the file cannot be used.
    """
    with ReplyCache(path) as cache:
        cache.check()


_DAY_SECONDS = 86_400.0


def prune(
    cache: ReplyCache,
    *,
    older_than_days: float | None = None,
    model: str | None = None,
    outcome: str | None = None,
    dry_run: bool = False,
) -> tuple[int, int]:
    """Delete the replies that match every criterion, and return the numbers of deleted and remaining replies.

    Args:
        cache: the cache.
        older_than_days: minimum age of a reply.
        model: the model's name.
        outcome: a value of `Outcome`.
        dry_run: count only.

    Raises:
        ConfigurationError: the outcome is unknown, or no criterion is given.
    """
    outcomes = [member.value for member in Outcome]
    if outcome is not None and outcome not in outcomes:
        raise ConfigurationError(f"unknown outcome {outcome!r}: {close_matches(outcome, outcomes)}")
    before = None if older_than_days is None else time.time() - older_than_days * _DAY_SECONDS
    criteria = {"stored < ?": before, "model = ?": model, "outcome = ?": outcome}
    chosen = {part: value for part, value in criteria.items() if value is not None}
    if not chosen:
        raise ConfigurationError("no criterion is given: add --older-than, --model or --outcome")
    condition, values = " AND ".join(chosen), tuple(chosen.values())
    ((n_chosen,),) = cache.execute(f"SELECT count(*) FROM replies WHERE {condition}", values)
    n_left = len(cache) - n_chosen
    if n_chosen and not dry_run:
        cache.execute(f"DELETE FROM replies WHERE {condition}", values)
        with suppress(CacheError):  # another process is reading: later replies reuse the space
            cache.execute("VACUUM")
            cache.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return n_chosen, n_left


def describe_cache(path: Path) -> list[str]:
    """Return lines about a cache file: path, size, and replies by model, address, kind and outcome; creates no file."""
    if not path.exists():
        return [f"{path}: no cached replies yet"]
    with ReplyCache(path) as cache:
        counts = cache.execute(
            "SELECT model, address, kind, outcome || iif(is_history, ' (requested again)', '') AS found, count(*)"
            " FROM replies GROUP BY model, address, kind, found ORDER BY model, address, kind, found"
        )
    # With the write-ahead log, which is part of the cache while another process writes.
    n_bytes = sum(file.stat().st_size for file in (path, path.with_name(f"{path.name}-wal")) if file.exists())
    total = sum(n for *_, n in counts)
    rows = [["model", "address", "kind", "outcome", "replies"]]
    rows += [[*(text or "-" for text in names), f"{n:,}"] for *names, n in counts]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [f"{path}: {total:,} replies, {n_bytes / 1e6:.1f} MB", *(table if counts else [])]
