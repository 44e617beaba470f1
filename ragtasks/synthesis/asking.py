"""What every kind of synthesis asks a model with: questions whose replies are read, never guessed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ragtasks.clients import Client, Outcome, Price, Prompt, Reply, Usage, usage_of
from ragtasks.errors import JudgeError
from ragtasks.judges import UnparsableReplyError, code_of, json_values
from ragtasks.progress import Progress, no_progress
from ragtasks.prompts import PromptTemplate, shipped_template
from retrieval_cache import WORD

# Asks a model many questions and reads each reply; what cannot be read is asked once more, then left out by name.
# Replies are kept by the client (`ragtasks.clients.CachedClient`), so a killed synthesis goes on where it was.

T = TypeVar("T")


_ATTEMPTS = 2
_WITHOUT_REPLY = frozenset({Outcome.FAILED, Outcome.MALFORMED})
_WORTH_ASKING_AGAIN = frozenset({Outcome.ANSWERED, Outcome.TRUNCATED, Outcome.EMPTY})


@dataclass(frozen=True, slots=True)
class UnusableReply:
    """Why a question has no answer that can be used."""

    reason: str
    """For people; never quotes a reply."""


@dataclass(frozen=True, slots=True)
class Inquiry(Generic[T]):
    """One prompt and how its reply is read."""

    text: str
    read: Callable[[str], T]
    """Reply -> what it says; raises UnparsableReplyError where it is not as asked."""
    kind: str
    """What it asks for, for whoever looks into a cache."""


def template_of(kind: str) -> PromptTemplate:
    """Return the prompt of a kind of question."""
    return shipped_template(f"prompts/{kind}", "ragtasks.synthesis")


def question_of(kind: str, read: Callable[[str], T], shown: Mapping[str, Any], **fields: Any) -> Inquiry[T]:
    """Return the question that a shipped template makes of texts."""
    texts = [text for value in shown.values() for text in _texts(value)]
    code = code_of(*(texts or [""]))
    text = template_of(kind).render(code=code, **shown, **fields)
    return Inquiry(text, read, f"synthesis {kind}")


def _texts(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in _texts(item)]
    return [str(value)]


class Asker:
    """A client, and what has been asked of it."""

    def __init__(self, client: Client, price: Price | None = None, progress: Progress = no_progress) -> None:
        """Choose who is asked."""
        self.client = client
        self.usage = Usage()
        """What was asked and paid so far."""
        self._price, self._progress = price, progress

    def ask(self, what: str, questions: Sequence[Inquiry[T]]) -> list[T | UnusableReply]:
        """Return what each reply says, or why it cannot be used, in the order of the questions."""
        states: list[_State[T]] = [_State(question) for question in questions]

        def stage_progress(name: str, done: int, total: int | None) -> None:
            self._progress(f"{what}: {name}", done, total)

        for _ in range(_ATTEMPTS):
            waiting = [state for state in states if state.is_open]
            prompts = [state.prompt() for state in waiting]
            replies = self.client.answer(prompts, stage_progress) if prompts else []
            for state, prompt, reply in zip(waiting, prompts, replies, strict=True):
                self.usage += usage_of(reply, self._price)
                state.take(prompt, reply)
        lost = [state for state in states if state.is_lost]
        if lost:
            raise JudgeError(
                f"{what}: {len(lost)} of {len(questions)} questions got no reply from {self.client.name} "
                f"({lost[0].reason}); nothing was written, and answers so far are saved. "
                "Next step: run the same command again"
            )
        return [UnusableReply(state.reason) if state.result is None else state.result[0] for state in states]


class _State(Generic[T]):
    """One question: its attempts so far, and what came of them."""

    def __init__(self, question: Inquiry[T]) -> None:
        self._question = question
        self._earlier: tuple[tuple[Prompt, Reply], ...] = ()
        self.result: tuple[T] | None = None
        self.reason = ""
        self.is_lost = False
        self.is_open = True

    def prompt(self) -> Prompt:
        """Return the prompt of the next attempt; the second one says what was wrong with the first."""
        text = self._question.text
        if self._earlier:
            text = template_of("again").render(question=text, reason=self.reason)
        first = Prompt.of(text, kind=self._question.kind)
        return Prompt(first.messages, kind=first.kind, is_readable=self._is_readable, earlier=self._earlier)

    def take(self, prompt: Prompt, reply: Reply) -> None:
        """Read a reply."""
        self._earlier = (*self._earlier, (prompt, reply))
        self.is_lost = reply.outcome in _WITHOUT_REPLY
        self.is_open = reply.outcome in _WORTH_ASKING_AGAIN
        if reply.text is None:
            self.reason = reply.reason or reply.outcome.value
            return
        try:
            self.result, self.is_open = (self._question.read(reply.text),), False
        except UnparsableReplyError as error:
            self.reason = str(error)

    def _is_readable(self, text: str) -> bool:
        try:
            self._question.read(text)
        except UnparsableReplyError:
            return False
        return True


# How replies are read: one JSON value in whatever stands around it, with every key that was asked for.
# A reader gives what was asked for or says why it cannot; it never fills in what is missing.


class UnreadableReplyError(UnparsableReplyError):
    """A reply that is not what was asked for; the message names the kind of problem and never quotes the reply."""


def object_with(reply: str, key: str) -> dict[str, Any]:
    """Return the last JSON object of a reply that has a key."""
    values = json_values(reply)
    objects = [value for value in values if isinstance(value, dict) and key in value]
    if objects:
        return objects[-1]
    if values:
        raise UnreadableReplyError(f'JSON without the key "{key}"')
    raise UnreadableReplyError("JSON that cannot be read" if "{" in reply or "[" in reply else "prose instead of JSON")


def listed_texts(value: object, what: str) -> list[str]:
    """Return the texts of a list, white space collapsed, blank ones left out."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UnreadableReplyError(f"{what}: no list of texts")
    return [text for item in value if (text := _collapsed(item))]


def text_of(row: object, key: str) -> str:
    """Return one text of an object, white space collapsed."""
    value = row.get(key) if isinstance(row, dict) else None
    text = _collapsed(value) if isinstance(value, str) else ""
    if not text:
        raise UnreadableReplyError(f'no text under "{key}"')
    return text


def _collapsed(text: str) -> str:
    """Return a text on one line; half a character, which no file can hold, becomes `?`."""
    return " ".join(text.encode("utf-8", "replace").decode().split())


# Which words two texts share: the plain check that a text is about another one, and in its language.


def terms(text: str) -> frozenset[str]:
    """Return the distinct words of a text in small letters; Chinese, Japanese and Korean characters count singly."""
    return frozenset(WORD.findall(text.lower()))


def covered_share(text: str, source: str) -> float:
    """Return the share of a text's distinct words that stand in another text, 0 to 1; 0 for a text without words."""
    wanted = terms(text)
    return len(wanted & terms(source)) / len(wanted) if wanted else 0.0
