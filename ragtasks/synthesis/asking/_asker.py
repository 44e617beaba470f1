"""Asks a model many questions and reads each reply; what cannot be read is asked once more, then left out by name.

Replies are kept by the client (`ragtasks.clients.KeptReplies`), so a killed synthesis goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ragtasks.clients import Client, Outcome, Price, Progress, Prompt, Reply, Usage, no_progress, usage_of
from ragtasks.errors import JudgeError
from ragtasks.judges import UnparsableReplyError, code_of
from ragtasks.templates import shipped_template

T = TypeVar("T")

_FOLDER = "synthesis"
_ATTEMPTS = 2
_WITHOUT_REPLY = frozenset({Outcome.FAILED, Outcome.MALFORMED})
_WORTH_ASKING_AGAIN = frozenset({Outcome.ANSWERED, Outcome.TRUNCATED, Outcome.EMPTY})


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a question has no answer that can be used."""

    reason: str
    """For people; never quotes a reply."""


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    """One prompt and how its reply is read."""

    text: str
    """The whole prompt."""
    read: Callable[[str], T]
    """Reply -> what it says; raises UnparsableReplyError where it is not as asked."""
    kind: str
    """What it asks for, for whoever looks into a cache."""


def question_of(kind: str, read: Callable[[str], T], shown: Mapping[str, Any], **fields: Any) -> Question[T]:
    """Return the question that a shipped template makes of texts.

    Args:
        kind: name of the template in `ragtasks/prompts/synthesis/`.
        read: how the reply is read.
        shown: texts, lists of texts or lists of objects of texts that others wrote. The template marks where they
            begin and end with a code that stands in none of them.
        fields: what else the template names.

    Raises:
        ConfigurationError: a field that the template lacks.
    """
    texts = [text for value in shown.values() for text in _texts(value)]
    code = code_of(*(texts or [""]))
    text = shipped_template(f"{_FOLDER}/{kind}").render(code=code, **shown, **fields)
    return Question(text, read, f"{_FOLDER} {kind}")


def _texts(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in _texts(item)]
    return [str(value)]


class Asker:
    """A client, and what has been asked of it."""

    def __init__(self, client: Client, price: Price | None = None, progress: Progress = no_progress) -> None:
        """Choose who is asked.

        Args:
            client: best one that keeps replies.
            price: what its tokens cost.
            progress: told after every reply.
        """
        self.client = client
        self.usage = Usage()
        """What was asked and paid so far."""
        self._price, self._progress = price, progress

    def ask(self, what: str, questions: Sequence[Question[T]]) -> list[T | Failure]:
        """Return what each reply says, or why it cannot be used, in the order of the questions.

        Args:
            what: names the step for progress.
            questions: none gives nothing.

        Raises:
            JudgeError: a question got no reply at all; what was answered is kept, and the next call asks the rest.
            RagtasksError: as the client.
        """
        states: list[_State[T]] = [_State(question) for question in questions]
        for _ in range(_ATTEMPTS):
            waiting = [state for state in states if state.is_open]
            prompts = [state.prompt() for state in waiting]
            replies = self.client.answer(prompts, self._shown(what)) if prompts else []
            for state, prompt, reply in zip(waiting, prompts, replies, strict=True):
                self.usage += usage_of(reply, self._price)
                state.take(prompt, reply)
        lost = [state for state in states if state.is_lost]
        if lost:
            raise JudgeError(
                f"{what}: {len(lost)} of {len(questions)} questions got no reply from {self.client.name} "
                f"({lost[0].reason}); nothing was written, and what was answered is kept. "
                "Next step: run the same command again"
            )
        return [Failure(state.reason) if state.result is None else state.result[0] for state in states]

    def _shown(self, what: str) -> Progress:
        return lambda name, done, total: self._progress(f"{what}: {name}", done, total)


class _State(Generic[T]):
    """One question: its attempts so far, and what came of them."""

    def __init__(self, question: Question[T]) -> None:
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
            text = shipped_template(f"{_FOLDER}/again").render(question=text, reason=self.reason)
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


__all__ = ["Asker", "Failure", "Question", "question_of"]
