"""The frozen records that every other module speaks in.

Loaders turn raw files into these; nobody behind a loader sees a file's quirks. Tuples instead of lists, so that a
record can be shared between settings and threads without copying.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any


class Setting(str, Enum):
    """Where the passages of a task come from (MTRAG paper, section 6.1)."""

    REFERENCE = "reference"
    """The reference passages; none for an unanswerable or conversational task."""
    REFERENCE_RAG = "reference_rag"
    """Reference passages filled up to five with retrieved ones; tasks with at most two reference passages."""
    FULL_RAG = "full_rag"
    """The first five retrieved passages."""
    AGENTIC = "agentic"
    """None beforehand: the model searches the corpus while it answers. The tasks are those of full RAG."""


class Answerability(str, Enum):
    """Whether the passages of the corpus hold an answer (MTRAG paper, Table 11; MTRAG-UN for the last)."""

    ANSWERABLE = "ANSWERABLE"
    PARTIAL = "PARTIAL"
    UNANSWERABLE = "UNANSWERABLE"
    CONVERSATIONAL = "CONVERSATIONAL"
    UNDERSPECIFIED = "UNDERSPECIFIED"


class IdkVerdict(str, Enum):
    """Whether a response says that it does not know (MTRAG paper, section 6.3.3 and appendix F.3)."""

    YES = "yes"
    PARTIAL = "partial"
    NO = "no"


class Role(str, Enum):
    """Who speaks a message, in the words of chat models."""

    USER = "user"
    ASSISTANT = "assistant"


LANGUAGE = "language"
"""Key of `Task.extra` with the ISO 639-1 code of a task's language, or `und`; English tasks do not have it."""
OTHER_LABELS = "other_labels"
"""Key of a task's `extra` with further reference answers, or the labels of further annotators."""


@dataclass(frozen=True, slots=True)
class Message:
    """One utterance of a conversation."""

    role: Role
    text: str
    """What is said, as in the file."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One retrievable chunk of a document."""

    passage_id: str
    text: str
    """The text that was indexed."""
    title: str = ""
    """Title of the document, empty where the corpus has none."""
    url: str = ""
    """Address of the document, empty where the corpus has none."""


@dataclass(frozen=True, slots=True)
class Task:
    """One evaluation item: a conversation cut off at a user question."""

    task_id: str
    """Conversation id and turn, joined as in `ragtasks.records`."""
    conversation_id: str
    turn: int
    """The user turn that is asked, counted from 1."""
    domain: str
    """Short name of the corpus, such as `clapnq`."""
    messages: tuple[Message, ...]
    target: str
    answerability: Answerability
    question_types: tuple[str, ...] = ()
    """Labels such as `Factoid`; a question may have several."""
    multi_turn: str = "N/A"
    """`N/A` at the first turn, else `Follow-up` or `Clarification`."""
    references: tuple[Passage, ...] = ()
    """The passages that the reference answer rests on."""
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """What only this benchmark has, as plain JSON values."""

    @property
    def question(self) -> str:
        """The last user message."""
        return self.messages[-1].text

    @property
    def language(self) -> str:
        """ISO 639-1 code of the language; `und` if it is unknown and not all letters are ASCII."""
        return str(self.extra.get(LANGUAGE, "en"))

    @property
    def variants(self) -> tuple[Task, ...]:
        """The task as each of its annotators labelled it, this one first: a score takes the best of them.

        The others are in `extra[OTHER_LABELS]`, a `target` and an `answerability` each.
        """
        others = self.extra.get(OTHER_LABELS, ())
        return (
            self,
            *(replace(self, target=one["target"], answerability=Answerability(one["answerability"])) for one in others),
        )


SEARCH, READ = "search", "read"
"""The tools of a model that searches while it answers."""


class Ending(str, Enum):
    """How a model that searches while it answers came to an end."""

    ANSWERED = "answered"
    GAVE_UP = "gave_up"
    """It neither called a tool nor gave an answer."""
    OUT_OF_CALLS = "out_of_calls"
    """It had used all its calls, was asked for its answer, and called a tool again."""
    CONTEXT_FULL = "context_full"
    """What it found did not fit its context any more, however short."""
    ERROR = "error"
    """A request failed for good."""


class CallProblem(str, Enum):
    """Why a call of a tool found nothing to show."""

    UNKNOWN_TOOL = "unknown_tool"
    """There is no tool of this name."""
    MALFORMED = "malformed"
    """Arguments that are no JSON object, are missing, or are of another kind."""
    QUERY_TOO_LONG = "query_too_long"
    """More characters than a query may have."""
    UNKNOWN_PASSAGE = "unknown_passage"
    """The corpus has no passage of this id."""
    OUT_OF_CALLS = "out_of_calls"
    """All calls were used before."""


@dataclass(frozen=True, slots=True)
class ToolStep:
    """One call of a tool."""

    tool: str
    """Name of the tool, as the model wrote it."""
    arguments: Mapping[str, Any] = field(hash=False)
    """What the model gave it, long texts cut; what could not be read stands under `unread`."""
    round: int
    """Which of the model's replies it stands in, from 1: a reply may hold several."""
    passages: tuple[str, ...] = ()
    """Ids of the passages that it was shown, in order."""
    scores: tuple[float, ...] = ()
    """The retriever's scores of these; none for a tool that ranks nothing."""
    problem: CallProblem | None = None
    """Why nothing was shown; None where the tool did what it does."""
    is_bounded: bool = False
    """Whether fewer passages were shown than asked for, as no call shows so many."""
    is_repeat: bool = False
    """Whether the same call stands before it."""

    @property
    def is_search(self) -> bool:
        """Whether something was searched for, with or without success."""
        return self.tool == SEARCH and self.problem is None


@dataclass(frozen=True, slots=True)
class Trajectory:
    """What a model did before it answered one task."""

    steps: tuple[ToolStep, ...] = ()
    """Its calls, in order."""
    ending: Ending = Ending.ANSWERED
    n_rounds: int = 0
    """Replies of the model, the answer included; 0 where a system of one's own says what it searched for."""
    n_shortened: int = 0
    """Results that were shortened for a later prompt to fit."""

    @property
    def seen(self) -> tuple[str, ...]:
        """Ids of all passages that it was shown, each once, in order."""
        return tuple(dict.fromkeys(passage_id for step in self.steps for passage_id in step.passages))

    @property
    def first_passages(self) -> tuple[str, ...]:
        """Ids of the passages of its first call that found any."""
        return next((step.passages for step in self.steps if step.passages), ())

    @property
    def last_passages(self) -> tuple[str, ...]:
        """Ids of the passages of its last call that found any."""
        return next((step.passages for step in reversed(self.steps) if step.passages), ())


@dataclass(frozen=True, slots=True)
class Response:
    """A model's answer to one task, with the passages that the model was shown."""

    task: Task
    passages: tuple[Passage, ...]
    """What the model was given, in order."""
    text: str
    """The answer, thinking text and blanks at both ends removed."""
    no_answer: str = ""
    """Why there is no answer, where a request failed: such a response is unscored. An empty answer is an answer."""
    verbatim: str | None = None
    """The answer as it came, where blanks stood around it: `text` lacks them. Official prompts show it."""
    trajectory: Trajectory | None = None
    """What the model searched for before it answered; None where it could not search."""

    @property
    def as_given(self) -> str:
        """The answer with the blanks around it."""
        return self.text if self.verbatim is None else self.verbatim


@dataclass(frozen=True, slots=True)
class Score:
    """One score of one response; `value` is None where it could not be had, and `reason` says why."""

    value: float | None
    """The score, or None: unscored is never zero."""
    reason: str = ""
    """Why there is no value; empty where there is one."""


@dataclass(frozen=True, slots=True)
class Qrel:
    """One relevance judgement."""

    query_id: str
    passage_id: str
    relevance: int
    """0 not relevant, 1 and above relevant; graded judgements go up to 3 or 4."""


@dataclass(frozen=True, slots=True)
class Contexts:
    """The passages that each task of a setting is given, under the name of the run they come from."""

    run: str
    """`official`, or the name of a run of the precompute stage."""
    setting: Setting
    passages: dict[str, tuple[Passage, ...]] = field(default_factory=dict)
    """task id -> passages in the order in which the model sees them."""


class Importance(str, Enum):
    """How much an answer needs a nugget."""

    VITAL = "vital"
    """A good answer must say it."""
    OKAY = "okay"
    """Worth saying."""


class Grade(str, Enum):
    """How far an answer says what a nugget says."""

    SUPPORT = "support"
    """All of it."""
    PARTIAL_SUPPORT = "partial_support"
    """Some of it."""
    NOT_SUPPORT = "not_support"
    """Nothing of it."""


@dataclass(frozen=True, slots=True)
class Nugget:
    """One statement."""

    text: str
    """What is stated, in a few words."""
    importance: Importance
    """How much an answer needs it."""
    sub_narrative: str = ""
    """The part of a narrative that it belongs to; empty where the file has none, as before 2025."""


class Support(str, Enum):
    """How far a cited passage supports a sentence."""

    FULL = "full"
    """All of it."""
    PARTIAL = "partial"
    """Some of it."""
    NO = "no"
    """None of it, or the opposite."""


# Task and query ids: the only place that takes one apart.
# A task id joins a conversation id and a turn number. MTRAG's task files and qrels write `<::>` between them, its
# sample submissions `::`; here the first is the one form in use.

SEPARATOR = "<::>"
_TASK_ID = re.compile(r"(?P<conversation>.+?)(?:<::>|::)(?P<turn>[0-9]+)", re.DOTALL)


def task_id(conversation_id: str, turn: int) -> str:
    """Return the id of the task that ends at user turn `turn` (from 1) of a conversation."""
    return f"{conversation_id}{SEPARATOR}{turn}"


def split_task_id(text: str) -> tuple[str, int]:
    """Return (conversation id, turn) of a task or query id in any of the official spellings."""
    match = _TASK_ID.fullmatch(text)
    if match is None or int(match["turn"]) < 1:
        raise ValueError(f"not a task id (expected <conversation>{SEPARATOR}<turn from 1>): {text!r}")
    return match["conversation"], int(match["turn"])


def normalise_task_id(text: str) -> str:
    """Return a task id in the one form in use, whatever separator the file wrote."""
    return task_id(*split_task_id(text))


_REMOVED = str.maketrans("", "", " \n")


def compact(text: str) -> str:
    """Return a text without blanks and line ends, the form in which texts are compared."""
    return text.translate(_REMOVED)
