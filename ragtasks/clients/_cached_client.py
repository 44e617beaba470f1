"""A client with a reply cache: only prompts without a cached reply are sent, each distinct prompt once.

The cache is checked again just before a prompt is sent, so that replies stored by another process in the meantime are
used. Answers, refusals and filtered prompts are stored. A reply that ended early, or is empty, malformed or unreadable
for its caller, is requested again by the next call.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import orjson

from ragtasks.clients._completion import early_end
from ragtasks.clients._failures import EndpointError
from ragtasks.clients._protocol import FINAL, CallUsage, Chain, Client, Journal, Prompt, Reply
from ragtasks.clients._reply_cache import CachedReply, ReplyCache, check_reply_cache
from ragtasks.clients._usage import as_cached, calls_of
from ragtasks.errors import CacheError, RagtasksError
from ragtasks.files import canonical_hash
from ragtasks.progress import Progress, no_progress

_LOGGER = logging.getLogger(__name__)
_POLL_SECONDS = 0.5
_NEIGHBOURS = 16


class CachedClient:
    """A client that answers from a reply cache first."""

    def __init__(self, client: Client, cache: ReplyCache | Path) -> None:
        """Wrap a client with a cache.

        Args:
            client: receives the prompts without a stored reply.
            cache: an open cache, or the path of a cache file. A file is opened for each call only: a retriever that
                owns a client, for example, is never closed.

        Raises:
            CacheError: the file is not a reply cache, or cannot be read and written.
        """
        self._client, self._cache = client, cache
        self.served = ServedModels(client.name)
        self.delivered: set[str] = set()
        """Keys of the replies delivered so far."""
        if isinstance(cache, Path):
            check_reply_cache(cache)

    @property
    def name(self) -> str:
        """Name of the wrapped client."""
        return self._client.name

    def describe(self) -> Mapping[str, Any]:
        """Return the description of the wrapped client: a cache changes no reply."""
        return self._client.describe()

    def answer(
        self, prompts: Sequence[Prompt], progress: Progress = no_progress, journal: Journal | None = None
    ) -> list[Reply]:
        """Return one reply per prompt, in order (see `Client.answer`); progress counts distinct prompts."""
        with ReplyCache(self._cache) if isinstance(self._cache, Path) else nullcontext(self._cache) as cache:
            return self._answer(cache, prompts, progress, journal)

    def _answer(
        self, cache: ReplyCache, prompts: Sequence[Prompt], progress: Progress, journal: Journal | None
    ) -> list[Reply]:
        origin = str(getattr(self._client, "origin", ""))
        entry_of = partial(_Entry.of, described=dict(self.describe()), origin=origin)
        entries: dict[str, _Entry] = {}
        for index, prompt in enumerate(prompts):
            entry = entry_of(prompt)
            entries.setdefault(entry.key, entry).indexes.append(index)
        call = _Call(self, cache, journal, entry_of)
        missing = [entry for entry in entries.values() if not call.find(entry)]
        if n_cached := len(entries) - len(missing):
            progress(f"{self.name}\t{n_cached:,} cached", n_cached, len(entries))
        if missing:
            # Processes that start together use different orders, so that few prompts are sent twice. Neighboring
            # prompts stay together: they may share a prefix, which a server with a prefix cache reads once.
            blocks = [missing[start : start + _NEIGHBOURS] for start in range(0, len(missing), _NEIGHBOURS)]
            random.shuffle(blocks)
            call.send(self._client, list(chain.from_iterable(blocks)), progress, len(entries))
        return [call.replies[index] for index in range(len(prompts))]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A distinct request and the indexes of its prompts."""

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
        """Return whether a stored reply can be used instead of a request."""
        return cached.is_history or self.is_final(cached.reply)

    def is_final(self, reply: Reply) -> bool:
        """Return whether to store a reply: it is final, and the prompt's parser can read its text, if it has one."""
        with suppress(ValueError):  # not JSON: text of a model in this process
            if early_end(orjson.loads(reply.raw)):  # earlier versions stored such replies as answers
                return False
        if reply.text is None or self.prompt.is_readable is None:
            return reply.outcome in FINAL
        return self.prompt.is_readable(reply.text)

    def cached_replies(self, reply: Reply) -> list[CachedReply]:
        """Return a final reply and the attempts before it, in the form stored."""
        described, origin = self.request["client"], self.request.get("address", "")
        earlier = [(_Entry.of(prompt, described, origin), reply) for prompt, reply in self.prompt.earlier]
        history = [CachedReply(entry.key, entry.request, reply, entry.prompt.kind, True) for entry, reply in earlier]
        return [*history, CachedReply(self.key, self.request, reply, self.prompt.kind)]


class _Call:
    """State of one `answer` call, and journal of the wrapped client."""

    def __init__(
        self, client: CachedClient, cache: ReplyCache, journal: Journal | None, entry_of: Callable[[Prompt], _Entry]
    ) -> None:
        self._client, self._cache, self._journal, self._entry_of = client, cache, journal, entry_of
        self._chain: Chain | None = journal if isinstance(journal, Chain) else None
        self._claimed_keys: set[str] = set()
        self._sending: set[tuple[Path, str]] = set()
        self._entries: list[_Entry] = []
        """Entries sent to the wrapped client, in its order."""
        self._earlier: dict[str, tuple[CallUsage, ...]] = {}
        self.replies: dict[int, Reply] = {}
        self._n_kept = 0

    def find(self, entry: _Entry) -> bool:
        """Deliver the stored reply if a usable one exists, and return whether it does."""
        cached = self._cache.get(entry.key)
        if cached is None or not entry.is_usable(cached):
            return False
        self.deliver(entry, cached.reply)
        return True

    def deliver(self, entry: _Entry, reply: Reply) -> None:
        """Assign a reply to all prompts of an entry."""
        self._client.served.note(reply)
        if reply.from_cache and entry.key in self._client.delivered:
            reply = as_cached(reply)
        self._client.delivered.add(entry.key)
        self._end({self._request_id(entry.key)})
        self._n_kept += len(entry.indexes) * entry.is_final(reply)
        for index in entry.indexes:
            self.replies[index] = reply
            if self._journal is not None:
                self._journal.record(index, reply)
            reply = as_cached(reply)  # sent once: an equal prompt costs nothing

    def send(self, client: Client, missing: Sequence[_Entry], progress: Progress, total: int) -> None:
        """Send the prompts that no other call of this process is sending, and wait for the replies to the others.

        Prompts without a stored reply after that are sent too.
        """
        while missing:
            n_cached = total - len(missing)
            claimed: list[_Entry] = []
            elsewhere: list[_Entry] = []
            for entry in missing:
                (claimed if self._begin(entry.key) else elsewhere).append(entry)
            self._entries, self._earlier = list(claimed), {}
            try:
                if claimed:
                    client.answer([entry.prompt for entry in claimed], _counted(progress, n_cached, total), self)
            except RagtasksError as error:
                # Only after an error of ours: an interruption may leave requests in flight, which are paid for, so they
                # stay listed as unused. A cache that cannot be written has its own error already.
                with suppress(CacheError):
                    for key in self._earlier:
                        self._cache.end(key)
                if isinstance(error, EndpointError):
                    raise error.with_replies(self._n_kept) from error
                raise
            finally:
                self._end(self._sending)
            self._wait_for(elsewhere)
            missing = [entry for entry in elsewhere if not self.find(entry)]
            if elsewhere:
                progress(self._client.name, total - len(missing), total)

    def following(self, index: int) -> Prompt | None:
        """Return the follow-up to the reply of an entry, and put it in the entry's place; None without a follow-up.

        Prompts that this call has sent before, or that another call is sending, are left out. The caller sends them in
        another call.
        """
        if self._chain is None:
            return None
        entries: dict[str, _Entry] = {}
        for prompt_index in self._entries[index].indexes:
            prompt = self._chain.following(prompt_index)
            if prompt is not None:
                entry = self._entry_of(prompt)
                entries.setdefault(entry.key, entry).indexes.append(prompt_index)
        for key, entry in entries.items():
            if key not in self._claimed_keys and self._begin(key):
                self._entries[index] = entry
                return entry.prompt
        return None

    def recall(self, index: int) -> Reply | None:
        """Return the reply that another process has stored since, or None."""
        entry = self._entries[index]
        cached = self._cache.begin(entry.key, entry.is_usable)
        if not isinstance(cached, CachedReply):
            self._earlier[entry.key] = cached
            return None
        self.deliver(entry, cached.reply)
        return cached.reply

    def record(self, index: int, reply: Reply) -> None:
        """Store and deliver a reply as soon as it arrives."""
        entry = self._entries[index]
        if reply.from_cache:
            return  # recalled, and delivered already
        calls = calls_of(reply, is_used=False)
        reply = replace(reply, unused=(*self._earlier.pop(entry.key, ()), *reply.unused))
        if entry.is_final(reply):
            self._cache.end(entry.key, entry.cached_replies(reply))
        else:
            self._cache.end(entry.key, calls=calls)
        self.deliver(entry, reply)

    def _begin(self, key: str) -> bool:
        """Claim a prompt for this call, and return False if another call of this process is sending it."""
        request_id = self._request_id(key)
        if not _SENDING.begin(request_id):
            return False
        self._claimed_keys.add(key)
        self._sending.add(request_id)
        return True

    def _end(self, request_ids: set[tuple[Path, str]]) -> None:
        ended = self._sending & request_ids
        self._sending -= ended
        _SENDING.end(ended)

    def _wait_for(self, entries: Sequence[_Entry]) -> None:
        """Wait until no call of this process sends the prompts; a waiting call sends none, so calls cannot deadlock."""
        for entry in entries:
            while not _SENDING.has_ended(self._request_id(entry.key)):
                if self._journal is not None:
                    self._journal.recall(entry.indexes[0])  # raises if the caller is cancelled

    def _request_id(self, key: str) -> tuple[Path, str]:
        return self._cache.path, key


class _Sending:
    """Prompts being sent by the calls of this process, as cache path and key."""

    def __init__(self) -> None:
        self._request_ids: set[tuple[Path, str]] = set()
        self._changed = threading.Condition()

    def begin(self, request_id: tuple[Path, str]) -> bool:
        with self._changed:
            is_new = request_id not in self._request_ids
            self._request_ids.add(request_id)
            return is_new

    def end(self, request_ids: set[tuple[Path, str]]) -> None:
        with self._changed:
            self._request_ids -= request_ids
            self._changed.notify_all()

    def has_ended(self, request_id: tuple[Path, str]) -> bool:
        """Wait at most half a second, and return whether no call is sending the prompt."""
        with self._changed:
            return self._changed.wait_for(lambda: request_id not in self._request_ids, _POLL_SECONDS)


_SENDING = _Sending()


def _counted(progress: Progress, n_before: int, total: int) -> Progress:
    return lambda note, done, _: progress(note, n_before + done, total)


class ServedModels:
    """Warns once if the replies of one client come from two models; thread-safe."""

    def __init__(self, client: str) -> None:
        self._client, self._lock = client, threading.Lock()
        self._first, self._is_warned = "", False

    def note(self, reply: Reply) -> None:
        """Compare the model of a reply with the model of the first reply."""
        with self._lock:
            self._first = self._first or reply.served_model
            is_change = reply.served_model not in {"", self._first} and not self._is_warned
            self._is_warned |= is_change
        if is_change:
            _LOGGER.warning(
                "%s: the server replied with %r before and replies with %r now: verdicts or queries of one run come "
                "from two models. Each reply records its model",
                self._client,
                self._first,
                reply.served_model,
            )
