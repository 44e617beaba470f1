r"""Reads judges' replies as the official scripts do, quirks included: the ibm profile.

Source of everything here: IBM/mt-rag-benchmark, scripts/evaluation (`judge_utils.py`, `judge_wrapper.py`), commit
cc5b1d4. Each quirk is a function of its own. All of them always give a figure, also for replies that hold no verdict;
`ragtasks.judges.parsers` is what reads replies right.
"""

from __future__ import annotations

import json
import re

from ragtasks.judges.parsers import HIGHEST_RATING
from ragtasks.records import IdkVerdict

UNDECIDED = 0.5
"""What the official scripts score where they find no verdict."""

_DECIMAL = r"([0-9]+\.?[0-9]*)"
_RATING_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"Rating: \[\[([0-9]+)\]\]",
        r"Rating: ([0-9]+)",
        r"\[\[([0-9]+)\]\]",
        r"\[([0-9]+)\]",
        rf"Rating: \[\[{_DECIMAL}\]\]",
        rf"Overall Rating: {_DECIMAL}",
        rf"Score: {_DECIMAL}/10",
        rf"Score: {_DECIMAL}",
        r"\[Rating\]\n([0-9]+)",
        r"Rating: \[\[([0-9]+)/10\]\]",
        rf"Rating: \[\[{_DECIMAL}",
        rf"{_DECIMAL} out of 10",
    )
)
_EXAMPLE = re.compile(r"for example:.*", re.IGNORECASE)
_FIRST_LETTERS = re.compile(r"\s*([A-Za-z]+)")
_FIRST_BRACES = re.compile(r"\{.*?\}", re.DOTALL)


def ibm_rating(reply: str) -> float:
    """Return the official figure of a rating, 0.01 to 1: the number over 10, or 0.5 where none is found.

    Known differences from the right reading: `ibm_last_pattern` and `ibm_rating_in_range`.
    """
    return ibm_rating_in_range(ibm_last_pattern(ibm_without_example(reply)))


def ibm_without_example(reply: str) -> str:
    """Return a reply without what stands between `for example:` and the end of its line, a rating included."""
    return _EXAMPLE.sub("", reply)


def ibm_last_pattern(reply: str) -> float | None:
    """Return the number that the last matching of twelve patterns finds at its first place, None where none matches.

    So the form decides, not the place: `3 out of 10 claims` beats `Rating: [[9]]`, a reference `[1]` beats
    `Rating: 4`, a quoted `[[10]]` beats a plain `Rating: 2`, and `Rating: 8.5` is 8.
    """
    found = [match[1] for pattern in _RATING_PATTERNS if (match := pattern.search(reply))]
    return float(found[-1]) if found else None


def ibm_rating_in_range(rating: float | None) -> float:
    """Return a rating over 10; 0.5 where there is none, or it is 0, or more than 10."""
    return rating / HIGHEST_RATING if rating is not None and 0 < rating <= HIGHEST_RATING else UNDECIDED


def ibm_idk(reply: str | None) -> IdkVerdict | None:
    """Return the official IDK label: of the first word only, and `partial` where that is any other word.

    The script's numbers 1, 0.5 and 0 are `yes`, `partial` and `no` here. None stands for its text "unknown", where a
    reply begins with no letter (a quote, a star, a digit), and for what is no text.
    """
    match = _FIRST_LETTERS.match(reply) if reply is not None else None
    if match is None:
        return None
    return {"yes": IdkVerdict.YES, "no": IdkVerdict.NO}.get(match[1].lower(), IdkVerdict.PARTIAL)


def ibm_clarification(reply: str) -> float:
    """Return the official figure of a clarification: 1 for yes, 0 for no, 0.5 for everything else.

    It reads the text from the first brace to the next closing one, so an object in an object is no JSON, and one that
    stands before the judge's own is taken for it.
    """
    try:
        decision = json.loads(_FIRST_BRACES.findall(reply)[0])["decision"].strip().lower()
    except (LookupError, ValueError, TypeError, AttributeError):
        return UNDECIDED
    return {"yes": 1.0, "no": 0.0}.get(decision, UNDECIDED)


__all__ = [
    "UNDECIDED",
    "ibm_clarification",
    "ibm_idk",
    "ibm_last_pattern",
    "ibm_rating",
    "ibm_rating_in_range",
    "ibm_without_example",
]
