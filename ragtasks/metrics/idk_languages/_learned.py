"""What was learned from labelled responses: how much their meanings and their letters say for a refusal.

Two regressions: whether a response refuses, and whether one that does not admits a gap. Both weigh what clauses mean,
alike in all languages (`../refusals/weights.json`); the first also runs of letters and of words, which each language
has for itself (`../refusals/CODE.json`). `perf/idk_languages_training.py` makes the files.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from ragtasks.metrics.idk_languages._meanings import Clause, meanings_of, placed
from ragtasks.metrics.idk_languages._tables import LETTERS_ALONE, TABLES
from ragtasks.records import IdkVerdict

WEIGHTS = TABLES / "weights.json"
"""File of the weights of meanings."""
_WORD_LETTERS, _LETTERS = range(2, 6), range(1, 6)
"""Letters in a row that are read within words; where words are hard to tell apart, in the whole clause."""
_WORDS = range(1, 4)
_SHORT = frozenset({"clauses 1", "words 0"})
_SIGNS = frozenset({"neg", "silent", "lost", "open", "puzzle", "know", "sorry"})
"""Without one of these meanings, a word or two are an answer: a name, a number, yes."""
_NUMBER = re.compile(r"\d+")
_TOKEN = re.compile(r"\w+|[^\w\s]")


def is_word_or_two(clauses: Sequence[Clause]) -> bool:
    """Return whether a response is a word or two of which none is one that refusals have."""
    meanings = meanings_of(clauses)
    return meanings >= _SHORT and meanings.isdisjoint(_SIGNS)


def grams_of(clauses: Iterable[Clause], code: str) -> set[str]:
    """Return the runs of letters and of words of a response; every number is 0."""
    found: set[str] = set()
    for clause in clauses:
        text = _NUMBER.sub("0", clause.text.strip())
        if code in LETTERS_ALONE:
            found.update(_runs(f"^{text}$", _LETTERS))
            continue
        tokens = _TOKEN.findall(text)
        for token in set(tokens):
            found.update(_of_word(token))
        words = ["^", *tokens, "$"]
        found.update(f" {' '.join(words[at : at + n])}" for n in _WORDS for at in range(len(words) - n + 1))
    return found


@lru_cache(1 << 14)
def _of_word(word: str) -> list[str]:
    return _runs(f"<{word}>", _WORD_LETTERS)


def _runs(text: str, lengths: Iterable[int]) -> list[str]:
    return [text[at : at + n] for n in lengths for at in range(len(text) - n + 1)]


@dataclass(frozen=True, slots=True)
class Weights:
    """What was learned for one language."""

    refuses: Mapping[str, float]
    """Meaning -> its weight for a refusal; the empty one is the intercept."""
    admits: Mapping[str, float]
    """The same for a gap beside an answer, of responses that do not refuse."""
    grams: Mapping[str, float]
    """Run of letters or words of the language -> its weight for a refusal."""

    def verdict(self, clauses: Sequence[Clause], code: str) -> IdkVerdict:
        """Return the verdict on a response."""
        meanings = meanings_of(clauses)
        if is_word_or_two(clauses):
            return IdkVerdict.NO
        if self.evidence(clauses, code) > 0:
            return IdkVerdict.YES
        return IdkVerdict.PARTIAL if _sum(self.admits, meanings) + self.admits[""] > 0 else IdkVerdict.NO

    def evidence(self, clauses: Sequence[Clause], code: str) -> float:
        """Return how much says that a response refuses: the logarithm of odds, above 0 where it does."""
        return self._refusing(meanings_of(clauses), grams_of(clauses, code))

    def refusing_clause(self, clauses: Sequence[Clause], code: str) -> int:
        """Return the place of the clause that says most for a refusal."""
        meanings = [{*clause.features, *placed(clause, at, len(clauses))} for at, clause in enumerate(clauses)]
        sums = [
            self._refusing(of_one, grams_of([clause], code)) for of_one, clause in zip(meanings, clauses, strict=True)
        ]
        return sums.index(max(sums))

    def _refusing(self, meanings: set[str], grams: set[str]) -> float:
        by_letters = _sum(self.grams, grams) / math.sqrt(max(len(grams), 1))
        return _sum(self.refuses, meanings) + by_letters + self.refuses[""]


def _sum(weights: Mapping[str, float], features: set[str]) -> float:
    return math.fsum(map(weights.__getitem__, weights.keys() & features))


@cache
def weights_of(code: str) -> Weights:
    """Return the weights of the package for a language."""
    shared = json.loads(WEIGHTS.read_text(encoding="utf-8"))
    grams = json.loads((TABLES / f"{code}.json").read_text(encoding="utf-8"))
    return Weights(shared["refuses"], shared["admits"], grams)
