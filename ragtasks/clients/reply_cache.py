"""Replies that were paid for, in SQLite: a second call asks nothing, a killed one asks only what is not answered.

A reply is stored the moment it comes, under a hash of everything that decides it: model, decoding, messages. Several
processes may share one file. Each asks what is missing in an order of its own and looks once more before it sends, so
that two with the same prompts share the work and ask twice only what both have in flight.
"""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import orjson

from ragtasks.clients.protocol import FINAL, Client, Journal, Outcome, Progress, Prompt, Reply, no_progress
from ragtasks.clients.usage import known
from ragtasks.errors import CacheError, clear_error
from ragtasks.runs import canonical_hash

_APPLICATION_ID = 0x72677473  # `rgts`: tells our files from other people's
_FORMAT = 1
_BUSY_SECONDS = 60.0
_RETRY_SECONDS = 0.02
_STORED = tuple(field.name for field in fields(Reply) if field.compare)
_TABLE = "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, request TEXT NOT NULL, reply TEXT NOT NULL)"


class ReplyCache(AbstractContextManager["ReplyCache"]):
    """Replies by key, in one file; usable from any thread, closed by `close` or at the end of a `with`."""

    def __init__(self, path: Path) -> None:
        """Open the file, or make it.

        Raises:
            CacheError: the file is no cache of replies, is torn, or cannot be written.
        """
        self._path = path
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Autocommit: every statement is whole on its own, and none keeps other processes waiting.
            self._connection = sqlite3.connect(
                path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise CacheError(self._message(error)) from error
        try:
            self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        # Other processes may open the same new file now: one at a time looks at it and marks it.
        self._execute("BEGIN IMMEDIATE")
        (application,) = self._execute("PRAGMA application_id")[0]
        (version,) = self._execute("PRAGMA user_version")[0]
        (n_tables,) = self._execute("SELECT count(*) FROM sqlite_master")[0]
        if n_tables and (application, version) != (_APPLICATION_ID, _FORMAT):
            raise CacheError(self._message("a database of something else, or of another version of ragtasks"))
        self._execute(f"PRAGMA application_id={_APPLICATION_ID}")
        self._execute(f"PRAGMA user_version={_FORMAT}")
        self._execute(_TABLE)
        self._execute("COMMIT")
        self._write_ahead()
        # Enough for a killed process, which is the common case; a power cut may take the last replies with it.
        self._execute("PRAGMA synchronous=NORMAL")

    def _write_ahead(self) -> None:
        """Switch the file to write-ahead logging; SQLite's own waiting for other processes leaves this step out."""
        deadline = time.monotonic() + _BUSY_SECONDS
        while True:
            try:
                self._execute("PRAGMA journal_mode=WAL")
            except CacheError as error:
                if "locked" not in str(error.__cause__) or time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_SECONDS)
            else:
                return

    def get(self, key: str) -> Reply | None:
        """Return the stored reply, or None.

        Raises:
            CacheError: the file is torn.
        """
        rows = self._execute("SELECT reply FROM replies WHERE key = ?", (key,))
        if not rows:
            return None
        try:
            stored = orjson.loads(rows[0][0])
            return Reply(**{**stored, "outcome": Outcome(stored["outcome"]), "from_cache": True})
        except (ValueError, TypeError, KeyError) as error:
            raise CacheError(self._message(f"a reply that cannot be read: {error}")) from error

    def put(self, key: str, request: Mapping[str, Any], reply: Reply) -> None:
        """Store a reply, with the request for the record; the first one stored under a key stays.

        Raises:
            CacheError: the disk is full, or the file cannot be written.
        """
        stored = {name: getattr(reply, name) for name in _STORED}
        cells = (key, orjson.dumps(dict(request)).decode(), orjson.dumps(stored).decode())
        self._execute("INSERT OR IGNORE INTO replies VALUES (?, ?, ?)", cells)

    def forget(self, keys: Iterable[str]) -> None:
        """Delete the replies under some keys; a key without one is no error.

        Raises:
            CacheError: the file cannot be written.
        """
        self._execute("BEGIN IMMEDIATE")
        for key in keys:
            self._execute("DELETE FROM replies WHERE key = ?", (key,))
        self._execute("COMMIT")

    def __len__(self) -> int:
        (count,) = self._execute("SELECT count(*) FROM replies")[0]
        return int(count)

    def close(self) -> None:
        """Close the file; safe to repeat."""
        self._connection.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _execute(self, statement: str, cells: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        try:
            with self._lock:
                return self._connection.execute(statement, cells).fetchall()
        except sqlite3.Error as error:
            raise CacheError(self._message(error)) from error

    def _message(self, found: object) -> str:
        return clear_error(
            "reply cache",
            where=str(self._path),
            expected="a reply cache of ragtasks that can be read and written",
            found=str(found),
            next_step="make room, or move the file away (its replies are then asked again), or name another one",
        )


class CachedClient:
    """A client that asks another one only what the cache does not hold, and each distinct prompt once."""

    def __init__(self, client: Client, cache: ReplyCache) -> None:
        self._client, self._cache = client, cache

    @property
    def name(self) -> str:
        """The name of the client behind."""
        return self._client.name

    def describe(self) -> Mapping[str, Any]:
        """Return what the client behind describes: a cache changes no reply."""
        return self._client.describe()

    def answer(
        self, prompts: Sequence[Prompt], progress: Progress = no_progress, journal: Journal | None = None
    ) -> list[Reply]:
        """Return one reply a prompt, in order (see `Client.answer`); progress counts distinct prompts.

        Replies that the model decided are stored, also those without an answer. Failures on the way are not, so that
        the next call asks them again.

        Raises:
            CacheError: as `ReplyCache`.
            RagtasksError: as the client behind; what came before is stored.
        """
        requests = [self._request(prompt) for prompt in prompts]
        entries: dict[str, _Entry] = {}
        for index, request in enumerate(requests):
            entries.setdefault(canonical_hash(request), _Entry(request, [])).indexes.append(index)
        replies: dict[int, Reply] = {}
        missing: list[str] = []
        for key, entry in entries.items():
            reply = self._cache.get(key)
            if reply is None:
                missing.append(key)
            else:
                _deliver(reply, entry, replies, journal)
        random.shuffle(missing)
        n_known = len(entries) - len(missing)
        if n_known:
            progress(f"{self.name}\t{n_known:,} cached", n_known, len(entries))
        keeper = _Keeper(self._cache, [(key, entries[key]) for key in missing], journal)
        asked = [prompts[entries[key].indexes[0]] for key in missing]
        for key, reply in zip(missing, self._client.answer(asked, _after(n_known, progress), keeper), strict=True):
            _deliver(reply, entries[key], replies, None)
        return [replies[index] for index in range(len(prompts))]

    def _request(self, prompt: Prompt) -> dict[str, Any]:
        request = {"client": dict(self.describe()), "messages": prompt.payload()}
        return {**request, "key_parts": list(prompt.key_parts)} if prompt.key_parts else request


def _after(n_before: int, progress: Progress) -> Progress:
    """Return a progress that counts on from `n_before`."""

    def advance(what: str, done: int, total: int | None) -> None:
        progress(what, n_before + done, None if total is None else n_before + total)

    return advance


class _Entry(NamedTuple):
    """One distinct request and the prompts that make it."""

    request: Mapping[str, Any]
    indexes: list[int]


def _deliver(reply: Reply, entry: _Entry, replies: dict[int, Reply], journal: Journal | None) -> None:
    for index in entry.indexes:
        replies[index] = reply
        if journal is not None:
            journal.record(index, reply)
        reply = known(reply)  # asked once: the same prompt again costs nothing


class _Keeper:
    """Stores the replies of one call as they come, and tells the caller's own journal."""

    def __init__(self, cache: ReplyCache, asked: Sequence[tuple[str, _Entry]], journal: Journal | None) -> None:
        self._cache, self._asked, self._journal = cache, asked, journal

    def recall(self, index: int) -> Reply | None:
        key, entry = self._asked[index]
        reply = self._cache.get(key)
        if reply is not None:
            _deliver(reply, entry, {}, self._journal)
        return reply

    def record(self, index: int, reply: Reply) -> None:
        key, entry = self._asked[index]
        if reply.outcome in FINAL:
            self._cache.put(key, entry.request, reply)
        _deliver(reply, entry, {}, self._journal)


__all__ = ["CachedClient", "ReplyCache"]
