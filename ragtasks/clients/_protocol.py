"""What a client is: it answers a list of prompts, in order, and never fails because of one of them.

A reply has an answer or a reason, never both: what a model refused, cut off or left empty is no answer, and nobody
downstream has to guess that from a text. Prompts and decoding are plain records, so that they can be hashed and stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, Literal, Protocol, runtime_checkable

from ragtasks.progress import Progress, no_progress


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
        texts = [message.content.encode("utf-8", errors="replace").decode("utf-8") for message in self.messages]
        return [{"role": message.role, "content": text} for message, text in zip(self.messages, texts, strict=True)]


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
    usage: CallUsage = UNCOUNTED
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
