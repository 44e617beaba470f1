"""Cuts a response into sentences, and a sentence into clauses of plain lower-case text with their subjects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ragtasks.metrics.idk_rules._vocabulary import (
    ADVERBS,
    HOLD,
    NAMED_SOURCE,
    SAY,
    SOURCE,
    SOURCE_WORD,
    STRONG_SOURCE,
    words_in,
    words_of,
)


@dataclass(frozen=True, slots=True)
class Clause:
    """A piece of a response that says one thing."""

    text: str
    """Lower case, contractions written out, markup and openings ("However, ") taken off, quotations as x."""
    is_question: bool
    is_grounded: bool
    """Whether it opened with its source: "Based on the passages, ..."."""
    is_conclusion: bool
    """Whether "so" draws it from the clause before."""
    is_reply: bool
    """Whether it says no more than the "Yes" or "No" that it opens with or stands behind."""
    sentence: str


_CITATION = re.compile(r"\[[\d, ]+\]")
_QUOTES = re.compile(r'"[^"\n]*"|(?<!\w)\'[^\'\n]{1,80}\'(?!\w)')
# Opens with a set of characters, and not with what stands behind a place, as that is searched for many times faster.
_SENTENCE_END = re.compile(
    r"[.!?\n|](?:(?<=[\n|])\s*|(?<=[.!?])(?<!\b[A-Z]\.)(?<!\bMr\.)(?<!\bDr\.)(?<!\bSt\.)(?<!\bvs\.)(?<!\be\.g\.)"
    r"(?<!\bi\.e\.)[\"')\]]*\s+)"
)
_CLAUSE_END = re.compile(
    r"(?=[;:,\s\u2014])(?:[;:]\s+|\s+[-\u2013]+\s+|\s*\u2014\s*"
    r"|,?\s(?=(?:but|however|although|though|while|whereas|yet|nevertheless|nonetheless)\b"
    r"|so (?:it|you|there|they|we|he|she|the|this|that|no|i|these)\b|which is why\b)"
    r"|,\s(?=so (?!far|as|long|much|many|called|on)\b)"
    r"|,?\sand (?=(?:i|we|they|it) (?:do|did|does|can|could|am|have|was|were|would|is|are)\b"
    r"|(?:do|does|did|can|could|is|are|was|were|offers?|gives?|makes?|says?|provides?|contains?) (?:not|no|nothing)\b)"
    r"|,?\s(?:and|as|because|since) (?=(?:the|these|this|none|neither|nothing)\b))"
)
# "While I do not know X, I can say Y" has its answer behind a comma.
_CONCESSION = re.compile(
    r"(?P<head>(?:while|although|though|even though|whilst)\b.*?),\s+(?=(?:i|it|the|there|here|you|we|they|this|these"
    r"|those|according|some|in|an?|he|she|one|based|most|many|both|such|what|generally|typically)\b)(?P<rest>.*)",
    re.DOTALL,
)
_OPENING = re.compile(
    r"(?:\W|(?:however|but|and|so|also|yet|still|although|though|even though|while|whilst|whereas|that said|instead"
    r"|otherwise|please|in any case|nevertheless|nonetheless|additionally|moreover|furthermore|in general"
    r"|unfortunately|regrettably|sadly|therefore|thus|hence|overall|well|hi|hmm|yes|no(?=,)|ok|okay|as a result"
    r"|as such|in short|specifically|note|answer|short answer|reason|currently|at this time|because|since"
    r"|as(?= (?:the|these|this|none|neither|nothing|no|i)\b))\b"
    r"|(?:i am |we are )?(?:(?:very|so|really|truly) )?sorry(?=,| but\b)|i am afraid(?: that)?\b|i regret that\b"
    r"|(?:i (?:must )?apologi[sz]e|(?:my )?apologies)(?=,| but\b)|it (?:seems|appears|looks like)(?: that)?\b"
    rf"|(?:based (?:solely |only |purely )?(?:up)?on|according to|from|in|per|given|within|going by) {SOURCE},"
    rf"|after [^,]{{1,60}}\b{SOURCE},|(?:without|due to|given) [^,]{{1,90}},"
    r"|(?:please )?(?:keep in mind|be aware|be advised) that\b|(?:please )?note that\b"
    r"|it (?:is|should be) (?:\w+ )?(?:important|worth|essential|noted)(?: to note| noting)?(?: that)?\b"
    r"|(?:as for|regarding|concerning|with regard to) [^,]{1,80},"
    r"|i can (?:only )?(?:(?!not)\w+ )?(?:tell|inform|share with|say to) you (?:that|about)?)+"
)
_YES_OR_NO = re.compile(
    r"(?:(?:well|oh|sorry|unfortunately|sadly|i am afraid)\b,? )*"
    r"(?:no|nope|nah|(?:(?:probably|certainly|definitely|apparently|usually|generally|of course|most likely) )?not"
    r"(?: at all| really| exactly| necessarily| entirely| always| usually)?|i (?:would not say|do not think) so"
    r"|yes|yep|yeah|yup)"
    r"(?:,? (?:sorry|unfortunately|sadly|indeed))?\s*(?:[.!]*$|[,;:.!\u2013\u2014-])"
)
THE_PASSAGES = "the passages"
# A pronoun before such a verb is the source, where one was named.
_PRONOUNS = frozenset(("it", "they", "these", "this", "that", "those", "which"))
_PRONOUN = re.compile(
    rf"(?:it|they|these|this|that|those|which)(?= (?:{ADVERBS}(?:do|does|did|can|could|may|only|mainly|primarily"
    rf"|mostly|instead|seems?|appears?|focus(?:es)?|deals?|{SAY}|{HOLD})\b"
    r"|(?:is|are) (?:\w+ )?(?:about|on|related|focused|silent|not|un\w+)\b))"
)
_ELIDED = re.compile(
    rf"(?:found (?:no|nothing)|(?:do|does|did|can|could) {ADVERBS}not|only|nothing|(?:offers?|gives?|makes?) no)\b"
)
_SAYS_NO_MORE = re.compile(r"nothing (?:specific|about|on|regarding|concerning|that)\b")
_SOURCE_IS_SUBJECT = re.compile(rf"(?:none of )?{SOURCE}(?= \w)(?! (?:on|of) )")
_MISSING_FROM_SOURCE = re.compile(rf"\b(?:not|no|nothing|none)\b.*\b(?:in|by|from) {STRONG_SOURCE}$")
_SOURCE_NAMED = re.compile(NAMED_SOURCE)
_SPEAKER_IS_SUBJECT = re.compile(r"i (?!\w+ (?:you|that)\b)")
_ITEM = re.compile(r"^[ \t]*(?:[-*\u2022\u2013]|\d{1,2}[.)])[ \t]+(.+)$", re.MULTILINE)
# "There does not seem to be any" is "there is not any".
_SEEMING = re.compile(
    r"\b(?:do|does|did) not (?:appear|seem) to(?P<be> be)?\b"
    rf"|\bit (?:does|did) not (?:appear|seem|look) (?:that|as if|like) (?P<source>{SOURCE})"
)
_STRAIGHT_QUOTES = {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'}
_PLAIN = {**_STRAIGHT_QUOTES, "\t": " ", "\xa0": " ", **dict.fromkeys("*_`#>", "")}
_SOURCE_WORDS = words_in(SOURCE_WORD)
_CONTRACTION = re.compile(
    r"n't\b|'(?:ve|re|d|ll)\b|\b(?:won't|can't|cannot|cant|dont|i'm|i've got|(?:there|it|that|here|what)'s)\b"
)
_WRITTEN_OUT = {
    "won't": "will not",
    **dict.fromkeys(("can't", "cannot", "cant"), "can not"),
    "dont": "do not",
    "n't": " not",
    "i'm": "i am",
    "i've got": "i have",
    "'ve": " have",
    "'re": " are",
    "'d": " would",
    "'ll": " will",
    **{f"{word}'s": f"{word} is" for word in ("there", "it", "that", "here", "what")},
}


def sentences_of(text: str) -> list[str]:
    """Return the sentences, lines and table cells of a response in order, without markup; letters in quotations as x.

    A response that is one quotation is read without its marks.
    """
    return list(map(written_out, raw_sentences_of(plain_of(text))))


def plain_of(text: str) -> str:
    """Return a response without markup, letters in quotations as x."""
    plain = text
    for mark, meant in _PLAIN.items():
        plain = plain.replace(mark, meant)
    plain = plain.strip()
    if "[" in plain:
        plain = _CITATION.sub("", plain)
    if len(plain) > 1 and plain[0] == plain[-1] == '"' and plain.count('"') == 2:
        plain = plain[1:-1]
    # Blanked, not removed: a quotation may be the answer, so its words still count.
    if '"' in plain or " '" in plain or plain.startswith("'"):
        plain = _QUOTES.sub(lambda quote: re.sub(r"\w", "x", quote[0]), plain)
    return plain


def raw_sentences_of(plain: str) -> list[str]:
    """Return what `sentences_of` does for a response of `plain_of`, before contractions are written out."""
    return [sentence for piece in _cut(plain) if (sentence := piece.strip().lower())]


def items_of(text: str) -> frozenset[str]:
    """Return the items of the lists of a response, as `raw_sentences_of` has them, without their marks."""
    return frozenset(sentence for item in _ITEM.findall(text) for sentence in raw_sentences_of(plain_of(item)))


def _cut(plain: str) -> Iterator[str]:
    start = 0
    for end in _SENTENCE_END.finditer(plain):
        yield plain[start : end.start() + (end[0][0] in ".!?")]
        start = end.end()
    yield plain[start:]


def written_out(sentence: str) -> str:
    """Return a sentence in lower case without contractions."""
    return " ".join(_CONTRACTION.sub(lambda found: _WRITTEN_OUT[found[0]], sentence).split())


def yes_or_no(sentence: str) -> str | None:
    """Return how a sentence opens with "yes" or "no": "alone", "more" where more follows; None where it does not."""
    match = _YES_OR_NO.match(sentence)
    return match and ("more" if match.end() < len(sentence) else "alone")


def clauses_of(sentence: str, *, is_named_before: Callable[[], bool], is_reply: bool = False) -> list[Clause]:
    """Return the clauses of a sentence of `sentences_of`, in order.

    A clause whose subject is left out has the one of the clause before; a pronoun is the source where one was named:
    "The passages discuss 2010; they do not give 2020" says twice what the passages do.
    """
    is_question = sentence.endswith("?")
    may_name = may_name_source(sentence)
    clauses: list[Clause] = []
    for piece in _pieces(_SEEMING.sub(_as_is, sentence) if "not" in sentence else sentence):
        opening, opened = _opened(piece)
        if _PRONOUN.match(opened) and (any(names_source(clause.text) for clause in clauses) or is_named_before()):
            text = _PRONOUN.sub(THE_PASSAGES, opened, count=1)
        else:
            text = _with_subject(opened, clauses[-1].text if clauses else "")
        is_grounded = bool(opening) and may_name and names_source(opening)
        is_conclusion = piece.startswith(("so ", "which is why "))
        clauses.append(Clause(text, is_question, is_grounded, is_conclusion, is_reply, sentence))
        is_reply = is_reply and yes_or_no(piece) == "alone"
    return clauses


def names_source(text: str) -> bool:
    """Return whether a text names what was retrieved."""
    return may_name_source(text) and _SOURCE_NAMED.search(text) is not None


def may_name_source(text: str) -> bool:
    """Return whether a text has a word that every name of what was retrieved has one of."""
    return not _SOURCE_WORDS.isdisjoint(words_of(text))


def may_name_by_pronoun(words: Sequence[str]) -> bool:
    """Return whether a clause of some of these words can mean a source that was named before."""
    return not _PRONOUNS.isdisjoint(words)


def _as_is(seeming: re.Match[str]) -> str:
    if seeming["source"]:
        return f"{seeming['source']} do not"
    return "is not" if seeming["be"] else "do not"


def _pieces(sentence: str) -> Iterator[str]:
    for part in _CLAUSE_END.split(sentence):
        concession = _CONCESSION.fullmatch(part)
        for piece in (concession["head"], concession["rest"]) if concession else (part,):
            stripped = piece.strip(" .!?,:()[]<>")
            if stripped:
                yield stripped


def _opened(piece: str) -> tuple[str, str]:
    end = match.end() if (match := _OPENING.match(piece)) else 0
    return piece[:end], piece[end:].strip() or piece


def _with_subject(opened: str, before: str) -> str:
    """Return a clause with the subject of the one before, where its own is left out."""
    if not _ELIDED.match(opened):
        return opened
    subject = _subject(before)
    if subject == THE_PASSAGES and _SAYS_NO_MORE.match(opened):
        return f"{subject} say {opened}"
    return f"{subject} {opened}".lstrip()


def _subject(clause: str) -> str:
    if may_name_source(clause) and (_SOURCE_IS_SUBJECT.match(clause) or _MISSING_FROM_SOURCE.search(clause)):
        return THE_PASSAGES
    return "i" if clause.startswith("i ") and _SPEAKER_IS_SUBJECT.match(clause) else ""
