"""Usage of replies: tokens, seconds and dollars, per call and in total.

Only requested replies have a cost. A reply from the cache, or of an equal prompt, is counted separately, so that
neither rate nor cost includes it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ragtasks.clients._protocol import CallUsage, Outcome, Reply, Spent
from ragtasks.progress import Progress

_MILLION = 1_000_000
_SMALL = 0.1  # dollars below which two decimals would hide most of the cost

Price = tuple[float, ...]
"""Dollars per million tokens of prompts and of replies; a third amount is for prompt tokens that a server cached."""


def dollars_of(price: Price, input_tokens: float, output_tokens: float, cached_tokens: float = 0) -> float:
    """Return the cost of tokens in dollars; without their own price, cached tokens cost as much as others."""
    cached = price[2] if len(price) > 2 else price[0]
    total = (input_tokens - cached_tokens) * price[0] + cached_tokens * cached + output_tokens * price[1]
    return total / _MILLION


def priced(usage: Mapping[str, Any], price: Price | None) -> dict[str, Any]:
    """Return a usage record with its cost at a price, also of each of its calls; a recorded cost is kept."""

    def cost(amounts: Mapping[str, Any]) -> Mapping[str, Any]:
        n_input, n_output = amounts.get("input_tokens"), amounts.get("output_tokens")
        if price is None or "dollars" in amounts or n_input is None or n_output is None:
            return amounts
        return {**amounts, "dollars": dollars_of(price, n_input, n_output, amounts.get("cached_tokens", 0))}

    calls = [cost(call) for call in usage.get("calls", ())]
    return {**cost(usage), **({"calls": calls} if calls else {})}


AMOUNTS = ("seconds", "input_tokens", "output_tokens", "cached_tokens", "dollars")
"""Amounts that a reply may report; a request without any was sent, but its reply was not received."""

Spending = Mapping[str, list[dict[str, Any]]]
"""Role and model, such as `rewriter openai/m` -> usage of its replies: call records, each the sum of `n` calls."""


def summed_calls(calls: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return calls as sums, grouped by `spent`, `is_used` and the amounts they report.

    Shared calls are left out: the equal prompt that was sent counts them.
    """
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for call in calls:
        if call.get("spent") != Spent.SHARED.value:
            signature = (call.get("spent"), call.get("is_used", True), *(name in call for name in AMOUNTS))
            groups.setdefault(signature, []).append(call)
    return [_sum(group) for group in groups.values()]


def _sum(calls: list[Mapping[str, Any]]) -> dict[str, Any]:
    first = calls[0]
    flags = {name: first[name] for name in ("spent", "is_used") if name in first}
    amounts = {name: _total(call[name] for call in calls) for name in AMOUNTS if name in first}
    return {"n": sum(call.get("n", 1) for call in calls), **amounts, **flags}


def _total(values: Iterable[float]) -> float:
    amounts = list(values)
    return sum(amounts) if all(isinstance(value, int) for value in amounts) else math.fsum(amounts)


def joined_spending(parts: Iterable[Spending]) -> dict[str, list[dict[str, Any]]]:
    """Return the sum of several spendings."""
    spendings = list(parts)
    return {
        role: summed_calls(call for spending in spendings for call in spending.get(role, ()))
        for role in dict.fromkeys(role for spending in spendings for role in spending)
    }


@dataclass(frozen=True, slots=True)
class Usage:
    """Sums over replies."""

    n_asked: int = 0
    """Replies requested by this process, failed ones included."""
    n_cached: int = 0
    """Replies from the cache, which cost nothing."""
    n_failed: int = 0
    """Requested and cached replies without an answer."""
    n_uncounted: int = 0
    """Requested replies without token counts from the server; the sums below exclude them."""
    input_tokens: int = 0
    """Prompt tokens of requested replies."""
    output_tokens: int = 0
    """Reply tokens of requested replies, thinking included."""
    cost: float | None = None

    def __add__(self, other: Usage) -> Usage:
        cost = None if self.cost is None and other.cost is None else (self.cost or 0.0) + (other.cost or 0.0)
        names = [field.name for field in fields(self) if field.name != "cost"]
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in names}, cost=cost)

    def note(self, seconds: float, *, is_final: bool = False) -> str:
        """Return the sums as a line, such as `41/s  3 failed  812k tokens  $0.31`."""
        rate = _rate(self.n_asked / seconds if seconds > 0 else 0.0)
        parts = [f"{self.n_asked:,} requested at {rate}" if is_final else rate]
        if is_final or self.n_cached:
            parts.append(f"{self.n_cached:,} cached")
        parts += [f"{self.n_failed:,} failed", f"{_short_count(self.input_tokens + self.output_tokens)} tokens"]
        if self.n_uncounted:
            parts.append(f"{self.n_uncounted:,} uncounted")
        if self.cost is not None:
            parts.append(_dollars(self.cost))
        return "  ".join(parts)


def usage_of(reply: Reply, price: Price | None = None) -> Usage:
    """Return the usage of one reply."""
    n_failed = int(reply.outcome is not Outcome.ANSWERED)
    no_cost = None if price is None else 0.0
    if reply.from_cache:
        return Usage(n_cached=1, n_failed=n_failed, cost=no_cost)
    calls = [call for call in calls_of(reply) if call.spent is Spent.NOW]
    n_input, n_output, n_cached = (
        sum(getattr(call, name) or 0 for call in calls) for name in ("input_tokens", "output_tokens", "cached_tokens")
    )
    return Usage(
        n_asked=1,
        n_failed=n_failed,
        # Without a body there are no tokens to count.
        n_uncounted=int(bool(reply.raw) and None in (reply.usage.input_tokens, reply.usage.output_tokens)),
        input_tokens=n_input,
        output_tokens=n_output,
        cost=None if price is None else dollars_of(price, n_input, n_output, n_cached),
    )


def calls_of(reply: Reply, price: Price | None = None, *, is_used: bool = True) -> tuple[CallUsage, ...]:
    """Return the usage of the earlier, unusable server replies and of this reply, in order; () if no reply came."""
    spent = Spent.SHARED if reply.is_shared else Spent.BEFORE if reply.from_cache else Spent.NOW
    calls = [call if spent is Spent.NOW else replace(call, spent=spent) for call in reply.unused]
    if reply.usage.json_values:
        calls.append(replace(reply.usage, spent=spent, is_used=is_used and reply.outcome is Outcome.ANSWERED))
    return tuple(calls if price is None else (replace(call, dollars=_call_dollars(call, price)) for call in calls))


def _call_dollars(call: CallUsage, price: Price) -> float | None:
    """Return the cost of a call: by price, or the cost in the reply if the server counted no tokens."""
    if call.input_tokens is None or call.output_tokens is None:
        return call.dollars
    return dollars_of(price, call.input_tokens, call.output_tokens, call.cached_tokens or 0)


class Tally:
    """Counts the replies of one call and reports them to `progress`."""

    def __init__(self, name: str, total: int, progress: Progress) -> None:
        self._name, self._total, self._progress = name, total, progress
        self._usage, self._n_done = Usage(), 0
        self._begin = time.monotonic()
        self._wait_reason = ""

    def add(self, reply: Reply) -> None:
        """Count one reply; a failed request is not done, since the same command sends it again."""
        self._n_done += reply.outcome is not Outcome.FAILED
        self._usage += usage_of(reply)
        self._show()

    def expect_more(self) -> None:
        """Add one reply to the expected total."""
        self._total += 1

    def show_wait(self, reason: str) -> None:
        """Set the displayed reason for waiting; empty when work continues."""
        if reason != self._wait_reason:
            self._wait_reason = reason
            self._show()

    def _show(self) -> None:
        note = self._usage.note(time.monotonic() - self._begin)
        waiting = f"\t{self._wait_reason}" if self._wait_reason else ""
        self._progress(f"{self._name}\t{note}{waiting}", self._n_done, self._total)


def as_cached(reply: Reply) -> Reply:
    """Return a reply as delivered to a second, equal prompt."""
    return replace(reply, from_cache=True, is_shared=True)


def _rate(per_second: float) -> str:
    return f"{per_second:.1f}/s" if 0 < per_second < 10 else f"{per_second:,.0f}/s"


def _short_count(count: int) -> str:
    if count < 1000:
        return str(count)
    return f"{count / 1000:.0f}k" if count < _MILLION else f"{count / _MILLION:.1f}M"


def _dollars(cost: float) -> str:
    return f"${cost:.4f}" if 0 < cost < _SMALL else f"${cost:,.2f}"


def spent_on(replies: Iterable[Reply], price: Price | None = None) -> list[dict[str, Any]]:
    """Return the usage of replies, as sums."""
    return summed_calls(call.json_values for reply in replies for call in calls_of(reply, price))
