"""The words that refusals are made of, as pieces of regular expressions over lower-case text without contractions."""

from __future__ import annotations

import re
from functools import lru_cache
from string import ascii_lowercase

_LETTERS = bytes(code if chr(code) in ascii_lowercase else ord(" ") for code in range(256))


def all_words_of(text: str) -> list[str]:
    """Return the rows of letters of a text in lower case, in order; a written-out "n't" has been a "t"."""
    return text.encode("ascii", "replace").translate(_LETTERS).decode("ascii").split()


@lru_cache(1024)
def words_of(sentence: str) -> tuple[str, ...]:
    """Return `all_words_of` a sentence, which is looked at for signs, for sources and for what each pattern needs."""
    return tuple(all_words_of(sentence))


def words_in(pattern: str) -> frozenset[str]:
    """Return the words that a pattern names, each in the singular and the plural; not those of what may not follow."""
    words = {*all_words_of(re.sub(r"\(\?![^()]*\)|\\\w", " ", pattern))} - {"s", "es"}  # of "(?:name|address)(?:s|es)?"
    return frozenset(form for word in words for form in (word, f"{word}s", f"{word}es", word.removesuffix("s")))


ADVERBS = r"(?:(?:[a-z]+ly|just|also|still|even|yet|either|quite|so far|at present|at all) ){0,3}"
"""Adverbs that may stand between a verb and its "not"."""
GAP = r"(?:[\w'/-]+ ){0,5}?"
"""Up to five words of any kind, as few as will do."""
DO_NOT = rf"(?:(?:do|does|did) {ADVERBS}not|never) {ADVERBS}"
"""The "do not" of a full verb."""
CAN_NOT = rf"(?:can|could) {ADVERBS}not {ADVERBS}(?:be able to {ADVERBS})?"
"""The "can not" of a full verb."""
IS = r"(?:is|are|was|were|has|have|remains?)"
"""The verb of a passive."""
IS_NOT = rf"{IS} {ADVERBS}not {ADVERBS}(?:been )?"
"""The negation of a passive; what was never answered was not answered by anybody, which is a finding."""

_THE = (
    r"(?:the|these|this|those|that|my|our|your|any|either|each|all|both|two|three|four|five|other|entire"
    r"|rest of)"
)
_DETERMINER = rf"(?:(?:{_THE}|of) ){{0,4}}"
_QUALIFIER = (
    r"(?:provided|given|available|retrieved|supplied|referenced?|relevant|current|above|attached|present"
    r"|uploaded|accompanying|ongoing)"
)
_STRONG_NOUN = (
    r"(?:passages?|contexts?|texts?|excerpts?|snippets?|extracts?|search results?|knowledge base"
    r"|(?:reference|source) (?:material|text)s?|conversation(?: history)?)"
)
_WEAK_NOUN = r"(?:documents?|documentation|sources?|articles?|materials?|references?)"
_VAGUE_NOUN = r"(?:resources?|information|info|content|details|data|material|question)"
_HANDED = (
    r"(?:(?:that )?(?:(?:was|were|is|are) )?(?:provided|given|supplied|retrieved|available|shared|above)"
    r"(?: (?:to me|here))?"
    r"|(?:that )?(?:i|we|you) (?:have|had|(?:was|were|have been) (?:given|provided)|can (?:see|access)|gave|provided"
    r"|shared"
    r"|supplied|uploaded)(?: me)?(?: with| access to)?"
    r"|at (?:hand|my disposal)|in front of me|so far|here|\d+(?:(?:, | and |, and )\d+)*)"
)
_AND_MORE = rf"(?: (?:and|or) {_DETERMINER}(?:{_QUALIFIER} )?(?:{_STRONG_NOUN}|{_WEAK_NOUN}))?"
_AFTERWARDS = rf"{_AND_MORE}(?: {_HANDED}){{0,2}}"

STRONG_SOURCE = (
    rf"(?:{_DETERMINER}(?:(?:{_QUALIFIER} ){{1,3}}(?:{_STRONG_NOUN}|{_WEAK_NOUN}|{_VAGUE_NOUN})|{_STRONG_NOUN}"
    rf"|(?:{_WEAK_NOUN}|{_VAGUE_NOUN}) {_HANDED}){_AFTERWARDS}|what (?:i (?:have|was given)|was (?:provided|given)))"
)
"""What was retrieved, and nothing else: "the passages", "the provided documents", "the information at hand"."""
SOURCE = rf"(?:{STRONG_SOURCE}|{_DETERMINER}{_WEAK_NOUN}{_AFTERWARDS})"
"""What was retrieved; a bare "the document" may also be one that an answer is about."""
_AS_SUBJECT = rf"(?:^|\b(?=(?:{_THE}|{_QUALIFIER}) ))"
STRONG_SUBJECT = rf"{_AS_SUBJECT}{STRONG_SOURCE}(?:,? (?:which|that))?"
"""`STRONG_SOURCE` as a subject: "the texts do not say", never "most ancient texts do not say"."""
SUBJECT = rf"{_AS_SUBJECT}{SOURCE}(?:,? (?:which|that))?"
"""`SOURCE` as a subject."""
IN_SOURCE = rf"(?:in|by|within|from|based on|with|among|using|on the basis of) {SOURCE}(?=$|,| (?!of\b))"
"""Where something is not found: "in the passages", never "in the text of the law"."""
NAMED_SOURCE = rf"(?:^|\b(?=(?:the|these|this|provided|given|what) )){SOURCE}"
"""`SOURCE` where it is surely what was retrieved, or the documents that an answer is about."""
SOURCE_WORD = rf"\b(?:{_STRONG_NOUN}|{_WEAK_NOUN}|{_VAGUE_NOUN}|what)\b"
"""A word that every `SOURCE` contains."""
PASSAGES = r"(?:passages?|documents?|contexts?|texts?|sources?)"
"""What can be handed over to answer from, or not."""

KIND = (
    r"(?:(?:specific|explicit|direct|clear|exact|further|additional|other|detailed|more|such|relevant|sufficient"
    r"|enough|definit(?:e|ive)|concrete|any|much|real|precise|particular|reliable|useful) )*"
)
"""Which kind of information."""
INFORMATION = (
    r"(?:information|info|details?|data|specifics|answers?|mentions?|knowledge|explanation|discussion|description"
    r"|guidance|particulars|(?:explicit |direct )?statements?)"
)
"""What can only be missing from a text."""
FACTS = (
    rf"(?:{INFORMATION}|figures?|numbers?|names?|references?|evidence|indication|hints?|statistics|records?|access|idea"
    rf"|clue|insights?|opinions?|basis|grounds|context|{PASSAGES}|way (?:of (?:knowing|telling)|to (?:know|tell|say))"
    r"|(?:ability|means|capability) to)"
)
"""What a speaker or a text can lack that an answer would need."""
LACKED = (
    rf"(?:{GAP}{FACTS}\b|(?:the |an? )?(?:specific|exact|precise|definit(?:e|ive)|complete|full|comprehensive|any"
    r"|enough|sufficient|much)\b)"
)
"""The object of "do not have", "do not contain"."""
ABOUT = (
    r"(?:about|on|regarding|concerning|of|for|as to|that|which|whether|to|related|relating|relevant|pertaining"
    r"|available|provided|given|found|here|in|from|within|among"
    r"|(?:describ|specify|detail|identify|indicat|explain|stat|link)ing)"
)
"""What follows "there is no information"."""

SAY = (
    r"(?:mention|specify|specifie|state|say|address|discuss|indicate|clarify|explain|detail|describe|cover|reveal|tell"
    r"|answer|elaborate|refer|touch|talk|speak|define|confirm|note|report|identify|name|go into|deal with|compare"
    r"|disclose|quantify|establish|suggest|outline|associate|differentiate|distinguish|help)(?:s|es)?\b"
)
"""What texts do with facts."""
HOLD = r"(?:contain|include|have(?! to\b)|has(?! to\b)|provide|give|offer|present|list|supply|hold|show)s?\b"
"""What texts do with information; as a verb of an answer ("does not provide loans") it needs an object to tell."""
TOLD = (
    r"(?:mentioned|specified|stated|explained|discussed|described|detailed|addressed|indicated|disclosed|answered"
    r"|named|noted|spelled out|elaborated|clarified|touched upon)"
)
"""What only a text can leave out about a subject: "is not mentioned"."""
GIVEN = r"(?:provided|available|given|found|included|listed|covered)"
"""What a text, or the world, can leave out."""
SAID = (
    rf"(?:{TOLD}|{GIVEN}|contained|determined|inferred|confirmed|present|clear|reported|defined|identified|established"
    r"|referenced|shown|supported|something|supplied)"
)
"""What is not done to a subject "in the passages"."""
ANSWER = (
    r"(?:seem to )?(?:answer|find(?! fault| time| words"
    r"| (?:an?|any|another) way (?!of|to (?:know|tell|say)))|locate|provide|give|offer|tell"
    r"|say(?! (?:any|some)thing (?:bad|wrong|against)| so\b)"
    r"|determine|confirm|verify"
    r"|identify|help(?! \w+ing| but| more)"
    r"|assist|share|comment|address|specify|explain|infer|conclude|respond|speak|speculate|advise|be (?:sure|certain)"
    r"|see any|access|recall|state|describe|list|discuss|elaborate|compare|establish|ascertain|deduce|make out"
    r"|(?:do|fulfil?l|comply with|complete|process) (?:that|this|your|so)\b"
    r"|(?:name|recommend|suggest|make) (?:a|an|any|specific|which|whether|what|particular|one)\b)\b"
)
"""What a speaker does with a question."""
ATTRIBUTE = (
    r"(?:size|name|price|cost|date|number|amount|length|height|age|reason|cause|year|location|identity|title|type|rate"
    r"|value|fee|author|population|origin|outcome|duration|salary|address|deadline|definition|meaning|list|total)s?"
)
"""What a question asks for: "the size of the hall is not provided"."""
KNOW = r"(?:answer|say|tell|determine|establish|infer|confirm|provide|give|state|conclude|ascertain|deduce)"
"""What is impossible where nobody in particular lacks information."""
KNOWN = r"(?:answered|determined|said|established|inferred|confirmed|ascertained|given|concluded|known)"
"""What a question can not be."""
