"""Where English sentences end: a small rule that knows abbreviations, initials, decimals and numbered lists."""

from __future__ import annotations

import re
from collections.abc import Iterator

_CLOSING = "\"'\u201d\u2019)\\]*_"
_OPENING = "\"'\u201c\u2018(\\[*_"
_END = re.compile(rf"[.!?\u2026]+[{_CLOSING}]*(?=\s+[{_OPENING}]*(?P<next>\w+))")
_WORD_BEFORE = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]+$|[0-9]+$")
_LIST_NUMBER = re.compile(r"\s*(?:[-*\u2022]\s*)?[0-9]{1,3}$")


def _words(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


# Never at the end of a sentence: a name, a number or an example follows.
_TITLES = _words(
    "adm al approx capt cf col cmdr dr eds e.g eq fig figs ft gen gov hon i.e lt messrs mr mrs ms mt pp prof rep rev",
    "sen sgt st ste viz vol vols vs",
)
# May end one: then the next sentence opens with a word that seldom follows them otherwise.
_MAY_END = _words(
    "a.d a.m assn ave b.c blvd bros co corp d.c dept est etc inc jr ltd m.d no nos p p.m ph.d rd sr u.k u.n u.s univ",
    "u.s.a jan feb mar apr jun jul aug sep sept oct nov dec",
)
_OPENERS = _words(
    "A After All Also Although An And As At Because Before Both But By Each Every For From He Here How However I If In",
    "Instead It Its Many Moreover Most No Not On One Other Others Our She Since So Some Such Than That The Their Then",
    "There These They This Those Thus To Under Until We What When Where While Who With Without You Your",
)


def sentence_ends(line: str) -> Iterator[int]:
    """Yield the places behind which a further sentence of a line begins, in order; none for a single sentence.

    A full stop, question or exclamation mark ends a sentence where white space and no small letter follows, and where
    it belongs neither to an abbreviation or initial nor to the number of a list item.

    Args:
        line: a line, or a whole text: a line end is white space then, and ends no sentence.
    """
    start = 0
    for match in _END.finditer(line):
        before, following = line[start : match.start()], match["next"]
        if following[0].islower() or (match[0].startswith(".") and _goes_on(before, match[0], following)):
            continue
        start = match.end()
        yield start


def _goes_on(before: str, mark: str, following: str) -> bool:
    """Return whether the full stop behind `before` is part of a word."""
    if mark.startswith(".."):
        return False
    if _LIST_NUMBER.fullmatch(before):
        return True
    found = _WORD_BEFORE.search(before)
    word = found[0] if found else ""
    if word.lower() in _TITLES:
        return True
    is_initial = len(word) == 1 and word.isupper() and word != "I"
    if word.lower() in {"no", "nos", "p"}:
        return following[0].isdigit()
    return (is_initial or word.lower() in _MAY_END) and following not in _OPENERS


__all__ = ["sentence_ends"]
