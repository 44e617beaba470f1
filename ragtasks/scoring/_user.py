"""What a simulated user is shown, what it may say, and how its replies are read.

The user knows the needs of a conversation with their reference answers, judges each answer by them, and asks on in its
own words. A reply that is not in the form, or whose message gives an answer away, leaves the subject or repeats an
earlier one, is none: whoever asks may ask once more, and never writes a message in the user's place.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from ragtasks.clients import ChatMessage, Prompt, Reply
from ragtasks.judges import YES_NO, UnparsableReplyError, code_of, read_coded_object, schema_of
from ragtasks.prompts import shipped_template
from ragtasks.records import Answerability, Task

TEMPLATE = shipped_template("users/turn")
"""What the user is asked at each turn."""

_FORM = '{"id": "CODE", "met": LABEL, "wrong": LABEL, "contradicts": LABEL, "message": TEXT}'
_OPENING_FORM = '{"id": "CODE", "message": TEXT}'
_SPEAKERS = {"user": "You", "assistant": "Assistant"}
# Characters of Chinese and Japanese count as words.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")
_SHORTEST = 4
# By the human rewrites of MTRAG's 777 questions and the first quarters of their reference answers (docs/users.md).
_MOST_GIVEN_AWAY = 0.1
_COMMON_SHARE = 0.2


class Next(str, Enum):
    """What the user does next."""

    ASK = "ask"
    """Ask about another need."""
    STAY = "stay"
    """Follow up or correct."""
    END = "end"
    """Say nothing more."""


@dataclass(frozen=True, slots=True)
class Step:
    """What the user does next, and about what."""

    kind: Next
    need: int = -1
    """Place of the need that the message is about; of no message -1."""
    why: str = ""
    """How the conversation ends."""

    @property
    def words(self) -> str:
        """The step as the prompt has it."""
        if self.kind is Next.ASK:
            return f"ask about need {self.need + 1}, in your own words"
        if self.kind is Next.STAY:
            return (
                f"stay with need {self.need + 1}: say what is still missing, or what you doubt, and never what the "
                "answer should be"
            )
        return "leave the message empty, as you end the conversation"


class RefusedMessageError(UnparsableReplyError):
    """A reply in the right form whose message no user should send."""


@dataclass(frozen=True, slots=True)
class UserTurn:
    """What the user made of the last answer, and what it says."""

    message: str
    """Empty where the conversation ends."""
    met: bool | None = None
    """Whether the need is met by now; None before any answer, as are the other two."""
    wrong: bool | None = None
    contradicts: bool | None = None


@dataclass(frozen=True, slots=True)
class Situation:
    """What a user reacts to."""

    needs: tuple[Task, ...]
    at: int
    """Place of the need that was asked about last; -1 before the first."""
    messages: tuple[ChatMessage, ...]
    persona: str
    """How the user writes."""
    when_met: Step
    when_unmet: Step
    common: frozenset[str] = frozenset()
    """Words that say nothing of a subject (see `common_words`)."""

    def prompt(self, seed: int, earlier: tuple[Prompt, Reply, str] | None = None) -> Prompt:
        """Return what the user is asked; the second time with what was wrong with the first reply."""
        text, form = self._text(earlier[2] if earlier else "")
        return Prompt(
            Prompt.of(text).messages,
            (f"seed {seed}",),
            kind="user",
            is_readable=lambda reply: not self.problem(reply),
            schema=schema_of(form),
            earlier=((earlier[0], earlier[1]),) if earlier else (),
        )

    def problem(self, reply: str) -> str:
        """Return why a reply cannot be used; empty where it can."""
        try:
            self.read(reply)
        except UnparsableReplyError as error:
            return str(error)
        return ""

    def _text(self, problem: str) -> tuple[str, str]:
        form = (_OPENING_FORM if self.at < 0 else _FORM).replace("CODE", self._code)
        text = TEMPLATE.render(
            code=self._code,
            persona=self.persona,
            needs=[{"question": task.question, "target": task.target} for task in self.needs],
            conversation=[{"speaker": _SPEAKERS[item.role], "text": item.content} for item in self.messages],
            at=self.at + 1,
            when_met=self.when_met.words,
            when_unmet=self.when_unmet.words,
            problem=problem,
            form=form,
        )
        return text, form

    @property
    def _code(self) -> str:
        shown = [text for task in self.needs for text in (task.question, task.target)]
        return code_of(*shown, *(message.content for message in self.messages))

    def read(self, reply: str) -> UserTurn:
        """Return the user's turn.

        Raises:
            UnparsableReplyError: the reply is not in the form.
            RefusedMessageError: it is, and its message cannot be sent.
        """
        found = read_coded_object(reply, self._code)
        labels = {} if self.at < 0 else {name: _label(found, name) for name in ("met", "wrong", "contradicts")}
        step = self.when_unmet if labels.get("met") is False else self.when_met
        if step.kind is Next.END:
            return UserTurn("", **labels)
        message = found.get("message")
        if not isinstance(message, str) or not message.strip():
            raise UnparsableReplyError('"message" is no text, or empty')
        self._check(message, step)
        return UserTurn(message.strip(), **labels)

    def _check(self, message: str, step: Step) -> None:
        """Refuse a message that says what it must not, leaves the needs, or was sent before."""
        spoken = [item.content for item in self.messages]
        need, words = self.needs[step.need], words_of(message)
        if gives_away(message, need, frozenset(self.common | words_of(*spoken))):
            raise RefusedMessageError("the message gives the expected answer away")
        texts = (text for task in self.needs for text in (task.question, task.target))
        goal = words_of(*texts, *spoken) - self.common
        if step.kind is Next.ASK and goal and not goal & words:
            raise RefusedMessageError("the message has no word of what it should ask about")
        own = [item.content for item in self.messages if item.role == "user"]
        if _bare(message) in map(_bare, own):
            raise RefusedMessageError("the message repeats an earlier one word for word")


def gives_away(message: str, need: Task, known: frozenset[str]) -> bool:
    """Return whether a message holds more of a reference answer than the question and what is known do.

    More: one in ten of the other words of the answer, and two at least, of which a number counts as two; or all of
    them. There is nothing to give away where the answer is that nothing is known.
    """
    if need.answerability is Answerability.UNANSWERABLE:
        return False
    hidden = words_of(need.target) - words_of(need.question) - known
    shared = hidden & words_of(message)
    weight = sum(2 if any(sign.isdigit() for sign in word) else 1 for word in shared)
    return bool(shared) and (shared == hidden or (weight > 1 and len(shared) > _MOST_GIVEN_AWAY * len(hidden)))


def _label(found: dict[str, object], name: str) -> bool:
    word = str(found.get(name)).strip().lower()
    if word not in YES_NO:
        raise UnparsableReplyError(f'"{name}" is neither yes nor no')
    return word == "yes"


def _bare(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def words_of(*texts: str) -> frozenset[str]:
    """Return the words of texts that can say something of their subject: numbers, and words that are not short."""
    found = (word for text in texts for word in _bare(text))
    return frozenset(word for word in found if len(word) >= _SHORTEST or word.isdigit() or not word.isascii())


def common_words(conversations: Iterable[Sequence[Task]]) -> frozenset[str]:
    """Return the words that stand in more than one conversation of five: they say nothing of any subject."""
    sets = [words_of(*(text for task in tasks for text in (task.question, task.target))) for tasks in conversations]
    counts = Counter(word for words in sets for word in words)
    return frozenset(word for word, n in counts.items() if n > max(1, _COMMON_SHARE * len(sets)))
