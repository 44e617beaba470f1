"""Cached replies: the client that sends what the cache does not contain, the cache, and its contents."""

from __future__ import annotations

import random
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, runtime_checkable

import orjson

from ragtasks.clients._openai_client import ServedModels
from ragtasks.clients._openai_dialect import early_end
from ragtasks.clients._protocol import (
    FINAL,
    CallUsage,
    Chain,
    Client,
    Journal,
    Outcome,
    Progress,
    Prompt,
    Reply,
    Spent,
    as_cached,
    calls_of,
    no_progress,
)
from ragtasks.errors import CacheError, ConfigurationError, RagtasksError, close_matches
from ragtasks.files import canonical_hash, lock_holders, transaction

# A client that sends another one only the prompts that a reply cache does not contain, each distinct prompt once.
# A prompt is looked up again just before it is sent, so that replies which another process stored meanwhile are used.
# Stored are answers, refusals and prompts that a content filter stopped. A reply that ended early, or is empty, corrupt
# or unreadable for its caller, is requested again by the next call.

_LOOK_SECONDS = 0.5
_NEIGHBOURS = 16


@runtime_checkable
class Located(Protocol):
    """A client whose replies depend on where they come from."""

    @property
    def origin(self) -> str:
        """The address without secrets; empty where it is not to matter."""


class CachedClient:
    """A client with a reply cache before it."""

    def __init__(self, client: Client, cache: ReplyCache | Path) -> None:
        """Put a cache before a client.

        Args:
            client: the client that gets the prompts without a stored reply.
            cache: an open cache, or its file, which is then open only during a call: a retriever with a client, for
                example, is never closed.

        Raises:
            CacheError: the file is no reply cache, or one that cannot be used.
        """
        self._client, self._cache = client, cache
        self._served = ServedModels(client.name)
        self._delivered: set[str] = set()
        if isinstance(cache, Path):
            check_reply_cache(cache)

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
        """Return one reply a prompt, in order (see `Client.answer`); progress counts distinct prompts."""
        with ReplyCache(self._cache) if isinstance(self._cache, Path) else nullcontext(self._cache) as cache:
            return self._answer(cache, prompts, progress, journal)

    def _answer(
        self, cache: ReplyCache, prompts: Sequence[Prompt], progress: Progress, journal: Journal | None
    ) -> list[Reply]:
        entry_of = partial(_Entry.of, described=dict(self.describe()), origin=_origin(self._client))
        entries: dict[str, _Entry] = {}
        for index, prompt in enumerate(prompts):
            entry = entry_of(prompt)
            entries.setdefault(entry.key, entry).indexes.append(index)
        call = _Call(self.name, cache, journal, served=self._served, delivered=self._delivered, entry_of=entry_of)
        missing = [entry for entry in entries.values() if not call.find(entry)]
        if n_known := len(entries) - len(missing):
            progress(f"{self.name}\t{n_known:,} cached", n_known, len(entries))
        if missing:
            # Each process has an order of its own, so that those that begin together send few prompts twice. Neighbours
            # stay together: they may begin alike, which a server with a prefix cache reads once.
            blocks = [missing[start : start + _NEIGHBOURS] for start in range(0, len(missing), _NEIGHBOURS)]
            random.shuffle(blocks)
            call.ask(self._client, list(chain.from_iterable(blocks)), progress, len(entries))
        return [call.replies[index] for index in range(len(prompts))]


def _origin(client: Client) -> str:
    return client.origin if isinstance(client, Located) else ""


@dataclass(frozen=True, slots=True)
class _Entry:
    """One distinct request and the prompts that make it."""

    key: str
    request: Mapping[str, Any]
    prompt: Prompt
    indexes: list[int]

    @classmethod
    def of(cls, prompt: Prompt, described: Mapping[str, Any], origin: str) -> _Entry:
        request: dict[str, Any] = {"client": described, "messages": prompt.payload()}
        if prompt.key_parts:
            request["key_parts"] = list(prompt.key_parts)
        if prompt.body:
            request["body"] = dict(prompt.body)
        if origin:
            request["address"] = origin
        return cls(canonical_hash(request), request, prompt, [])

    def is_usable(self, cached: CachedReply) -> bool:
        """Return whether a stored reply spares the question."""
        return cached.is_history or self.is_final(cached.reply)

    def is_final(self, reply: Reply) -> bool:
        """Return whether a reply is one to keep: a complete one, about whose text the prompt's own reader decides."""
        with suppress(ValueError):  # no JSON: the text of a model in this process
            if early_end(orjson.loads(reply.raw)):  # such replies counted as answers before, and some are stored
                return False
        if reply.text is None or self.prompt.is_readable is None:
            return reply.outcome in FINAL
        return self.prompt.is_readable(reply.text)

    def cached_replies(self, reply: Reply) -> list[CachedReply]:
        """Return a final reply with the attempts before it, as they are stored."""
        described, origin = self.request["client"], self.request.get("address", "")
        earlier = [(_Entry.of(prompt, described, origin), reply) for prompt, reply in self.prompt.earlier]
        history = [CachedReply(entry.key, entry.request, reply, entry.prompt.kind, True) for entry, reply in earlier]
        return [*history, CachedReply(self.key, self.request, reply, self.prompt.kind)]


class _Call:
    """The state of one `answer`."""

    def __init__(
        self,
        name: str,
        cache: ReplyCache,
        journal: Journal | None,
        *,
        served: ServedModels,
        delivered: set[str],
        entry_of: Callable[[Prompt], _Entry],
    ) -> None:
        self._name, self._cache, self._journal, self._served = name, cache, journal, served
        self._delivered = delivered
        self._chain: Chain | None = journal if isinstance(journal, Chain) else None
        self._entry_of = entry_of
        self._asked: set[str] = set()
        self._sending: set[tuple[Path, str]] = set()
        self.replies: dict[int, Reply] = {}

    def following(self, entry: _Entry) -> _Entry | None:
        """Return a request that follows from the reply to an entry and that nothing in this process has sent, or None.

        The caller sends further requests by another call.
        """
        if self._chain is None:
            return None
        found: dict[str, _Entry] = {}
        for index in entry.indexes:
            prompt = self._chain.following(index)
            if prompt is not None:
                new = self._entry_of(prompt)
                found.setdefault(new.key, new).indexes.append(index)
        return next((new for key, new in found.items() if key not in self._asked and self._begin(key)), None)

    def find(self, entry: _Entry) -> bool:
        """Deliver a stored reply, if there is one that can be used."""
        cached = self._cache.get(entry.key)
        if cached is None or not entry.is_usable(cached):
            return False
        self.deliver(entry, cached.reply)
        return True

    def deliver(self, entry: _Entry, reply: Reply) -> None:
        """Give a reply to every prompt that is the same."""
        self._served.note(reply)
        if reply.from_cache and entry.key in self._delivered:
            reply = as_cached(reply)
        self._delivered.add(entry.key)
        self._end({self._path_and_key(entry.key)})
        for index in entry.indexes:
            self.replies[index] = reply
            if self._journal is not None:
                self._journal.record(index, reply)
            reply = as_cached(reply)  # asked once: the same prompt again costs nothing

    def ask(self, client: Client, missing: Sequence[_Entry], progress: Progress, total: int) -> None:
        """Send what no other call of this process is sending, wait for these calls, and send what they leave."""
        while missing:
            n_known = total - len(missing)
            ours: list[_Entry] = []
            others: list[_Entry] = []
            for entry in missing:
                (ours if self._begin(entry.key) else others).append(entry)
            keeper = _Keeper(self, self._cache, ours)
            try:
                if ours:
                    client.answer([entry.prompt for entry in ours], _counted(progress, n_known, total), keeper)
            except RagtasksError:
                keeper.withdraw()  # after an interruption requests may be under way, and are paid for
                raise
            finally:
                self._end(self._sending)
            self._wait_for(others)
            missing = [entry for entry in others if not self.find(entry)]
            if others:
                progress(self._name, total - len(missing), total)

    def _begin(self, key: str) -> bool:
        """Return whether this call may send a prompt, which no other call of this process then does."""
        item = self._path_and_key(key)
        if not _SENDING.begin(item):
            return False
        self._asked.add(key)
        self._sending.add(item)
        return True

    def _end(self, items: set[tuple[Path, str]]) -> None:
        ended = self._sending & items
        self._sending -= ended
        _SENDING.end(ended)

    def _wait_for(self, entries: Sequence[_Entry]) -> None:
        """Wait until no call of this process sends the prompts; a waiting call sends none, so calls cannot deadlock."""
        for entry in entries:
            while not _SENDING.has_ended(self._path_and_key(entry.key)):
                if self._journal is not None:
                    self._journal.recall(entry.indexes[0])  # raises if the caller is to end

    def _path_and_key(self, key: str) -> tuple[Path, str]:
        return self._cache.path, key


class _Sending:
    """The prompts that the calls of this process are sending, by cache and key."""

    def __init__(self) -> None:
        self._items: set[tuple[Path, str]] = set()
        self._changed = threading.Condition()

    def begin(self, item: tuple[Path, str]) -> bool:
        """Add a prompt; return False if another call sends it."""
        with self._changed:
            is_new = item not in self._items
            self._items.add(item)
            return is_new

    def end(self, items: set[tuple[Path, str]]) -> None:
        """Remove prompts."""
        with self._changed:
            self._items -= items
            self._changed.notify_all()

    def has_ended(self, item: tuple[Path, str]) -> bool:
        """Wait half a second at most, and return whether no call sends the prompt any more."""
        with self._changed:
            return self._changed.wait_for(lambda: item not in self._items, _LOOK_SECONDS)


_SENDING = _Sending()


class _Keeper:
    """The journal of the client behind: looks up what is about to be sent, and stores replies as they come."""

    def __init__(self, call: _Call, cache: ReplyCache, asked: Sequence[_Entry]) -> None:
        self._call, self._cache, self._entries = call, cache, list(asked)
        self._earlier: dict[str, tuple[CallUsage, ...]] = {}

    def following(self, index: int) -> Prompt | None:
        """Return what follows from the reply to an entry, in whose place it is then."""
        new = self._call.following(self._entries[index])
        if new is None:
            return None
        self._entries[index] = new
        return new.prompt

    def recall(self, index: int) -> Reply | None:
        entry = self._entries[index]
        found = self._cache.begin(entry.key, entry.is_usable)
        if not isinstance(found, CachedReply):
            self._earlier[entry.key] = found
            return None
        self._call.deliver(entry, found.reply)
        return found.reply

    def record(self, index: int, reply: Reply) -> None:
        entry = self._entries[index]
        if reply.from_cache:
            return  # recalled, and delivered then
        calls = calls_of(reply, is_used=False)
        reply = replace(reply, unused=(*self._earlier.pop(entry.key, ()), *reply.unused))
        if entry.is_final(reply):
            self._cache.end(entry.key, entry.cached_replies(reply))
        else:
            self._cache.end(entry.key, calls=calls)
        self._call.deliver(entry, reply)

    def withdraw(self) -> None:
        """End the requests that have no reply."""
        # A file that cannot be written has its own error already.
        with suppress(CacheError):
            for key in self._earlier:
                self._cache.end(key)


def _counted(progress: Progress, n_before: int, total: int) -> Progress:
    """Return a progress that also counts the replies from before."""
    return lambda what, done, _: progress(what, n_before + done, total)


# Replies that were paid for, in SQLite: a second call asks nothing, a killed one asks only what is not answered.
#
# A reply is stored the moment it comes, under a hash of everything that decides it. Several processes may share one
# file: SQLite lets one of them write at a time, and the others wait.

_BUSY_SECONDS = 60.0
_OPENING_SECONDS = 5.0  # the first look at a file: who holds it for longer does not let it go soon
_RETRY_SECONDS = 0.02
_APPLICATION_ID, _FORMAT = 0x72677473, 3  # `rgts` tells our files from other people's
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
    """A reply with what is stored beside it."""

    key: str
    """Hash of everything that decides the reply."""
    request: Mapping[str, Any]
    """What the hash is over, for the record."""
    reply: Reply
    kind: str = ""
    """What was asked for, see `Prompt.kind`."""
    is_history: bool = False
    """Whether it is an earlier attempt, kept with a later one that could be used: nobody need ask it again."""


class ReplyCache(AbstractContextManager["ReplyCache"]):
    """Replies by key, in one file; usable from any thread, closed by `close` or at the end of a `with`."""

    def __init__(self, path: Path) -> None:
        """Open the file, or make it.

        Raises:
            CacheError: the file is no reply cache, one of another format, or one that cannot be used.
        """
        self.path = path
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
            self._check_format(connection)
        self._write_ahead()
        # Enough for a killed process, which is the common case; a power cut may take the last replies with it.
        self.execute("PRAGMA synchronous=NORMAL")
        self.execute(f"PRAGMA busy_timeout={_BUSY_SECONDS * 1000:.0f}")  # of a file that others use too, at work

    def _check_format(self, connection: sqlite3.Connection) -> None:
        """Create the tables in a new file; refuse a file of something else, or of another format."""
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
                "move the file away, then give the same command again: it makes a new file, and its replies are "
                "requested, and paid for, again",
            )

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

    def put(self, kept: Iterable[CachedReply]) -> None:
        """Store replies at once; the first one stored under a key stays."""
        with self._transaction() as connection:
            _insert(connection, kept)

    def note_unused(self, key: str, calls: Iterable[CallUsage]) -> None:
        """Keep what replies took that are not kept themselves: they cost, whoever asks the prompt again."""
        with self._transaction() as connection:
            _insert_unused(connection, key, calls)

    def unused(self, key: str) -> tuple[CallUsage, ...]:
        """Return the usage of earlier requests of a prompt whose replies are not stored."""
        rows = self.execute("SELECT call FROM unused WHERE key = ? ORDER BY rowid", (key,))
        return tuple(_call(orjson.loads(call)) for (call,) in rows)

    def begin(self, key: str, is_usable: Callable[[CachedReply], bool]) -> CachedReply | tuple[CallUsage, ...]:
        """Return the stored reply if it is usable; else begin a request, and return the usage of earlier requests.

        A stored reply that cannot be used is deleted. Until `end` the request counts among the unused ones, with
        unknown costs: if its process is killed, nobody sees the reply. All of it is one transaction.
        """
        with self._transaction() as connection:
            cached = self.get(key)
            if cached is not None and is_usable(cached):
                return cached
            earlier = self.unused(key)
            connection.execute("DELETE FROM replies WHERE key = ?", (key,))
            _insert_unused(connection, key, [_UNSEEN])
            return earlier

    def end(self, key: str, kept: Iterable[CachedReply] = (), calls: Iterable[CallUsage] = ()) -> None:
        """End a request in one transaction: store its reply, or its usage if the reply is not stored."""
        with self._transaction() as connection:
            connection.execute(
                "DELETE FROM unused WHERE rowid = (SELECT rowid FROM unused WHERE key = ? AND call = ? LIMIT 1)",
                (key, _json(_UNSEEN)),
            )
            _insert(connection, kept)
            _insert_unused(connection, key, calls)

    def forget(self, keys: Iterable[str]) -> None:
        """Delete the replies under some keys; a key without one is no error."""
        with self._transaction() as connection:
            named = [(key,) for key in keys]
            connection.executemany("DELETE FROM replies WHERE key = ?", named)
            connection.executemany("DELETE FROM unused WHERE key = ?", named)

    def check(self) -> None:
        """Return where the whole file can be read, and has room to grow; it reads all of it."""
        (found,) = self.execute("PRAGMA quick_check(1)")[0]
        if found != "ok":
            raise self._error(found)
        self.begin("check", lambda _: False)
        self.end("check")
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
        with self._lock:  # SQLite crashes the process where another thread is in the middle of a statement
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
        with self._reported(), self._lock, transaction(self._connection) as connection:
            yield connection

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the second: an error whose text is corrupt
            raise self._error(error) from error

    def _cached_reply(self, key: str, reply: str, kind: str, is_history: int) -> CachedReply:
        try:
            stored = orjson.loads(reply)
            usage = CallUsage(**{field: stored.pop(name, None) for name, field in _STORED_USAGE.items()})
            unused = tuple(map(_call, stored.pop("unused", ())))
            outcome = Outcome(stored.pop("outcome"))
            found = Reply(outcome, **stored, usage=usage, unused=unused, from_cache=True)
        except (ValueError, TypeError, KeyError) as error:
            raise self._error(f"a reply that cannot be read: {error}") from error
        return CachedReply(key, {}, found, kind, bool(is_history))

    def _error(self, found: object, next_step: str = "") -> CacheError:
        if "locked" in str(found):
            found = f"{found}: {lock_holders(self.path)}"
        return CacheError(
            "reply cache",
            where=str(self.path),
            expected="a reply cache of ragtasks that can be read and written",
            found=str(found),
            next_step=next_step
            or "make room, or move the file away (its replies are then asked again), or name another one",
        )


def _call(values: Mapping[str, Any]) -> CallUsage:
    return CallUsage(**{**values, "spent": Spent.BEFORE})


_UNSEEN = CallUsage(is_used=False)
"""A request whose reply was not received."""


def _json(call: CallUsage) -> str:
    return orjson.dumps(call.json_values).decode()


def _insert(connection: sqlite3.Connection, kept: Iterable[CachedReply]) -> None:
    for item in kept:
        row = (
            item.key,
            orjson.dumps(dict(item.request)).decode(),
            _stored(item.reply),
            item.is_history,
            str(item.request.get("client", {}).get("model", "")),
            str(item.request.get("address", "")),
            item.kind,
            item.reply.outcome.value,
            time.time(),
        )
        connection.execute("INSERT OR IGNORE INTO replies VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def _stored(reply: Reply) -> str:
    usage = {name: getattr(reply.usage, field) for name, field in _STORED_USAGE.items()}
    return orjson.dumps({**{name: getattr(reply, name) for name in _STORED}, **usage}).decode()


def _insert_unused(connection: sqlite3.Connection, key: str, calls: Iterable[CallUsage]) -> None:
    connection.executemany("INSERT INTO unused VALUES (?, ?)", [(key, _json(call)) for call in calls])


def check_reply_cache(path: Path) -> None:
    """Return where replies can be kept in a file, so that nobody finds out after a model has answered."""
    with ReplyCache(path) as cache:
        cache.check()


# What a reply cache holds, counted, and how parts of it are removed.

_DAY_SECONDS = 86_400.0
_UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class Count:
    """How many replies are alike in what follows."""

    model: str
    """The model that was asked, as the user named it."""
    address: str
    """Where it was asked; empty for models of the same process and shared replies."""
    kind: str
    """What was asked for, such as a rubric."""
    outcome: str
    """What came back; `... (then asked again)` for attempts before the reply that could be used."""
    n: int


@dataclass(frozen=True, slots=True)
class Choice:
    """Which replies are meant: those that fit everything that is given."""

    older_than_days: float | None = None
    """Stored more days ago than this."""
    model: str | None = None
    outcome: str | None = None

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
