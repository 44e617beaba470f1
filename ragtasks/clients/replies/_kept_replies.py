"""A client whose replies are kept in a file that is open only while something is asked.

A retriever has no end that anybody announces, so a client inside of one cannot hold a file open until then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragtasks.clients._protocol import Client, Journal, Progress, Prompt, Reply, no_progress
from ragtasks.clients.openai_api import ServedModels
from ragtasks.clients.replies._cached_client import CachedClient
from ragtasks.clients.replies._reply_cache import ReplyCache, check_reply_cache


class KeptReplies:
    """A client that asks another one only what a file of replies does not hold."""

    def __init__(self, client: Client, file: Path) -> None:
        """Put a file of replies before a client.

        Raises:
            CacheError: the file cannot be used, or the disk is full; said now, since what is asked comes after a
                search.
        """
        self._client, self._file = client, file
        self._served = ServedModels(client.name)
        check_reply_cache(file)

    @property
    def name(self) -> str:
        """The name of the client behind."""
        return self._client.name

    def describe(self) -> Mapping[str, Any]:
        """Return what the client behind describes: a kept reply is the one that it gave."""
        return self._client.describe()

    def answer(
        self, prompts: Sequence[Prompt], progress: Progress = no_progress, journal: Journal | None = None
    ) -> list[Reply]:
        """Return one reply a prompt, in order, see `CachedClient.answer`.

        Raises:
            CacheError: the file cannot be used.
            RagtasksError: as the client behind; what came before is kept.
        """
        with ReplyCache(self._file) as cache:
            return CachedClient(self._client, cache, self._served).answer(prompts, progress, journal)


__all__ = ["KeptReplies"]
