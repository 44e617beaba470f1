"""What replies took that belong to no single answer: sums of them, as manifests and results hold it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from ragtasks.clients._protocol import Price, Reply, Spent, calls_of

AMOUNTS = ("seconds", "input_tokens", "output_tokens", "cached_tokens", "dollars")
"""What a reply may have taken; one without any of them was asked for, and nobody saw what came back."""

Spending = Mapping[str, list[dict[str, Any]]]
"""Who was asked, such as `rewriter openai/m` -> what its replies took: like calls, each of them a sum over `n`."""


def added_up(calls: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return calls as sums: one for those of one time, of use or not, with the same amounts known.

    Shared ones are left out: the equal prompt that was asked counts them.
    """
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for call in calls:
        if call.get("spent") != Spent.SHARED.value:
            kind = (call.get("spent"), call.get("is_used", True), *(name in call for name in AMOUNTS))
            groups.setdefault(kind, []).append(call)
    return [_sum(group) for group in groups.values()]


def _sum(calls: list[Mapping[str, Any]]) -> dict[str, Any]:
    first = calls[0]
    kind = {name: first[name] for name in ("spent", "is_used") if name in first}
    amounts = {name: _total(call[name] for call in calls) for name in AMOUNTS if name in first}
    return {"n": sum(call.get("n", 1) for call in calls), **amounts, **kind}


def _total(values: Iterable[float]) -> float:
    given = list(values)
    return sum(given) if all(isinstance(value, int) for value in given) else math.fsum(given)


def spent_on(replies: Iterable[Reply], price: Price | None = None) -> list[dict[str, Any]]:
    """Return what replies took, added up."""
    return added_up(call.json_values for reply in replies for call in calls_of(reply, price))


def joined_spending(parts: Iterable[Spending]) -> dict[str, list[dict[str, Any]]]:
    """Return the spending of several as one."""
    given = list(parts)
    return {
        who: added_up(call for part in given for call in part.get(who, ()))
        for who in dict.fromkeys(who for part in given for who in part)
    }
