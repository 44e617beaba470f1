"""The SQLite file behind a server: a write-ahead log, one transaction a change, on disk before it is acknowledged.

Several servers may use one file. What signs cookies stands in a file of its own beside it, so that who gets the votes
cannot come in as a rater. Files of the older version are brought up to date in one transaction when a server opens
them; whoever only reads works on a copy in memory, and changes nothing.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from ragtasks.arena._vote import Vote
from ragtasks.errors import CacheError, clear_error
from ragtasks.files import written_aside

_APPLICATION = 0x41524E41  # "ARNA"
_VERSION = 2
_TABLES = """
CREATE TABLE IF NOT EXISTS assignments (
    assignment_id TEXT PRIMARY KEY, rater TEXT NOT NULL, battle_id TEXT NOT NULL, view TEXT NOT NULL,
    is_turned INTEGER NOT NULL, state TEXT NOT NULL, time REAL NOT NULL, until REAL NOT NULL DEFAULT 0,
    UNIQUE (rater, battle_id, view)
);
CREATE TABLE IF NOT EXISTS votes (
    place INTEGER PRIMARY KEY, vote_id TEXT NOT NULL UNIQUE, assignment_id TEXT, rater TEXT NOT NULL,
    vote TEXT NOT NULL, undone REAL
);
CREATE TABLE IF NOT EXISTS events (
    place INTEGER PRIMARY KEY, time REAL NOT NULL, event TEXT NOT NULL, assignment_id TEXT NOT NULL,
    rater TEXT NOT NULL, battle_id TEXT NOT NULL, vote_id TEXT
);
CREATE TABLE IF NOT EXISTS invitations (rater TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, time REAL NOT NULL);
CREATE TABLE IF NOT EXISTS live (battle_id TEXT PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS forms (
    rater TEXT NOT NULL, item TEXT NOT NULL, content TEXT NOT NULL, time REAL NOT NULL, PRIMARY KEY (rater, item)
);
CREATE TABLE IF NOT EXISTS reviews (
    place INTEGER PRIMARY KEY, reviewer TEXT NOT NULL, pair TEXT NOT NULL, content TEXT NOT NULL, time REAL NOT NULL
)
"""
_INDEXES = """
CREATE UNIQUE INDEX IF NOT EXISTS one_vote ON votes (assignment_id) WHERE undone IS NULL;
CREATE INDEX IF NOT EXISTS who_has ON assignments (battle_id, state, until, rater);
CREATE INDEX IF NOT EXISTS has_what ON assignments (rater, battle_id, view, state);
CREATE INDEX IF NOT EXISTS what_happened ON events (rater, battle_id, event)
"""
_COPY = "CREATE TABLE a_copy (time REAL NOT NULL)"
_SECRET_BYTES = 32
_T = TypeVar("_T")


class Database:
    """One file that is open; may be used by several threads."""

    def __init__(self, path: Path, *, is_read_only: bool = False) -> None:
        """Open a file, or make one.

        Args:
            path: the file.
            is_read_only: whether it is read into memory, where it may be changed without any trace in the file.

        Raises:
            CacheError: the file cannot be used, is another program's, of a newer version, or a copy to read only.
        """
        self.path = path
        self._log: Log | None = None
        self._writing, self._reading = threading.Lock(), threading.Lock()
        try:
            if is_read_only:
                self._writer = self._reader = _in_memory(path)
                has_log = False
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._writer, self._reader = _opened(str(path)), _opened(str(path))
                has_log = self._prepared()
            with self.transaction() as connection:
                is_changed = _bring_up_to_date(connection)
            if is_changed and has_log:  # so that it is on disk, and nothing of what was dropped stays in either file
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._log = Log(path) if has_log else None
        except (OSError, sqlite3.Error, ValueError) as error:  # ValueError: bytes of a damaged file that are no text
            raise CacheError(_unusable(path, str(error))) from error

    def _prepared(self) -> bool:
        """Check whose file it is, and return whether the file system can have a log beside it."""
        _require_ours(self._writer)
        if _has_table(self._writer, "a_copy"):
            raise sqlite3.Error("it is a copy to read, not to vote in")
        self._writer.execute("PRAGMA secure_delete = ON")
        has_log = self._writer.execute("PRAGMA journal_mode = WAL").fetchone()[0] == "wal"
        self._writer.execute(f"PRAGMA synchronous = {'NORMAL' if has_log else 'FULL'}")
        return bool(has_log)

    def close(self) -> None:
        """Close the file."""
        with self._writing, self._reading:
            self._reader.close()
            self._writer.close()
            if self._log:
                self._log.close()

    @contextmanager
    def transaction(self, *, is_on_disk: bool = True) -> Iterator[sqlite3.Connection]:
        """Hold the database against everybody else for one transaction, which no later kill undoes.

        Args:
            is_on_disk: whether it is on disk, and those before it, when the block ends: then a power cut undoes nothing
                either. Those that wait at once share one write.
        """
        with self._writing:
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
            except BaseException:
                self._writer.execute("ROLLBACK")
                raise
            self._writer.execute("COMMIT")
            number = self._log.committed() if self._log else 0
        if self._log and is_on_disk:
            self._log.put_on_disk(number)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield what reads the database, and waits for no transaction."""
        with self._reading:
            yield self._reader

    def rows(self, query: str, *values: object) -> list[tuple[object, ...]]:
        """Return the rows of a query.

        Raises:
            CacheError: the file is damaged.
        """
        return self.parsed(query, lambda row: row, *values)

    def parsed(self, query: str, parse: Callable[[tuple[Any, ...]], _T], *values: object) -> list[_T]:
        """Return what `parse` makes of each row of a query.

        Raises:
            CacheError: the file is damaged, or `parse` raised a ValueError or TypeError.
        """
        try:
            with self.reading() as connection:
                return [parse(row) for row in connection.execute(query, values).fetchall()]
        except (sqlite3.Error, ValueError, TypeError) as error:
            found = str(error).partition("\n")[0]
            raise CacheError(_unusable(self.path, f"a damaged file: {found}")) from error

    @property
    def secret(self) -> bytes:
        """What cookies are signed with: of the file beside this one, which is made where there is none."""
        path = self.path.with_name(f"{self.path.name}.secret")
        with self.transaction(is_on_disk=False):  # so that two servers make one
            try:
                found = path.read_bytes() if path.exists() else b""
                if len(found) < _SECRET_BYTES:
                    found = secrets.token_bytes(_SECRET_BYTES)
                    with written_aside(path) as file:
                        Path(file.name).chmod(0o600)
                        file.write(found)
            except OSError as error:
                raise CacheError(f"cannot use {path}: {error.strerror or error}") from error
        return found

    def copy_to(self, path: Path) -> None:
        """Write a copy without invitations that no server votes in.

        Raises:
            CacheError: the file is there, or cannot be written.
        """
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            if path.exists():
                raise FileExistsError(17, "there is a file already")
            path.parent.mkdir(parents=True, exist_ok=True)
            with closing(_in_memory(self.path)) as connection:
                _bring_up_to_date(connection)
                connection.execute("DELETE FROM invitations")
                if not _has_table(connection, "a_copy"):
                    connection.execute(_COPY)
                connection.execute("INSERT INTO a_copy VALUES (?)", (time.time(),))
                connection.execute("VACUUM INTO ?", (str(part),))
            part.chmod(0o444)
            part.replace(path)
        except (OSError, sqlite3.Error, ValueError) as error:
            part.unlink(missing_ok=True)
            raise CacheError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from error


class Log:
    """The write-ahead log of a file; may be used by several threads."""

    def __init__(self, database: Path) -> None:
        """Open the log of a database, which has one while it is open.

        Raises:
            OSError: there is none.
        """
        self._file = os.open(f"{database}-wal", os.O_RDWR)
        self._lock = threading.Lock()
        self._n_committed = self._n_on_disk = 0

    def committed(self) -> int:
        """Count a transaction, once it is committed and before another one is, and return its number."""
        self._n_committed += 1
        return self._n_committed

    def put_on_disk(self, number: int) -> None:
        """Return once a transaction is on disk, with all that were committed before it.

        Raises:
            OSError: the disk takes no more.
        """
        with self._lock:
            if self._n_on_disk < number:
                n_committed = self._n_committed
                os.fsync(self._file)
                self._n_on_disk = n_committed

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            os.close(self._file)


def _opened(name: str, *, uri: bool = False) -> sqlite3.Connection:
    return sqlite3.connect(name, isolation_level=None, check_same_thread=False, timeout=10, uri=uri)


def _in_memory(path: Path) -> sqlite3.Connection:
    """Return a copy in memory of a file as it is now, which is not changed."""
    made = _opened(":memory:")
    try:
        with closing(_opened(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as source:
            _require_ours(source)
            source.backup(made)
    except BaseException:
        made.close()
        raise
    return made


def _has_table(connection: sqlite3.Connection, name: str) -> bool:
    return bool(connection.execute("SELECT count(*) FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0])


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _require_ours(connection: sqlite3.Connection) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if tables and application != _APPLICATION:
        raise sqlite3.DatabaseError("it is no database of votes")
    if _version(connection) > _VERSION:
        raise sqlite3.DatabaseError(f"it was made by a newer ragtasks (version {_version(connection)} of the file)")


def _bring_up_to_date(connection: sqlite3.Connection) -> bool:
    """Give a file the tables of this version, and return whether it had others; no vote of the older one is lost."""
    if _version(connection) == _VERSION:
        for statement in _INDEXES.split(";"):  # those that came later
            connection.execute(statement)
        return False
    is_older = _has_table(connection, "assignments")
    if is_older:
        connection.execute("ALTER TABLE assignments ADD COLUMN until REAL NOT NULL DEFAULT 0")
    for statement in f"{_TABLES};{_INDEXES}".split(";"):
        connection.execute(statement)
    if is_older:
        _from_first_version(connection)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {_VERSION}")
    return True


def _from_first_version(connection: sqlite3.Connection) -> None:
    """Write down what happened before events were kept, mark the votes that came after names, drop the secret."""
    connection.execute("DROP TABLE IF EXISTS secret")
    made = (
        "INSERT INTO assignments SELECT lower(hex(randomblob(12))), rater, item, 'form', 0, 'voted', time, 0 FROM forms"
    )
    connection.execute(made)
    given: list[Any] = connection.execute(
        "SELECT time, assignment_id, rater, battle_id, view, state FROM assignments"
    ).fetchall()
    votes = """
        SELECT json_extract(v.vote, '$.time'), v.undone, a.assignment_id, a.rater, a.battle_id, v.vote_id
        FROM votes v JOIN assignments a USING (assignment_id) ORDER BY v.place
    """
    rows: list[tuple[Any, ...]] = [(at, "given", *ids, None) for at, *ids, _, _ in given]
    rows += [(at, "names_shown", *ids, None) for at, *ids, view, state in given if _saw_names(view, state)]
    rows += [(at, "skipped", *ids, None) for at, *ids, _, state in given if state == "skipped"]
    rows += [(at, "voted", *ids, None) for at, *ids, view, _ in given if view == "form"]
    voted: list[Any] = connection.execute(votes).fetchall()
    for at, undone, *ids in voted:
        rows += [(at, "voted", *ids), (at, "names_shown", *ids[:-1], None)]
        rows += [(undone, "undone", *ids)] if undone is not None else []
    query = "INSERT INTO events (time, event, assignment_id, rater, battle_id, vote_id) VALUES (?, ?, ?, ?, ?, ?)"
    rows.sort(key=lambda row: float(row[0]))
    connection.executemany(query, rows)
    after_names = """
        SELECT v.place, v.vote FROM votes v JOIN assignments a USING (assignment_id)
        WHERE a.view = 'blinded' AND EXISTS (
            SELECT 1 FROM events e WHERE e.event = 'names_shown' AND e.rater = a.rater AND e.battle_id = a.battle_id
            AND e.time < json_extract(v.vote, '$.time')
        )
    """
    for place, text in connection.execute(after_names).fetchall():
        revealed = Vote.model_validate_json(text).model_copy(update={"view": "revealed"})
        connection.execute("UPDATE votes SET vote = ? WHERE place = ?", (revealed.model_dump_json(), place))


def _saw_names(view: str, state: str) -> bool:
    """Return whether the first version showed a pair's names without a vote: on the page of a pair that was skipped."""
    return view == "side_by_side" or state == "skipped"


def _unusable(path: Path, found: str) -> str:
    return clear_error(
        "votes",
        where=str(path),
        expected="a database of votes that this process may use, or no file",
        found=found,
        next_step="name another file with --database",
    )
