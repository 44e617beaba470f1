"""Prompts of a synthesis and the parsing of replies, shared by all kinds of synthesis."""

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

# Sends many prompts to a model and parses each reply. An unusable reply is requested once more; the second failure is
# returned with its reason. The client caches replies (`ragtasks.clients.CachedClient`), so a killed synthesis
# continues.

T = TypeVar("T")


_ATTEMPTS = 2
_WITHOUT_REPLY = frozenset({Outcome.FAILED, Outcome.MALFORMED})
_WORTH_ASKING_AGAIN = frozenset({Outcome.ANSWERED, Outcome.TRUNCATED, Outcome.EMPTY})


@dataclass(frozen=True, slots=True)
class UnusableReply:
    """Why a prompt has no usable reply."""

    reason: str
    """Text for display, without any part of a reply."""


@dataclass(frozen=True, slots=True)
class Inquiry(Generic[T]):
    """A prompt with the parser of its reply."""

    text: str
    read: Callable[[str], T]
    """Reply -> parsed value; raises UnparsableReplyError for another format."""
    kind: str
    """Label of the prompt in a cache."""


def template_of(kind: str) -> PromptTemplate:
    """Return the prompt template of one kind of question."""
    return shipped_template(f"prompts/{kind}", "ragtasks.synthesis")


def question_of(kind: str, read: Callable[[str], T], shown: Mapping[str, Any], **fields: Any) -> Inquiry[T]:
    """Return the prompt of a shipped template, filled with texts that lines with a code enclose."""
    texts = [text for value in shown.values() for text in _texts(value)]
    code = code_of(*(texts or [""]))
    text = template_of(kind).render(code=code, **shown, **fields)
    return Inquiry(text, read, f"synthesis {kind}")


def _texts(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [text for part in value.values() for text in _texts(part)]
    if isinstance(value, (list, tuple)):
        return [text for part in value for text in _texts(part)]
    return [str(value)]


class Asker:
    """A client with the usage so far."""

    def __init__(self, client: Client, price: Price | None = None, progress: Progress = no_progress) -> None:
        """Set the client, its price and the progress callback."""
        self.client = client
        self.usage = Usage()
        """Requests and cost so far."""
        self._price, self._progress = price, progress

    def ask(self, stage: str, questions: Sequence[Inquiry[T]]) -> list[T | UnusableReply]:
        """Return each parsed reply, or why it is unusable, in the order of the questions.

        Raises:
            JudgeError: a request failed; the message names the reason and the next step.
        """
        states: list[_State[T]] = [_State(question) for question in questions]

        def stage_progress(name: str, done: int, total: int | None) -> None:
            self._progress(f"{stage}: {name}", done, total)

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
                f"{stage}: {len(lost)} of {len(questions)} questions got no reply from {self.client.name} "
                f"({lost[0].reason}); nothing was written, and answers so far are saved. "
                "Next step: run the same command again"
            )
        return [UnusableReply(state.reason) if state.result is None else state.result[0] for state in states]


class _State(Generic[T]):
    """One question with its attempts and its result."""

    def __init__(self, question: Inquiry[T]) -> None:
        self._question = question
        self._earlier: tuple[tuple[Prompt, Reply], ...] = ()
        self.result: tuple[T] | None = None
        self.reason = ""
        self.is_lost = False
        self.is_open = True

    def prompt(self) -> Prompt:
        """Return the prompt of the next attempt; the second one states the problem of the first reply."""
        text = self._question.text
        if self._earlier:
            text = template_of("again").render(question=text, reason=self.reason)
        first = Prompt.of(text, kind=self._question.kind)
        return Prompt(first.messages, kind=first.kind, is_readable=self._is_readable, earlier=self._earlier)

    def take(self, prompt: Prompt, reply: Reply) -> None:
        """Parse a reply."""
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


# Parsing: one JSON value within surrounding text, with every requested key. A parser returns the requested value or
# raises an error with the reason.


class UnreadableReplyError(UnparsableReplyError):
    """A reply in another format than requested; the message names the problem and never quotes the reply."""


def object_with(reply: str, key: str) -> dict[str, Any]:
    """Return the last JSON object of a reply that has the key."""
    values = json_values(reply)
    objects = [value for value in values if isinstance(value, dict) and key in value]
    if objects:
        return objects[-1]
    if values:
        raise UnreadableReplyError(f'JSON without the key "{key}"')
    raise UnreadableReplyError("JSON that cannot be read" if "{" in reply or "[" in reply else "prose instead of JSON")


def listed_texts(value: object, name: str) -> list[str]:
    """Return the texts of a list with whitespace collapsed, without blank texts."""
    if not isinstance(value, list) or not all(isinstance(element, str) for element in value):
        raise UnreadableReplyError(f"{name}: no list of texts")
    return [text for element in value if (text := _collapsed(element))]


def text_of(row: object, key: str) -> str:
    """Return one text of an object with whitespace collapsed."""
    value = row.get(key) if isinstance(row, dict) else None
    text = _collapsed(value) if isinstance(value, str) else ""
    if not text:
        raise UnreadableReplyError(f'no text under "{key}"')
    return text


def _collapsed(text: str) -> str:
    """Return a text on one line; a lone surrogate, which cannot be written to a file, becomes `?`."""
    return " ".join(text.encode("utf-8", "replace").decode().split())


# Shared words of two texts: a simple check that one is about the same subject as the other, and in the same language.


def terms(text: str) -> frozenset[str]:
    """Return the distinct lower-case words of a text; Chinese, Japanese and Korean characters count singly."""
    return frozenset(WORD.findall(text.lower()))


def covered_share(text: str, source: str) -> float:
    """Return the share of a text's distinct words that another text contains, 0 to 1; 0 for a text without words."""
    wanted = terms(text)
    return len(wanted & terms(source)) / len(wanted) if wanted else 0.0
