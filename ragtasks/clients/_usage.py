"""Usage of replies: tokens, seconds and dollars, of one call and summed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

_MILLION = 1_000_000

Price = tuple[float, ...]
"""Dollars for a million tokens of prompts, and of replies; a third amount is for prompt tokens that a server cached."""


class Spent(str, Enum):
    """When the tokens of a reply were spent."""

    NOW = "now"
    """This process sent the request."""
    BEFORE = "before"
    """The reply was cached: an earlier process, or another one, sent the request."""
    SHARED = "shared"
    """It is the reply to an equal prompt of the same judging, which counts it."""


@dataclass(frozen=True, slots=True)
class CallUsage:
    """Usage of one reply: the numbers that the server reports, never an estimate."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    """Tokens of the reply, thinking included."""
    cached_tokens: int | None = None
    """Of the prompt's, those that the server had cached."""
    seconds: float | None = field(default=None, compare=False)
    """From sending the request to the whole reply."""
    dollars: float | None = None
    """By the user's price, else the cost in the reply; None without either."""
    spent: Spent = Spent.NOW
    is_used: bool = True
    """False for a failed or unreadable reply, which costs too."""

    @property
    def json_values(self) -> dict[str, Any]:
        """The call as results hold it: what is not known, or as usual, is left out."""
        usual = {"spent": Spent.NOW, "is_used": True}
        named = ((name, getattr(self, name)) for name in self.__slots__)
        return {name: value for name, value in named if value is not None and value != usual.get(name)}


UNCOUNTED = CallUsage()
"""Nothing is known."""


def dollars_of(price: Price, input_tokens: float, output_tokens: float, cached_tokens: float = 0) -> float:
    """Return what tokens cost; without a price of their own cached ones cost as much as others."""
    cached = price[2] if len(price) > 2 else price[0]
    whole = (input_tokens - cached_tokens) * price[0] + cached_tokens * cached + output_tokens * price[1]
    return whole / _MILLION


def priced(usage: Mapping[str, Any], price: Price | None) -> dict[str, Any]:
    """Return what an answer took with its cost at a price, where neither row nor reply says one."""

    def cost(amounts: Mapping[str, Any]) -> Mapping[str, Any]:
        n_input, n_output = amounts.get("input_tokens"), amounts.get("output_tokens")
        if price is None or "dollars" in amounts or n_input is None or n_output is None:
            return amounts
        return {**amounts, "dollars": dollars_of(price, n_input, n_output, amounts.get("cached_tokens", 0))}

    calls = [cost(call) for call in usage.get("calls", ())]
    return {**cost(usage), **({"calls": calls} if calls else {})}


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


def joined_spending(parts: Iterable[Spending]) -> dict[str, list[dict[str, Any]]]:
    """Return the spending of several as one."""
    given = list(parts)
    return {
        who: added_up(call for part in given for call in part.get(who, ()))
        for who in dict.fromkeys(who for part in given for who in part)
    }
