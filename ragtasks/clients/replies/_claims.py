"""What one call is asking, as the other calls on the same reply cache see it.

The claims of a call end with it: with its replies, when it lets go, when its process is seen to have ended, or when it
has been silent for too long. A call that waits for others holds no claim itself, so no two can wait for each other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from types import TracebackType

from ragtasks.clients.replies._owners import begin_owner, end_owner, is_gone
from ragtasks.clients.replies._reply_cache import Claim, Kept, ReplyCache
from ragtasks.errors import CacheError

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
        # A file that cannot be written has its own error already; the claims run out.
        with suppress(CacheError):
            self._cache.leave(self._owner)
        end_owner(self._owner)

    def take(self, key: str, is_usable: Callable[[Kept], bool]) -> Kept | Claim:
        """Return the reply to a prompt, or whose it is to ask, see `ReplyCache.take`."""
        return self._cache.take(key, self._owner, is_usable)

    def free_the_dead(self) -> None:
        """End the claims of calls whose process has ended, as far as this machine knows."""
        for owner in filter(is_gone, self._cache.owners()):
            self._cache.leave(owner)

    def keep(self, *kept: Kept) -> None:
        """Store replies, which ends the claims on them."""
        self._cache.put(kept, self._owner)

    def release(self, key: str) -> None:
        """Let others ask."""
        self._cache.release(key, self._owner)

    def _live(self) -> None:
        while not self._ended.wait(self._cache.life_seconds / _SIGNS_OF_LIFE):
            with suppress(CacheError):
                self._cache.show_life(self._owner)


__all__ = ["Claims"]
