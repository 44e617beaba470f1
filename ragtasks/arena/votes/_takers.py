"""Who has which item, kept in memory so that 30,000 pairs are not counted again for every page.

What changed since the last look is read from the database's events: each change of an assignment but a longer lease
leaves one. So this is where to look for a free item, and no more: whoever hands one out counts again, in the database.
"""

from __future__ import annotations

import math
import sqlite3
import threading
from collections.abc import Collection

_CHANGED = "SELECT DISTINCT battle_id FROM events WHERE place > ?"
_END = "max(CASE state WHEN 'voted' THEN 9e999 ELSE until END)"  # of a vote: never
_TAKEN = "FROM assignments WHERE state != 'skipped'"
_ENDS = f"SELECT battle_id, {_END} {_TAKEN} AND battle_id IN ({_CHANGED}) GROUP BY battle_id, rater"
_ENDS_OF = f"SELECT {_END} {_TAKEN} AND battle_id = ? GROUP BY rater"


class Takers:
    """The raters that have each item, by vote or by lease; may be used by several threads."""

    def __init__(self, items: Collection[str], wanted: int) -> None:
        """Know of nobody yet.

        Args:
            items: what is handed out.
            wanted: raters that each of them gets.
        """
        self._items, self._wanted = items, wanted
        self._n: dict[str, int] = {}
        self._free: dict[str, int] | None = None  # as it is returned; None: to be made from what is above
        self._leased: dict[str, float] = {}
        self._n_read = 0
        self._lock = threading.Lock()

    def free(self, connection: sqlite3.Connection, now: float) -> dict[str, int]:
        """Return item -> raters that have it now, of the items that may have one more, in their order."""
        with self._lock:
            self._read(connection)
            for item in [item for item, end in self._leased.items() if end <= now]:
                self._keep(item, _ends_after(connection, item, now))
            if self._free is None:
                n_of, wanted = self._n, self._wanted
                self._free = {item: n for item in self._items if (n := n_of.get(item, 0)) < wanted}
            return self._free.copy()

    def _read(self, connection: sqlite3.Connection) -> None:
        """Read the items that anything happened to since the last time."""
        (newest,) = connection.execute("SELECT coalesce(max(place), 0) FROM events").fetchone()
        if newest <= self._n_read:
            return
        ends_of: dict[str, list[float]] = {item: [] for (item,) in connection.execute(_CHANGED, (self._n_read,))}
        for item, end in connection.execute(_ENDS, (self._n_read,)):
            ends_of.setdefault(item, []).append(end)
        for item, ends in ends_of.items():
            self._keep(item, ends)
        self._n_read = newest

    def _keep(self, item: str, ends: list[float]) -> None:
        """Keep the times at which the raters of an item lose it."""
        n = self._n[item] = len(ends)
        if self._free is not None and item in self._free:
            if n < self._wanted:
                self._free[item] = n
            else:
                del self._free[item]
        elif n < self._wanted and item in self._items:
            self._free = None  # it is free again, and has its place in the order
        self._leased.pop(item, None)
        if ends and not math.isinf(first := min(ends)):
            self._leased[item] = first


def _ends_after(connection: sqlite3.Connection, item: str, now: float) -> list[float]:
    """Return the ends of one item's votes and leases that are not over: a longer lease leaves no event."""
    return [end for (end,) in connection.execute(_ENDS_OF, (item,)) if end > now]


__all__ = ["Takers"]
