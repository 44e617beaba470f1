"""What stands beside a refusal or an answer and is neither: courtesy, offers, requests, where to look instead."""

from __future__ import annotations

import re

from ragtasks.metrics.idk_rules._vocabulary import ADVERBS, SOURCE

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
_FILLERS = tuple(
    re.compile(pattern)
    for pattern in (
        # Courtesy.
        r"(?:i am |we are )?(?:\w+ )?sorry\b|i (?:do )?apologi[sz]e|(?:my )?apologies|unfortunately\W*$",
        r"i am (?:\w+ )?(?:happy|glad) to\b|(?:glad|happy) to\b|you are welcome|thanks?\b(?! to\b)|good luck|goodbye",
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
        rf"if you (?:have|need|want|would like|are (?:looking|asking|referring)|require) (?:to |for |about )?{_MORE}",
        r"if (?:you (?:can|could|would|have|provide|share|let|give|tell|meant?|are)\b.*"
        r"\b(?:i|we) (?:can|could|would|will|may)|.*\b(?:let me know|feel free|do not hesitate|please))\b",
        # Where to look instead.
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
        r"you (?:are asking|asked|want to know)\b|i am not (?:\w+ )?(?:sure|certain) (?:what|which|who|how)\b.*\byou\b",
        r"i (?:have )?(?:\w+ )?(?:search|look|review|check|read|went|examin)(?:ed)?\b|i am limited to"
        r"|i can only answer",
    )
)
# That a source is about something else says no more than that it lacks what was asked.
_DESCRIPTION = re.compile(
    rf"{SOURCE} {ADVERBS}(?:(?:only|mainly|primarily|mostly|instead) \w+"
    r"|(?:discuss|focus|deal|concentrate|talk|cover|center|centre|pertain|relate|concern|speak|revolve)(?:es|s|ed)?\b"
    r"|(?:is|are) (?:\w+ )?(?:about|on|related|focused|concerned)\b|appears? to be\b|provides? background\b"
    r"|(?:describe|mention|refer|give|provide|contain|offer|address)s?(?: to)?\b(?! that\b)"
    r"(?=.*\b(?:instead|general|other|not)\b))"
)


def is_filler(clause: str) -> bool:
    """Return whether a clause (`clauses.Clause.text`) neither refuses nor answers."""
    return _DESCRIPTION.match(clause) is not None or any(pattern.match(clause) for pattern in _FILLERS)
