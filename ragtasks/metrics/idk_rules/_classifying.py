"""The verdict on a response: what is left of it once its refusals and its courtesy are taken away.

A response is cut into sentences, and these into clauses. A clause is a *refusal* (`_refusals.py`), a *filler*
(`is_filler`) or *substance*; a sentence whose clauses are no refusals may still be one by what was learned
(`_learned.py`). A response without a refusal is `no`. A refusal with hardly any substance beside it is `yes`; with an
answer, `partial`. The courtesy around a refusal that no rule knows is often new to the rules too: there, what stands
beside it has to read as an answer as well.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from ragtasks.metrics.idk_rules._clauses import (
    THE_PASSAGES,
    Clause,
    clauses_of,
    items_of,
    may_name_by_pronoun,
    may_name_source,
    names_source,
    plain_of,
    raw_sentences_of,
    sentences_of,
    written_out,
    yes_or_no,
)
from ragtasks.metrics.idk_rules._learned import (
    GAP,
    SIGNS,
    answer_probabilities,
    gap_probability,
    has_sign,
    is_idle,
    is_of_others,
    tokens_of,
)
from ragtasks.metrics.idk_rules._refusals import MISSING, may_refuse, refusal_in, refuses_alone
from ragtasks.metrics.idk_rules._vocabulary import ADVERBS, DO_NOT, SAY, SOURCE, all_words_of, words_of
from ragtasks.records import IdkVerdict

ANSWER_WORDS_BEFORE = 5
"""Words of substance before a refusal that make an answer: "The minimum age is 18. A maximum is not given."."""
ANSWER_WORDS_AFTER = 12
"""The same after a refusal, where a remark often follows ("Costs vary by region.") that answers nothing."""
LEAST_ANSWER = 0.5
"""What `Parts.weighted` has to come to where no rule found the refusal."""
LABEL_WORDS = 3
"""Words that "N/A" and the like may have beside them and still be all that is said."""

LEAST_ITEMS = 3

_CONTRACTED = frozenset({"t", "cannot", "cant", "dont"})
_RULED = _CONTRACTED.union(MISSING.split())
"""Words of which every refusal by the rules has one, before contractions are written out."""
_LEARNED = _CONTRACTED | SIGNS
"""The same of one by what was learned."""
_LACKING = _RULED | _LEARNED
_CONTRAST = re.compile(r".*?[,;:] (?=(?:but|however|although|though|yet|still)\b)")
_HARD = re.compile(r"\b(?:impossible|not possible|hard|difficult|no way)\b")
_GOES_ON = re.compile(r"(?:it|you|there|they|we|he|she|the|this|that|no|i|these)\b")
"""What a conclusion from what a source leaves out opens with; a new subject ("so a lawyer may help") is none."""
_SAYS_NOT = re.compile(rf"\b{DO_NOT}{SAY}")
_SPEAKER = re.compile(r"\b(?:i|my|me)\b(?!.*\baware$)")
"""Who answers, and lacks what an answer needs; "Probably not, I am not aware of any" has its answer."""
_NO_SUBJECT = re.compile(r"(?:can|could|do|does|did) ")
_OPEN = re.compile(
    rf"it (?:is|was|remains) {ADVERBS}"
    rf"(?:unclear|uncertain|unknown|disputed|debated|not {ADVERBS}(?:clear|certain|known))"
    r" (?:if|whether|who|what|when|where|why|how|which)\b"
)
_OF_SOURCE = (*THE_PASSAGES.split(), "say")
"""Words that a clause may have and its sentence not, where a source was named before."""
_MARKS = "-\u2022\u2013 "
_LATIN = re.compile(r"[A-Za-z]")
_WORD = re.compile(r"\w[\w'-]*")


@dataclass(slots=True)
class Parts:
    """What a response is made of."""

    refusals: list[str] = field(default_factory=list)
    """The phrases that say that information is missing, in order."""
    open_question: bool = True
    """Whether each only says that nobody knows, and names neither source nor speaker: "It is unclear who won"."""
    by_rule: bool = False
    """Whether a rule found one of them."""
    alone: str = ""
    """A phrase that says so only where it stands alone; empty for none."""
    n_before: int = 0
    """Words of substance before the first refusal."""
    n_after: int = 0
    """Words of substance after it."""
    weighted: float = 0.0
    """The words of both kinds as shares of an answer, each by the probability that its sentence gives one; 1 where a
    rule found the refusal, as nothing is decided by it there."""

    @property
    def answers(self) -> bool:
        """Whether there is an answer beside the refusal."""
        share = self.n_before / ANSWER_WORDS_BEFORE + self.n_after / ANSWER_WORDS_AFTER
        return share >= 1 and (self.by_rule or self.weighted >= LEAST_ANSWER)


def classify(text: str) -> tuple[IdkVerdict | None, str]:
    """Return (verdict, reason) of a response, from its text alone.

    The reason of `yes` and `partial` is the first phrase that says that information is missing. Text without a
    letter of the Latin script cannot be read by these rules: its verdict is None. Empty text is `no`.
    """
    if told := unreadable(text):
        return told
    parts = parts_of(text)
    if parts.refusals and parts.open_question and parts.n_before + parts.n_after >= ANSWER_WORDS_BEFORE:
        return IdkVerdict.NO, f"an open question of the world beside an answer: {parts.refusals[0]}"
    if parts.refusals:
        return (IdkVerdict.PARTIAL if parts.answers else IdkVerdict.YES), parts.refusals[0]
    if parts.alone and parts.n_before <= LABEL_WORDS:
        return IdkVerdict.YES, parts.alone
    return IdkVerdict.NO, "no phrase that says that information is missing"


def unreadable(text: str) -> tuple[IdkVerdict | None, str] | None:
    """Return (verdict, reason) of text that is not read, as it is empty or not English; None for other text."""
    if not text.strip():
        return IdkVerdict.NO, "empty response; an empty answer is no refusal"
    if not _LATIN.search(text) and any(character.isalpha() for character in text):
        return None, "English alone is read, and the response has no Latin letter"
    return None


def lacks_nothing(text: str) -> tuple[IdkVerdict, str] | None:
    """Return (verdict, reason) of text without a negation, a word such as "unclear" or a refusal that a rule lists."""
    sentences = sentences_of(text)
    if any(has_sign(tokens_of(sentence)) for sentence in sentences) or any(refuses_by_rule(sentences)):
        return None
    return IdkVerdict.NO, "no word that says that anything is missing"


class _Reading:
    """The sentences of a response, each read when it is needed: most have no word that any refusal has."""

    def __init__(self, raw_sentences: Sequence[str]) -> None:
        self._raw = raw_sentences
        self._sentences: dict[int, str] = {}
        self._clauses: dict[int, list[Clause]] = {}
        self._n_looked_at, self._first_named = 0, len(raw_sentences)
        self._openings: dict[int, str | None] = {}

    def sentence(self, place: int) -> str:
        """Return a sentence as of `sentences_of`."""
        if place not in self._sentences:
            self._sentences[place] = written_out(self._raw[place])
        return self._sentences[place]

    def clauses(self, place: int) -> list[Clause]:
        """Return the clauses of a sentence."""
        if place not in self._clauses:
            self._clauses[place] = clauses_of(
                self.sentence(place),
                is_named_before=lambda: self._is_named_before(place),
                is_reply=self.is_reply(place),
            )
        return self._clauses[place]

    def is_reply(self, place: int) -> bool:
        """Return whether a sentence opens with "yes" or "no", or the one before is that alone."""
        return bool(self._opening(place)) or (place > 0 and self._opening(place - 1) == "alone")

    def _opening(self, place: int) -> str | None:
        if place not in self._openings:
            self._openings[place] = yes_or_no(self.sentence(place))
        return self._openings[place]

    def refuses(self, place: int) -> bool:
        """Return whether a clause of a sentence is a refusal by the rules."""
        words = words_of(self.sentence(place))
        if may_refuse(words) or (
            may_name_by_pronoun(words) and may_refuse(words + _OF_SOURCE) and self._is_named_before(place)
        ):
            return any(map(_refuses, self.clauses(place)))
        return False

    def has_gap(self, place: int) -> bool:
        """Return whether a sentence says that information is missing, by what was learned."""
        sentence = self.sentence(place)
        return gap_probability(_beyond_reply(sentence) if self.is_reply(place) else sentence) >= GAP

    def _is_named_before(self, place: int) -> bool:
        while self._n_looked_at < min(place, self._first_named):
            if may_name_source(self._raw[self._n_looked_at]) and names_source(self.sentence(self._n_looked_at)):
                self._first_named = self._n_looked_at
            self._n_looked_at += 1
        return self._first_named < place


def parts_of(text: str) -> Parts:
    """Return what a response is made of; empty parts where nothing refuses."""
    parts, plain = Parts(), plain_of(text)
    lacking = _LACKING.intersection(all_words_of(plain.lower()))
    if not lacking:
        return parts
    raw = raw_sentences_of(plain)
    reading = _Reading(raw)
    near = {place for word in lacking for place, sentence in enumerate(raw) if word in sentence}
    words = [words_of(sentence) if place in near else () for place, sentence in enumerate(raw)]
    by_rule = [not _RULED.isdisjoint(of_one) and reading.refuses(place) for place, of_one in enumerate(words)]
    gaps = [
        rule or (not _LEARNED.isdisjoint(of_one) and reading.has_gap(place))
        for place, (rule, of_one) in enumerate(zip(by_rule, words, strict=True))
    ]
    if any(gaps):
        for place in _facts_in_list(raw, gaps, items_of(text)):
            by_rule[place] = gaps[place] = False
    if not any(gaps):
        return parts
    parts.by_rule = any(by_rule)
    places = range(len(raw))
    answers = [1.0] * len(raw) if parts.by_rule else answer_probabilities(list(map(reading.sentence, places)), gaps)
    for place, rule, gap, answer in zip(places, by_rule, gaps, answers, strict=True):
        if gap and not rule:
            parts.refusals.append(reading.sentence(place))
            parts.open_question &= _is_open(reading.sentence(place))
        else:
            _add_sentence(reading.clauses(place), answer, parts)
    return parts


def _facts_in_list(raw: Sequence[str], gaps: Sequence[bool], items: Collection[str]) -> list[int]:
    """Return the places of items that are one fact of a list: "- No pets", "- No information to the press".

    Most items of such a list lack nothing, and nothing in the response names source or speaker.
    """
    places = [place for place, sentence in enumerate(raw) if sentence.lstrip(_MARKS) in items]
    found = [place for place in places if gaps[place]]
    by_name = any(names_source(sentence) or _SPEAKER.search(sentence) for sentence in raw)
    if by_name or len(places) < LEAST_ITEMS or 2 * len(found) > len(places):
        return []
    return [place for place in found if raw[place].lstrip(_MARKS).startswith("no ") and ":" not in raw[place]]


def refuses_by_rule(sentences: Sequence[str]) -> list[bool]:
    """Return whether a clause of each sentence of a response is a refusal by the rules alone."""
    reading = _Reading(sentences)
    return [reading.refuses(place) for place in range(len(sentences))]


def _beyond_reply(sentence: str) -> str:
    """Return what a sentence says beyond its reply: "No, it is not, but the pages do not say why"."""
    return _CONTRAST.sub("", sentence) if _CONTRAST.match(sentence) else ""


def _refuses(clause: Clause) -> bool:
    return _refusal_of(clause) is not None or _is_whole(clause)


def _refusal_of(clause: Clause) -> str | None:
    phrase = refusal_in(clause.text, is_grounded=clause.is_grounded)
    if phrase is None or is_idle(tokens_of(clause.text)):
        return None
    if _is_by_name(phrase, clause):
        return phrase
    said = clause.sentence if _NO_SUBJECT.match(clause.text) else clause.text
    return None if clause.is_reply or is_of_others(tokens_of(said)) else phrase


def _is_by_name(phrase: str, clause: Clause) -> bool:
    """Return whether a refusal names who lacks the information: the speaker, or what was retrieved."""
    return clause.is_grounded or _SPEAKER.search(phrase) is not None or names_source(clause.text)


def _is_whole(clause: Clause) -> bool:
    return refuses_alone(clause.text) and not clause.is_reply


def _add_sentence(clauses: list[Clause], answer: float, parts: Parts) -> None:
    before, after = parts.n_before, parts.n_after
    _add(clauses, parts)
    share = (parts.n_before - before) / ANSWER_WORDS_BEFORE + (parts.n_after - after) / ANSWER_WORDS_AFTER
    parts.weighted += share * answer


def _add(clauses: list[Clause], parts: Parts) -> None:
    was_refusal, of_world = False, False
    phrases = [_refusal_of(clause) for clause in clauses]
    for place, (clause, phrase) in enumerate(zip(clauses, phrases, strict=True)):
        if phrase is None and _is_reason(clause, clauses[place + 1 : place + 2], phrases[place + 1 : place + 2]):
            continue  # the reason of the refusal: "our book does not tell us, so I do not know"
        if phrase is None and _is_whole(clause):
            parts.alone = parts.alone or clause.text
        elif phrase is None and len(clauses) > 1 and gap_probability(clause.text) >= GAP:
            continue
        elif phrase is None and not clause.is_question and not is_filler(clause.text):
            is_argument = clause.is_conclusion and (of_world or _GOES_ON.match(clause.text))
            is_precise = of_world and _HARD.search(parts.refusals[-1]) and _n_words(clause.text) >= ANSWER_WORDS_BEFORE
            if was_refusal and (is_argument or is_precise):
                # "The document does not mention a fee, so it is free": the silence is an argument of the answer.
                # "It is impossible to say how long it lasts; on average it takes an hour": it qualifies the answer.
                _count(parts.refusals.pop(), parts)
            _count(clause.text, parts)
        elif phrase is not None:
            parts.refusals.append(phrase)
            parts.open_question &= _is_open(clause.text) and not clause.is_grounded
        was_refusal = phrase is not None
        of_world = phrase is not None and not _is_by_name(phrase, clause)


def _is_reason(clause: Clause, conclusions: Sequence[Clause], phrases: Sequence[str | None]) -> bool:
    """Return whether a clause is but why the speaker refuses in the next one."""
    if not any(phrase and _SPEAKER.search(phrase) for phrase in phrases):
        return False
    return _SAYS_NOT.search(clause.text) is not None or (conclusions[0].is_conclusion and names_source(clause.text))


def _is_open(text: str) -> bool:
    return _OPEN.match(text) is not None and not names_source(text) and not _SPEAKER.search(text)


def _n_words(text: str) -> int:
    return len(_WORD.findall(text))


def _count(text: str, parts: Parts) -> None:
    n_words = _n_words(text)
    if parts.refusals:
        parts.n_after += n_words
    else:
        parts.n_before += n_words


# What stands beside a refusal or an answer and is neither: courtesy, offers, requests, where to look instead.

_ELSEWHERE = (
    r"(?:check|consult|contact|visit|refer|ask|look|search|reach|speak|talk|seek|review|verify|browse|google|try|call"
    r"|see|explore?|find (?:more|further|this|that|out)|get in touch|need)(?:ing)?\b"
)
_MORE = (
    r"(?:any|more|other|further|additional|another|specific|different|questions?|a (?:specific|different|question))\b"
)
_TO_ANSWER = (
    r"(?:to|in order to) (?:[a-z]+ly )?(?:answer|provide|give|determine|offer|find|get|address|confirm|make|fully"
    r"|respond|help|assist)\b"
)
_SHOULD = (
    r"(?:may|might|can|could|should|would|will|need to)"
    r"(?: (?:\w+ly|also|always|want|wish|like|need|try|consider|have|be|better off))*(?: to)?"
)
_FILLER = re.compile(
    "|".join(
        (
            # Courtesy.
            r"(?:i am |we are )?(?:\w+ )?sorry\b|i (?:do )?apologi[sz]e|(?:my )?apologies|unfortunately\W*$",
            r"i am (?:\w+ )?(?:happy|glad) to\b|(?:glad|happy) to\b|you are welcome|thanks?\b(?! to\b)"
            r"|good luck|goodbye",
            r"(?:that is a )?(?:good|great|fair) question|as an? (?:ai|language model)\b",
            # Offers.
            r"(?:i am|we are) (?:afraid|here)\b|i (?:only )?(?:hope|understand|see|need|wish|regret)\b",
            r"(?:i|we) (?:can|could|would|will|may) (?:\w+ )?"
            r"(?:be (?:happy|glad|able)|help|assist|try|do my best|direct|rather|love)\b",
            # Requests.
            r"(?:i|we) would (?:\w+ )?(?:need|have to|require)\b|(?:provide|clarify|rephrase|share|specify|give me"
            r"|tell me)\b",
            r"(?:feel free|let me know|do not hesitate|just ask|(?:could|can|would|do|did) you|is there anything)\b",
            rf"{_TO_ANSWER}.{{0,160}}\bneed(?:ed)?\b",
            rf"{_MORE}.{{0,60}}\b(?:would be|is|are) (?:needed|required|necessary|helpful)\b",
            r"if you (?:have|need|want|would like|are (?:looking|asking|referring)|require) (?:to |for |about )?"
            rf"{_MORE}",
            r"if (?:you (?:can|could|would|have|provide|share|let|give|tell|meant?|are)\b.*"
            r"\b(?:i|we) (?:can|could|would|will|may)|.*\b(?:let me know|feel free|do not hesitate|please))\b",
            # Where to look instead.
            r"(?!.*\b(?:i|we) )[^,]{0,60}\b(?:may|might|can|could|should|will|would) (?:\w+ )?(?:be able to )?"
            r"(?:help|assist|advise|answer|tell) (?:you|this|that|your)\b",
            rf"(?:consider )?{_ELSEWHERE}|(?:you|users?|one|your best (?:bet|option)) {_SHOULD} {_ELSEWHERE}",
            rf"(?:i|we) (?:would |can )?(?:\w+ly )?(?:recommend|suggest|advise|encourage)(?: that)?(?: you)?(?: to)?"
            rf" {_ELSEWHERE}",
            rf"it (?:is|would be|may be|might be) (?:\w+ )?(?:best|recommended|advisable|helpful|better|worth"
            rf"|good)\b.{{0,30}}"
            rf"\b{_ELSEWHERE}",
            rf"for (?:the )?(?:most )?(?:{_MORE}|accurate|detailed|up-to-date|latest|precise|personali[sz]ed|current)"
            r"(?: and [\w-]+)? (?:[\w-]+ ){0,3}?"
            r"(?:information|details?|help|advice|guidance|answers?|assistance|support|questions?|pricing)\b",
            # What was asked and what was done about it.
            r"(?:the|your) question (?:asks?|is|was) (?:about|for|whether|who|what|which|how|why|when|where)\b",
            r"(?:regarding|concerning|as for|as to|about) [^,]*$",
            r"you (?:are asking|asked|want to know)\b|i am not (?:\w+ )?(?:sure|certain) (?:what|which|who|how)\b"
            r".*\byou\b",
            r"i (?:have )?(?:\w+ )?(?:search|look|review|check|read|went|examin)(?:ed)?\b|i am limited to"
            r"|i can only answer",
        )
    )
)
# That a source is about something else says no more than that it lacks what was asked.
_DESCRIPTION = re.compile(
    rf"{SOURCE} {ADVERBS}(?:(?:only|mainly|primarily|mostly|instead) \w+"
    r"|(?:discuss|focus|deal|concentrate|talk|cover|center|centre|pertain|relate|concern|speak|revolve)(?:es|s|ed)?\b"
    r"|(?:is|are) (?:\w+ )?(?:about|on|related|focused|concerned)\b|appears? to be\b|provides? background\b"
    r"|(?:describe|mention|refer|give|provide|contain|offer|address)s?(?: to)?\b(?! that\b)"
    r"(?=.*\b(?:(?:instead|general|other|not)\b|(?:only|alone)$)))"
)


def is_filler(clause: str) -> bool:
    """Return whether a clause (`clauses.Clause.text`) neither refuses nor answers."""
    return _DESCRIPTION.match(clause) is not None or _FILLER.match(clause) is not None
