"""Finds the clauses that refuse, by the patterns of the families."""

from __future__ import annotations

import re
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
    patterns: tuple[tuple[str, str], ...]
    """The patterns of a refusal, each behind the words that every clause with it has: one of each list."""


FAMILIES = (
    Family(
        "the speaker lacks knowledge",
        (
            ("i & not|never & have|possess", rf"{_I}{DO_NOT}(?:have|possess) (?!(?:an? |any )?personal){LACKED}"),
            ("i & not|never & have", rf"^i {DO_NOT}have (?:the|its|his|her|their) (?!{_OWNED})[\w'-]+\b(?! to\b)"),
            (
                "idk|dunno|idea|clue|know|known|knowing|knowingly|knowledge|have",
                rf"^(?:idk|i dunno|no idea|no clue)\b{_PUZZLED}|^(?!does){DO_NOT}(?:know|have {GAP}{INFORMATION}\b)",
            ),
            (
                "i & no|limited|insufficient & have|had|found|find|see|possess",
                rf"{_I}(?:have|had|found|find|see|possess) (?:no(?! {_HARMLESS}\b)|limited|insufficient) {GAP}{FACTS}"
                rf"\b{_PUZZLED}",
            ),
            (
                "i & nothing|little",
                rf"{_I}(?:know|found|find|see|have) (?:nothing|little|too little)(?=$| (?:about|on|regarding|in|of)\b)",
            ),
            (
                "i|me & lack|without|leave",
                rf"{_I}lack {GAP}{FACTS}\b|{_I}am without (?:any )?{FACTS}\b|leaves? me (?:without|with no)\b",
            ),
            (
                "i & not|never & know|find|recall",
                rf"{_I}(?!did not know\b){DO_NOT}(?:know(?! about you)|find(?! (?:it|that|this) )|recall)\b",
            ),
            (
                "i & not|never & see|understand",
                rf"{_I}{DO_NOT}(?:see (?:anything (?:about|on|in)|(?:any|a) {GAP}{FACTS})|understand (?:what|why|enough"
                rf"|your|the question))\b",
            ),
            (
                "i & not & found|finding|seeing|given|provided|trained|shown",
                rf"{_I}(?:have|had|am|was) {ADVERBS}not {ADVERBS}(?:been )?(?:found|finding|seeing|given|provided"
                r"|trained"
                rf"|shown)\b",
            ),
            (
                "not & sure|certain",
                rf"{_I}am {ADVERBS}not {ADVERBS}(?:sure|certain)(?=$|,| (?:{_QUESTION_WORD}|about|of|on|as to)\b)"
                r"(?! (?:what|which \w+|who|how) (?:you|is meant)\b)|^not sure\b(?! what you)",
            ),
            (
                "i & not & aware|familiar|knowledgeable|informed|privy",
                rf"{_I}am {ADVERBS}not {ADVERBS}(?:aware|familiar|knowledgeable|informed|privy)\b",
            ),
            ("i & neither", r"\bi (?:(?:can|could|am) neither able|neither (?:have|know|found|find))\b"),
            (
                "my|our & knowledge|training|data|expertise",
                rf"\b(?:my|our) {GAP}(?:knowledge|training|data|expertise) (?:{DO_NOT}|is limited|ends)",
            ),
            ("i & guessing|speculating", rf"\bi would {ADVERBS}be (?:guessing|speculating)\b"),
            ("not & something", rf"\bnot something (?:that )?(?:i (?:have|know)|{SOURCE} {SAY})"),
            ("we & have|lack", rf"{_WE}(?:{DO_NOT}have|have no|lack) {KIND}{INFORMATION}\b"),
        ),
    ),
    Family(
        "the request can not be met",
        (
            ("can|could & not", rf"(?:{_I}|^){CAN_NOT}{ANSWER}"),
            ("i & not & able", rf"{_I}(?:may|might|will|would) {ADVERBS}not be able to {ADVERBS}{ANSWER}"),
            (
                "unable|able|equipped|position",
                rf"(?:{_I}(?:am|was) {ADVERBS}|^)(?:unable|not {ADVERBS}(?:able|equipped"
                rf"|in a position)) to {ADVERBS}{ANSWER}",
            ),
            (
                "we & answer|locate",
                rf"{_WE}(?:{CAN_NOT}|(?:are|were) {ADVERBS}(?:unable|not {ADVERBS}able) to {ADVERBS})(?:answer"
                r"|locate)\b",
            ),
            ("we & find", rf"{_WE}(?:could not|were {ADVERBS}(?:unable|not {ADVERBS}able) to) {ADVERBS}find (?!a way)"),
            (
                rf"can|could & not|never & {KNOWN}",
                rf"{_ASKED} (?:can|could) {ADVERBS}(?:not|never) {ADVERBS}be {ADVERBS}{KNOWN}\b{_NO_MEANS}",
            ),
            (
                rf"can|could & not & {SAID}",
                rf"^(?:(?:it|this) )?(?:can|could) not {ADVERBS}be {ADVERBS}{SAID}{_NO_MEANS}",
            ),
            (
                "given|unanswerable|answerable",
                r"\bno (?:\w+ )?answer can be given\b|\b(?:question|query|inquiry|this|it) is (?:unanswerable"
                r"|not answerable)\b|^unanswerable$",
            ),
            (
                rf"possible|impossible|feasible|way & {KNOW}",
                rf"(?:^|\bis {ADVERBS}|\bbe )(?:not {ADVERBS}possible|impossible|not feasible|no way) to"
                rf" {ADVERBS}{KNOW}\b"
                rf"{_NO_MEANS}",
            ),
            ("hard|difficult & say|tell", r"\b(?:hard|difficult) to (?:say|tell)(?=$|,| (?:from|with|for)\b)"),
        ),
    ),
    Family(
        "the source is silent",
        (
            (rf"{SOURCE_WORD} & not|never & {SAY}", rf"{SUBJECT} {DO_NOT}{SAY}"),
            (rf"{SOURCE_WORD} & not|never & {HOLD}", rf"{STRONG_SUBJECT} {DO_NOT}{HOLD}"),
            (rf"{SOURCE_WORD} & not|never & {HOLD}", rf"{SUBJECT} {DO_NOT}{HOLD} {LACKED}"),
            (
                rf"{SOURCE_WORD} & not|never & relate|pertain|correspond",
                rf"{SUBJECT} {DO_NOT}(?:relate|pertain|correspond) to\b",
            ),
            (
                rf"{SOURCE_WORD} & fail",
                rf"{SUBJECT} (?:\w+ )?fails? to {SAY}|{STRONG_SUBJECT} (?:\w+ )?fails? to {HOLD}",
            ),
            (
                rf"{SOURCE_WORD} & lack|short",
                rf"{SUBJECT} lacks? (?:{GAP}{FACTS}|any)\b|{SUBJECT} (?:stop|fall)s? short of\b",
            ),
            (
                rf"{SOURCE_WORD} & silent|insufficient|sufficient|empty|blank|unrelated|irrelevant",
                rf"{SUBJECT} {IS} {ADVERBS}(?:silent|insufficient|not sufficient|empty|blank|unrelated|irrelevant)\b",
            ),
            (
                rf"{SOURCE_WORD} & not & related|relevant|about",
                rf"{SUBJECT} {IS} {ADVERBS}not {ADVERBS}(?:related|relevant|about)\b",
            ),
            (rf"{SOURCE_WORD} & nothing", rf"{SUBJECT} (?:{SAY}|{HOLD}) {GAP}nothing\b"),
            (
                rf"{SOURCE_WORD} & no|neither|little|insufficient & make|{HOLD}",
                rf"{SUBJECT} (?:makes?|{HOLD}) (?:no|neither|little|insufficient) (?:{GAP}{FACTS}\b|[\w-]+ (?:to|of|on"
                rf"|about)\b)",
            ),
            (rf"{SOURCE_WORD} & leave", rf"{SUBJECT} leaves? [^;]{{1,60}}(?:open|unanswered|unclear|unsaid)\b"),
            (rf"{SOURCE_WORD} & neither", rf"{SUBJECT} neither {SAY}"),
            (
                rf"{SOURCE_WORD} & not & think|believe",
                rf"{_I}do not (?:think|believe) (?:that )?{SOURCE} (?:{SAY}|{HOLD})",
            ),
            (
                rf"{SOURCE_WORD} & not|never & only|mainly|primarily|mostly",
                rf"{SUBJECT} (?:only|mainly|primarily|mostly) [^;]{{1,90}}\b(?:and|but) {DO_NOT}(?:{SAY}|{HOLD})",
            ),
        ),
    ),
    Family(
        "nothing in the source",
        (
            ("neither", r"^neither (?:mention|specifie|state|say|discusse|addresse|indicate|explain|describe)s\b"),
            (
                rf"{SOURCE_WORD} & neither|no|none|nothing & {SAY}|{HOLD}",
                rf"\b(?:neither|no|(?:none|neither|nothing) (?:of|in)) {SOURCE} {GAP}(?:{SAY}|{HOLD})",
            ),
            (
                rf"none|nothing & {SAY}|{HOLD}",
                rf"\b(?:none of (?:them|these|those)|nothing (?:here|there|above)) {GAP}(?:{SAY}|{HOLD})",
            ),
            (
                rf"{SOURCE_WORD} & none|nothing|neither|no & {SAID}",
                rf"\b(?:none|nothing|neither|no \w+) [^;]{{0,40}}{IS} {SAID} (?:in|by) {SOURCE}",
            ),
            (rf"{SOURCE_WORD} & nowhere", rf"\bnowhere (?:do|does|did|in) {SOURCE}"),
            (
                rf"{SOURCE_WORD} & nothing|nowhere|no|enough",
                rf"\b(?:nothing|nowhere|(?:no|not enough) {GAP}{FACTS}) {GAP}(?:in|from|by|within) {STRONG_SOURCE}\b",
            ),
            (
                "document|docs & nothing|nowhere|no|enough",
                rf"(?<!\bwas )(?<!\bwere )\b(?:nothing|nowhere|(?:no|not enough) {GAP}{FACTS}) {GAP}(?:in|from|by"
                r"|within)"
                rf" the (?:documents?|docs)\b",
            ),
            (
                "outside|beyond & what|scope|reach|range|my",
                rf"\b(?:outside|beyond) (?:of )?(?:what (?:{SOURCE}|i (?:know|have|was))|the (?:scope|reach|range) of"
                rf" (?:{SOURCE}|my\b|what i)|my (?:\w+ )?(?:knowledge|expertise|scope))",
            ),
        ),
    ),
    Family(
        "the fact is not given",
        (
            (
                rf"{SOURCE_WORD} & not|never & {SAID}",
                rf"\b(?:not|never) {ADVERBS}(?:be {ADVERBS})?{SAID} {GAP}{IN_SOURCE}",
            ),
            (
                rf"{SOURCE_WORD} & {_UNSAID}|left",
                rf"\b{IS} {ADVERBS}{_UNSAID} {GAP}{IN_SOURCE}|\bleft (?:unsaid|open|unanswered|unclear) (?:in|by)"
                rf" {SOURCE}",
            ),
            (
                rf"{SOURCE_WORD} & not|never & {SAY}|appear|occur|feature|come",
                rf"\b{DO_NOT}(?:{SAY} [^;]{{2,80}}|(?:appear|occur|feature"
                rf"|come up) (?:anywhere )?)in {STRONG_SOURCE}(?! of\b)",
            ),
            (
                rf"{SOURCE_WORD} & missing|absent|omitted|left|lacking|not & from|in|part|among|within",
                rf"\b(?:missing|absent|omitted|left out|lacking) from {SOURCE}|\bis not (?:in|part of|among"
                rf"|within) {STRONG_SOURCE}",
            ),
            (rf"not & {_QUESTION_WORD} & {TOLD}", rf"^{_QUESTION_WORD} [^;]{{3,150}} {IS_NOT}{TOLD}"),
            (
                rf"not & exact|specific|precise|definitive|current|full|complete|detail & {TOLD}|given|provided"
                r"|available",
                rf"\b(?:exact|specific|precise|definitive|current|full|complete|details?)\b [^;]{{0,80}}\b{IS_NOT}"
                rf"(?:{TOLD}|given|provided|available)\b",
            ),
            (
                rf"{_TOPIC} & not|{_UNSAID}",
                rf"^{_THE}{KIND}{_TOPIC}\b[^;]{{0,60}} (?:{IS_NOT}(?:{TOLD}|{GIVEN}|contained|clear)"
                rf"|{IS} (?:\w+ )?{_UNSAID})\b",
            ),
            (
                rf"{ATTRIBUTE} & not|never & {GIVEN}",
                rf"^{_THE}(?:\w+ )?{ATTRIBUTE} (?:of|for) [^,;]{{1,60}} (?:is|are) {ADVERBS}(?:not"
                rf"|never) {ADVERBS}{GIVEN}$",
            ),
            (
                rf"this|that|it & not & {TOLD}|{GIVEN}",
                rf"^(?:this|that|it)(?: detail| fact| point)? {IS_NOT}(?:{TOLD}|{GIVEN})(?:$|,)",
            ),
            (
                rf"it & not|never & {TOLD}|given",
                rf"^it is {ADVERBS}(?:not|never) {ADVERBS}(?:{TOLD}|given) (?:{_QUESTION_WORD}|in|by)\b",
            ),
            (
                rf"not & {TOLD}|given",
                rf"^(?!.*\bif\b|.* where (?:the|an?) ){_THE}(?:[\w'-]+ ){{1,9}}?(?:is|are) {ADVERBS}not {ADVERBS}"
                rf"(?:{TOLD}|given)$",
            ),
            (
                rf"{SOURCE_WORD} & it|that|this & unclear|unknown|clear|known",
                rf"\b(?:it|that|this) (?:is|remains) {ADVERBS}{_UNCLEAR} (?:from|in|based on) {SOURCE}",
            ),
            (
                "unclear|clear",
                rf"^(?:it (?:is|remains) )?{ADVERBS}(?:unclear|not {ADVERBS}clear)(?=$|,| (?:if|whether)\b| (?:from"
                rf"|based on) {SOURCE})",
            ),
        ),
    ),
    Family(
        "there is no information",
        (
            (
                rf"there & {INFORMATION}",
                rf"\bthere (?:is|are) {ADVERBS}(?:no(?! (?:definitive|definite|clear) answers?$)"
                r"|not (?:any|enough|sufficient)"
                rf"|insufficient) {ADVERBS}{KIND}{INFORMATION}"
                rf"\b(?:$|,| {ABOUT}\b)(?!(?<=answer to) (?!(?:the|your|this|that) (?:question|query)))",
            ),
            (
                rf"no|enough|insufficient & {INFORMATION}|{ATTRIBUTE} & {GIVEN}|mentioned|offered|stated"
                r"|specified|supplied",
                rf"\b(?:no|not enough|insufficient) {KIND}(?:{INFORMATION}|{ATTRIBUTE}) (?:is|are|were(?= given"
                rf"| provided)) {ADVERBS}"
                rf"(?:{GIVEN}|mentioned|offered|stated|specified|supplied)\b",
            ),
            (
                rf"no|enough|insufficient & {INFORMATION}",
                rf"^{_WITHHELD}(?:no|not enough|insufficient) {KIND}"
                r"(?:(?:(?!further|more)\w+ )?(?:information|info|details?|data)"
                rf"|{INFORMATION})\b(?:$| (?:about|on|regarding|concerning|in|from|available|provided|given|found"
                r"|here)\b)",
            ),
            (
                "mention|nothing",
                rf"(?:^|\bthere is )no {KIND}mention (?:of|is made)\b{_BEFORE}|^nothing is (?:said|stated|mentioned)\b",
            ),
            (
                "enough|insufficient|without & context|information|detail",
                r"\b(?:not enough|insufficient|without (?:more|further)) (?:context|information|details?) to"
                r" (?:answer|say|tell|determine)\b",
            ),
        ),
    ),
    Family(
        "there are no passages",
        (
            (
                rf"{PASSAGES} & no|not",
                rf"^(?:there {IS} )?(?:no|not (?:a|any)) (?:relevant )?{PASSAGES}"
                rf"(?:$| (?:(?:found|about|on|available|provided|given|regarding)\b|that {SAY}))",
            ),
            (
                rf"{PASSAGES} & no",
                rf"\bno (?:relevant )?{PASSAGES} {IS} {ADVERBS}(?:been )?(?:{GIVEN}|supplied|attached|shared"
                r"|retrieved)\b",
            ),
            (
                rf"{PASSAGES} & not & included|provided|attached|supplied|shared|given",
                rf"\b{PASSAGES}\b[^;]{{0,40}} {IS_NOT}(?:included|provided|attached|supplied|shared|given)\b",
            ),
            (
                rf"{PASSAGES}|information|details & you & not",
                rf"\byou (?:have|did) not {ADVERBS}(?:provided?|given?|shared?|included?|attach(?:ed)?|suppl(?:y"
                rf"|ied)) (?:me )?"
                rf"(?:with )?(?:any|the|a) (?:\w+ )?(?:{PASSAGES}|information|details?)\b",
            ),
        ),
    ),
)
"""Each way; every refusal contains a word of `MISSING`."""

GROUNDED = rf"^it (?:is|remains) {ADVERBS}{_UNCLEAR}\b"
"""A refusal only in a clause that names its source: "Based on the passages, it is not known ..."."""

WHOLE = (
    ("na|n", r"n/?a$"),
    ("data", r"no data$"),
    ("can & not & say", r"can not say$"),
    ("unknown", r"unknown$"),
    ("insufficient", r"insufficient \w+$"),
    ("none & found|given|available", r"none (?:found|given|available)$"),
    ("no & answer", r"no (?:\w+ )?answer(?: (?:found|available|given|provided))?$"),
    (rf"not & {SAID}", rf"(?:answer )?not {ADVERBS}(?:{SAID}(?: in {SOURCE})?|{TOLD} in [\w ]+)$"),
    ("not & enough", r"(?:answer )?not enough \w+(?: in [\w ]+)?$"),
    (rf"not & in & {SOURCE_WORD}", rf"(?:answer )?not in {SOURCE}$"),
    ("nothing & on|about", r"(?:nope, )?nothing (?:on|about) (?:that|this|it)$"),
    (
        "guide|manual|handbook|faq|brochure|leaflet & not|never",
        rf"the (?:guide|manual|handbook|faq|brochure|leaflet) {DO_NOT}(?:mention|specify|say|state)\b",
    ),
    ("i & need|require", r"i would (?:\w+ )?(?:need|require) "),
    (
        "needed|required|necessary & information|context|detail",
        r"(?:more|further|additional|other) (?:\w+ )?(?:information|context|details?) (?:is|are|would be) "
        r"(?:needed|required|necessary)",
    ),
)
"""Refusals only where they are all that is said, as `Family.patterns`: "N/A", "More information is needed"."""

MISSING = (
    "no not never nope none neither nothing nowhere lack lacks lacking unable insufficient little limited fail "
    "fails ends unclear unknown unanswered unanswerable unavailable unspecified unstated undisclosed unsaid "
    "unrelated irrelevant impossible absent missing omitted left outside beyond silent empty blank guessing "
    "speculating without short n na idk dunno hard difficult leaves needed required necessary need require"
)
"""Words of which every refusal contains one; a clause without them is never looked at."""


_MISSING = frozenset(MISSING.split())
_GROUNDED = re.compile(GROUNDED)
_CONDITION = re.compile(r"(?:\b(?:if|when|unless|whenever|in case)\b(?! it comes to)|(?:^|, )where\b)[^,]*$")
_ANYWHERE = [pattern for family in FAMILIES for pattern in family.patterns]
_LISTED = [*_ANYWHERE, *WHOLE]
_ALL = (1 << len(_LISTED)) - 1
_N_LISTS = 3


def _bits_of_words() -> dict[str, int]:
    """Return word -> a bit for each list that names it: those of the first lists, then of the second and the third.

    The empty word stands for all lists that a pattern does without.
    """
    bits: dict[str, int] = {}
    for number, (needs, _) in enumerate(_LISTED):
        lists = needs.split(" & ")
        for place in range(_N_LISTS):
            for word in words_in(lists[place]) if place < len(lists) else [""]:
                bits[word] = bits.get(word, 0) | 1 << (place * len(_LISTED) + number)
    return bits


_BITS = _bits_of_words()
_NEEDED = frozenset(_BITS)


@lru_cache(1024)
def patterns_of(words: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Return the patterns of the families and of `WHOLE` that a clause of these words can have: most have none."""
    bits = _BITS[""]
    for word in _NEEDED.intersection(words):
        bits |= _BITS[word]
    bits &= bits >> len(_LISTED) & bits >> 2 * len(_LISTED) & _ALL
    found: tuple[list[str], list[str]] = [], []
    while bits:
        number = (bits & -bits).bit_length() - 1
        found[number >= len(_ANYWHERE)].append(_LISTED[number][1])
        bits &= bits - 1
    return found


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern, ready: to compile all of them takes half a second, and many texts need none."""
    return re.compile(pattern)


def may_refuse(words: tuple[str, ...]) -> bool:
    """Return whether a clause of some of these words can be a refusal; `GROUNDED` has the words of other patterns."""
    return any(patterns_of(words))


@lru_cache(1024)  # a clause is read once to see whether anything refuses, and once more to say what
def refusal_in(clause: str, *, is_grounded: bool = False) -> str | None:
    """Return the phrase of a clause that says that information is missing, or None; conditions say nothing."""
    words = words_of(clause)
    if _MISSING.isdisjoint(words):
        return None
    if is_grounded and (match := _GROUNDED.match(clause)):
        return match[0]
    matches = (match for pattern in patterns_of(words)[0] if (match := _compiled(pattern).search(clause)))
    return next((match[0].strip() for match in matches if not _is_condition(clause, match)), None)


def refuses_alone(clause: str) -> bool:
    """Return whether a clause refuses where it is all that a response says, as "N/A" does."""
    return any(_compiled(pattern).match(clause) for pattern in patterns_of(words_of(clause))[1])


def _is_condition(clause: str, match: re.Match[str]) -> bool:
    first_word = match[0].strip().split(" ", 1)[0]
    return _CONDITION.search(f"{clause[: match.start()]}{first_word}") is not None
