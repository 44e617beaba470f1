"""Finds the clauses that refuse, by the patterns of the families."""

from __future__ import annotations

import re
from functools import cache, lru_cache

from ragtasks.metrics.idk_rules._families import FAMILIES, GROUNDED, MISSING, WHOLE

_MISSING = re.compile(MISSING)
_NEEDS = tuple(re.compile(one.needs) for one in FAMILIES)
_GROUNDED = re.compile(GROUNDED)
_WHOLE = re.compile(WHOLE)
_CONDITION = re.compile(r"(?:\b(?:if|when|unless|whenever|in case)\b(?! it comes to)|(?:^|, )where\b)[^,]*$")


def may_refuse(sentence: str) -> bool:
    """Return whether a sentence contains a word that every refusal contains: a quick first look."""
    return _MISSING.search(sentence) is not None


@lru_cache(1024)  # a clause is read once to see whether anything refuses, and once more to say what
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
    families = (number for number, needs in enumerate(_NEEDS) if needs.search(clause))
    patterns = (pattern for number in families for pattern in _patterns(number))
    matches = (match for pattern in patterns if (match := pattern.search(clause)))
    return next((match[0].strip() for match in matches if not _is_condition(clause, match)), None)


def refuses_alone(clause: str) -> bool:
    """Return whether a clause refuses where it is all that a response says, as "N/A" does."""
    return _WHOLE.match(clause) is not None


@cache
def _patterns(number: int) -> tuple[re.Pattern[str], ...]:
    """Return the patterns of a family: to compile all of them takes half a second, and many texts need none."""
    return tuple(map(re.compile, FAMILIES[number].patterns))


def _is_condition(clause: str, match: re.Match[str]) -> bool:
    first_word = match[0].strip().split(" ", 1)[0]
    return _CONDITION.search(f"{clause[: match.start()]}{first_word}") is not None
