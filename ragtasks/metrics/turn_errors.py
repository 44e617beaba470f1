"""What went wrong in one turn: one kind with its reason, from labels and from what the words alone tell.

No judge is asked. A kind is a diagnosis to open an answer by, never a score to rank systems by: the words of a right
answer may be all others than the reference's. How often each kind is right stands in docs/grounding.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import pairwise

from ragtasks.metrics._metric import Metric
from ragtasks.metrics.grounding import Resting, copied, grounded, share_in
from ragtasks.records import Answerability, IdkVerdict, Response, Role


class TurnErrorKind(str, Enum):
    """Kinds, in the order in which they are looked for: the first that holds is the turn's."""

    says: str
    """What the answer does, in a few words."""
    meaning: str
    """When a turn is of the kind."""
    is_possible: bool
    """Whether it is right less than half of the time, or too rare to say (docs/grounding.md)."""

    def __new__(cls, value: str, says: str, meaning: str, is_possible: bool = False) -> TurnErrorKind:
        """Make a kind of its name, and of what stands in tables and legends."""
        kind = str.__new__(cls, value)
        kind._value_, kind.meaning, kind.is_possible = value, meaning, is_possible
        kind.says = f"possibly {says}" if is_possible else says
        return kind

    BROKEN = "broken", "is broken", "empty, an error's text, garbled, or wrapped in what is no answer"
    WRONG_LANGUAGE = "wrong_language", "is in another language", "the user writes in another one"
    REFUSED_KNOWN = (
        "refused_known",
        "refuses what is there",
        "it refuses although a reference passage was shown, and all can be answered",
    )
    MISSED = (
        *("missed", "retrieval missed it"),
        "no reference passage was shown, and the answer has less than two thirds of the reference answer's words",
    )
    ANSWERED_UNKNOWN = "answered_unknown", "answers what is not there", "the passages have no answer, and it gives one"
    CUT_OFF = "cut_off", "is cut off", "it breaks off in the middle of a sentence"
    ASKED_BACK = "asked_back", "asks back needlessly", "it only asks the user, and the question can be answered"
    REPEATED = (
        *("repeated", "repeats an earlier answer"),
        "most of its words are in earlier answers, and few of the reference answer's",
    )
    LOST_THREAD = (
        "lost_thread",
        "lost the thread",
        "it is one earlier answer in other words, and has next to nothing of the reference answer and its passages",
        True,
    )
    CONTRADICTED = (
        *("contradicted", "contradicts its passage"),
        "a sentence has a passage's words, and another number beside the same word",
        True,
    )
    INVENTED = (
        *("invented", "invents"),
        "a third of its words, three fifths of a short answer's, or a number are in no passage and no turn",
    )
    UNUSED = (
        *("unused", "found but not used"),
        "a reference passage was shown, and the answer has few of its words, and hardly any of the reference answer's",
        True,
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
    for kind in TurnErrorKind:
        if reason := _LOOKS[kind](turn):
            return TurnError(kind, reason)
        if kind is TurnErrorKind.ANSWERED_UNKNOWN and not turn.is_answer:
            return None  # a refusal: what it says of the passages is not looked at
    return None


_BROKEN = ("empty", "emptied", "error", "tool_call", "wrapped", "looping", "running_on", "garbled", "echo")
_HAVE_ANSWERS = frozenset({Answerability.ANSWERABLE, Answerability.PARTIAL})
# Shares of words, of which function words are a part that most texts have in common.
_FITS = 0.67  # of the reference's words, in the answer: it says much the same
_LITTLE = 0.27  # a right answer in other words has often no more than two fifths of the reference's
_LITTLE_OF_IT = 0.4  # of the answer's words, in the reference answer
_MUCH_OF_IT = 0.58
_IN_REFERENCES = 0.73  # of the answer's words, in the reference passages
_FEW_IN_REFERENCES = 0.56
_HELD = 0.68  # of the answer's words, in passages and conversation
_HELD_OF_SHORT = 0.4
_MOSTLY = 0.81  # of a sentence's
_CLOSE = 0.73
_HALF_CLOSE = 0.6  # of one text's words in the other: with fewer, few texts are as like as `_CLOSE`
_FAR = 0.34
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

    @property
    def is_answer(self) -> bool:
        """Whether it tries to answer a question that asks for something."""
        return self.idk is not IdkVerdict.YES and self.task.answerability is not Answerability.CONVERSATIONAL

    @cached_property
    def words(self) -> int:
        return len(self.response.text.split())

    @cached_property
    def resting(self) -> Resting:
        """What it rests on: passages, question, earlier turns."""
        return Resting(self.response.text, self.response.passages, self.task.messages)

    @cached_property
    def is_held(self) -> bool:
        """Whether it says what the reference answer says, or rests on passages and conversation: nothing is wrong."""
        return not self.shown or self.recall >= _FITS or self.resting.is_held(_HELD)

    @cached_property
    def wrong_numbers(self) -> dict[int, list[str]]:
        """Place of a sentence -> its numbers of two digits and more that stand nowhere, in the reference neither."""
        found: dict[int, list[str]] = {}
        if any(map(str.isdigit, self.response.text)):
            for place, number in self.resting.numbers_not_found():
                if sum(map(str.isdigit, number)) > 1 and number not in self.task.target:
                    found.setdefault(place, []).append(number)
        return found

    @cached_property
    def recall(self) -> float:
        """Share of the reference answer's content that it has, for the label that it fits best."""
        answers = [variant.target for variant in self.task.variants if variant.answerability in _HAVE_ANSWERS]
        return max((share_in(answer, self.response.text) for answer in answers), default=0.0)

    @cached_property
    def precision(self) -> float:
        """Share of its content that the reference answer has."""
        return max(share_in(self.response.text, variant.target) for variant in self.task.variants)

    @cached_property
    def in_references(self) -> float:
        """Share of its content that the reference passages that were shown have."""
        shown = [one for one in self.response.passages if one.passage_id in self.references]
        return grounded(self.response.text, shown) or 0.0

    @cached_property
    def earlier(self) -> list[tuple[str, str]]:
        """The earlier questions, each with its answer."""
        pairs = pairwise(self.task.messages)
        return [(one.text, two.text) for one, two in pairs if (one.role, two.role) == (Role.USER, Role.ASSISTANT)]


def _likeness(one: str, other: str) -> float:
    both = share_in(one, other), share_in(other, one)
    return 2 * both[0] * both[1] / sum(both) if sum(both) else 0.0


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
    says = "it refuses" if turn.idk is IdkVerdict.YES else "" if turn.recall >= _FITS else _says(turn)
    return f"none of {len(turn.references)} reference passages was shown; {says}" if says else ""


def _says(turn: _Turn) -> str:
    return f"it has {turn.recall:.0%} of the reference answer's words"


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
    if turn.words < _LEAST_WORDS or not turn.earlier or (least := max(_AGAIN, turn.recall + _MORE_THAN_TARGET)) > 1:
        return ""
    answers = [answer for _, answer in turn.earlier]
    again = share_in(turn.response.text, *answers)
    if turn.precision >= _MUCH_OF_IT and (copied(turn.response.text, answers) or 0.0) < _AGAIN:
        return ""  # much of the reference answer in words of its own, which earlier answers have as well
    if again < least or again < (target := share_in(turn.task.target, *answers)) + _MORE_THAN_TARGET:
        return ""
    return f"{again:.0%} of its words stand in earlier answers, of the reference answer's {target:.0%}"


def _lost_thread(turn: _Turn) -> str:
    """Look for an earlier answer that it is clearly more like than the reference answer of its own turn."""
    if turn.words < _LEAST_WORDS or not turn.can_be_answered:
        return ""
    text = turn.response.text
    close = [(n, answer) for n, (_, answer) in enumerate(turn.earlier, 1) if share_in(answer, text) >= _HALF_CLOSE]
    if not close or turn.in_references >= _IN_REFERENCES or (own := _likeness(text, turn.task.target)) >= _FAR:
        return ""
    best, number = max((_likeness(text, answer), n) for n, answer in close)
    if best < _CLOSE:
        return ""
    return f"like the answer of turn {number} ({best:.2f}) more than its own reference ({own:.2f})"


def _contradicted(turn: _Turn) -> str:
    """Look for a sentence with a passage's words and another number; negations decide nothing (docs/grounding.md)."""
    if turn.is_held:
        return ""
    for place, wrong in turn.wrong_numbers.items():
        sentence = turn.resting.sentence(place)
        if sentence.best is None or (sentence.share or 0.0) < _MOSTLY:
            continue
        span = sentence.best.span
        words = turn.response.passages[sentence.best.passage].text[span.start : span.end]
        if _beside_numbers(sentence.text, wrong) & _beside_numbers(words):
            return f"{', '.join(wrong[:_MOST_NAMED])}, where its passage says {_quoted(words)}"
    return ""


_NUMBER = re.compile(r"(?:([^\W\d_]{4,})\W{1,2})?(\d[\d.,]*)(?:\W{0,2}([^\W\d_]{4,}))?")


def _beside_numbers(text: str, only: Collection[str] = ()) -> set[str]:
    """Return the words before and behind numbers, as "before pages" and "behind pages"; short ones say nothing."""
    return {
        f"{side} {word.lower()}"
        for before, number, behind in _NUMBER.findall(text)
        if not only or number in only
        for side, word in (("before", before), ("behind", behind))
        if word
    }


def _invented(turn: _Turn) -> str:
    """Look for an answer that claims, and of which little stands anywhere; or for a number that stands nowhere."""
    if turn.idk is not IdkVerdict.NO or turn.is_held:
        return ""
    _, share = turn.resting.shares
    if share is None:
        return ""
    if wrong := [number for numbers in turn.wrong_numbers.values() for number in numbers]:
        return f"numbers that stand nowhere: {', '.join(wrong[:_MOST_NAMED])}"
    if (
        turn.words < _LEAST_WORDS
        or share >= (_HELD if turn.words >= _LONG else _HELD_OF_SHORT)
        or turn.precision >= _FITS
    ):
        return ""
    words = list(dict.fromkeys(turn.resting.words_not_found()))
    return f"{1 - share:.0%} of its words stand nowhere: {', '.join(words[:_MOST_NAMED])}"


def _unused(turn: _Turn) -> str:
    found = turn.references & turn.shown
    if not turn.can_be_answered or not found or turn.recall >= _LITTLE or turn.precision >= _LITTLE_OF_IT:
        return ""
    if turn.in_references >= _FEW_IN_REFERENCES:
        return ""
    return f"{len(found)} of {len(turn.references)} reference passages were shown; {_says(turn)}"


def _quoted(text: str) -> str:
    return f'"{" ".join(text.split())[:80]}"'


_LOOKS: Mapping[TurnErrorKind, Callable[[_Turn], str]] = {
    TurnErrorKind.BROKEN: _broken,
    TurnErrorKind.WRONG_LANGUAGE: _wrong_language,
    TurnErrorKind.REFUSED_KNOWN: _refused_known,
    TurnErrorKind.MISSED: _missed,
    TurnErrorKind.ANSWERED_UNKNOWN: _answered_unknown,
    TurnErrorKind.CUT_OFF: _cut_off,
    TurnErrorKind.ASKED_BACK: _asks_back,
    TurnErrorKind.REPEATED: _repeated,
    TurnErrorKind.LOST_THREAD: _lost_thread,
    TurnErrorKind.CONTRADICTED: _contradicted,
    TurnErrorKind.INVENTED: _invented,
    TurnErrorKind.UNUSED: _unused,
}
"""Kind -> what shows it in a turn, "" where it does not hold."""
