"""Frozen records shared by all other modules.

Loaders convert benchmark files into these records, so no other module depends on a file format. Sequences are tuples,
so settings and threads can share a record without copying it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any


class Setting(str, Enum):
    """Source of the passages of a task (MTRAG paper, section 6.1)."""

    REFERENCE = "reference"
    """The reference passages. Unanswerable and conversational tasks have no passages."""
    REFERENCE_RAG = "reference_rag"
    """Reference passages, filled up to five with retrieved passages. Only for tasks with at most two reference
    passages.
    """
    FULL_RAG = "full_rag"
    """The first five retrieved passages."""
    AGENTIC = "agentic"
    """No passages in the prompt: the model searches the corpus while it answers. Same tasks as full RAG."""


class Answerability(str, Enum):
    """Answerability of a question from the corpus (MTRAG paper, Table 11; `UNDERSPECIFIED` from MTRAG-UN)."""

    ANSWERABLE = "ANSWERABLE"
    PARTIAL = "PARTIAL"
    UNANSWERABLE = "UNANSWERABLE"
    CONVERSATIONAL = "CONVERSATIONAL"
    UNDERSPECIFIED = "UNDERSPECIFIED"


class IdkVerdict(str, Enum):
    """Label of a response: whether it states that the answer is unknown, fully, partly or not at all.

    Source: MTRAG paper, section 6.3.3 and appendix F.3.
    """

    YES = "yes"
    PARTIAL = "partial"
    NO = "no"


class Role(str, Enum):
    """Author of a message, as chat models name it."""

    USER = "user"
    ASSISTANT = "assistant"


LANGUAGE = "language"
"""Key of `Task.extra` with the ISO 639-1 code of a task's language, or `und`. English tasks do not have the key."""
OTHER_LABELS = "other_labels"
"""Key of `Task.extra` with further reference answers, or with the labels of further annotators."""


@dataclass(frozen=True, slots=True)
class Message:
    """One utterance of a conversation."""

    role: Role
    text: str
    """The text of the file, unchanged."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One retrievable chunk of a document."""

    passage_id: str
    text: str
    """The indexed text."""
    title: str = ""
    """Title of the document; empty if the corpus has no titles."""
    url: str = ""
    """URL of the document; empty if the corpus has no URLs."""


@dataclass(frozen=True, slots=True)
class Task:
    """One evaluation item: a conversation that ends in a user question."""

    task_id: str
    """Conversation id and turn, joined by `task_id`."""
    conversation_id: str
    turn: int
    """Number of the user turn with the question, counted from 1."""
    domain: str
    """Short name of the corpus, such as `clapnq`."""
    messages: tuple[Message, ...]
    target: str
    answerability: Answerability
    question_types: tuple[str, ...] = ()
    """Labels such as `Factoid`; a question can have several."""
    multi_turn: str = "N/A"
    """`N/A` for the first turn, else `Follow-up` or `Clarification`."""
    references: tuple[Passage, ...] = ()
    """Passages that support the reference answer."""
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Fields of this benchmark only, as plain JSON values."""

    @property
    def question(self) -> str:
        """The last user message."""
        return self.messages[-1].text

    @property
    def language(self) -> str:
        """ISO 639-1 code of the language; `und` if it is unknown and the text has non-ASCII letters."""
        return str(self.extra.get(LANGUAGE, "en"))

    @property
    def variants(self) -> tuple[Task, ...]:
        """The task with the labels of each annotator, its own labels first. A score is the best over the variants.

        The other labels are in `extra[OTHER_LABELS]`, each with a `target` and an `answerability`.
        """
        annotations = self.extra.get(OTHER_LABELS, ())
        return (
            self,
            *(
                replace(self, target=annotation["target"], answerability=Answerability(annotation["answerability"]))
                for annotation in annotations
            ),
        )


SEARCH, READ = "search", "read"
"""Names of the tools of a model that searches while it answers."""


class Ending(str, Enum):
    """Reason why a model that searches while it answers stopped."""

    ANSWERED = "answered"
    GAVE_UP = "gave_up"
    """The model neither called a tool nor gave an answer."""
    OUT_OF_CALLS = "out_of_calls"
    """The model called a tool again after its last call, although the prompt required an answer."""
    CONTEXT_FULL = "context_full"
    """The search results did not fit the context of the model, even shortened."""
    ERROR = "error"
    """A request failed permanently."""


class CallProblem(str, Enum):
    """Reason why a tool call returned no passages."""

    UNKNOWN_TOOL = "unknown_tool"
    """No tool has this name."""
    MALFORMED = "malformed"
    """The arguments are not a JSON object, or an argument is missing or has the wrong type."""
    QUERY_TOO_LONG = "query_too_long"
    """The query exceeds the maximum number of characters."""
    UNKNOWN_PASSAGE = "unknown_passage"
    """The corpus has no passage with this id."""
    OUT_OF_CALLS = "out_of_calls"
    """No calls were left."""


@dataclass(frozen=True, slots=True)
class ToolStep:
    """One tool call."""

    tool: str
    """Name of the tool, as the model wrote it."""
    arguments: Mapping[str, Any] = field(hash=False)
    """Arguments from the model, with long texts cut. Text that does not parse is stored under `unread`."""
    round: int
    """Number of the model's reply that contains the call, counted from 1. A reply can contain several calls."""
    passages: tuple[str, ...] = ()
    """Ids of the returned passages, in order."""
    scores: tuple[float, ...] = ()
    """Retriever scores of the passages; empty for a tool that does not rank."""
    problem: CallProblem | None = None
    """None if the call succeeded."""
    is_bounded: bool = False
    """The model requested more passages than a call can return."""
    is_repeat: bool = False
    """An earlier call was identical."""

    @property
    def is_search(self) -> bool:
        """The step is a search that ran, with or without results."""
        return self.tool == SEARCH and self.problem is None


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Tool calls of a model before it answered one task."""

    steps: tuple[ToolStep, ...] = ()
    """The calls, in order."""
    ending: Ending = Ending.ANSWERED
    n_rounds: int = 0
    """Number of replies of the model, the answer included. 0 for a custom system that reports its own searches."""
    n_shortened: int = 0
    """Number of results that were shortened to fit a later prompt."""

    @property
    def seen(self) -> tuple[str, ...]:
        """Ids of all returned passages, each once, in order."""
        return tuple(dict.fromkeys(passage_id for step in self.steps for passage_id in step.passages))

    @property
    def first_passages(self) -> tuple[str, ...]:
        """Ids of the passages of the first call that returned any."""
        return next((step.passages for step in self.steps if step.passages), ())

    @property
    def last_passages(self) -> tuple[str, ...]:
        """Ids of the passages of the last call that returned any."""
        return next((step.passages for step in reversed(self.steps) if step.passages), ())


@dataclass(frozen=True, slots=True)
class Response:
    """A model's answer to one task, with the passages that the model received."""

    task: Task
    passages: tuple[Passage, ...]
    """Passages in the prompt, in order. For a searching model or a RAG system, the passages that it retrieved."""
    text: str
    """The answer, without thinking text and surrounding blanks."""
    no_answer: str = ""
    """Reason for a failed request, which leaves the response unscored; empty for an answer, even an empty answer."""
    verbatim: str | None = None
    """The answer with its surrounding blanks, or None if it had none. Official judge prompts contain this form."""
    trajectory: Trajectory | None = None
    """Searches before the answer; None if the model could not search."""

    @property
    def as_given(self) -> str:
        """The answer with its surrounding blanks."""
        return self.text if self.verbatim is None else self.verbatim


@dataclass(frozen=True, slots=True)
class Score:
    """One score of one response."""

    value: float | None
    """The score. None means unscored, which never counts as zero."""
    reason: str = ""
    """Reason for a missing value; empty if there is a value."""


@dataclass(frozen=True, slots=True)
class Qrel:
    """One relevance judgement."""

    query_id: str
    passage_id: str
    relevance: int
    """0 is not relevant; 1 and above is relevant. Graded judgements go up to 3 or 4."""


@dataclass(frozen=True, slots=True)
class Contexts:
    """Passages for each task of a setting, with the name of the retrieval run that they come from."""

    run: str
    """`official`, or the name of a run of the precompute stage."""
    setting: Setting
    passages: dict[str, tuple[Passage, ...]] = field(default_factory=dict)
    """Task id -> passages in prompt order."""


class Importance(str, Enum):
    """Importance of a nugget for an answer."""

    VITAL = "vital"
    """A good answer must state it."""
    OKAY = "okay"
    """A good answer may state it."""


class Grade(str, Enum):
    """Degree to which an answer states a nugget."""

    SUPPORT = "support"
    """Completely."""
    PARTIAL_SUPPORT = "partial_support"
    """Partly."""
    NOT_SUPPORT = "not_support"
    """Not at all."""


@dataclass(frozen=True, slots=True)
class Nugget:
    """One statement that an answer should contain."""

    text: str
    """The statement, in a few words."""
    importance: Importance
    sub_narrative: str = ""
    """The part of a narrative that the nugget belongs to; empty in files before 2025."""


class Support(str, Enum):
    """Degree to which a cited passage supports a sentence."""

    FULL = "full"
    """Completely."""
    PARTIAL = "partial"
    """Partly."""
    NO = "no"
    """Not at all, or the passage contradicts the sentence."""


# Task and query ids, which no other module parses.
#
# A task id joins a conversation id and a turn number. MTRAG's task files and qrels use the separator `<::>`, its sample
# submissions `::`. ragtasks writes `<::>`.

SEPARATOR = "<::>"
_TASK_ID = re.compile(r"(?P<conversation>.+?)(?:<::>|::)(?P<turn>[0-9]+)", re.DOTALL)


def task_id(conversation_id: str, turn: int) -> str:
    """Return the id of the task that ends at user turn `turn` (counted from 1) of a conversation."""
    return f"{conversation_id}{SEPARATOR}{turn}"


def split_task_id(text: str) -> tuple[str, int]:
    """Return (conversation id, turn) of a task or query id with either separator.

    Raises:
        ValueError: if `text` is not a task id.
    """
    match = _TASK_ID.fullmatch(text)
    if match is None or int(match["turn"]) < 1:
        raise ValueError(f"not a task id (expected <conversation>{SEPARATOR}<turn from 1>): {text!r}")
    return match["conversation"], int(match["turn"])


def normalise_task_id(text: str) -> str:
    """Return a task id with the separator `<::>`."""
    return task_id(*split_task_id(text))


_REMOVED = str.maketrans("", "", " \n")


def compact(text: str) -> str:
    """Return a text without spaces and line breaks, for comparing texts."""
    return text.translate(_REMOVED)
