r"""Reads judges' replies as the official scripts do, quirks included: the ibm profile.

Source of everything here: IBM/mt-rag-benchmark, scripts/evaluation (`judge_utils.py`, `judge_wrapper.py`), commit
cc5b1d4; `perf/official_agreement.py` runs those functions beside these. Each quirk is a function of its own.
Nearly all of them give a value also for replies that hold no verdict; `ragtasks.judges` reads replies right.
"""

from __future__ import annotations

import json
import re

from ragtasks.judges._parsers import HIGHEST_RATING
from ragtasks.judges._question import Finding
from ragtasks.records import IdkVerdict

IBM = "_ibm"
"""Ends the names of rubrics and metrics of the ibm profile."""
UNDECIDED = 0.5
"""What the official scripts score where they find no verdict."""

_DECIMAL = r"([0-9]*\.?[0-9]+)"
_SIGNED = r"([-+]?\d*\.?\d+)"
# In the order in which the scripts try them. `\d` is a digit of any script there, `[0-9]` is not.
_RATING_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"Rating: \[\[(\d+)\]\]",
        r"Rating: (\d+)",
        r"\[\[(\d+)\]\]",
        r"\[(\d+)\]",
        rf"Rating: \[\[{_DECIMAL}\]\]",
        rf"Overall Rating: {_DECIMAL}",
        rf"Score: {_DECIMAL}/10",
        rf"Score: {_DECIMAL}",
        r"\[Rating\]\n(\d+)",
        r"Rating: \[\[(\d+)/10\]\]",
        rf"Rating: \[\[{_SIGNED}",
        rf"{_SIGNED} out of 10",
    )
)
_EXAMPLE = re.compile(r"for example:.*", re.IGNORECASE)
_FIRST_LETTERS = re.compile(r"\s*([A-Za-z]+)")
_FENCE = "```json"
_IN_FENCE = re.compile(r"```json\s*(.*?)\s*```", re.DOTALL)
_IN_BRACES = re.compile(r"\{\s*(.*?)\s*\}", re.DOTALL)
_STRAY_ESCAPE = re.compile(r"\\(?![\"\\/bfnrt]|u[0-9a-fA-F]{4})")


def ibm_rating(reply: str) -> float:
    """Return the official score of a rating, 0.01 to 1: the number over 10, or 0.5 where none is found.

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
    """Return a rating over 10; 0.5 where there is none, it is not above 0, or it is more than 10."""
    share = UNDECIDED if rating is None else rating / HIGHEST_RATING
    return share if 0 < share <= 1 else UNDECIDED


def ibm_idk(reply: str | None) -> IdkVerdict | None:
    """Return the official IDK label: of the first word only, and `partial` where that is any other word.

    The script's numbers 1, 0.5 and 0 are `yes`, `partial` and `no` here. None means its text "unknown", where a
    reply begins with no letter (a quote, a star, a digit), and for what is no text.
    """
    match = _FIRST_LETTERS.match(reply) if reply is not None else None
    if match is None:
        return None
    return {"yes": IdkVerdict.YES, "no": IdkVerdict.NO}.get(match[1].lower(), IdkVerdict.PARTIAL)


def ibm_clarification(reply: str) -> float:
    """Return the official value of a clarification: 1 for yes, 0 for no, 0.5 for everything else.

    Capitals do not count, blanks around the word do. See `ibm_first_object` for what is read.
    """
    try:
        decision = json.loads(ibm_first_object(reply)).get("decision", "").lower()
    except (ValueError, AttributeError, RecursionError):
        return UNDECIDED
    return {"yes": 1.0, "no": 0.0}.get(decision, UNDECIDED)


def ibm_first_object(reply: str) -> str:
    """Return what the official scripts take for the judge's JSON object; "" where they find none.

    That is the text of the first fence that says json, where any does, else that from the first brace to the next
    closing one: an object in an object is cut, and one before the judge's own is taken for it. Backslashes that
    JSON does not know are dropped, and missing braces at either end are added.
    """
    match = (_IN_FENCE if _FENCE in reply else _IN_BRACES).search(reply)
    if match is None:
        return ""
    text = _STRAY_ESCAPE.sub("", match[1])
    return ("" if text.startswith("{") else "{") + text + ("" if text.endswith("}") else "}")


def ibm_rating_finding(reply: str) -> Finding:
    """Return `ibm_rating` as a finding."""
    value = ibm_rating(reply)
    return Finding(f"{value * HIGHEST_RATING:g}", value)


def ibm_idk_finding(reply: str) -> Finding:
    """Return `ibm_idk` as a finding; a reply that the scripts call unknown has that label and no value."""
    verdict = ibm_idk(reply)
    if verdict is None:
        return Finding("unknown", None, reason="the official scripts call this reply unknown")
    return Finding(verdict.value, _IDK_VALUES[verdict])


def ibm_clarification_finding(reply: str) -> Finding:
    """Return `ibm_clarification` as a finding."""
    value = ibm_clarification(reply)
    return Finding({1.0: "yes", 0.0: "no"}.get(value, "undecided"), value)


_IDK_VALUES = {IdkVerdict.YES: 1.0, IdkVerdict.PARTIAL: UNDECIDED, IdkVerdict.NO: 0.0}

__all__ = [
    "IBM",
    "UNDECIDED",
    "ibm_clarification",
    "ibm_clarification_finding",
    "ibm_first_object",
    "ibm_idk",
    "ibm_idk_finding",
    "ibm_last_pattern",
    "ibm_rating",
    "ibm_rating_finding",
    "ibm_rating_in_range",
    "ibm_without_example",
]
