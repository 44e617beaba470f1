"""Rules that read from an English response alone whether it says that it does not know.

The idea is to subtract. A response is cut into clauses. Each clause is a *refusal* (it says that information is
missing), *courtesy* (an apology, an offer of help, a pointer to somewhere else), or *substance*. A response without a
refusal is `no`. A refusal with hardly any substance beside it is `yes`; with an answer beside it, `partial`.

The rules look at two kinds of speaker only: the first person, and the passages. "The form does not ask for your
income" is an answer; "the passages do not say" is none. Quotations and conditions ("if I do not know ...") are no
statements of the response and are not read as refusals.
"""

from __future__ import annotations

import re

from ragtasks.records import IdkVerdict

MIN_SUBSTANCE_WORDS = 12
"""Words of substance from which a response that refuses counts as answering in part: about one full sentence. A
shorter rest ("However, be careful.") answers nothing. Chosen on one half of MTRAG, see benchmarks/idk_agreement.py."""

_DETERMINER = r"(?:(?:the|these|this|those|my|our|any|either|neither|none|of|all|both) ){0,3}"
_QUALIFIER = r"(?:provided|given|available|retrieved|supplied|reference|referenced|relevant|current|above|attached)"
_STRONG_NOUN = r"(?:passages?|contexts?|texts?|excerpts?|snippets?|search results?|knowledge base)"
_WEAK_NOUN = r"(?:documents?|documentation|sources?|articles?|materials?|references?|resources?|conversation)"
_VAGUE_NOUN = r"(?:information|content|details|data)"
_AFTERWARDS = r"(?: (?:that )?(?:provided|given|above|available|retrieved|(?:that )?i (?:have|was given)|at hand)){0,2}"
# "The documents" may be court papers in an answer; a qualified noun or "the passages" can only be what was retrieved.
_STRONG_SOURCE = (
    rf"{_DETERMINER}(?:(?:{_QUALIFIER} ){{1,3}}(?:{_STRONG_NOUN}|{_WEAK_NOUN}|{_VAGUE_NOUN})|{_STRONG_NOUN}"
    rf"|(?:{_WEAK_NOUN}|{_VAGUE_NOUN}) (?:provided|given|available|i have|at hand)){_AFTERWARDS}"
)
_SOURCE = rf"(?:{_STRONG_SOURCE}|{_DETERMINER}{_WEAK_NOUN}{_AFTERWARDS})"

_FACTS = (
    r"(?:information|info|details?|data|knowledge|answers?|specifics|figures?|numbers?|names?|mentions?|references?"
    r"|evidence|indication|explanation|statistics|records?|access|idea|clue|insights?|sources?|opinion|anything)"
)
_GAP = r"(?:[\w'-]+ ){0,5}?"
_ADVERB = r"(?:(?:\w+ly|just|also|still|even|yet|either|quite|so far|at present) ){0,3}"
_LACKED = rf"(?:{_GAP}{_FACTS}|(?:the |an? )?(?:specific|exact|precise|definit(?:e|ive)|any|enough|sufficient|much)\b)"
_DO_NOT = rf"(?:do|does|did) {_ADVERB}not {_ADVERB}"
_I = rf"\b(?:i|we) {_ADVERB}"
_ANSWERING = (
    r"(?:answer|find|locate|provide|give|offer|tell|say|determine|confirm|verify|identify|recommend|suggest|advise"
    r"|help|assist|share|comment|address|specify|explain|infer|conclude|respond|name|speak|be (?:sure|certain)"
    r"|see any|access|recall|make (?:a|any) recommendation)\b"
)
_SAY = (
    r"(?:mention|specify|state|say|address|discuss|indicate|clarify|explain|detail|describe|cover|reveal|tell|answer"
    r"|elaborate|refer|touch|talk|speak|define|confirm|note|report)(?:s|es)?\b"
)
_HOLD = r"(?:contain|include|have|provide|give|offer|present|list|supply|hold|show)s?\b"
_SAID = (
    r"(?:mentioned|specified|stated|provided|given|included|covered|discussed|addressed|described|found|contained"
    r"|detailed|listed|explained|available|answered|determined|inferred|confirmed|present|clear|indicated)"
)
_ABOUT = (
    r"(?:about|on|regarding|concerning|of|for|as to|that|which|whether|to|related|available|provided|in|given|here)"
)

_REFUSALS = tuple(
    re.compile(pattern)
    for pattern in (
        # The first person.
        rf"{_I}{_DO_NOT}(?:currently )?have {_LACKED}",
        rf"{_I}(?:have|had|found|find|see) (?:no|little|limited|insufficient) {_GAP}{_FACTS}",
        rf"{_I}{_DO_NOT}(?:know|find|see (?:any|a)|recall|possess|understand (?:enough|why))\b",
        rf"{_I}(?:have|had) not {_ADVERB}(?:found|seen|been (?:given|provided|able|trained)|come across)\b",
        rf"{_I}(?:can|could|may|will|would|might) {_ADVERB}not {_ADVERB}(?:be able to {_ADVERB})?{_ANSWERING}",
        rf"{_I}(?:am|was|are|were) {_ADVERB}(?:unable|not {_ADVERB}able) to {_ADVERB}{_ANSWERING}",
        rf"{_I}am (?:afraid (?:that )?i )?not {_ADVERB}(?:sure|certain)\b(?! (?:what|which \w+) you)",
        rf"{_I}am not {_ADVERB}(?:aware|familiar|knowledgeable|informed)\b",
        r"\b(?:beyond|outside) (?:of )?(?:the scope of )?(?:my (?:\w+ )?(?:knowledge|expertise|scope)|what i)\b",
        # The passages.
        rf"\b{_SOURCE} {_DO_NOT}(?:appear to |seem to )?{_SAY}",
        rf"\b{_STRONG_SOURCE} {_DO_NOT}(?:appear to |seem to )?{_HOLD}",
        rf"\b{_SOURCE} {_DO_NOT}(?:appear to |seem to )?{_HOLD} {_LACKED}",
        rf"\b{_SOURCE} (?:fails? to {_SAY}|lacks? {_GAP}{_FACTS}|(?:is|are) (?:silent|insufficient|not sufficient))",
        rf"\b{_SOURCE} (?:only|mainly|primarily|mostly) [^,;]{{1,80}}\band {_DO_NOT}(?:{_SAY}|{_HOLD})",
        rf"\b(?:none|neither) of {_SOURCE} {_GAP}(?:{_SAY}|{_HOLD})",
        rf"\b(?:nothing|no {_GAP}{_FACTS}|nowhere) {_GAP}(?:in|from|by|within) {_STRONG_SOURCE}",
        rf"\bnot {_ADVERB}{_SAID} (?:in|by|within|from|based on|with) {_SOURCE}\b",
        rf"\bnot be {_ADVERB}{_SAID} (?:in|by|within|from|based on|with|using) {_SOURCE}\b",
        # Nobody in particular.
        rf"\b(?:there (?:is|was|are)|with) (?:no|not (?:any|enough|sufficient)|insufficient) {_ADVERB}"
        rf"(?:(?:specific|explicit|direct|clear|exact|further|additional|other|detailed|more|such) )*"
        rf"(?:information|info|details?|data|mention|answer)\b(?:,| {_ABOUT}\b|$)",
        rf"^(?:no|not enough|insufficient) (?:\w+ )?(?:information|info|details?|data|answer)\b(?:$|,| {_ABOUT}\b)",
        r"\b(?:exact|specific|precise) (?:[\w-]+ ){1,5}(?:is|are|was|were) not (?:specified|stated|mentioned|given)\b",
        r"\b(?:question|inquiry|query) (?:can not be answered|is unanswerable)\b",
        r"\bnot possible to (?:answer|say|tell|determine|know|provide)\b",
        r"^(?:it is )?(?:unclear|not clear)\b(?=$|,| (?:if|whether|from|based)\b)",
        rf"\b(?:it|that|this) is {_ADVERB}(?:unclear|not clear) (?:from|in|based on) {_SOURCE}",
        # Clipped replies that drop their subject.
        rf"^(?:{_DO_NOT}(?:know|have {_LACKED})|(?:can|could) not {_ANSWERING}|unable to {_ANSWERING}|not sure\b)",
        rf"^(?:no idea|idk|i dunno|unanswerable|unknown|not {_ADVERB}{_SAID})\W*$",
    )
)

_ELSEWHERE = (
    r"(?:check|consult|contact|visit|refer|ask|look|search|reach|speak|talk|seek|review|verify|browse|google|try|call"
    r"|see|explore?|find (?:more|further|this|that|out)|get in touch)(?:ing)?\b"
)
_MORE = (
    r"(?:any|more|other|further|additional|another|specific|different|questions?|a (?:specific|different|question))\b"
)
_COURTESY = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?:i am |we are )?(?:\w+ )?sorry\b|i (?:do )?apologi[sz]e|apologies|unfortunately\W*$|my apologies",
        r"(?:i am|we are) (?:afraid|here)\b|i (?:only )?(?:hope|understand|see|would need|need)\b",
        r"(?:i|we) (?:can|could|would|will|may) (?:\w+ )?"
        r"(?:be (?:happy|glad|able)|help|assist|try|do my best|direct)\b",
        r"i am (?:\w+ )?(?:happy|glad) to\b|(?:glad|happy) to\b|you are welcome|thanks?\b(?! to\b)|good luck|goodbye",
        r"(?:feel free|let me know|do not hesitate|just ask|(?:could|can|would|do|did) you|is there anything)\b",
        rf"(?:provide|clarify|rephrase|share|specify|give me|tell me)\b|(?:consider )?{_ELSEWHERE}",
        r"(?:you|users?|one) (?:may|might|can|could|should|would|will|need to)"
        rf"(?: (?:\w+ly|also|always|want|wish|like|need|try|consider|have|be|better off))*(?: to)? {_ELSEWHERE}",
        rf"(?:i|we) (?:would |can )?(?:\w+ly )?(?:recommend|suggest|advise|encourage)(?: that)?(?: you)?"
        rf"(?: to)? {_ELSEWHERE}",
        r"it (?:is|would be|may be|might be) (?:\w+ )?(?:best|recommended|advisable|helpful|better|worth|good)\b"
        rf".{{0,30}}\b{_ELSEWHERE}",
        rf"for (?:the )?(?:most )?(?:{_MORE}|accurate|detailed|up-to-date|latest|precise|personali[sz]ed)"
        r" (?:[\w-]+ ){0,3}?(?:information|details?|help|advice|guidance|answers?|assistance|support|questions?)\b",
        rf"if you (?:have|need|want|would like|are looking for|require) (?:to know )?{_MORE}",
        r"if you (?:can|could|would|have|provide|share|let|give|tell|meant?)\b.*"
        r"\b(?:i|we) (?:can|could|would|will|may)\b",
        r"if .*\b(?:let me know|feel free|do not hesitate)\b",
        rf"{_SOURCE} (?:{_ADVERB}(?:focus|deal|concentrate)(?:es|s)?"
        r"|(?:only|mainly|primarily|mostly) \w+|(?:is|are) about)\b",
        r"as an ai\b",
    )
)

_LEAD = re.compile(
    r"(?:\W|(?:however|but|and|so|also|yet|still|although|though|while|that said|instead|otherwise|please|in any case"
    r"|nevertheless|nonetheless|additionally|in general|unfortunately|well|hi|yes|no|ok|okay)\b"
    r"|(?:i am |we are )?(?:(?:very|so|really|truly) )?sorry(?=,| but\b)|i am afraid(?: that)?\b"
    rf"|(?:based on|according to|from|in) {_STRONG_SOURCE},"
    r"|(?:please )?(?:keep in mind|note|be aware) that\b"
    r"|it is (?:\w+ )?(?:important|worth|essential) (?:to note|noting)(?: that)?\b"
    r"|i can (?:\w+ )?(?:tell|inform|share with|say to) you (?:that|about)?)+"
)

_QUOTES = re.compile(r'"[^"\n]*"|(?<!\w)\'[^\'\n]{1,80}\'(?!\w)')
_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!\b[A-Z]\.)(?<!\bMr\.)(?<!\bDr\.)(?<!\bSt\.)(?<!\bvs\.)(?<!\be\.g\.)(?<!\bi\.e\.)[\"')\]]*\s+|\s*\n\s*"
)
_CLAUSE_END = re.compile(
    r"\s*;\s+|\s+[-\u2013]+\s+|\s*\u2014\s*|,?\s+(?=(?:but|however|although|though|while|yet|nevertheless|nonetheless)\b)"
    r"|,?\s+and\s+(?=(?:i|we) (?:do|did|can|could|am|have|was)\b)"
)
# "While I do not know X, I can say Y" has its answer behind a comma.
_CONCESSION = re.compile(
    r"(?P<head>(?:while|although|though|even though|whilst)\b.*?),\s+(?=(?:i|it|the|there|here|you|we|they|this|these"
    r"|those|according|some|in|an?|he|she|one|based)\b)(?P<rest>.*)",
    re.DOTALL,
)
_CONDITION = re.compile(r"(?:^|,)\s*(?:and |or |so )?(?:if|when|unless|whenever|in case|where)\b(?! it comes to)[^,]*$")
_STRAIGHT_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'})
_CONTRACTIONS = tuple(
    (re.compile(pattern, re.IGNORECASE), written_out)
    for pattern, written_out in (
        (r"\bwon't\b", "will not"),
        (r"\b(?:can't|cannot|cant)\b", "can not"),
        (r"\bdont\b", "do not"),
        (r"n't\b", " not"),
        (r"\b(i)'m\b", r"\1 am"),
        (r"'ve\b", " have"),
        (r"'re\b", " are"),
        (r"'d\b", " would"),
        (r"'ll\b", " will"),
        (r"\b(there|it|that|here)'s\b", r"\1 is"),
    )
)


def classify(text: str) -> tuple[IdkVerdict | None, str]:
    """Return (verdict, reason) of a response, from its text alone.

    The reason of `yes` and `partial` is the first phrase that says that information is missing. Text without a
    letter of the Latin script cannot be read by these rules: its verdict is None. Empty text is `no`.
    """
    if not text.strip():
        return IdkVerdict.NO, "empty response; an empty answer is no refusal"
    if any(character.isalpha() for character in text) and not re.search(r"[A-Za-z]", text):
        return None, "the rules read English only, and the response has no Latin letter"
    refusals: list[str] = []
    n_substance = 0
    for clause, is_question in _clauses(text):
        phrase = _refusal(clause)
        if phrase is not None:
            refusals.append(phrase)
        elif not is_question:
            n_substance += _substance_words(clause)
    if not refusals:
        return IdkVerdict.NO, "no phrase that says that information is missing"
    return (IdkVerdict.PARTIAL if n_substance >= MIN_SUBSTANCE_WORDS else IdkVerdict.YES), refusals[0]


def _clauses(text: str) -> list[tuple[str, bool]]:
    """Return the clauses in lower case with quotations blanked, each with whether its sentence is a question."""
    clauses: list[tuple[str, bool]] = []
    for sentence in _SENTENCE_END.split(_plain(text)):
        is_question = sentence.rstrip().endswith("?")
        parts = [part for part in _CLAUSE_END.split(sentence.lower()) if part]
        for part in parts:
            concession = _CONCESSION.fullmatch(part)
            pieces = (concession["head"], concession["rest"]) if concession else (part,)
            clauses.extend((piece.strip(" .!?,:"), is_question) for piece in pieces)
    return [(clause, is_question) for clause, is_question in clauses if clause]


def _plain(text: str) -> str:
    """Return the text without markup, contractions written out, the letters inside quotations replaced by x."""
    plain = re.sub(r"[*_`#>]+|\[\d+\]", "", text.translate(_STRAIGHT_QUOTES)).strip()
    if len(plain) > 1 and plain[0] == plain[-1] == '"' and plain.count('"') == 2:
        plain = plain[1:-1]
    for pattern, written_out in _CONTRACTIONS:
        plain = pattern.sub(written_out, plain)
    plain = re.sub(r"[ \t]+", " ", plain)
    # Blanked, not removed: a quotation may be the answer, so its words still count.
    return _QUOTES.sub(lambda quote: re.sub(r"\w", "x", quote[0]), plain)


def _refusal(clause: str) -> str | None:
    """Return the phrase of a clause that says that information is missing, or None."""
    opened = _LEAD.sub("", clause, count=1) if _LEAD.match(clause) else clause
    for candidate in (opened, clause):
        for pattern in _REFUSALS:
            match = pattern.search(candidate)
            if match and not _CONDITION.search(candidate[: match.start()]):
                return match[0].strip()
    return None


def _substance_words(clause: str) -> int:
    """Return how many words of a clause that refuses nothing could be an answer; 0 for courtesy."""
    lead = _LEAD.match(clause)
    opened = clause[lead.end() :] if lead else clause
    if any(pattern.match(opened) for pattern in _COURTESY):
        return 0
    return len(re.findall(r"\w[\w'-]*", opened))
