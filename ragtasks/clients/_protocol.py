"""The client protocol: a client replies to a list of prompts, in order, and never fails because of one prompt.

A reply has an answer or a reason, never both: a refused, truncated or empty reply is not an answer, and callers need
not infer that from a text. Prompts and decoding are plain records, so that they can be hashed and stored.
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
    """A request to a model."""

    messages: tuple[ChatMessage, ...]
    """The chat, ending with the message to answer."""
    key_parts: tuple[str, ...] = ()
    """Further parts of the cache key, not sent: they distinguish requests with equal messages, such as `attempt 2`."""
    body: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Further fields of the request, as JSON values; part of the cache key."""
    kind: str = field(default="", compare=False)
    """Purpose, such as `rewrite` or the name of a rubric; listed by `describe_cache`."""
    is_readable: Callable[[str], bool] | None = field(default=None, compare=False, repr=False)
    """Answer -> whether it can be parsed; a cache does not keep other answers. None if every text can be used."""
    longer: int = field(default=1, compare=False)
    """Factor on the usual maximum reply length; above 1 after an attempt that was cut off."""
    schema: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    """JSON schema of the reply, sent if the endpoint is `structured`; None without a schema."""
    earlier: tuple[tuple[Prompt, Reply], ...] = field(default=(), compare=False, repr=False)
    """Earlier attempts with unusable replies; a cache stores them with the usable reply."""

    @classmethod
    def of(
        cls, text: str, system: str = "", *, kind: str = "", is_readable: Callable[[str], bool] | None = None
    ) -> Prompt:
        """Return the prompt of one user message, after a system message if one is given."""
        opening = (ChatMessage("system", system),) if system else ()
        return cls((*opening, ChatMessage("user", text)), kind=kind, is_readable=is_readable)

    def payload(self) -> list[dict[str, str]]:
        """Return the messages as JSON values, in the format of chat endpoints.

        A lone surrogate, which models sometimes write, becomes `?`: a request cannot contain one.
        """
        texts = [message.content.encode("utf-8", errors="replace").decode("utf-8") for message in self.messages]
        return [{"role": message.role, "content": text} for message, text in zip(self.messages, texts, strict=True)]


@dataclass(frozen=True, slots=True)
class Decoding:
    """Generation settings; the same for every client, and part of the cache key."""

    temperature: float | None = 0.0
    """None leaves it to the server: some models refuse any value but their own."""
    seed: int | None = 100
    """Sent to servers that accept a seed. MTRAG's judges use 100."""
    max_tokens: int = 1024
    """Maximum tokens of a reply, thinking included; a reply that reaches it is truncated."""

    def describe(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)


class Outcome(str, Enum):
    """Result of a prompt."""

    ANSWERED = "answered"
    REFUSED = "refused"
    """The model declined, in the format's own field for refusals."""
    FILTERED = "filtered"
    TRUNCATED = "truncated"
    """The reply reached the token limit: its end is missing."""
    EMPTY = "empty"
    """The reply has no text, or only thinking."""
    MALFORMED = "malformed"
    """The server's reply is not a chat completion."""
    FAILED = "failed"
    """No reply: the request was refused, every attempt failed, or the server broke the reply off."""


FINAL = frozenset({Outcome.ANSWERED, Outcome.REFUSED, Outcome.FILTERED})
"""Outcomes that depend on the content, and so are final. After the others, the prompt is sent again later."""


class Spent(str, Enum):
    """When the tokens of a reply were spent."""

    NOW = "now"
    """This process sent the request."""
    BEFORE = "before"
    """The reply was cached: an earlier process, or another process, sent the request."""
    SHARED = "shared"
    """An equal prompt received the reply before, and counts its usage."""


@dataclass(frozen=True, slots=True)
class CallUsage:
    """Usage of one reply, as the server reports it; never an estimate."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    """Prompt tokens that the server had cached."""
    seconds: float | None = field(default=None, compare=False)
    """Seconds from sending the request to the end of the reply."""
    dollars: float | None = None
    """Cost by the user's price, else the cost in the reply; None without either."""
    spent: Spent = Spent.NOW
    is_used: bool = True
    """False for a failed or unreadable reply, which has a cost too."""

    @property
    def json_values(self) -> dict[str, Any]:
        """The fields as stored in results; unknown and default values are left out."""
        usual = {"spent": Spent.NOW, "is_used": True}
        named = ((name, getattr(self, name)) for name in self.__slots__)
        return {name: value for name, value in named if value is not None and value != usual.get(name)}


UNCOUNTED = CallUsage()
"""Usage of a reply without any reported number."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Reply to one prompt: a text if `outcome` is ANSWERED, else a reason."""

    outcome: Outcome
    text: str | None = None
    """The answer without thinking text; None unless answered."""
    reason: str = ""
    """Why there is no answer; empty if answered. Contains no key, header or address."""
    thinking: str = ""
    finish_reason: str = ""
    """The server's finish reason, empty if it sent none."""
    raw: str = ""
    served_model: str = ""
    """The model that the server names in its reply, empty if it names none."""
    usage: CallUsage = UNCOUNTED
    unused: tuple[CallUsage, ...] = field(default=(), compare=False)
    """Usage of earlier, unusable replies to the same prompt."""
    is_shared: bool = field(default=False, compare=False)
    """Whether an equal prompt received the reply before."""
    from_cache: bool = field(default=False, compare=False)
    """Whether the reply was cached, and so cost nothing this time."""


class Journal(Protocol):
    """Receives each reply at once, so that a killed process loses only requests in flight."""

    def recall(self, index: int) -> Reply | None:
        """Return the stored reply to prompt `index`, or None; called just before the prompt is sent."""

    def record(self, index: int, reply: Reply) -> None:
        """Store the reply to prompt `index`, before any other use of it."""


@runtime_checkable
class Chain(Protocol):
    """A journal with follow-up prompts, which are sent at once, while a server still has their beginning cached."""

    def following(self, index: int) -> Prompt | None:
        """Return the follow-up to the reply of prompt `index`, which takes over the index, or None."""


@runtime_checkable
class Continuation(Protocol):
    """A journal that does work, such as a search, between a reply and its follow-up; the slot is free meanwhile."""

    async def continued(self, index: int) -> Prompt | None:
        """Return the follow-up to the reply of prompt `index`, which takes over the index, or None."""


class Client(Protocol):
    """Sends prompts to a model and returns its replies."""

    @property
    def name(self) -> str:
        """The model's name as users write it, such as `openai/gpt-4o-mini`."""

    def describe(self) -> Mapping[str, Any]:
        """Return the settings that determine replies, as JSON values: model and decoding, no key, limit or address."""

    def answer(
        self, prompts: Sequence[Prompt], progress: Progress = no_progress, journal: Journal | None = None
    ) -> list[Reply]:
        """Return one reply per prompt, in the order of `prompts`; [] for no prompts.

        Args:
            prompts: the prompts to send.
            progress: called after every reply; its first argument is the client's name, a tab, and the rate and sums.
            journal: receives every reply as it arrives. Follow-up prompts of a `Chain` may be sent at once; the last
                reply of each is then returned.

        Raises:
            JudgeError: the client cannot get any reply: wrong key, unknown model, no server. Earlier replies are in the
                journal.
            MissingExtraError: a library that this client needs is not installed.
        """
