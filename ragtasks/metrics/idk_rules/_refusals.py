"""Finds the clauses that refuse, by the patterns of the families."""

from __future__ import annotations

import re
from functools import cache, lru_cache

from ragtasks.metrics.idk_rules._clauses import words_of
from ragtasks.metrics.idk_rules._families import FAMILIES, GROUNDED, MISSING, WHOLE

_MISSING = frozenset(MISSING.split())
_NEEDS = tuple(
    frozenset(word for found in words_of(one.needs) for word in (found, f"{found}s", found.removesuffix("s")))
    for one in FAMILIES
)
_BEGINS = tuple(frozenset(words_of(one.begins)) for one in FAMILIES)
_GROUNDED = re.compile(GROUNDED)
_WHOLE = re.compile(WHOLE)
_CONDITION = re.compile(r"(?:\b(?:if|when|unless|whenever|in case)\b(?! it comes to)|(?:^|, )where\b)[^,]*$")


@lru_cache(1024)  # a clause is read once to see whether anything refuses, and once more to say what
def refusal_in(clause: str, *, is_grounded: bool = False) -> str | None:
    """Return the phrase of a clause that says that information is missing, or None; conditions say nothing.

    Args:
        clause: a `clauses.Clause.text`.
        is_grounded: whether it opens with its source ("Based on the passages, ..."); then what is unknown is unknown
            to the source, not to the world.
    """
    words = words_of(clause)
    if _MISSING.isdisjoint(words):
        return None
    if is_grounded and (match := _GROUNDED.match(clause)):
        return match[0]
    patterns = (
        pattern
        for number, needs in enumerate(_NEEDS)
        if (words[0] in _BEGINS[number] or not needs.isdisjoint(words)) and _opens(number, clause)
        for pattern in _patterns(number)
    )
    matches = (match for pattern in patterns if (match := pattern.search(clause)))
    return next((match[0].strip() for match in matches if not _is_condition(clause, match)), None)


def refuses_alone(clause: str) -> bool:
    """Return whether a clause refuses where it is all that a response says, as "N/A" does."""
    return _WHOLE.match(clause) is not None


def _opens(number: int, clause: str) -> bool:
    return not FAMILIES[number].opening or _opening(number).search(clause) is not None


@cache
def _opening(number: int) -> re.Pattern[str]:
    return re.compile(FAMILIES[number].opening)


@cache
def _patterns(number: int) -> tuple[re.Pattern[str], ...]:
    """Return the patterns of a family: to compile all of them takes half a second, and many texts need none."""
    return tuple(map(re.compile, FAMILIES[number].patterns))


def _is_condition(clause: str, match: re.Match[str]) -> bool:
    first_word = match[0].strip().split(" ", 1)[0]
    return _CONDITION.search(f"{clause[: match.start()]}{first_word}") is not None
