"""What a clause means, in the same words for every language.

A table gives the words of a language for some fifty meanings (`neg`: not, nothing, without; `say`: what a source does;
`silent`, `know`, `find`, `me`, `world`: what people know and do not). Meanings that meet in a clause are features that
all languages share.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from ragtasks.metrics.idk_languages._tables import UNSPACED, clauses_of, patterns_of

_NEAR = 30
_NEAR_IN_SHORT_WORDS = {"ja": 12, "ko": 12, "zh": 12}
"""Characters between two words that stand side by side."""
_OPENING_MARKS = " \"'*-\u2013\u2014(\u00bf\u00a1\u00ab\u00bb\u201c\u201d\u201e"
_QUESTION_MARKS = ("?", "\uff1f", "\u061f")
_DIGIT = re.compile(r"\d")
_WORD = re.compile(r"[^\W_][^\s,.]*")
_SIGN = re.compile(r"[^\W\d_]")
_SIGNS_A_WORD = 2
_WORDS_A_STEP, _STEPS = 3, 5


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause, read."""

    text: str
    """What it says."""
    features: frozenset[str]
    """What it means."""


def clauses_in(text: str, code: str) -> list[Clause]:
    """Return the clauses of a response in the language of a table, read."""
    return [_read(one, code) for one in clauses_of(text, code)]


def _read(text: str, code: str) -> Clause:
    plain = text.strip(_OPENING_MARKS)
    spans = {
        name: found
        for name, one in patterns_of(code).words.items()
        if (found := [match.span() for match in one.finditer(plain)])
    }
    features = {*_together(spans, code), *_amounts(plain, spans, code)}
    if plain.endswith(_QUESTION_MARKS):
        features.add("question")
    return Clause(text, frozenset(features))


def _together(spans: dict[str, list[tuple[int, int]]], code: str) -> list[str]:
    """Return the meanings of a clause, those that meet in it, and those that stand beside a negation."""
    others = sorted(spans.keys() - {"neg"})
    found = [*spans, *(f"{one}+{other}" for one, other in combinations(others, 2))]
    if "neg" not in spans:
        return [*found, "no neg"]
    near = _NEAR_IN_SHORT_WORDS.get(code, _NEAR)
    for one in others:
        found.append(f"neg+{one}")
        if min(abs(start - at) for start, _ in spans["neg"] for at, _ in spans[one]) <= near:
            found.append(f"neg~{one}")
    return [*found, *(f"neg+{one}+{other}" for one, other in combinations(others, 2))]


def _amounts(plain: str, spans: dict[str, list[tuple[int, int]]], code: str) -> list[str]:
    """Return how long a clause is, how much of it has none of the meanings, and where its numbers stand."""
    word, a_word = (_SIGN, _SIGNS_A_WORD) if code in UNSPACED else (_WORD, 1)
    covered = bytearray(len(plain))
    for start, end in (span for found in spans.values() for span in found):
        covered[start:end] = b"\x01" * (end - start)
    n_words = len(plain) / _SIGNS_A_WORD if code in UNSPACED else len(plain.split())
    new = [found.start() for found in word.finditer(plain) if not any(covered[found.start() : found.end()])]
    n_new = len(new) / a_word
    found = [
        f"words {min(int(n_words / _WORDS_A_STEP), _STEPS)}",
        f"new words {min(int(n_new / 2), _STEPS)}",
        f"new share {int(min(n_new / max(n_words, 1), 0.99) * 4)}",
    ]
    digit = _DIGIT.search(plain)
    if "neg" in spans:
        negation = min(start for start, _ in spans["neg"])
        found.append(f"new words before neg {min(int(sum(at < negation for at in new) / a_word / 2), _STEPS)}")
        if digit:
            found.append("number before neg" if digit.start() < negation else "number after neg")
    return [*found, "number"] if digit else found


def meanings_of(clauses: Sequence[Clause]) -> set[str]:
    """Return what a response means: what any clause does, and again what the first and what the last does."""
    found = {f"clauses {min(len(clauses), 4)}", *(one for clause in clauses for one in clause.features)}
    for place, clause in enumerate(clauses):
        found.update(placed(clause, place, len(clauses)))
    return found


def placed(clause: Clause, place: int, n_clauses: int) -> list[str]:
    """Return what a clause means once more, by its place; [] for one amid others."""
    name = "first" if place == 0 else "last" if place == n_clauses - 1 else ""
    return [f"{name}: {one}" for one in clause.features] if name else []
