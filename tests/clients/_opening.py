"""Opens and writes the same files as other processes, at the same moments."""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Iterable
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

from ragtasks.clients import CachedReply, Outcome, Reply, ReplyCache

TICK_SECONDS = 0.02


def open_and_put(folder: Path, n_files: int, own_key: str, together: Barrier) -> None:
    """Store one reply in each of `n_files` new caches."""
    for number in range(n_files):
        together.wait(30)
        # A barrier releases processes one after the other; waiting for the next clock tick starts all at once.
        tick = math.ceil(time.time() / TICK_SECONDS) * TICK_SECONDS
        while time.time() < tick:
            pass
        with ReplyCache(folder / str(number)) as cache:
            cache.put([CachedReply(own_key, {}, Reply(Outcome.ANSWERED, "x"))])


def write_all(file: Path, keys: Iterable[str]) -> None:
    """Begin a request for each key, and store its reply."""
    with ReplyCache(file) as cache:
        for key in keys:
            cache.begin(key, lambda _: True)
            cache.end(key, [CachedReply(key, {}, Reply(Outcome.ANSWERED, "x"))])


def hold_for_writing(file: Path, is_held: Event, may_end: Event) -> None:
    """Store a reply in a transaction that ends at the test's signal."""
    with ReplyCache(file) as cache:
        cache.put([CachedReply("held", {}, Reply(Outcome.ANSWERED, "x"))])
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    is_held.set()
    may_end.wait(60)
    connection.execute("COMMIT")
    connection.close()
