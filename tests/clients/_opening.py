"""Opens the same new files as other processes, at the same moments."""

from __future__ import annotations

import math
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

from ragtasks.clients import CachedReply, Outcome, Reply, ReplyCache

TICK_SECONDS = 0.02


def open_and_put(folder: Path, n_files: int, own_key: str, together: Barrier) -> None:
    """Store one reply in each of `n_files` caches that nobody has made yet."""
    for number in range(n_files):
        together.wait(30)
        # A barrier lets processes go one after the other; the next tick of the clock lets all go at once.
        tick = math.ceil(time.time() / TICK_SECONDS) * TICK_SECONDS
        while time.time() < tick:
            pass
        with ReplyCache(folder / str(number)) as cache:
            cache.put([CachedReply(own_key, {}, Reply(Outcome.ANSWERED, "x"))])
