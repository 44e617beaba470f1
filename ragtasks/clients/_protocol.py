"""What a client is: it answers a list of prompts, in order, and never fails because of one of them.

A reply has an answer or a reason, never both: what a model refused, cut off or left empty is no answer, and nobody
downstream has to guess that from a text. Prompts and decoding are plain records, so that they can be hashed and stored.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Any, Literal, Protocol, runtime_checkable

Progress = Callable[[str, int, int | None], None]
"""Called with (what, done so far, total or None), as in the precompute stage.

`what` names the work and stays the same; after a tab may come a note, which changes as the work goes on, and after a
second one what is being waited for.
"""


def no_progress(what: str, done: int, total: int | None) -> None:
    """Show nothing."""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is asked once."""

    messages: tuple[ChatMessage, ...]
    """The chat, ending with the message to be answered."""
    key_parts: tuple[str, ...] = ()
    """What tells this request from another one with the same messages, such as `attempt 2`; it is not sent."""
    body: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Further fields of the request, as JSON values; part of what tells it from others."""
    kind: str = field(default="", compare=False)
    """What it asks for, such as `rewrite` or the name of a rubric: for whoever looks into a cache."""
    is_readable: Callable[[str], bool] | None = field(default=None, compare=False, repr=False)
    """Answer -> whether it can be used; one that cannot is no answer to a cache. None where every text can."""
    longer: int = field(default=1, compare=False)
    """How many times as long as usual the reply may be: more than 1 where an earlier attempt at it was cut off."""
    schema: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    """JSON schema of a reply in the form asked for, sent where the endpoint says so; None where there is none."""
    earlier: tuple[tuple[Prompt, Reply], ...] = field(default=(), compare=False, repr=False)
    """Attempts at the same question whose replies could not be used: a cache keeps them with the reply that can be."""

    @classmethod
    def of(
        cls, text: str, system: str = "", *, kind: str = "", is_readable: Callable[[str], bool] | None = None
    ) -> Prompt:
        """Return the prompt of one user message, after a system message where one is given."""
        opening = (ChatMessage("system", system),) if system else ()
        return cls((*opening, ChatMessage("user", text)), kind=kind, is_readable=is_readable)

    def payload(self) -> list[dict[str, str]]:
        """Return the messages as JSON values, as chat endpoints take them.

        Half a character (a lone surrogate, which models do write now and then) becomes `?`: no request can hold one.
        """
        return [{"role": message.role, "content": _whole(message.content)} for message in self.messages]


def _whole(text: str) -> str:
    return text.encode("utf-8", errors="replace").decode("utf-8")


@dataclass(frozen=True, slots=True)
class Decoding:
    """How replies are generated; the same for every client, and part of what decides a reply."""

    temperature: float | None = 0.0
    """None leaves it to the server: some models refuse any other value than their own."""
    seed: int | None = 100
    """Where the server takes one. MTRAG's judges use 100."""
    max_tokens: int = 1024
    """Longest reply, thinking included; one that reaches it counts as cut off."""

    def describe(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)


class Outcome(str, Enum):
    """What became of a prompt."""

    ANSWERED = "answered"
    REFUSED = "refused"
    """The model declined, in the field that the format has for it."""
    FILTERED = "filtered"
    """A content filter stopped the prompt or the reply."""
    TRUNCATED = "truncated"
    """The reply reached the token limit: its end is missing."""
    EMPTY = "empty"
    """The reply holds no text, or nothing but thinking."""
    MALFORMED = "malformed"
    """The server sent something that is no chat completion."""
    FAILED = "failed"
    """No reply came: the request was refused, every attempt failed on the way, or the server broke the reply off."""


FINAL = frozenset({Outcome.ANSWERED, Outcome.REFUSED, Outcome.FILTERED})
"""Outcomes that mind the content, which stays. All others may be the server's bad hour: they are asked again."""


Price = tuple[float, ...]
"""Dollars for a million tokens of prompts, and of replies; a third amount is for prompt tokens that a server cached."""


class Spent(str, Enum):
    """When the tokens of a reply were spent."""

    NOW = "now"
    """The server was asked by this process."""
    BEFORE = "before"
    """The reply was cached: an earlier process, or another one, asked."""
    SHARED = "shared"
    """It is the reply to an equal prompt of the same judging, which counts it."""


@dataclass(frozen=True, slots=True)
class CallUsage:
    """What one reply of a server took, as far as the server says it: its own numbers, never an estimate."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    """Tokens of the reply, thinking included."""
    cached_tokens: int | None = None
    """Of the prompt's, those that the server had cached."""
    seconds: float | None = field(default=None, compare=False)
    """From sending the request to the whole reply."""
    dollars: float | None = None
    """At the price that the user names, else as the reply says; None without either."""
    spent: Spent = Spent.NOW
    is_used: bool = True
    """Whether the reply was one that could be used: a failed or unreadable one costs too."""

    @property
    def json_values(self) -> dict[str, Any]:
        """The call as results hold it: what is not known, or as usual, is left out."""
        usual = {"spent": Spent.NOW, "is_used": True}
        named = ((name, getattr(self, name)) for name in self.__slots__)
        return {name: value for name, value in named if value is not None and value != usual.get(name)}


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


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back for one prompt: a text where `outcome` is ANSWERED, a reason everywhere else."""

    outcome: Outcome
    text: str | None = None
    """The answer without thinking text; None unless answered."""
    reason: str = ""
    """Why there is no answer; empty where there is one. Holds no key, header or address."""
    thinking: str = ""
    """What a thinking model thought aloud."""
    finish_reason: str = ""
    """The server's word for why the reply ended, empty where it said none."""
    raw: str = ""
    served_model: str = ""
    """The model that the server says it answered with, empty where it does not say."""
    usage: CallUsage = CallUsage()
    """What it took."""
    unused: tuple[CallUsage, ...] = field(default=(), compare=False)
    """What earlier replies to the same prompt took that could not be used."""
    is_shared: bool = field(default=False, compare=False)
    """Whether an equal prompt of the same call got it first."""
    from_cache: bool = field(default=False, compare=False)
    """Whether it was known before it was asked for: it cost nothing this time."""


class Journal(Protocol):
    """Where a client leaves each reply at once, so that a killed process loses only requests in flight."""

    def recall(self, index: int) -> Reply | None:
        """Return the stored reply to prompt `index`, or None; called just before the prompt is sent."""

    def record(self, index: int, reply: Reply) -> None:
        """Keep the reply to prompt `index`, before anything else is done with it."""


@runtime_checkable
class Chain(Protocol):
    """A journal that knows what follows from a reply, to be asked at once, while a server still has its beginning."""

    def following(self, index: int) -> Prompt | None:
        """Return what is asked next in the place of prompt `index`, whose reply it has; None for nothing."""


@runtime_checkable
class Continuation(Protocol):
    """A journal whose prompts follow from replies by work of its own, such as a search; others use the slot then."""

    async def continued(self, index: int) -> Prompt | None:
        """Return what is asked next in the place of prompt `index`, whose reply it has; None for nothing."""


class Client(Protocol):
    """Answers prompts."""

    @property
    def name(self) -> str:
        """The model, as users name it, such as `openai/gpt-4o-mini`."""

    def describe(self) -> Mapping[str, Any]:
        """Return what decides its replies, as JSON values: model and decoding, never keys, limits or addresses."""

    def answer(
        self, prompts: Sequence[Prompt], progress: Progress = no_progress, journal: Journal | None = None
    ) -> list[Reply]:
        """Return one reply a prompt, in the order of `prompts`; no prompts give no replies.

        Args:
            prompts: what is asked.
            progress: told after every reply; its first argument is the client, and after a tab rate and sums so far.
            journal: told of every reply as it comes; of a `Chain` what follows may be asked at once, and the last
                reply is then the one returned.

        Raises:
            JudgeError: nothing can be had from this client at all: wrong key, unknown model, nobody there. What came
                before is in the journal.
            MissingExtraError: a library that this client needs is not installed.
        """


# What replies cost: how many were asked for, how many were known, tokens, and dollars where a price is given.
# Only what was asked for costs something. A reply that was known, from the cache or because another prompt is the
# same, is counted apart, so that neither rate nor cost claims it.

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
    input_tokens: int = 0
    """Tokens of the prompts that were asked."""
    output_tokens: int = 0
    """Tokens of the replies to these, thinking included."""
    cost: float | None = None

    def __add__(self, other: Usage) -> Usage:
        """Return both together; a part without a price adds no cost."""
        cost = None if self.cost is None and other.cost is None else (self.cost or 0.0) + (other.cost or 0.0)
        return Usage(
            n_asked=self.n_asked + other.n_asked,
            n_cached=self.n_cached + other.n_cached,
            n_failed=self.n_failed + other.n_failed,
            n_uncounted=self.n_uncounted + other.n_uncounted,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost=cost,
        )

    def note(self, seconds: float, *, whole: bool = False) -> str:
        """Return the sums as a line, such as `41/s  3 failed  812k tokens  $0.31`."""
        rate = _rate(self.n_asked / seconds if seconds > 0 else 0.0)
        parts = [f"{self.n_asked:,} asked at {rate}" if whole else rate]
        if whole or self.n_cached:
            parts.append(f"{self.n_cached:,} cached")
        parts += [f"{self.n_failed:,} failed", f"{_short(self.input_tokens + self.output_tokens)} tokens"]
        if self.n_uncounted:
            parts.append(f"{self.n_uncounted:,} uncounted")
        if self.cost is not None:
            parts.append(_dollars(self.cost))
        return "  ".join(parts)


def usage_of(reply: Reply, price: Price | None = None) -> Usage:
    """Return what one reply adds."""
    n_failed = int(reply.outcome is not Outcome.ANSWERED)
    nothing = None if price is None else 0.0
    if reply.from_cache:
        return Usage(n_cached=1, n_failed=n_failed, cost=nothing)
    calls = [call for call in calls_of(reply) if call.spent is Spent.NOW]
    n_input, n_output, n_cached = (
        sum(getattr(call, name) or 0 for call in calls) for name in ("input_tokens", "output_tokens", "cached_tokens")
    )
    return Usage(
        n_asked=1,
        n_failed=n_failed,
        # Where no body came there is nothing to count.
        n_uncounted=int(bool(reply.raw) and None in (reply.usage.input_tokens, reply.usage.output_tokens)),
        input_tokens=n_input,
        output_tokens=n_output,
        cost=None if price is None else dollars_of(price, n_input, n_output, n_cached),
    )


def calls_of(reply: Reply, price: Price | None = None, *, is_used: bool = True) -> tuple[CallUsage, ...]:
    """Return what each reply of a server took that led to this one, itself last; none where nothing came."""
    spent = Spent.SHARED if reply.is_shared else Spent.BEFORE if reply.from_cache else Spent.NOW
    calls = [call if spent is Spent.NOW else replace(call, spent=spent) for call in reply.unused]
    if reply.usage.json_values:
        calls.append(replace(reply.usage, spent=spent, is_used=is_used and reply.outcome is Outcome.ANSWERED))
    return tuple(calls if price is None else (replace(call, dollars=_priced(call, price)) for call in calls))


def _priced(call: CallUsage, price: Price) -> float | None:
    """Return what a call cost; as the reply says, if it does, where a server counted no tokens."""
    if call.input_tokens is None or call.output_tokens is None:
        return call.dollars
    return dollars_of(price, call.input_tokens, call.output_tokens, call.cached_tokens or 0)


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

    def expect_more(self) -> None:
        """Count one reply more that will come."""
        self._total += 1

    def hold_up(self, why: str) -> None:
        """Tell what is being waited for, empty where work goes on."""
        if why != self._held_up:
            self._held_up = why
            self._show()

    def _show(self) -> None:
        note = self._usage.note(time.monotonic() - self._begin)
        waiting = f"\t{self._held_up}" if self._held_up else ""
        self._progress(f"{self._name}\t{note}{waiting}", self._n_done, self._total)


def as_cached(reply: Reply) -> Reply:
    """Return a reply as it counts where it is used once more."""
    return replace(reply, from_cache=True, is_shared=True)


def _rate(a_second: float) -> str:
    return f"{a_second:.1f}/s" if 0 < a_second < 10 else f"{a_second:,.0f}/s"


def _short(count: int) -> str:
    if count < 1000:
        return str(count)
    return f"{count / 1000:.0f}k" if count < _MILLION else f"{count / _MILLION:.1f}M"


def _dollars(cost: float) -> str:
    return f"${cost:.4f}" if 0 < cost < _SMALL else f"${cost:,.2f}"


# What replies took that belong to no single answer: sums of them, as manifests and results hold it.

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
