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
        self._judge_progresses: list[JudgeProgress] = []
        self._begin = time.monotonic()

    def judge_progress(self, name: str, price: Price | None) -> JudgeProgress:
        """Return the share of one more judge."""
        self._judge_progresses.append(JudgeProgress(self, name, price, Usage(cost=None if price is None else 0.0)))
        return self._judge_progresses[-1]

    def begin(self, judge_progress: JudgeProgress, n_prompts: int) -> None:
        """Tell of a judge's new call before its first reply, which may be long in coming."""
        with self._lock:
            judge_progress.total = judge_progress.n_done + n_prompts
            self._show()

    def add(self, judge_progress: JudgeProgress, reply: Reply) -> None:
        """Count a judge's reply, and tell of all judges."""
        with self._lock:
            judge_progress.n_done += 1
            judge_progress.usage += usage_of(reply, judge_progress.price)
            self._show()

    def hold_up(self, judge_progress: JudgeProgress, why: str) -> None:
        """Tell what a judge waits for, empty where it waits for nothing."""
        with self._lock:
            if why != judge_progress.held_up:
                judge_progress.held_up = why
                self._show()

    def close(self) -> None:
        """Tell the sums, where there was anything to do."""
        with self._lock:
            if any(judge_progress.total for judge_progress in self._judge_progresses):
                self._show(whole=True)

    def _show(self, *, whole: bool = False) -> None:
        usage = sum((judge_progress.usage for judge_progress in self._judge_progresses), Usage())
        note = usage.note(time.monotonic() - self._begin, whole=whole)
        n_done, total = (
            sum(judge_progress.n_done for judge_progress in self._judge_progresses),
            sum(judge_progress.total for judge_progress in self._judge_progresses),
        )
        waits = [
            f"{judge_progress.name}: {judge_progress.held_up}"
            for judge_progress in self._judge_progresses
            if judge_progress.held_up and not whole
        ]
        self._progress("\t".join([self._name(), note, *waits]), n_done, total)

    def _name(self) -> str:
        names = ", ".join(judge_progress.name for judge_progress in self._judge_progresses)
        return (
            names
            if len(names) <= _LONGEST_NAMES or len(self._judge_progresses) == 1
            else f"{len(self._judge_progresses)} judges"
        )


@dataclass(slots=True)
class JudgeProgress:
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


__all__ = ["JudgeProgress", "PanelProgress"]
