"""Finds the clauses that refuse, by the patterns of the families."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache

from ragtasks.metrics.idk_rules._vocabulary import (
    ABOUT,
    ADVERBS,
    ANSWER,
    ATTRIBUTE,
    CAN_NOT,
    DO_NOT,
    FACTS,
    GAP,
    GIVEN,
    HOLD,
    IN_SOURCE,
    INFORMATION,
    IS,
    IS_NOT,
    KIND,
    KNOW,
    KNOWN,
    LACKED,
    PASSAGES,
    SAID,
    SAY,
    SOURCE,
    SOURCE_WORD,
    STRONG_SOURCE,
    STRONG_SUBJECT,
    SUBJECT,
    TOLD,
    words_in,
    words_of,
)

# The families of meaning in which a clause says that information is missing: who lacks what.
# Each family is a few patterns over a clause (`clauses.py`). What an answer may say is kept out by who the subject
# is: "the form does not ask for your income" is an answer, "the passages do not say" is none; and absence that is
# asserted of the world ("there is no evidence that ...", "there is no fee") is no absence of information.

_I = rf"\bi {ADVERBS}"
_WE = rf"\bwe {ADVERBS}"  # the writers of an answer, or mankind: fewer things are a refusal than for "i"
_QUESTION_WORD = r"(?:whether|if|which|what|who|how|when|where|why)"
_HARMLESS = r"(?:problem|doubt|choice|interest|issue|intention|trouble|objection|desire)"
_OWNED = r"(?:money|time|choice|option|right|heart|skills?|courage|same|best|least)"
_UNSAID = r"(?:unavailable|unspecified|unstated|undisclosed|unknown|unclear|lacking|missing)"
_UNCLEAR = rf"(?:unclear|unknown|not {ADVERBS}(?:clear|known))"
_ASKED = (
    r"(?:(?:^|, )(?:it|this|that|which of \w+|either)"
    r"|\b(?:the|this|that|your|my) (?:\w+ )?(?:question|query|inquiry|part|answer)(?: [^,;]{1,80})?"
    r"|\b(?:exact|specific|precise) [\w -]{1,40}?)"
)
_NO_MEANS = (
    r"(?! [^;]{0,150}\b(?:without|until|before|by(?! wh)|(?:just|only|alone) from|from (?:the|its|his|her|their)) "
    rf"(?![^;]{{0,150}}(?:{SOURCE_WORD}|\b{FACTS}\b)))"
)
"""Names no means of the world: "impossible to determine without a test" holds for everybody, not for who answers."""
_BEFORE = r"(?![^;]{0,80} (?:before|until|till|prior to) (?:the |about |around )?\d[\w-]*$)"
"""Names no time at its end: "no mention of it before 1871" dates the first one."""
_WITHHELD = (
    r"(?![^;]{0,80} (?:is|are|will be|can be|may be) (?:given|provided|released|disclosed|shared|passed on) "
    rf"(?:by|to|over|without|unless|until)\b(?! (?:me\b|us\b|{SOURCE})))"
)
"""Names nobody or no way to which information is refused: "no information on your file is given by telephone"."""
_PUZZLED = r"(?! why (?:people|anyone|anybody|everyone|everybody|they|you)\b)"
"""Wonders at people, and lacks nothing: "I have no idea why people hate this lens"."""
_TOPIC = r"(?:information|info|details?|specifics|answer|topic|question|subject|aspect)s?"
_THE = r"(?:(?:the|this|that|such|these|those|any|its|his|her|their) )?"


@dataclass(frozen=True, slots=True)
class Family:
    """One way to say that information is missing."""

    name: str
    """Who lacks what."""
    needs: str
    """A pattern of words, of which every clause of the family contains one: a quick first look."""
    patterns: tuple[str, ...]
    """The patterns of a refusal."""
    begins: str = ""
    """A pattern of words with one of which a clause of the family begins that has none of `needs`."""
    opening: str = ""
    """A pattern that all of `patterns` open with, or with a narrower one: a second look."""


FAMILIES = (
    Family(
        "the speaker lacks knowledge",
        "i|we|me|my|our|something",
        (
            rf"{_I}{DO_NOT}(?:have|possess) (?!(?:an? |any )?personal){LACKED}",
            rf"^i {DO_NOT}have (?:the|its|his|her|their) (?!{_OWNED})[\w'-]+\b(?! to\b)",
            rf"^(?:idk|i dunno|no idea|no clue)\b{_PUZZLED}|^(?!does){DO_NOT}(?:know|have {GAP}{INFORMATION}\b)",
            rf"{_I}(?:have|had|found|find|see|possess) (?:no(?! {_HARMLESS}\b)|limited|insufficient) {GAP}{FACTS}"
            rf"\b{_PUZZLED}",
            rf"{_I}(?:know|found|find|see|have) (?:nothing|little|too little)(?=$| (?:about|on|regarding|in|of)\b)",
            rf"{_I}lack {GAP}{FACTS}\b|{_I}am without (?:any )?{FACTS}\b|leaves? me (?:without|with no)\b",
            rf"{_I}(?!did not know\b){DO_NOT}(?:know(?! about you)|find(?! (?:it|that|this) )|recall)\b",
            rf"{_I}{DO_NOT}(?:see (?:anything (?:about|on|in)|(?:any|a) {GAP}{FACTS})|understand (?:what|why|enough"
            rf"|your|the question))\b",
            rf"{_I}(?:have|had|am|was) {ADVERBS}not {ADVERBS}(?:been )?(?:found|finding|seeing|given|provided|trained"
            rf"|shown)\b",
            rf"{_I}am {ADVERBS}not {ADVERBS}(?:sure|certain)(?=$|,| (?:{_QUESTION_WORD}|about|of|on|as to)\b)"
            r"(?! (?:what|which \w+|who|how) (?:you|is meant)\b)|^not sure\b(?! what you)",
            rf"{_I}am {ADVERBS}not {ADVERBS}(?:aware|familiar|knowledgeable|informed|privy)\b",
            r"\bi (?:(?:can|could|am) neither able|neither (?:have|know|found|find))\b",
            rf"\b(?:my|our) {GAP}(?:knowledge|training|data|expertise) (?:{DO_NOT}|is limited|ends)",
            rf"\bi would {ADVERBS}be (?:guessing|speculating)\b",
            rf"\bnot something (?:that )?(?:i (?:have|know)|{SOURCE} {SAY})",
            rf"{_WE}(?:{DO_NOT}have|have no|lack) {KIND}{INFORMATION}\b",
        ),
        begins="do|does|did|never|not|idk|no",
    ),
    Family(
        "the request can not be met",
        "i|we|be|answer|unanswerable|possible|impossible|feasible|answerable|way|hard|difficult",
        (
            rf"(?:{_I}|^){CAN_NOT}{ANSWER}",
            rf"{_I}(?:may|might|will|would) {ADVERBS}not be able to {ADVERBS}{ANSWER}",
            rf"(?:{_I}(?:am|was) {ADVERBS}|^)(?:unable|not {ADVERBS}(?:able|equipped"
            rf"|in a position)) to {ADVERBS}{ANSWER}",
            rf"{_WE}(?:{CAN_NOT}|(?:are|were) {ADVERBS}(?:unable|not {ADVERBS}able) to {ADVERBS})(?:answer|locate)\b",
            rf"{_WE}(?:could not|were {ADVERBS}(?:unable|not {ADVERBS}able) to) {ADVERBS}find (?!a way)",
            rf"{_ASKED} (?:can|could) {ADVERBS}(?:not|never) {ADVERBS}be {ADVERBS}{KNOWN}\b{_NO_MEANS}",
            rf"^(?:(?:it|this) )?(?:can|could) not {ADVERBS}be {ADVERBS}{SAID}{_NO_MEANS}",
            r"\bno (?:\w+ )?answer can be given\b|\b(?:question|query|inquiry|this|it) is (?:unanswerable"
            r"|not answerable)\b|^unanswerable$",
            rf"(?:^|\bis {ADVERBS}|\bbe )(?:not {ADVERBS}possible|impossible|not feasible|no way) to {ADVERBS}{KNOW}\b"
            rf"{_NO_MEANS}",
            r"\b(?:hard|difficult) to (?:say|tell)(?=$|,| (?:from|with|for)\b)",
        ),
        begins="can|could|unable|not",
    ),
    Family(
        "the source is silent",
        SOURCE_WORD,
        (
            rf"{SUBJECT} {DO_NOT}{SAY}",
            rf"{STRONG_SUBJECT} {DO_NOT}{HOLD}",
            rf"{SUBJECT} {DO_NOT}{HOLD} {LACKED}",
            rf"{SUBJECT} {DO_NOT}(?:relate|pertain|correspond) to\b",
            rf"{SUBJECT} (?:\w+ )?fails? to {SAY}|{STRONG_SUBJECT} (?:\w+ )?fails? to {HOLD}",
            rf"{SUBJECT} lacks? (?:{GAP}{FACTS}|any)\b|{SUBJECT} (?:stop|fall)s? short of\b",
            rf"{SUBJECT} {IS} {ADVERBS}(?:silent|insufficient|not sufficient|empty|blank|unrelated|irrelevant)\b",
            rf"{SUBJECT} {IS} {ADVERBS}not {ADVERBS}(?:related|relevant|about)\b",
            rf"{SUBJECT} (?:{SAY}|{HOLD}) {GAP}nothing\b",
            rf"{SUBJECT} (?:makes?|{HOLD}) (?:no|neither|little|insufficient) (?:{GAP}{FACTS}\b|[\w-]+ (?:to|of|on"
            rf"|about)\b)",
            rf"{SUBJECT} leaves? [^;]{{1,60}}(?:open|unanswered|unclear|unsaid)\b",
            rf"{SUBJECT} neither {SAY}",
            rf"{_I}do not (?:think|believe) (?:that )?{SOURCE} (?:{SAY}|{HOLD})",
            rf"{SUBJECT} (?:only|mainly|primarily|mostly) [^;]{{1,90}}\b(?:and|but) {DO_NOT}(?:{SAY}|{HOLD})",
        ),
        opening=SUBJECT,
    ),
    Family(
        "nothing in the source",
        f"{SOURCE_WORD}|docs|none|neither|nothing|outside|beyond",
        (
            r"^neither (?:mention|specifie|state|say|discusse|addresse|indicate|explain|describe)s\b",
            rf"\b(?:neither|no|(?:none|neither|nothing) (?:of|in)) {SOURCE} {GAP}(?:{SAY}|{HOLD})",
            rf"\b(?:none of (?:them|these|those)|nothing (?:here|there|above)) {GAP}(?:{SAY}|{HOLD})",
            rf"\b(?:none|nothing|neither|no \w+) [^;]{{0,40}}{IS} {SAID} (?:in|by) {SOURCE}",
            rf"\bnowhere (?:do|does|did|in) {SOURCE}",
            rf"\b(?:nothing|nowhere|(?:no|not enough) {GAP}{FACTS}) {GAP}(?:in|from|by|within) {STRONG_SOURCE}\b",
            rf"(?<!\bwas )(?<!\bwere )\b(?:nothing|nowhere|(?:no|not enough) {GAP}{FACTS}) {GAP}(?:in|from|by|within)"
            rf" the (?:documents?|docs)\b",
            rf"\b(?:outside|beyond) (?:of )?(?:what (?:{SOURCE}|i (?:know|have|was))|the (?:scope|reach|range) of"
            rf" (?:{SOURCE}|my\b|what i)|my (?:\w+ )?(?:knowledge|expertise|scope))",
        ),
    ),
    Family(
        "the fact is not given",
        f"{SOURCE_WORD}|{SAID}|{_UNSAID}|be|absent|omitted|lacking",
        (
            rf"\b(?:not|never) {ADVERBS}(?:be {ADVERBS})?{SAID} {GAP}{IN_SOURCE}",
            rf"\b{IS} {ADVERBS}{_UNSAID} {GAP}{IN_SOURCE}|\bleft (?:unsaid|open|unanswered|unclear) (?:in|by) {SOURCE}",
            rf"\b{DO_NOT}(?:{SAY} [^;]{{2,80}}|(?:appear|occur|feature"
            rf"|come up) (?:anywhere )?)in {STRONG_SOURCE}(?! of\b)",
            rf"\b(?:missing|absent|omitted|left out|lacking) from {SOURCE}|\bis not (?:in|part of|among"
            rf"|within) {STRONG_SOURCE}",
            rf"^{_QUESTION_WORD} [^;]{{3,150}} {IS_NOT}{TOLD}",
            rf"\b(?:exact|specific|precise|definitive|current|full|complete|details?)\b [^;]{{0,80}}\b{IS_NOT}"
            rf"(?:{TOLD}|given|provided|available)\b",
            rf"^{_THE}{KIND}{_TOPIC}\b[^;]{{0,60}} (?:{IS_NOT}(?:{TOLD}|{GIVEN}|contained|clear)"
            rf"|{IS} (?:\w+ )?{_UNSAID})\b",
            rf"^{_THE}(?:\w+ )?{ATTRIBUTE} (?:of|for) [^,;]{{1,60}} (?:is|are) {ADVERBS}(?:not"
            rf"|never) {ADVERBS}{GIVEN}$",
            rf"^(?:this|that|it)(?: detail| fact| point)? {IS_NOT}(?:{TOLD}|{GIVEN})(?:$|,)",
            rf"^it is {ADVERBS}(?:not|never) {ADVERBS}(?:{TOLD}|given) (?:{_QUESTION_WORD}|in|by)\b",
            rf"^(?!.*\bif\b|.* where (?:the|an?) ){_THE}(?:[\w'-]+ ){{1,9}}?(?:is|are) {ADVERBS}not {ADVERBS}"
            rf"(?:{TOLD}|given)$",
            rf"\b(?:it|that|this) (?:is|remains) {ADVERBS}{_UNCLEAR} (?:from|in|based on) {SOURCE}",
            rf"^(?:it (?:is|remains) )?{ADVERBS}(?:unclear|not {ADVERBS}clear)(?=$|,| (?:if|whether)\b| (?:from"
            rf"|based on) {SOURCE})",
        ),
    ),
    Family(
        "there is no information",
        f"{INFORMATION}|{ATTRIBUTE}|figure|context|said|stated|mentioned",
        (
            rf"\bthere (?:is|are) {ADVERBS}(?:no(?! (?:definitive|definite|clear) answers?$)"
            r"|not (?:any|enough|sufficient)"
            rf"|insufficient) {ADVERBS}{KIND}{INFORMATION}"
            rf"\b(?:$|,| {ABOUT}\b)(?!(?<=answer to) (?!(?:the|your|this|that) (?:question|query)))",
            rf"\b(?:no|not enough|insufficient) {KIND}(?:{INFORMATION}|{ATTRIBUTE}) (?:is|are|were(?= given"
            rf"| provided)) {ADVERBS}"
            rf"(?:{GIVEN}|mentioned|offered|stated|specified|supplied)\b",
            rf"^{_WITHHELD}(?:no|not enough|insufficient) {KIND}"
            r"(?:(?:(?!further|more)\w+ )?(?:information|info|details?|data)"
            rf"|{INFORMATION})\b(?:$| (?:about|on|regarding|concerning|in|from|available|provided|given|found|here)\b)",
            rf"(?:^|\bthere is )no {KIND}mention (?:of|is made)\b{_BEFORE}|^nothing is (?:said|stated|mentioned)\b",
            r"\b(?:not enough|insufficient|without (?:more|further)) (?:context|information|details?) to"
            r" (?:answer|say|tell|determine)\b",
        ),
    ),
    Family(
        "there are no passages",
        f"{PASSAGES}|information|details",
        (
            rf"^(?:there {IS} )?(?:no|not (?:a|any)) (?:relevant )?{PASSAGES}"
            rf"(?:$| (?:(?:found|about|on|available|provided|given|regarding)\b|that {SAY}))",
            rf"\bno (?:relevant )?{PASSAGES} {IS} {ADVERBS}(?:been )?(?:{GIVEN}|supplied|attached|shared|retrieved)\b",
            rf"\b{PASSAGES}\b[^;]{{0,40}} {IS_NOT}(?:included|provided|attached|supplied|shared|given)\b",
            rf"\byou (?:have|did) not {ADVERBS}(?:provided?|given?|shared?|included?|attach(?:ed)?|suppl(?:y"
            rf"|ied)) (?:me )?"
            rf"(?:with )?(?:any|the|a) (?:\w+ )?(?:{PASSAGES}|information|details?)\b",
        ),
    ),
)
"""Each way; every refusal contains a word of `MISSING`."""

GROUNDED = rf"^it (?:is|remains) {ADVERBS}{_UNCLEAR}\b"
"""A refusal only in a clause that names its source: "Based on the passages, it is not known ..."."""

WHOLE = (
    rf"(?:n/?a|no data|can not say|unknown|insufficient \w+"
    rf"|none (?:found|given|available)|no (?:\w+ )?answer(?: (?:found|available|given|provided))?"
    rf"|(?:answer )?not (?:{ADVERBS}(?:{SAID}(?: in {SOURCE})?|{TOLD} in [\w ]+)|enough \w+(?: in [\w ]+)?|in {SOURCE})"
    r"|(?:nope, )?nothing (?:on|about) (?:that|this|it))$"
    rf"|the (?:guide|manual|handbook|faq|brochure|leaflet) {DO_NOT}(?:mention|specify|say|state)\b"
    r"|(?:i would (?:\w+ )?(?:need|require) |(?:more|further|additional|other) (?:\w+ )?"
    r"(?:information|context|details?) (?:is|are|would be) (?:needed|required|necessary))"
)
"""A refusal only where it is all that is said: "N/A", "More information is needed to answer"."""

MISSING = (
    "no not never nope none neither nothing nowhere lack lacks lacking unable insufficient little limited fail "
    "fails ends unclear unknown unanswered unanswerable unavailable unspecified unstated undisclosed unsaid "
    "unrelated irrelevant impossible absent missing omitted left outside beyond silent empty blank guessing "
    "speculating without short n na idk dunno hard difficult leaves needed required necessary need require"
)
"""Words of which every refusal contains one; a clause without them is never looked at."""


_MISSING = frozenset(MISSING.split())


def _families_by(words: Callable[[Family], str]) -> dict[str, frozenset[int]]:
    """Return word -> numbers of the families that name it, in the singular or the plural."""
    named = [(word, number) for number, one in enumerate(FAMILIES) for word in words_in(words(one))]
    return {word: frozenset(number for form, number in named if form == word) for word, _ in named}


_NEEDING = _families_by(lambda family: family.needs)
_BEGUN_BY = _families_by(lambda family: family.begins)
_NONE: frozenset[int] = frozenset()
_GROUNDED = re.compile(GROUNDED)
_WHOLE = re.compile(WHOLE)
_CONDITION = re.compile(r"(?:\b(?:if|when|unless|whenever|in case)\b(?! it comes to)|(?:^|, )where\b)[^,]*$")


@lru_cache(1024)  # a clause is read once to see whether anything refuses, and once more to say what
def refusal_in(clause: str, *, is_grounded: bool = False) -> str | None:
    """Return the phrase of a clause that says that information is missing, or None; conditions say nothing."""
    words = words_of(clause)
    if _MISSING.isdisjoint(words):
        return None
    if is_grounded and (match := _GROUNDED.match(clause)):
        return match[0]
    numbers = _BEGUN_BY.get(words[0], _NONE).union(*[_NEEDING[word] for word in words if word in _NEEDING])
    patterns = (pattern for number in sorted(numbers) if _opens(number, clause) for pattern in _patterns(number))
    matches = (match for pattern in patterns if (match := pattern.search(clause)))
    return next((match[0].strip() for match in matches if not _is_condition(clause, match)), None)


def refuses_alone(clause: str) -> bool:
    """Return whether a clause refuses where it is all that a response says, as "N/A" does."""
    return _WHOLE.match(clause) is not None


def _opens(number: int, clause: str) -> bool:
    return not FAMILIES[number].opening or _opening(number).search(clause) is not None


@cache
def _opening(number: int) -> re.Pattern[str]:
    return re.compile(FAMILIES[number].opening)


@cache
def _patterns(number: int) -> tuple[re.Pattern[str], ...]:
    """Return the patterns of a family: to compile all of them takes half a second, and many texts need none."""
    return tuple(map(re.compile, FAMILIES[number].patterns))


def _is_condition(clause: str, match: re.Match[str]) -> bool:
    first_word = match[0].strip().split(" ", 1)[0]
    return _CONDITION.search(f"{clause[: match.start()]}{first_word}") is not None
