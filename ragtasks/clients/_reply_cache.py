"""Cached replies: the cache, claims on pending requests, and its contents."""

from __future__ import annotations

import logging
import os
import platform
import random
import sqlite3
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, fields, replace
from enum import Enum, auto
from functools import cache, partial
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

# A client that asks another one only what a reply cache does not hold, and each distinct prompt once.
# What another process asks at the same time is waited for. Stored are answers, refusals and prompts that a content
# filter stopped. A reply that ended early, or is empty, corrupt or unreadable for its caller, is requested again by the
# next call.

_LOGGER = logging.getLogger(__name__)
_ELSEWHERE = Reply(Outcome.ELSEWHERE, reason="another call asks this prompt", from_cache=True)
_SHORTEST_LOOK_SECONDS, _LONGEST_LOOK_SECONDS = 0.02, 0.5
_SILENT_SECONDS = 10.0


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
            client: who is asked what the cache does not hold.
            cache: an open cache; or its file, which is then open only during a call, for a client inside of what has
                no end that anybody announces, such as a retriever.

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
        self._warn_of_older_replies(cache, missing)
        n_known = len(entries) - len(missing)
        if n_known:
            progress(f"{self.name}\t{n_known:,} cached", n_known, len(entries))
        if missing:
            # From a place of its own: processes that begin together then rarely meet at a prompt. The order stays,
            # since neighbours may begin alike, which a server with a prefix cache reads once.
            start = random.randrange(len(missing))
            missing = missing[start:] + missing[:start]
            with Claims(cache) as claims:
                call.ask(self._client, missing, claims, _Counted(progress, n_known, len(entries)))
        return [call.replies[index] for index in range(len(prompts))]

    def _warn_of_older_replies(self, cache: ReplyCache, missing: Sequence[_Entry]) -> None:
        if not missing or not _origin(self._client) or not cache.has_replies_without_address():
            return
        n_found = sum(cache.get(entry.key_without_address) is not None for entry in missing)
        if n_found:
            _LOGGER.warning(
                "%s: %d of %d prompts that are asked now have replies in %s that were kept without the address that "
                'gave them (by an older version, or with shared replies). To use them, set "shared_replies": true for '
                "this model",
                self.name,
                n_found,
                len(missing),
                cache.path,
            )


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

    @property
    def key_without_address(self) -> str:
        return canonical_hash({name: value for name, value in self.request.items() if name != "address"})

    def is_usable(self, cached: CachedReply) -> bool:
        """Return whether a stored reply spares the question."""
        return cached.is_history or self.is_final(cached.reply)

    def is_final(self, reply: Reply) -> bool:
        """Return whether a reply is one to keep: a complete one, about whose text the prompt's own reader decides."""
        with suppress(ValueError):  # no JSON: the text of a model in this process
            if early_end(orjson.loads(reply.raw)):  # older versions stored such replies too
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
        self.replies: dict[int, Reply] = {}

    def following(self, entry: _Entry) -> _Entry | None:
        """Return the request that follows from the reply to one, None where this call asks none or asked it before.

        What else follows is the caller's to ask in another call.
        """
        if self._chain is None:
            return None
        found: dict[str, _Entry] = {}
        for index in entry.indexes:
            prompt = self._chain.following(index)
            if prompt is not None:
                new = self._entry_of(prompt)
                found.setdefault(new.key, new).indexes.append(index)
        new_keys = [key for key in found if key not in self._asked]
        if not new_keys:
            return None
        self._asked.add(new_keys[0])
        return found[new_keys[0]]

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
        for index in entry.indexes:
            self.replies[index] = reply
            if self._journal is not None:
                self._journal.record(index, reply)
            reply = as_cached(reply)  # asked once: the same prompt again costs nothing

    def ask(self, client: Client, missing: list[_Entry], claims: Claims, progress: _Counted) -> None:
        """Ask what nobody else asks, then wait for the others, and ask what they leave."""
        while missing:
            self._asked.update(entry.key for entry in missing)
            keeper = _Keeper(self, missing, claims)
            client.answer([entry.prompt for entry in missing], progress.without(keeper.elsewhere), keeper)
            progress.n_before += len(missing) - len(keeper.elsewhere)
            missing = self._left_by_others(keeper.elsewhere, claims, progress)

    def _left_by_others(self, entries: list[_Entry], claims: Claims, progress: _Counted) -> list[_Entry]:
        """Return once every reply that others asked for is there, or some are to be asked by this call after all."""
        begin, is_given, look_seconds = time.monotonic(), False, _SHORTEST_LOOK_SECONDS
        while entries:
            claims.free_the_dead()
            found = {entry.key: claims.take(entry.key, entry.is_usable) for entry in entries}
            for entry in entries:
                cached = found[entry.key]
                if isinstance(cached, CachedReply):
                    self.deliver(entry, cached.reply)
                    progress.advance(f"{self._name}\tasked by another process")
            left = [entry for entry in entries if found[entry.key] is Claim.OURS]
            entries = [entry for entry in entries if found[entry.key] is Claim.THEIRS]
            if left:
                return left + entries
            self._may_end(entries)
            if entries and not is_given and time.monotonic() - begin > _SILENT_SECONDS:
                is_given = True
                _LOGGER.warning("%s: waiting for %d replies that another process asks for", self._name, len(entries))
            time.sleep(look_seconds if entries else 0)
            look_seconds = min(2 * look_seconds, _LONGEST_LOOK_SECONDS)
        return []

    def _may_end(self, entries: Sequence[_Entry]) -> None:
        """Give the caller's journal its turn, which is where a caller that is to end says so."""
        if entries and self._journal is not None:
            self._journal.recall(entries[0].indexes[0])


class _Keeper:
    """The journal of the client behind: claims what is about to be sent, and stores replies as they come."""

    def __init__(self, call: _Call, asked: Sequence[_Entry], claims: Claims) -> None:
        self._call, self._entries, self._claims = call, list(asked), claims
        self.elsewhere: list[_Entry] = []

    def following(self, index: int) -> Prompt | None:
        """Return what follows from the reply to an entry, in whose place it is then."""
        new = self._call.following(self._entries[index])
        if new is None:
            return None
        self._entries[index] = new
        return new.prompt

    def recall(self, index: int) -> Reply | None:
        entry = self._entries[index]
        found = self._claims.take(entry.key, entry.is_usable)
        if found is Claim.THEIRS:
            self.elsewhere.append(entry)
            return _ELSEWHERE
        if not isinstance(found, CachedReply):
            return None
        self._call.deliver(entry, found.reply)
        return found.reply

    def record(self, index: int, reply: Reply) -> None:
        entry = self._entries[index]
        if reply.from_cache:
            return  # recalled: delivered then, or still to come
        calls = calls_of(reply, is_used=False)
        reply = replace(reply, unused=(*self._claims.unused(entry.key), *reply.unused))
        if entry.is_final(reply):
            self._claims.keep(*entry.cached_replies(reply))
        else:
            self._claims.release(entry.key, calls)
        self._call.deliver(entry, reply)


class _Counted:
    """The progress of one call over several calls of the client behind it."""

    def __init__(self, progress: Progress, n_before: int, total: int) -> None:
        self.n_before, self._progress, self._total = n_before, progress, total

    def without(self, elsewhere: Sequence[_Entry]) -> Progress:
        """Return a progress that counts on, without the prompts that the client was told to leave out."""
        return lambda what, done, _: self._progress(what, self.n_before + done - len(elsewhere), self._total)

    def advance(self, what: str) -> None:
        """Count one more."""
        self.n_before += 1
        self._progress(what, self.n_before, self._total)


# What one call is asking, as the other calls on the same reply cache see it.
# The claims of a call end with it: with its replies, when it lets go, when its process is seen to have ended, or
# when it has been silent for too long. A call that waits for others holds no claim itself, so no two can wait for
# each other.

_SIGNS_OF_LIFE = 8  # within the time after which an owner counts as gone: a busy machine may miss some


class Claims(AbstractContextManager["Claims"]):
    """The claims of one call, from the beginning of a `with` to its end."""

    def __init__(self, cache: ReplyCache) -> None:
        self._cache, self._owner = cache, begin_owner()
        self._ended = threading.Event()
        self._life = threading.Thread(target=self._live, name="claims", daemon=True)

    def __enter__(self) -> Claims:
        self._cache.show_life(self._owner)
        self.free_the_dead()
        self._life.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._life.join()
        # After an error of ours nothing is under way; after an interruption requests may be, and are paid for.
        is_lost = kind is not None and not issubclass(kind, RagtasksError)
        # A file that cannot be written has its own error already; the claims run out.
        with suppress(CacheError):
            self._cache.leave(self._owner, is_lost=is_lost)
        end_owner(self._owner)

    def take(self, key: str, is_usable: Callable[[CachedReply], bool]) -> CachedReply | Claim:
        """Return the reply to a prompt, or whose it is to ask, see `ReplyCache.take`."""
        return self._cache.take(key, self._owner, is_usable)

    def free_the_dead(self) -> None:
        """End the claims of calls whose process has ended, as far as this machine knows."""
        for owner in filter(is_gone, self._cache.owners()):
            self._cache.leave(owner, is_lost=True)

    def keep(self, *kept: CachedReply) -> None:
        """Store replies, which ends the claims on them."""
        self._cache.put(kept, self._owner)

    def unused(self, key: str) -> tuple[CallUsage, ...]:
        """Return what earlier replies to a prompt took that are not kept."""
        return self._cache.unused(key)

    def release(self, key: str, calls: Sequence[CallUsage]) -> None:
        """Let others ask; what the reply took stays known."""
        if calls:
            self._cache.note_unused(key, calls)
        self._cache.release(key, self._owner)

    def _live(self) -> None:
        while not self._ended.wait(self._cache.life_seconds / _SIGNS_OF_LIFE):
            with suppress(CacheError):
                self._cache.show_life(self._owner)


# Who holds claims in a reply cache: an owner's name says which process it is, so that nobody waits for the dead.
# A process that was killed cannot let go of what it claims. Where it ran on this machine the system knows that it
# is gone; elsewhere, and where the system cannot tell, its silence does (`LIFE_SECONDS`).

_HERE: set[str] = set()
"""The owners of this process that hold claims now."""
_ENDED = {"Z", "X"}
"""How Linux marks a process that has ended and whose parent has not asked for its status."""


def begin_owner() -> str:
    """Return the name of a new owner of this process: machine, process and a unique part."""
    name = f"{_machine()}/{os.getpid()}/{uuid.uuid4().hex}"
    _HERE.add(name)
    return name


def end_owner(name: str) -> None:
    """Say that an owner holds nothing any more, also where the cache could not be told."""
    _HERE.discard(name)


def is_gone(name: str) -> bool:
    """Return whether an owner is known to have ended; False where nobody here can know."""
    machine, _, rest = name.rpartition("/")[0].rpartition("/")
    if machine != _machine() or not rest.isdecimal():
        return False
    return name not in _HERE if int(rest) == os.getpid() else not _runs(int(rest))


def _runs(process: int) -> bool:
    if os.name != "posix":
        return True  # signal 0 ends a process on Windows
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # another user's
    try:
        line = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
        state = line.rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return True  # a system without such files
    return state not in _ENDED


@cache
def _machine() -> str:
    """Return what processes share that see each other: this boot of the machine, this space of process numbers."""
    parts = [platform.node()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(parts).replace("/", " ")


# Replies that were paid for, in SQLite: a second call asks nothing, a killed one asks only what is not answered.
#
# A reply is stored the moment it comes, under a hash of everything that decides it. Several processes may share one
# file. Each says in it what it is asking, so that the others wait for that reply instead of asking the same. Such a
# claim is good for as long as its owner gives signs of life: nobody waits for a process that was killed.

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
