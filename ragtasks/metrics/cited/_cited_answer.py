"""A free text with bracketed citations as sentences that cite: the shape in which TREC RAG takes and judges answers.

Brackets number the passages from 1, as the prompt shows them; positions here count from 0, as the track's files do. A
bracket belongs to the sentence that it stands in or behind, and is no part of the sentence's text.

Format: guidelines of TREC RAG 2024. The splitter is our own rule; the track leaves it to each system.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragtasks.metrics.cited._sentences import sentence_ends

_DASH = r"[-\u2010-\u2015\u2212]"
_PART = rf"[0-9]+(?:\s*{_DASH}\s*[0-9]+)?"
_BRACKET = rf"\[\s*{_PART}(?:\s*[,;]\s*{_PART})*\s*,?\s*\]"
_GROUP = re.compile(rf"{_BRACKET}(?:\s*(?:,|{_DASH})?\s*{_BRACKET})*")
_BRACKET_RANGE = re.compile(rf"\]\s*({_DASH})\s*\[")
_ONE_PART = re.compile(rf"([0-9]+)(?:\s*{_DASH}\s*([0-9]+))?")
_LONGEST_RANGE = 100
_MOST_DIGITS = 9


@dataclass(frozen=True, slots=True)
class CitedSentence:
    """One sentence of an answer."""

    text: str
    """The sentence without its citations, not blank."""
    citations: tuple[int, ...] = ()
    """Positions in the references, from 0, in the order of the text, each once."""
    invalid: tuple[int, ...] = ()
    """Numbers in brackets, as written, that name no reference."""


def parse_cited(text: str, n_references: int) -> tuple[CitedSentence, ...]:
    """Return the sentences of an answer with what each cites; () for a text without a letter or digit.

    `[1]`, `[1, 3]`, `[1][3]`, `[1-3]` and `[1]-[3]` are read, before or after the full stop. A bracket that opens a
    line belongs to the sentence after it, one on a line of its own to the sentence before it. Brackets that hold
    anything but numbers are text.

    Args:
        text: what a model wrote.
        n_references: number of the passages that it was shown.
    """
    found: list[tuple[str, list[int]]] = []
    waiting: list[int] = []
    for line in text.splitlines():
        clean, marks = _without_brackets(line)
        sentences = _sentences(clean)
        if not sentences:
            (found[-1][1] if found else waiting).extend(number for _, numbers in marks for number in numbers)
            continue
        cited: list[list[int]] = [[] for _ in sentences]
        cited[0] += waiting
        waiting = []
        for place, numbers in marks:
            index = max((n for n, (start, _) in enumerate(sentences) if start < place), default=0)
            cited[index] += numbers
        found += [(sentence, numbers) for (_, sentence), numbers in zip(sentences, cited, strict=True)]
    return tuple(_cited_sentence(sentence, numbers, n_references) for sentence, numbers in found)


def n_words(sentences: Iterable[str]) -> int:
    """Return the length of an answer as the track counts it: NFKC, split at white space, summed over sentences.

    Source: the organisers' validator for 2024.
    """
    return sum(len(unicodedata.normalize("NFKC", sentence.strip()).split()) for sentence in sentences)


def within(sentences: Sequence[CitedSentence], limit: int) -> tuple[CitedSentence, ...]:
    """Return the sentences without those at the end that make the answer longer than `limit` words.

    A first sentence that is too long leaves none, as in the organisers' validator.
    """
    kept = list(sentences)
    while kept and n_words(sentence.text for sentence in kept) > limit:
        kept.pop()
    return tuple(kept)


def _without_brackets(line: str) -> tuple[str, list[tuple[int, list[int]]]]:
    """Return a line without its citations, and (place in that line, numbers) of each group of them."""
    clean, marks, end = "", [], 0
    for match in _GROUP.finditer(line):
        clean += _joint(clean, line[end : match.start()])
        clean = clean.rstrip()
        marks.append((len(clean), _numbers(match[0])))
        end = match.end()
    clean += _joint(clean, line[end:])
    return clean.rstrip(), marks


def _joint(before: str, after: str) -> str:
    """Return `after` with a blank in front where two words would grow together."""
    if not before:
        return after.lstrip()
    return f" {after}" if after[:1].isalnum() and not before[-1].isspace() else after


def _numbers(group: str) -> list[int]:
    """Return the numbers of a group of brackets; a range that is upside down or endless gives its ends only."""
    numbers: list[int] = []
    for first, last in _ONE_PART.findall(_BRACKET_RANGE.sub(r"\1", group)):
        # `int` refuses thousands of digits.
        low, high = (int(text[:_MOST_DIGITS]) for text in (first, last or first))
        in_order = 0 <= high - low < _LONGEST_RANGE
        numbers += range(low, high + 1) if in_order else [low, high]
    return numbers


def _sentences(line: str) -> list[tuple[int, str]]:
    """Return (start, sentence) of each part of a line that holds a letter or digit; other parts join the one before."""
    starts = [0, *sentence_ends(line)]
    found: list[tuple[int, str]] = []
    for start, end in zip(starts, [*starts[1:], len(line)], strict=True):
        part = line[start:end]
        if any(character.isalnum() for character in part):
            found.append((start + len(part) - len(part.lstrip()), part.strip()))
    return found


def _cited_sentence(text: str, numbers: list[int], n_references: int) -> CitedSentence:
    unique = list(dict.fromkeys(numbers))
    valid = tuple(number - 1 for number in unique if 1 <= number <= n_references)
    return CitedSentence(text, valid, tuple(number for number in unique if not 1 <= number <= n_references))


__all__ = ["CitedSentence", "n_words", "parse_cited", "within"]
