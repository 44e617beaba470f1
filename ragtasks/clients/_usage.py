"""What replies cost: how many were asked for, how many were known, tokens, and dollars where a price is given.

Only what was asked for costs something. A reply that was known, from the cache or because another prompt is the same,
is counted apart, so that neither rate nor cost claims it.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from ragtasks.clients._protocol import Outcome, Progress, Reply

Price = tuple[float, float]
"""Dollars for a million tokens of prompts, and for a million tokens of replies."""
_MILLION = 1_000_000
_SMALL = 0.1  # dollars below which two places would hide most of the score


@dataclass(frozen=True, slots=True)
class Usage:
    """Sums over replies."""

    n_asked: int = 0
    """Replies that were asked for now, those that failed on the way included."""
    n_cached: int = 0
    """Replies that were known before they were asked for: they cost nothing."""
    n_failed: int = 0
    """Of both, those without an answer."""
    n_uncounted: int = 0
    """Of those asked for, replies whose tokens the server did not count; the sums below lack them."""
    prompt_tokens: int = 0
    """Tokens of the prompts that were asked."""
    completion_tokens: int = 0
    """Tokens of the replies to these, thinking included."""
    cost: float | None = None
    """Dollars; None without a price."""

    def __add__(self, other: Usage) -> Usage:
        """Return both together; a part without a price adds no cost."""
        cost = None if self.cost is None and other.cost is None else (self.cost or 0.0) + (other.cost or 0.0)
        return Usage(
            n_asked=self.n_asked + other.n_asked,
            n_cached=self.n_cached + other.n_cached,
            n_failed=self.n_failed + other.n_failed,
            n_uncounted=self.n_uncounted + other.n_uncounted,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cost=cost,
        )

    def describe(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)

    def note(self, seconds: float, *, whole: bool = False) -> str:
        """Return the sums as a line, such as `41/s  3 failed  812k tokens  $0.31`.

        Args:
            seconds: what the rate is over; it counts what was asked for, not what was known.
            whole: name also how many were asked for and known, where these are 0 too.
        """
        rate = _rate(self.n_asked / seconds if seconds > 0 else 0.0)
        parts = [f"{self.n_asked:,} asked at {rate}" if whole else rate]
        if whole or self.n_cached:
            parts.append(f"{self.n_cached:,} cached")
        parts += [f"{self.n_failed:,} failed", f"{_short(self.prompt_tokens + self.completion_tokens)} tokens"]
        if self.n_uncounted:
            parts.append(f"{self.n_uncounted:,} uncounted")
        if self.cost is not None:
            parts.append(_dollars(self.cost))
        return "  ".join(parts)


def usage_of(reply: Reply, price: Price | None = None) -> Usage:
    """Return what one reply adds; a prompt that somebody else asks adds nothing."""
    if reply.outcome is Outcome.ELSEWHERE:
        return Usage()
    n_failed = int(reply.outcome is not Outcome.ANSWERED)
    nothing = None if price is None else 0.0
    if reply.from_cache:
        return Usage(n_cached=1, n_failed=n_failed, cost=nothing)
    asked, said = reply.prompt_tokens or 0, reply.completion_tokens or 0
    return Usage(
        n_asked=1,
        n_failed=n_failed,
        # Where no body came there is nothing to count.
        n_uncounted=int(bool(reply.raw) and (reply.prompt_tokens is None or reply.completion_tokens is None)),
        prompt_tokens=asked,
        completion_tokens=said,
        cost=nothing if price is None else (asked * price[0] + said * price[1]) / _MILLION,
    )


class Tally:
    """Counts the replies of one call and tells `progress`."""

    def __init__(self, name: str, total: int, progress: Progress) -> None:
        self._name, self._total, self._progress = name, total, progress
        self._usage, self._n_done = Usage(), 0
        self._begin = time.monotonic()
        self._held_up = ""

    def add(self, reply: Reply) -> None:
        """Count one reply."""
        self._n_done += 1
        self._usage += usage_of(reply)
        self._show()

    def hold_up(self, why: str) -> None:
        """Tell what is being waited for, empty where work goes on."""
        if why != self._held_up:
            self._held_up = why
            self._show()

    def _show(self) -> None:
        note = self._usage.note(time.monotonic() - self._begin)
        waiting = f"\t{self._held_up}" if self._held_up else ""
        self._progress(f"{self._name}\t{note}{waiting}", self._n_done, self._total)


def known(reply: Reply) -> Reply:
    """Return a reply as it counts where it is used once more."""
    return reply if reply.from_cache else replace(reply, from_cache=True)


def _rate(a_second: float) -> str:
    return f"{a_second:.1f}/s" if 0 < a_second < 10 else f"{a_second:,.0f}/s"


def _short(count: int) -> str:
    if count < 1000:
        return str(count)
    return f"{count / 1000:.0f}k" if count < _MILLION else f"{count / _MILLION:.1f}M"


def _dollars(cost: float) -> str:
    return f"${cost:.4f}" if 0 < cost < _SMALL else f"${cost:,.2f}"


__all__ = ["Price", "Tally", "Usage", "known", "usage_of"]
