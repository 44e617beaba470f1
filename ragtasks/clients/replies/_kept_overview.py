"""What a reply cache holds, counted, and how parts of it are removed."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ragtasks.clients._protocol import Outcome
from ragtasks.clients.replies._reply_cache import ReplyCache
from ragtasks.errors import CacheError, ConfigurationError, close_matches

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
    """Replies."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which replies are meant: those that fit everything that is given."""

    older_than_days: float | None = None
    """Stored more days ago than this."""
    model: str | None = None
    """Replies of this model."""
    outcome: str | None = None
    """A value of `Outcome`."""

    def condition(self) -> tuple[str, tuple[str | float, ...]]:
        """Return the choice as SQL with its values.

        Raises:
            ConfigurationError: nothing is chosen, or no reply can have that outcome.
        """
        known = [outcome.value for outcome in Outcome]
        if self.outcome is not None and self.outcome not in known:
            raise ConfigurationError(f"unknown outcome {self.outcome!r}: {close_matches(self.outcome, known)}")
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
    """Remove the chosen replies, which are then asked again, and return how many.

    Args:
        cache: the file.
        choice: what goes.
        dry_run: remove nothing, only count.

    Raises:
        ConfigurationError: as `Choice.condition`.
        CacheError: the file cannot be written.
    """
    condition, values = choice.condition()
    ((n_chosen,),) = cache.execute(f"SELECT count(*) FROM replies WHERE {condition}", values)
    if n_chosen and not dry_run:
        cache.execute(f"DELETE FROM replies WHERE {condition}", values)
        with suppress(CacheError):  # another process reads now: its room is used again for the next replies
            cache.execute("VACUUM")
            cache.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return int(n_chosen)


def describe_cache(path: Path) -> list[str]:
    """Return lines on a file of replies: where it is, its size, and how many of what it holds; makes no file.

    Raises:
        CacheError: the file cannot be used.
    """
    if not path.exists():
        return [f"{path}: no replies are kept yet"]
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


__all__ = ["Choice", "Count", "count_replies", "describe_cache", "prune"]
