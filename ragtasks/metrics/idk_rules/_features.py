"""What the learned part of the detector sees of a sentence: its words of grammar and of the word classes, in order.

All other words are one and the same to it, so that what was learned on one topic holds on another.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import lru_cache

from ragtasks.metrics.idk_rules._word_classes import FUNCTION_WORDS, WHO_LACKS, WORDS

_TOKEN = re.compile(r"[a-z]+(?:[-'][a-z]+)*|\d+(?:[.,]\d+)*|[?:,]")
_GRAMMAR = frozenset(FUNCTION_WORDS.split())
_CLASSES: dict[str, tuple[str, ...]] = {}
for _name, _words in WORDS.items():
    for _word in _words.split():
        _CLASSES[_word] = (*_CLASSES.get(_word, ()), _name)
_SIGNS = frozenset({"NOT", "LACK"})
_WORDS = _GRAMMAR.union(_CLASSES, ("0", "?", ":", ","))
"""Words and marks that stand for themselves; any other is the same as another."""
_OTHER = "_"
_START, _END = "^", "$"
_NO_FEATURES = frozenset({_OTHER, _START, _END})
_LINK = re.compile(r" |\+|\.\.|(?<=<)>")
"""What stands in a feature between its words or classes."""
_AROUND = 8
"""Words before and after a sign whose classes are noted."""
_WHO = {name: frozenset(words.split()) for name, words in WHO_LACKS.items()}
_LACKERS = frozenset({"SOURCE", "SPEAKER", "INFORMATION", "WHICH", "EXACT"})
"""Classes of what may lack information, or be lacking."""
_N_WORDS = 1 << 16
"""Words whose classes are remembered."""

Step = tuple[str, ...]
"""What a word is to the learned part: itself, its classes, or nothing."""


def tokens_of(sentence: str) -> list[str]:
    """Return the words and marks of a sentence of `sentences_of`; every number is 0."""
    return ["0" if token[0].isdigit() else token for token in _TOKEN.findall(sentence)]


def has_sign(tokens: Sequence[str]) -> bool:
    """Return whether a negation or a word such as "unclear" is among the tokens."""
    return not SIGNS.isdisjoint(tokens)


def is_of_others(tokens: Sequence[str]) -> bool:
    """Return whether all that a sentence negates is what others do, or the world lacks: no source, no speaker.

    "The witness could not describe him" is an answer about a witness, "our pages could not" is none.
    """
    start, of_others, n_signs = 0, False, 0
    if _is_told_to_reader(tokens):
        return True
    for place, token in enumerate(tokens):
        if token in _WHO["START"]:
            start = place + 1
        elif token in SIGNS:
            subject, after = tokens[start:place], tokens[place + 1 :]
            of_others = (
                _is_of_world(token, after)
                or _is_of_noun(subject)
                or (of_others and subject[:2] == ["and", "there"])
                or (
                    _is_active(subject, token, after)
                    and ((of_others and subject[0] in _WHO["IT"]) or _names_others(subject))
                )
            )
            if not of_others:
                return False
            n_signs += 1
    return n_signs > 0


def _is_told_to_reader(tokens: Sequence[str]) -> bool:
    """Return whether a sentence tells its reader what not to do: "never give your number"."""
    return (tokens[:1] == ["never"] or tokens[:2] == ["do", "not"]) and not _WHO["READER"].isdisjoint(tokens)


def _is_of_noun(subject: Sequence[str]) -> bool:
    """Return whether what comes is said of a noun before: "a claim for which no papers were given"."""
    return bool(subject) and subject[-1] in _WHO["OF_WHICH"] and not _WHO["OF"].isdisjoint(subject[-2:-1])


def _is_of_world(sign: str, after: Sequence[str]) -> bool:
    """Return whether a sign says what was never done, or that there is none in the world."""
    if sign == "never":
        return after[:1] == ["been"]
    near, ends_in_year = after[:_AROUND], after[-2:-1] and after[-2] in _WHO["UNTIL"] and after[-1] == "0"
    is_there = not _WHO["EXIST"].isdisjoint(near)
    return sign == "no" and bool(ends_in_year or is_there or _has_not_been(near) or _is_withheld(near))


def _is_withheld(after: Sequence[str]) -> bool:
    """Return whether it is told who or what gives nothing away: "no information is given by telephone"."""
    return any(
        verb in _WHO["GIVEN"] and how in _WHO["WITHHELD"] and _LACKERS.isdisjoint(_classes(by))
        for verb, how, by in zip(after, after[1:], after[2:], strict=False)
    )


def _has_not_been(after: Sequence[str]) -> bool:
    """Return whether nothing of a kind has been found, or made, or proved, by anybody."""
    place = next((place for place, token in enumerate(after) if token == "been"), 0)
    has = not {"has", "have"}.isdisjoint(after[max(0, place - 2) : place])
    named = after[:place] and "INFORMATION" in {name for token in after[:place] for name in _classes(token)}
    return has and not named and _WHO["HANDED"].isdisjoint(after[place : place + 3])


def _is_active(subject: Sequence[str], sign: str, after: Sequence[str]) -> bool:
    """Return whether the verb that a sign negates is an active one, and none of those by which a subject comes up."""
    verbs = [token for token in subject if not token.endswith("ly")][-1:]
    if sign in _WHO["NO"]:
        return _WHO["NO_VERB"].isdisjoint(verbs) and bool(verbs)
    return not _WHO["AUXILIARY"].isdisjoint(verbs) and _WHO["COME_UP"].isdisjoint(after[:2])


def _names_others(subject: Sequence[str]) -> bool:
    if subject[0] in _WHO["PERSON"] or _searched(subject):
        return True
    others = [token in _WHO["OTHERS"] or not _step(token) for token in subject]
    lacks = (token in _WHO["IT"] or not _LACKERS.isdisjoint(_classes(token)) for token in subject)
    return any(others) and not any(lacking and not other for lacking, other in zip(lacks, others, strict=True))


def _searched(subject: Sequence[str]) -> bool:
    """Return whether "they" did what no source does."""
    return subject[0] == "they" and any(token.endswith("ed") and not _step(token) for token in subject[1:2])


def content_of(tokens: Sequence[str]) -> set[str]:
    """Return the beginnings of the words that are neither grammar nor of a class: what a sentence is about."""
    return {token[:6] for token in tokens if len(token) > 2 and not _step(token)}


class Features:
    """Reads the features of sentences: one to three words in a row, classes in a row, classes around a sign."""

    def __init__(self, wanted: Collection[str] | None = None) -> None:
        """Take the features that are wanted; None: all."""
        self._wanted = None if wanted is None else frozenset(wanted)
        self._begun = frozenset(name[: end.start()] for name in wanted or () for end in _LINK.finditer(name))

    def of(self, tokens: Sequence[str]) -> set[str]:
        """Return the features of a sentence."""
        words = [_START]
        for token in tokens:
            if token in _WORDS:
                words.append(token)
            elif words[-1] != _OTHER:
                words.append(_OTHER)
        words += (_END, "", "")
        steps = [(_START,), *map(_step, tokens), (_END,), (), (), ()]
        found: list[str] = []
        self._add_words(words, found)
        self._add_classes(steps, found)
        self._add_signs(steps, found)
        return set(found) if self._wanted is None else set(self._wanted.intersection(found))

    def _begins(self, beginning: str) -> bool:
        """Return whether a wanted feature begins so and goes on."""
        return self._wanted is None or beginning in self._begun

    def _add_words(self, words: Sequence[str], found: list[str]) -> None:
        """Add words in a row, but no row of other words and ends alone."""
        for one, two, three in zip(words, words[1:], words[2:], strict=False):
            is_word = one not in _NO_FEATURES
            if is_word:
                found.append(one)
            if two and self._begins(one):
                row, is_word = f"{one} {two}", is_word or two not in _NO_FEATURES
                if is_word:
                    found.append(row)
                if three and self._begins(row) and (is_word or three not in _NO_FEATURES):
                    found.append(f"{row} {three}")

    def _add_classes(self, steps: Sequence[Step], found: list[str]) -> None:
        """Add classes next to each other and those one or two words further."""
        for here, after, third, fourth in zip(steps, steps[1:], steps[2:], steps[3:], strict=False):
            for one in here:
                if self._begins(one):
                    for two in after:
                        pair = f"{one}+{two}"
                        found.append(pair)
                        if self._begins(pair):
                            found += [f"{pair}+{three}" for three in third]
                    found += [f"{one}..{far}" for far in third + fourth]

    def _add_signs(self, steps: Sequence[Step], found: list[str]) -> None:
        """Add the classes of the words around each sign."""
        named = list(map(_names, steps))
        for place, here in enumerate(named):
            if not _SIGNS.isdisjoint(here):
                before = set().union(*named[max(0, place - _AROUND) : place])
                after = set().union(*named[place + 1 : place + 1 + _AROUND])
                found += [f"{one}<" for one in before]
                found += [f">{one}" for one in after]
                found += [f"{one}<>{other}" for one in before if self._begins(f"{one}<") for other in after]


features_of = Features().of
"""All features of a sentence."""


def _classes(token: str) -> Step:
    found = _CLASSES.get(token)
    return found if found is not None else _CLASSES.get(token[:-1], ()) if token.endswith("s") else ()


@lru_cache(_N_WORDS)
def _step(token: str) -> Step:
    return _classes(token) or ((token,) if token in _GRAMMAR else ())


@lru_cache(_N_WORDS)
def _names(step: Step) -> Step:
    return tuple(filter(str.isupper, step))


SIGNS = frozenset(token for word in _CLASSES for token in (word, f"{word}s") if not _SIGNS.isdisjoint(_classes(token)))
"""Negations and words such as "unclear"."""
