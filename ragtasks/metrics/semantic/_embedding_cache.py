"""SQLite cache of the vectors of texts that are scored repeatedly: references and passages, not a model's answers.

A second model on the same tasks is compared with the same texts. The key of an entry is a hash of the encoder's
identity and the text's tokens. Each entry has a checksum; on a mismatch the text is encoded again. The file size is
bounded. The least recently used entries are removed first, but never entries that this process has used. A set of texts
larger than the bound therefore keeps its beginning, where plain LRU would evict each entry just before it is needed.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from ragtasks.errors import CacheError
from ragtasks.files import lock_holders, transaction

_APPLICATION_ID = 0x72677465
"""`rgte`: marks files of ragtasks."""
_VERSION = 1
_BUSY_SECONDS = 60.0
_OPENING_SECONDS = 5.0  # wait at the first access: a lock held for longer is not released soon
_TABLES = (
    # Vectors are in their own table, so that marking an entry as used does not rewrite them.
    "CREATE TABLE entries (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, encoder TEXT NOT NULL,"
    " n_bytes INTEGER NOT NULL, used REAL NOT NULL, checksum BLOB NOT NULL)",
    "CREATE TABLE vectors (id INTEGER PRIMARY KEY, vectors BLOB NOT NULL)",
)


@dataclass(frozen=True, slots=True)
class EncoderCount:
    """Size of a cache for one encoder."""

    encoder: str
    """Its name and layer."""
    n_texts: int
    n_bytes: int


class EmbeddingCache(AbstractContextManager["EmbeddingCache"]):
    """Vectors by key in one bounded file, open inside a `with` block; several processes may share it.

    Any method raises CacheError if the file cannot be read or written.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        """Set the file and the maximum size of its vectors in bytes; `with` creates or opens the file."""
        self.path, self.max_bytes = path, max_bytes
        self._began = time.time()
        self._connection: sqlite3.Connection | None = None

    def __enter__(self) -> EmbeddingCache:
        """Open or create the file."""
        with self._reported():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Autocommit: each statement outside a transaction is atomic, and blocks no other process.
            self._connection = sqlite3.connect(self.path, timeout=_OPENING_SECONDS, isolation_level=None)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise
        return self

    def _prepare(self) -> None:
        # A power failure may corrupt the file; corrupt entries are encoded again. A killed process loses nothing.
        self._execute("PRAGMA synchronous=OFF")
        with self._transaction() as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            (n_tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if n_tables and (application, version) != (_APPLICATION_ID, _VERSION):
                raise self._error("a database of another program, or of another version of ragtasks")
            if not n_tables:
                for statement in _TABLES:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id={_APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version={_VERSION}")
        self._execute(f"PRAGMA busy_timeout={_BUSY_SECONDS * 1000:.0f}")

    def get(self, key: bytes) -> bytes | None:
        """Return the vectors of a key; None if they are missing or do not match their checksum."""
        rows = self._execute("SELECT checksum, vectors FROM entries JOIN vectors USING (id) WHERE key = ?", (key,))
        if not rows:
            return None
        checksum, vectors = rows[0]
        is_intact = isinstance(vectors, bytes) and checksum == _checksum(key, vectors)
        return vectors if is_intact else None

    def put(self, entries: Iterable[tuple[bytes, bytes]], encoder: str) -> None:
        """Store (key, vectors), replacing stored keys, as far as they fit without evicting entries of this process."""
        with self._transaction() as connection:
            for key, vectors in entries:
                _remove(connection, "key = ?", (key,))
                if self._make_room(connection, len(vectors)):
                    values = (key, encoder, len(vectors), time.time(), _checksum(key, vectors))
                    cursor = connection.execute(
                        "INSERT INTO entries (key, encoder, n_bytes, used, checksum) VALUES (?, ?, ?, ?, ?)", values
                    )
                    connection.execute("INSERT INTO vectors VALUES (?, ?)", (cursor.lastrowid, vectors))

    def mark_used(self, keys: Iterable[bytes]) -> None:
        """Set the time of last use of entries to now."""
        now = time.time()
        with self._transaction() as connection:
            connection.executemany("UPDATE entries SET used = ? WHERE key = ?", ((now, key) for key in keys))

    def counts(self) -> list[EncoderCount]:
        """Return the sizes by encoder, in the order of names."""
        statement = "SELECT encoder, count(*), sum(n_bytes) FROM entries GROUP BY encoder ORDER BY encoder"
        return [EncoderCount(*row) for row in self._execute(statement)]

    def prune(
        self, *, older_than_days: float | None = None, encoder: str | None = None, dry_run: bool = False
    ) -> tuple[int, int]:
        """Remove the entries that match all given conditions; return (number removed, number remaining).

        Without conditions, all entries are removed. `encoder` is a prefix of a name in `counts`; a dry run only counts.
        """
        before = time.time() - (older_than_days or 0.0) * 86_400
        condition, values = "used <= ? AND substr(encoder, 1, ?) = ?", (before, len(encoder or ""), encoder or "")
        with self._transaction() as connection:
            (n_all,) = connection.execute("SELECT count(*) FROM entries").fetchone()
            (n_chosen,) = connection.execute(f"SELECT count(*) FROM entries WHERE {condition}", values).fetchone()
            if not dry_run:
                _remove(connection, condition, values)
        if n_chosen and not dry_run:
            with suppress(CacheError):  # another process is reading: the space is reused for new entries
                self._execute("VACUUM")
        return n_chosen, n_all - n_chosen

    def close(self) -> None:
        """Close the file; safe to repeat."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _make_room(self, connection: sqlite3.Connection, n_bytes: int) -> bool:
        """Return whether `n_bytes` fit, after evicting the oldest entries that this process has not used."""
        (total,) = connection.execute("SELECT coalesce(sum(n_bytes), 0) FROM entries").fetchone()
        excess = total + n_bytes - self.max_bytes
        if excess <= 0:
            return True
        oldest: list[int] = []
        rows = connection.execute("SELECT id, n_bytes FROM entries WHERE used < ? ORDER BY used", (self._began,))
        for entry, size in rows:
            oldest.append(entry)
            excess -= size
            if excess <= 0:
                break
        if excess > 0:
            return False
        for entry in oldest:
            _remove(connection, "id = ?", (entry,))
        return True

    def _execute(self, statement: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        with self._reported():
            return self._opened.execute(statement, values).fetchall()

    @property
    def _opened(self) -> sqlite3.Connection:
        assert self._connection is not None, "open the cache by `with`"
        return self._connection

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._reported(), transaction(self._opened) as connection:
            yield connection

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error, UnicodeDecodeError) as error:  # the last: from a corrupt error text
            raise self._error(error) from error

    def _error(self, problem: object) -> CacheError:
        if "locked" in str(problem):
            problem = f"{problem}: {lock_holders(self.path)}"
        return CacheError(
            "embedding cache",
            where=str(self.path),
            expected="a readable and writable embedding cache of ragtasks",
            found=str(problem),
            next_step="free disk space, or remove the file (its texts are then encoded again)",
        )


def describe_embeddings(path: Path, max_bytes: int) -> list[str]:
    """Return lines on an embedding cache: path, size, and number of texts by encoder; creates no file."""
    if not path.exists():
        return [f"{path}: no cached embeddings yet"]
    with EmbeddingCache(path, max_bytes) as cache:
        counts = cache.counts()
    n_texts, n_bytes = (sum(values) for values in (zip(*((c.n_texts, c.n_bytes) for c in counts), strict=True) or ()))
    return [
        f"{path}: embeddings of {n_texts:,} texts, {n_bytes / 1e6:.1f} of at most {max_bytes / 1e6:,.0f} MB",
        *(f"{count.encoder}: {count.n_texts:,} texts, {count.n_bytes / 1e6:.1f} MB" for count in counts),
    ]


def _remove(connection: sqlite3.Connection, condition: str, values: tuple[object, ...]) -> None:
    """Delete the entries that match a condition, with their vectors."""
    connection.execute(f"DELETE FROM vectors WHERE id IN (SELECT id FROM entries WHERE {condition})", values)
    connection.execute(f"DELETE FROM entries WHERE {condition}", values)


def _checksum(key: bytes, vectors: bytes) -> bytes:
    return hashlib.sha256(key + vectors).digest()
