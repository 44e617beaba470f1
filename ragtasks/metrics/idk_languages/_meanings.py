"""What a clause means, in the same words for every language, and how much that says for and against a refusal.

A table gives the words of a language for some thirty meanings (`neg`: not, nothing, without; `say`: what a source does;
`know`, `find`, `me`, `world`: what people know and do not). One regression over meanings that meet in a clause serves
all languages; `perf/idk_languages_training.py` teaches it and writes its few weights (`../refusals/weights.json`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

from ragtasks.metrics.idk_languages._tables import TABLES, UNSPACED, Patterns, clauses_of, patterns_of
from ragtasks.records import IdkVerdict

WEIGHTS = TABLES / "weights.json"
"""File of the weights."""
PHRASE = "phrase"
"""Beginning of the features that a table's phrases give."""
_NEAR = 30
_NEAR_IN_SHORT_WORDS = {"ja": 12, "ko": 12, "zh": 12}
"""Characters between two words that stand side by side."""
_OPENING_MARKS = " \"'*-\u2013\u2014(\u00bf\u00a1\u00ab\u00bb\u201c\u201d\u201e"
_QUESTION_MARKS = ("?", "\uff1f", "\u061f")
_MARKS = " .,!\u3002\uff0c\uff01\u060c\u0964"
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
    phrase: str | None
    """The phrase of the table that refuses in it."""

    @property
    def may_refuse(self) -> bool:
        """Whether it denies anything, or a phrase refuses in it."""
        return "neg" in self.features or self.phrase is not None

    @property
    def only_refuses(self) -> bool:
        """Whether a phrase that refuses is all that it says."""
        return self.phrase is not None and self.phrase.strip(_MARKS) == self.text.strip(_MARKS)


def clauses_in(text: str, code: str) -> list[Clause]:
    """Return the clauses of a response in the language of a table, read."""
    found: list[Clause] = []
    is_about_source = False
    for one in clauses_of(text, code):
        found.append(_read(one, code, is_about_source=is_about_source))
        is_about_source = is_about_source or bool(patterns_of(code).source.search(one))
    return found


def _read(text: str, code: str, *, is_about_source: bool) -> Clause:
    """Return a clause with its features; `is_about_source` where one before it named what was retrieved."""
    patterns, plain = patterns_of(code), text.strip(_OPENING_MARKS)
    spans = {name: found for name, one in patterns.words.items() if (found := [m.span() for m in one.finditer(plain)])}
    phrase = patterns.refusal_in(text) or (is_about_source and patterns.refusal_in(patterns.in_full(text))) or None
    features = {*_phrases(text, patterns, phrase), *_together(spans, code), *_amounts(plain, spans, code)}
    if plain.endswith(_QUESTION_MARKS):
        features.add("question")
    return Clause(text, frozenset(features), phrase)


def _phrases(text: str, patterns: Patterns, phrase: str | None) -> list[str]:
    """Return which parts of the table a clause has."""
    found = [f"{PHRASE} {name}" for name, family in patterns.families.items() if family.search(text)]
    if phrase or found:
        found.append(PHRASE if phrase else f"{PHRASE} of others")
    return [*found, f"{PHRASE} filler"] if patterns.filler.search(text) else found


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


def features_of(clauses: Sequence[Clause]) -> set[str]:
    """Return what a response means: what any clause does, and again what the first and what the last does."""
    found = {f"clauses {min(len(clauses), 4)}", *(one for clause in clauses for one in clause.features)}
    for place, clause in enumerate(clauses):
        found.update(_placed(clause.features, place, len(clauses)))
    return found


def _placed(features: frozenset[str], place: int, n_clauses: int) -> list[str]:
    name = "first" if place == 0 else "last" if place == n_clauses - 1 else ""
    return [f"{name}: {one}" for one in features] if name else []


@dataclass(frozen=True, slots=True)
class Weights:
    """What was learned: a regression with a sum for each verdict, of which the highest wins."""

    of: dict[IdkVerdict, dict[str, float]]
    """Verdict -> feature -> weight; the empty feature is the intercept."""

    def verdict(self, features: set[str]) -> IdkVerdict:
        """Return the verdict on a response."""
        return max(self.of, key=lambda verdict: self._sum(verdict, features) + self.of[verdict][""])

    def refusing(self, clauses: Sequence[Clause]) -> int:
        """Return the place of the clause that says most for a refusal."""
        return max(range(len(clauses)), key=lambda place: self._refuses(clauses, place))

    def _refuses(self, clauses: Sequence[Clause], place: int) -> float:
        features = {*clauses[place].features, *_placed(clauses[place].features, place, len(clauses))}
        return self._sum(IdkVerdict.YES, features) - self._sum(IdkVerdict.NO, features)

    def _sum(self, verdict: IdkVerdict, features: set[str]) -> float:
        weights = self.of[verdict]
        return math.fsum(weights[one] for one in weights.keys() & features)


@cache
def weights() -> Weights:
    """Return the weights of the package."""
    read = json.loads(WEIGHTS.read_text(encoding="utf-8"))
    return Weights({verdict: read[verdict.value] for verdict in IdkVerdict})
