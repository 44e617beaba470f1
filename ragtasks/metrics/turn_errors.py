"""Errors of single turns, detected from labels and word overlap, without a judge.

A turn has one error at most. It is a reason to read the answer, not a score for ranking systems: a correct answer may
share few words with the reference. docs/background/turn-errors.md lists how often each kind is right, and how often it
is detected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import pairwise

from ragtasks.metrics._metric import Metric
from ragtasks.metrics.grounding import GroundedAnswer, copied, share_in
from ragtasks.records import Answerability, IdkVerdict, Response, Role


class TurnErrorKind(str, Enum):
    """Kinds of error in the order of detection: the first match is the error of the turn."""

    label: str
    """Name in tables and sentences."""
    meaning: str
    """Definition, for legends."""

    def __new__(cls, value: str, label: str, meaning: str) -> TurnErrorKind:
        """Create a kind with its label and definition."""
        kind = str.__new__(cls, value)
        kind._value_, kind.label, kind.meaning = value, label, meaning
        return kind

    BROKEN = "broken", "broken output", "empty, an error message, garbled text, or an answer wrapped in markup"
    WRONG_LANGUAGE = "wrong_language", "wrong language", "the answer is not in the user's language"
    REFUSED_KNOWN = (
        "refused_known",
        "false refusal",
        "the question is ANSWERABLE, a reference passage was shown, and the answer refuses",
    )
    MISSED = (
        "missed",
        "retrieval miss",
        "no reference passage was shown, and the answer refuses or has less than two thirds of the target's words",
    )
    ANSWERED_UNKNOWN = (
        "answered_unknown",
        "missing refusal",
        "the question is UNANSWERABLE, and the answer does not refuse",
    )
    CUT_OFF = "cut_off", "truncated answer", "the answer ends in the middle of a sentence"
    ASKED_BACK = (
        "asked_back",
        "needless clarification",
        "the answer is only a question, although the task has an answer",
    )
    REPEATED = (
        "repeated",
        "repeated answer",
        "most of its words are in earlier answers, and few of them in the target",
    )
    INVENTED = (
        "invented",
        "unsupported content",
        "a number, a third of its words, or three fifths of a short answer's, are in no passage and no message",
    )


TURN_ERROR_METRICS = tuple(
    Metric(kind.value, f"share of turns with the error: {kind.label}", higher_is_better=False) for kind in TurnErrorKind
)
"""A metric per kind: 1 for a turn with this error, 0 for any other; the mean is the share of turns."""
TURN_ERROR_NAMES = frozenset(metric.name for metric in TURN_ERROR_METRICS)


@dataclass(frozen=True, slots=True)
class TurnError:
    """The error of a turn."""

    kind: TurnErrorKind
    reason: str
    """The evidence, as a phrase."""


def turn_error(
    response: Response, idk: IdkVerdict | None = None, implausible: Mapping[str, str] | None = None
) -> TurnError | None:
    """Return the error of a turn; None if none was detected or the request failed.

    Args:
        response: the task, the passages shown and the answer.
        idk: verdict on whether the answer refuses; without it, kinds that depend on refusals are not detected.
        implausible: plausibility check -> evidence, from `ragtasks.scoring`.
    """
    if response.no_answer:
        return None
    turn = _Turn(response, idk, implausible or {})
    is_answer = idk is not IdkVerdict.YES and response.task.answerability is not Answerability.CONVERSATIONAL
    for kind in TurnErrorKind:
        if reason := _DETECTORS[kind](turn):
            return TurnError(kind, reason)
        if kind is TurnErrorKind.ANSWERED_UNKNOWN and not is_answer:
            return None  # refusals and small talk need no support from passages
    return None


_BROKEN = ("empty", "emptied", "error", "tool_call", "wrapped", "looping", "running_on", "garbled", "echo")
_HAVE_ANSWERS = frozenset({Answerability.ANSWERABLE, Answerability.PARTIAL})
# Shares of words. Function words, which most texts share, are included.
_CLOSE_TO_TARGET = 0.67  # of the target's words in the answer
_MOSTLY_TARGET = 0.58  # of the answer's words in the target
_SUPPORTED_SHARE = 0.68  # of the answer's words in passages and conversation
_SUPPORTED_SHARE_IF_SHORT = 0.4
_REPEATED_SHARE = 0.85  # of the answer's words in earlier answers
_MORE_THAN_TARGET = 0.2  # above the share of the target's words in earlier answers
_LEAST_WORDS = 8
_MOST_NAMED = 5
_SHORT_QUESTION = 40
_LONG = 25  # words; in a shorter answer, the share of new words varies too much
_ASKS = re.compile(
    r"\b(?:could|can|would) you (?:please )?(?:clarify|elaborate|give|provide|rephrase|share|specify|tell)\b[^?]*\?",
    re.IGNORECASE,
)


class _Turn:
    """A response with its word overlaps, computed on first use."""

    def __init__(self, response: Response, idk: IdkVerdict | None, implausible: Mapping[str, str]) -> None:
        self.response, self.task, self.idk, self.implausible = response, response.task, idk, implausible
        self.can_be_answered = self.task.answerability in _HAVE_ANSWERS
        self.shown = {passage.passage_id for passage in response.passages}
        self.references = {passage.passage_id for passage in self.task.references}

    @cached_property
    def n_words(self) -> int:
        return len(self.response.text.split())

    @cached_property
    def recall(self) -> float:
        """Largest share of a target's words in the answer, over the task's variants that have an answer."""
        answers = [variant.target for variant in self.task.variants if variant.answerability in _HAVE_ANSWERS]
        return max((share_in(answer, self.response.text) for answer in answers), default=0.0)

    @cached_property
    def precision(self) -> float:
        """Largest share of the answer's words in a target."""
        return max(share_in(self.response.text, variant.target) for variant in self.task.variants)


def _broken(turn: _Turn) -> str:
    if not any(map(str.isalnum, turn.response.text)):
        return "no text"
    return next((f"{name}: {turn.implausible[name]}" for name in _BROKEN if name in turn.implausible), "")


def _wrong_language(turn: _Turn) -> str:
    return turn.implausible.get("language", "")


def _cut_off(turn: _Turn) -> str:
    return turn.implausible.get("cut_off", "")


def _refused_known(turn: _Turn) -> str:
    """Detect a refusal of an ANSWERABLE question. The target of a PARTIAL one refuses too."""
    is_answerable = turn.task.answerability is Answerability.ANSWERABLE
    if (
        not is_answerable
        or turn.idk is not IdkVerdict.YES
        or not turn.references & turn.shown
        or turn.recall >= _CLOSE_TO_TARGET
    ):
        return ""
    return f"{len(turn.references & turn.shown)} of {len(turn.references)} reference passages were shown"


def _missed(turn: _Turn) -> str:
    if not turn.can_be_answered or not turn.references or turn.references & turn.shown:
        return ""
    if turn.idk is IdkVerdict.YES:
        effect = "the answer refuses"
    elif turn.recall < _CLOSE_TO_TARGET:
        effect = f"the answer has {turn.recall:.0%} of the target's words"
    else:
        return ""
    return f"none of {len(turn.references)} reference passages was shown; {effect}"


def _answered_unknown(turn: _Turn) -> str:
    is_unknown = turn.task.answerability is Answerability.UNANSWERABLE
    if not is_unknown or turn.idk is not IdkVerdict.NO or _asks_alone(turn):
        return ""
    return "the answer contains no refusal"


def _asks_alone(turn: _Turn) -> bool:
    """Return whether the answer only asks the user; an offer of help may follow the question."""
    text = turn.response.text.rstrip().rstrip("\"'*_)")
    is_question = text.endswith(("?", "\uff1f")) and turn.n_words <= _SHORT_QUESTION
    asks = is_question or (turn.n_words <= 2 * _SHORT_QUESTION and _is_mostly_question(text))
    return asks and turn.precision < _CLOSE_TO_TARGET


def _is_mostly_question(text: str) -> bool:
    question = _ASKS.search(text)
    return question is not None and len(text) <= 2 * len(question[0])


def _asks_back(turn: _Turn) -> str:
    return "the answer is a question to the user" if turn.can_be_answered and _asks_alone(turn) else ""


def _repeated(turn: _Turn) -> str:
    """Detect an answer that repeats earlier answers, verbatim or reworded, where the target differs from them."""
    messages = pairwise(turn.task.messages)
    answers = [reply.text for message, reply in messages if (message.role, reply.role) == (Role.USER, Role.ASSISTANT)]
    if (
        turn.n_words < _LEAST_WORDS
        or not answers
        or (least := max(_REPEATED_SHARE, turn.recall + _MORE_THAN_TARGET)) > 1
    ):
        return ""
    repeated_share = share_in(turn.response.text, *answers)
    if turn.precision >= _MOSTLY_TARGET and (copied(turn.response.text, answers) or 0.0) < _REPEATED_SHARE:
        return ""  # a reworded target that shares its words with earlier answers
    if repeated_share < least or repeated_share < (target := share_in(turn.task.target, *answers)) + _MORE_THAN_TARGET:
        return ""
    return f"{repeated_share:.0%} of its words are in earlier answers; of the target's, {target:.0%}"


def _invented(turn: _Turn) -> str:
    """Detect a number, or many words, that are in no passage and no message of the conversation."""
    if turn.idk is not IdkVerdict.NO or not turn.shown or turn.recall >= _CLOSE_TO_TARGET:
        return ""
    answer = GroundedAnswer(turn.response.text, turn.response.passages, turn.task.messages)
    share = answer.share_with_conversation
    if share is None or answer.is_supported(_SUPPORTED_SHARE):
        return ""
    numbers = [
        number
        for number in answer.numbers_not_found()
        if sum(map(str.isdigit, number)) > 1 and number not in turn.task.target
    ]
    if numbers:
        return f"unsupported numbers: {', '.join(numbers[:_MOST_NAMED])}"
    least = _SUPPORTED_SHARE if turn.n_words >= _LONG else _SUPPORTED_SHARE_IF_SHORT
    if turn.n_words < _LEAST_WORDS or share >= least or turn.precision >= _CLOSE_TO_TARGET:
        return ""
    words = list(dict.fromkeys(answer.words_not_found()))
    return f"{1 - share:.0%} of its words are unsupported: {', '.join(words[:_MOST_NAMED])}"


_DETECTORS: Mapping[TurnErrorKind, Callable[[_Turn], str]] = {
    TurnErrorKind.BROKEN: _broken,
    TurnErrorKind.WRONG_LANGUAGE: _wrong_language,
    TurnErrorKind.REFUSED_KNOWN: _refused_known,
    TurnErrorKind.MISSED: _missed,
    TurnErrorKind.ANSWERED_UNKNOWN: _answered_unknown,
    TurnErrorKind.CUT_OFF: _cut_off,
    TurnErrorKind.ASKED_BACK: _asks_back,
    TurnErrorKind.REPEATED: _repeated,
    TurnErrorKind.INVENTED: _invented,
}
"""Kind -> function that returns the evidence, or "" if the turn does not have the error."""
