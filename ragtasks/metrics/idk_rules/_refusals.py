"""Finds the clauses that refuse, by the patterns of the families."""

from __future__ import annotations

import re

from ragtasks.metrics.idk_rules._families import FAMILIES, GROUNDED, MISSING, WHOLE

_MISSING = re.compile(MISSING)
_FAMILIES = tuple((re.compile(one.needs), tuple(map(re.compile, one.patterns))) for one in FAMILIES)
_GROUNDED = re.compile(GROUNDED)
_WHOLE = re.compile(WHOLE)
_CONDITION = re.compile(r"(?:\b(?:if|when|unless|whenever|in case)\b(?! it comes to)|(?:^|, )where\b)[^,]*$")


def may_refuse(sentence: str) -> bool:
    """Return whether a sentence contains a word that every refusal contains: a quick first look."""
    return _MISSING.search(sentence) is not None


def refusal_in(clause: str, *, is_grounded: bool = False) -> str | None:
    """Return the phrase of a clause that says that information is missing, or None; conditions say nothing.

    Args:
        clause: a `clauses.Clause.text`.
        is_grounded: whether it opens with its source ("Based on the passages, ..."); then what is unknown is unknown
            to the source, not to the world.
    """
    if not may_refuse(clause):
        return None
    if is_grounded and (match := _GROUNDED.match(clause)):
        return match[0]
    patterns = (pattern for needs, family in _FAMILIES if needs.search(clause) for pattern in family)
    matches = (match for pattern in patterns if (match := pattern.search(clause)))
    return next((match[0].strip() for match in matches if not _is_condition(clause, match)), None)


def refuses_alone(clause: str) -> bool:
    """Return whether a clause refuses where it is all that a response says, as "N/A" does."""
    return _WHOLE.match(clause) is not None


def _is_condition(clause: str, match: re.Match[str]) -> bool:
    first_word = match[0].strip().split(" ", 1)[0]
    return _CONDITION.search(f"{clause[: match.start()]}{first_word}") is not None
