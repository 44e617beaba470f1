"""What went wrong in one turn: one kind with its reason, from labels and from what the words alone tell.

No judge is asked. A kind is a diagnosis to open an answer by, never a score to rank systems by: the words of a right
answer may be all others than the reference's. How often each kind is right stands in docs/grounding.md.
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
    """Kinds, in the order in which they are looked for: the first that holds is the turn's."""

    says: str
    """What the answer does, in a few words."""
    meaning: str
    """When a turn is of the kind."""

    def __new__(cls, value: str, says: str, meaning: str) -> TurnErrorKind:
        """Make a kind of its name, and of what stands in tables and legends."""
        kind = str.__new__(cls, value)
        kind._value_, kind.says, kind.meaning = value, says, meaning
        return kind

    BROKEN = "broken", "is broken", "empty, an error's text, garbled, or wrapped in what is no answer"
    WRONG_LANGUAGE = "wrong_language", "is in another language", "the user writes in another one"
    REFUSED_KNOWN = (
        "refused_known",
        "refuses what is there",
        "it refuses although a reference passage was shown, and all can be answered",
    )
    MISSED = (
        "missed",
        "retrieval missed it",
        "no reference passage was shown, and the answer has less than two thirds of the reference answer's words",
    )
    ANSWERED_UNKNOWN = "answered_unknown", "answers what is not there", "the passages have no answer, and it gives one"
    CUT_OFF = "cut_off", "is cut off", "it breaks off in the middle of a sentence"
    ASKED_BACK = "asked_back", "asks back needlessly", "it only asks the user, and the question can be answered"
    REPEATED = (
        "repeated",
        "repeats an earlier answer",
        "most of its words are in earlier answers, and few of the reference answer's",
    )
    INVENTED = (
        "invented",
        "invents",
        "a third of its words, three fifths of a short answer's, or a number are in no passage and no turn",
    )


TURN_ERROR_METRICS = tuple(
    Metric(kind.value, f"share of turns: {kind.says}", higher_is_better=False) for kind in TurnErrorKind
)
"""One a kind: 1 for a turn of this kind, 0 for any other; what went wrong, by its share."""
TURN_ERROR_NAMES = frozenset(metric.name for metric in TURN_ERROR_METRICS)


@dataclass(frozen=True, slots=True)
class TurnError:
    """What went wrong in a turn."""

    kind: TurnErrorKind
    reason: str
    """What shows it, in a few words."""


def turn_error(
    response: Response, idk: IdkVerdict | None = None, implausible: Mapping[str, str] | None = None
) -> TurnError | None:
    """Return what went wrong with a response; None where nothing is seen, or no answer came at all.

    Args:
        response: what was asked, shown and answered.
        idk: whether it says that it does not know; None leaves out the kinds that need to know it.
        implausible: check -> what it shows, as the plausibility checks note it.
    """
    if response.no_answer:
        return None
    turn = _Turn(response, idk, implausible or {})
    is_answer = idk is not IdkVerdict.YES and response.task.answerability is not Answerability.CONVERSATIONAL
    for kind in TurnErrorKind:
        if reason := _LOOKS[kind](turn):
            return TurnError(kind, reason)
        if kind is TurnErrorKind.ANSWERED_UNKNOWN and not is_answer:
            return None  # a refusal or small talk: its use of the passages is not examined
    return None


_BROKEN = ("empty", "emptied", "error", "tool_call", "wrapped", "looping", "running_on", "garbled", "echo")
_HAVE_ANSWERS = frozenset({Answerability.ANSWERABLE, Answerability.PARTIAL})
# Shares of words, of which function words are a part that most texts have in common.
_FITS = 0.67  # of the reference's words, in the answer: it says much the same
_MUCH_OF_IT = 0.58  # of the answer's words, in the reference answer
_HELD = 0.68  # of the answer's words, in passages and conversation
_HELD_OF_SHORT = 0.4
_AGAIN = 0.85  # of the answer's words, in earlier answers
_MORE_THAN_TARGET = 0.2  # than of the reference answer's
_LEAST_WORDS = 8
_MOST_NAMED = 5
_SHORT_QUESTION = 40
_LONG = 25  # with fewer words the share of an answer in its own words is chance
_ASKS = re.compile(
    r"\b(?:could|can|would) you (?:please )?(?:clarify|elaborate|give|provide|rephrase|share|specify|tell)\b[^?]*\?",
    re.IGNORECASE,
)


class _Turn:
    """A response with what its words tell, each computed where a kind needs it."""

    def __init__(self, response: Response, idk: IdkVerdict | None, implausible: Mapping[str, str]) -> None:
        self.response, self.task, self.idk, self.implausible = response, response.task, idk, implausible
        self.can_be_answered = self.task.answerability in _HAVE_ANSWERS
        self.shown = {passage.passage_id for passage in response.passages}
        self.references = {passage.passage_id for passage in self.task.references}

    @cached_property
    def words(self) -> int:
        return len(self.response.text.split())

    @cached_property
    def recall(self) -> float:
        """Share of the reference answer's content that it has, for the label that it fits best."""
        answers = [variant.target for variant in self.task.variants if variant.answerability in _HAVE_ANSWERS]
        return max((share_in(answer, self.response.text) for answer in answers), default=0.0)

    @cached_property
    def precision(self) -> float:
        """Share of its content that the reference answer has."""
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
    """Look for a refusal of what can be answered in full: where a part can, the reference answer refuses too."""
    is_whole = turn.task.answerability is Answerability.ANSWERABLE
    if not is_whole or turn.idk is not IdkVerdict.YES or not turn.references & turn.shown or turn.recall >= _FITS:
        return ""
    return f"{len(turn.references & turn.shown)} of {len(turn.references)} reference passages were shown"


def _missed(turn: _Turn) -> str:
    if not turn.can_be_answered or not turn.references or turn.references & turn.shown:
        return ""
    if turn.idk is IdkVerdict.YES:
        effect = "it refuses"
    elif turn.recall < _FITS:
        effect = f"it has {turn.recall:.0%} of the reference answer's words"
    else:
        return ""
    return f"none of {len(turn.references)} reference passages was shown; {effect}"


def _answered_unknown(turn: _Turn) -> str:
    is_unknown = turn.task.answerability is Answerability.UNANSWERABLE
    if not is_unknown or turn.idk is not IdkVerdict.NO or _asks_alone(turn):
        return ""
    return "no refusal in it"


def _asks_alone(turn: _Turn) -> bool:
    """Return whether it is a question to the user, and says nothing else; offers of help may go on behind one."""
    text = turn.response.text.rstrip().rstrip("\"'*_)")
    is_question = text.endswith(("?", "\uff1f")) and turn.words <= _SHORT_QUESTION
    asks = is_question or (turn.words <= 2 * _SHORT_QUESTION and _asks_more_than_it_says(text))
    return asks and turn.precision < _FITS


def _asks_more_than_it_says(text: str) -> bool:
    found = _ASKS.search(text)
    return found is not None and len(text) <= 2 * len(found[0])


def _asks_back(turn: _Turn) -> str:
    return "it is a question to the user" if turn.can_be_answered and _asks_alone(turn) else ""


def _repeated(turn: _Turn) -> str:
    """Look for what earlier answers have together, in runs or in other words, where the reference answer is another."""
    messages = pairwise(turn.task.messages)
    answers = [two.text for one, two in messages if (one.role, two.role) == (Role.USER, Role.ASSISTANT)]
    if turn.words < _LEAST_WORDS or not answers or (least := max(_AGAIN, turn.recall + _MORE_THAN_TARGET)) > 1:
        return ""
    again = share_in(turn.response.text, *answers)
    if turn.precision >= _MUCH_OF_IT and (copied(turn.response.text, answers) or 0.0) < _AGAIN:
        return ""  # much of the reference answer in words of its own, which earlier answers have as well
    if again < least or again < (target := share_in(turn.task.target, *answers)) + _MORE_THAN_TARGET:
        return ""
    return f"{again:.0%} of its words stand in earlier answers, of the reference answer's {target:.0%}"


def _invented(turn: _Turn) -> str:
    """Look for an answer that claims, and of which little stands anywhere; or for a number that stands nowhere."""
    if turn.idk is not IdkVerdict.NO or not turn.shown or turn.recall >= _FITS:
        return ""
    answer = GroundedAnswer(turn.response.text, turn.response.passages, turn.task.messages)
    share = answer.share_with_conversation
    if share is None or answer.is_held(_HELD):
        return ""
    numbers = [
        number
        for number in answer.numbers_not_found()
        if sum(map(str.isdigit, number)) > 1 and number not in turn.task.target
    ]
    if numbers:
        return f"numbers that stand nowhere: {', '.join(numbers[:_MOST_NAMED])}"
    least = _HELD if turn.words >= _LONG else _HELD_OF_SHORT
    if turn.words < _LEAST_WORDS or share >= least or turn.precision >= _FITS:
        return ""
    words = list(dict.fromkeys(answer.words_not_found()))
    return f"{1 - share:.0%} of its words stand nowhere: {', '.join(words[:_MOST_NAMED])}"


_LOOKS: Mapping[TurnErrorKind, Callable[[_Turn], str]] = {
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
"""Kind -> what shows it in a turn, "" where it does not hold."""
