"""The progress of several judges as one line: every reply counts, whichever judge gave it, with sums over all of them.

What a client says of its own progress is not used, apart from what it waits for: it knows neither the other judges nor
its earlier calls.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from ragtasks.clients import Price, Progress, Reply, Usage, usage_of

_LONGEST_NAMES = 40


class PanelProgress:
    """Tells a `Progress` of several judges."""

    def __init__(self, progress: Progress) -> None:
        """Begin; the rate counts from now."""
        self._progress, self._lock = progress, threading.Lock()
        self._lanes: list[Lane] = []
        self._begin = time.monotonic()

    def lane(self, name: str, price: Price | None) -> Lane:
        """Return the share of one more judge."""
        self._lanes.append(Lane(self, name, price, Usage(cost=None if price is None else 0.0)))
        return self._lanes[-1]

    def begin(self, lane: Lane, n_prompts: int) -> None:
        """Tell of a judge's new call before its first reply, which may be long in coming."""
        with self._lock:
            lane.total = lane.n_done + n_prompts
            self._show()

    def add(self, lane: Lane, reply: Reply) -> None:
        """Count a judge's reply, and tell of all judges."""
        with self._lock:
            lane.n_done += 1
            lane.usage += usage_of(reply, lane.price)
            self._show()

    def hold_up(self, lane: Lane, why: str) -> None:
        """Tell what a judge waits for, empty where it waits for nothing."""
        with self._lock:
            if why != lane.held_up:
                lane.held_up = why
                self._show()

    def close(self) -> None:
        """Tell the sums, where there was anything to do."""
        with self._lock:
            if any(lane.total for lane in self._lanes):
                self._show(whole=True)

    def _show(self, *, whole: bool = False) -> None:
        usage = sum((lane.usage for lane in self._lanes), Usage())
        note = usage.note(time.monotonic() - self._begin, whole=whole)
        n_done, total = sum(lane.n_done for lane in self._lanes), sum(lane.total for lane in self._lanes)
        waits = [f"{lane.name}: {lane.held_up}" for lane in self._lanes if lane.held_up and not whole]
        self._progress("\t".join([self._name(), note, *waits]), n_done, total)

    def _name(self) -> str:
        names = ", ".join(lane.name for lane in self._lanes)
        return names if len(names) <= _LONGEST_NAMES or len(self._lanes) == 1 else f"{len(self._lanes)} judges"


@dataclass(slots=True)
class Lane:
    """How far one judge is, and what that has cost."""

    bar: PanelProgress
    name: str
    price: Price | None
    usage: Usage
    n_done: int = 0
    total: int = 0
    held_up: str = ""

    def begin(self, n_prompts: int) -> None:
        """Begin a new call of so many prompts."""
        self.bar.begin(self, n_prompts)

    def follow(self, what: str, _done: int, _total: int | None) -> None:
        """Take from a client's own progress what it waits for."""
        self.bar.hold_up(self, "".join(what.split("\t")[2:]))

    def add(self, reply: Reply) -> None:
        """Count a reply."""
        self.bar.add(self, reply)


__all__ = ["Lane", "PanelProgress"]
