"""Cached replies: the cache, claims on pending requests, and its contents."""

from __future__ import annotations

import logging
import os
import platform
import random
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, runtime_checkable

from ragtasks.clients._openai_client import ServedModels
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
    as_cached,
    calls_of,
    no_progress,
)
from ragtasks.clients._reply_cache import CachedReply, Claim, ReplyCache, check_reply_cache
from ragtasks.errors import CacheError, RagtasksError
from ragtasks.files import canonical_hash

# A client that asks another one only what a reply cache does not hold, and each distinct prompt once.
# What another process asks at the same time is waited for. Stored are answers, refusals and what a content filter
# stopped. A reply that is cut off, empty, corrupt or cannot be read by who asked is none of these: the next call
# asks again.

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


def reply_key(client: Client, prompt: Prompt) -> str:
    """Return the key under which a cache keeps a client's reply to a prompt."""
    return _Entry.of(prompt, dict(client.describe()), _origin(client)).key


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
        """Return whether a reply is one to keep: the prompt's own reader decides about texts."""
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
        found: dict[str, _Entry] = {}
        for index in entry.indexes if self._chain else ():
            prompt = self._chain.following(index) if self._chain else None
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
