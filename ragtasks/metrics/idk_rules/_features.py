"""What the learned part of the detector sees of a sentence: its words of grammar and of the word classes, in order.

All other words are one and the same to it, so that what was learned on one topic holds on another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product

from ragtasks.metrics.idk_rules._word_classes import FUNCTION_WORDS, WORDS

_TOKEN = re.compile(r"[a-z]+(?:[-'][a-z]+)*|\d+(?:[.,]\d+)*|[?:,]")
_GRAMMAR = frozenset(FUNCTION_WORDS.split())
_CLASSES: dict[str, tuple[str, ...]] = {}
for _name, _words in WORDS.items():
    for _word in _words.split():
        _CLASSES[_word] = (*_CLASSES.get(_word, ()), _name)
_SIGNS = frozenset({"NOT", "LACK"})
_KEPT = frozenset({"0", "?", ":", ","})
_OTHER = "_"
_START, _END = "^", "$"
_AROUND = 8
"""Words before and after a sign whose classes are noted."""


def tokens_of(sentence: str) -> list[str]:
    """Return the words and marks of a sentence of `sentences_of`; every number is 0."""
    return ["0" if token[0].isdigit() else token for token in _TOKEN.findall(sentence)]


def has_sign(tokens: Sequence[str]) -> bool:
    """Return whether a negation or a word such as "unclear" is among the tokens."""
    return any(not _SIGNS.isdisjoint(_classes(token)) for token in tokens)


def content_of(tokens: Sequence[str]) -> set[str]:
    """Return the beginnings of the words that are neither grammar nor of a class: what a sentence is about."""
    return {token[:6] for token in tokens if len(token) > 2 and token not in _GRAMMAR and not _classes(token)}


def features_of(tokens: Sequence[str]) -> set[str]:
    """Return the features of a sentence: one to three words in a row, classes in a row, classes around a sign."""
    steps = [(_START,), *(_steps(token) for token in tokens), (_END,)]
    return {*_in_a_row(tokens), *_of_classes(steps), *_around_signs(steps)}


def _classes(token: str) -> tuple[str, ...]:
    found = _CLASSES.get(token)
    return found if found is not None else _CLASSES.get(token[:-1], ()) if token.endswith("s") else ()


def _steps(token: str) -> tuple[str, ...]:
    return _classes(token) or ((token,) if token in _GRAMMAR else ())


def _in_a_row(tokens: Sequence[str]) -> Iterator[str]:
    words = [_START]
    for token in tokens:
        word = token if token in _KEPT or token in _GRAMMAR or token in _CLASSES else _OTHER
        if word != _OTHER or words[-1] != _OTHER:
            words.append(word)
    words.append(_END)
    for length in (1, 2, 3):
        for start in range(len(words) - length + 1):
            row = words[start : start + length]
            if not {_OTHER, _START, _END}.issuperset(row):
                yield " ".join(row)


def _of_classes(steps: list[tuple[str, ...]]) -> Iterator[str]:
    for place, here in enumerate(steps):
        for joint, distance in (("+", 1), ("..", 2), ("..", 3)):
            for first, second in product(here, steps[place + distance] if place + distance < len(steps) else ()):
                yield f"{first}{joint}{second}"
        for row in product(*steps[place : place + 3]) if place + 2 < len(steps) else ():
            yield "+".join(row)


def _around_signs(steps: list[tuple[str, ...]]) -> Iterator[str]:
    named = [frozenset(filter(str.isupper, step)) for step in steps]
    for place, here in enumerate(named):
        if here & _SIGNS:
            before = frozenset().union(*named[max(0, place - _AROUND) : place])
            after = frozenset().union(*named[place + 1 : place + 1 + _AROUND])
            yield from (f"{one}<" for one in before)
            yield from (f">{one}" for one in after)
            yield from (f"{one}<>{other}" for one, other in product(before, after))
