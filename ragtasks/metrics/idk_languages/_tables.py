"""One table a language (`../refusals/CODE.yaml`): its words by meaning. What cuts a response into clauses.

Beside the tables lie labelled sentences in these languages (`../refusals/sentences.jsonl`), which language models wrote
for this project in rounds, each by another writer: half of them refuse, and the other half looks as if it did.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LANGUAGES = ("ar", "de", "es", "fr", "hi", "it", "ja", "ko", "nl", "pt", "ru", "zh")
"""ISO 639-1 codes of the languages that have a table."""
UNSPACED = frozenset({"ja", "zh"})
"""Languages that write no blanks between words."""
LETTERS_ALONE = UNSPACED | {"ko"}
"""Languages whose words of a table stand anywhere."""
TABLES = Path(__file__).parents[1] / "refusals"
"""Folder of the tables, weights and labelled sentences."""
HELD_BACK = frozenset({8, 10, 11, 12, 13})
"""Rounds of sentences that nothing learns from: they are for measuring (see `left_out`)."""
_FOLDED = frozenset({"ar", "de", "fr", "it", "nl", "pt", "ru"})
"""Languages that are read without accents, as many write them so; in the others, a mark tells words apart."""
_AMID = frozenset({"de", "nl"})
"""Languages whose words of contrast stand amid clauses too: there a comma must be before them."""
_QUOTES = re.compile(
    r"\u00ab[^\u00bb]*\u00bb|\u00bb[^\u00ab]*\u00ab|\u201e[^\u201c\u201d]*[\u201c\u201d]|\u201c[^\u201d]*\u201d|\u300c[^\u300d]*\u300d|\u300e[^\u300f]*\u300f"
    r"|\"[^\"\n]*\"|(?<!\w)'[^'\n]{1,80}'(?!\w)"
)
_SENTENCE_END = re.compile(r"(?<=[.!?\u061f\u0964])\s+|(?<=[\u3002\uff01\uff1f])|\n+|[;\uff1b\u061b]\s*")
_COMMA = re.compile(r"[,\u060c](?=\s)\s*|(?<!\d),(?!\d)|[\uff0c\u3001:\uff1a]|(?<!\w)[-\u2013\u2014](?!\w)")
_WORD = re.compile(r"\w+")
_DIGIT = re.compile(r"\d")
_ARABIC_PREFIXES = r"(?:[وفبكل]{0,2}(?:ال)?|لل)"
"""What Arabic writes together with the word behind it: and, so, in, like, for, the."""
_VOWEL_SIGNS = "\u0900-\u0903\u093e-\u094d"
"""What no Hindi word ends before."""


@dataclass(frozen=True, slots=True)
class Table:
    """The words of one language, in lower case."""

    words: dict[str, str]
    """Meaning -> its words, apart by blanks: `*` for any beginning or end of a word, `_` for a blank, `^` for the
    beginning of a clause, `re:` before a pattern."""
    contrast: str
    """What a clause of another mind opens with ("but"), as a pattern."""
    common: str = ""
    """Frequent words that English lacks, which tell the language of a short text in Latin letters."""
    sure: str = ""
    """What only this language has, where others share its script, as a pattern."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A labelled response of one or a few sentences."""

    round: int
    """Which writing it comes from, from 1."""
    language: str
    """One of `LANGUAGES`."""
    idk: str
    """`yes`, `partial`, `no`; or `not yes`, where only that is known."""
    text: str


def labelled_sentences() -> list[Sentence]:
    """Return all labelled sentences, in the order of their file."""
    with (TABLES / "sentences.jsonl").open(encoding="utf-8") as file:
        return [Sentence(**json.loads(line)) for line in file]


def left_out(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Return those of the held-back rounds that no other round has in the same words: nothing learned from them."""
    taught = {_bare(row.text) for row in sentences if row.round not in HELD_BACK}
    return [row for row in sentences if row.round in HELD_BACK and _bare(row.text) not in taught]


def _bare(text: str) -> str:
    return " ".join(_WORD.findall(text.lower()))


@cache
def table_of(code: str) -> Table:
    """Return the table of a language."""
    import yaml

    return Table(
        **yaml.load(
            (TABLES / f"{code}.yaml").read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        )
    )


@dataclass(frozen=True, slots=True)
class Patterns:
    """The patterns of a table, ready to be searched for."""

    contrast: re.Pattern[str]
    words: dict[str, re.Pattern[str]]
    """Meaning -> all its words."""


@cache
def patterns_of(code: str) -> Patterns:
    """Return the patterns of a language's table."""
    table = table_of(code)
    gap, end = (r"\s*", "") if code in UNSPACED else (r",\s+" if code in _AMID else r"[\s,]+", r"(?!\w)")
    return Patterns(
        contrast=re.compile(_folded(rf"{gap}(?={table.contrast}{end})", code)),
        words={meaning: _words(words.split(), code) for meaning, words in table.words.items()},
    )


def clauses_of(text: str, code: str) -> list[str]:
    """Return the clauses of a response in lower case; letters in quotations as x."""
    plain = _folded(text.lower(), code).replace("\u2019", "'")
    plain = _QUOTES.sub(lambda quote: re.sub(r"\w", "x", quote[0]), plain)
    sentences = (sentence.strip(" *-#\t") for sentence in _SENTENCE_END.split(plain))
    contrasted = (clause for sentence in sentences for clause in patterns_of(code).contrast.split(sentence))
    return [part for clause in contrasted for part in _after_numbers(clause, code) if part.strip()]


def _after_numbers(clause: str, code: str) -> list[str]:
    """Return a clause cut behind what tells a number and denies nothing: "In 1612, the cost is not given"."""
    parts, start = [], 0
    for comma in _COMMA.finditer(clause):
        left = clause[start : comma.start()]
        if _DIGIT.search(left) and not patterns_of(code).words["neg"].search(left):
            parts.append(left)
            start = comma.end()
    return [*parts, clause[start:]]


def _words(words: list[str], code: str) -> re.Pattern[str]:
    """Return the pattern of words; those of one way to begin stand together, as that is found faster."""
    beginnings: dict[str, list[str]] = {}
    for word in words:
        before, body = _word(word, code)
        beginnings.setdefault(before, []).append(body)
    return re.compile("|".join(f"{before}(?:{'|'.join(bodies)})" for before, bodies in beginnings.items()))


def _word(word: str, code: str) -> tuple[str, str]:
    """Return (what has to be before a word, the word) as patterns."""
    if word.startswith("re:"):
        return "", _folded(word[3:], code)
    start = "^" if word.startswith("^") else ""
    plain = _folded(word.lstrip("^").lower(), code)
    if code in LETTERS_ALONE:
        return start, re.escape(plain).replace("_", " ?")
    body = re.escape(plain.removeprefix("*").removesuffix("*")).replace(r"\*", "[^.]{0,25}?").replace("_", " ")
    letters = rf"[\w{_VOWEL_SIGNS}]" if code == "hi" else r"\w"
    before = start or ("" if plain.startswith("*") else f"(?<!{letters})")
    prefix = _ARABIC_PREFIXES if code == "ar" and not start else ""
    return before + prefix, body + (f"(?!{letters})" if plain[-1].isalnum() else "")


def _folded(text: str, code: str) -> str:
    if code == "hi":  # many leave out the dot below, and write one nasal sign for the other
        return unicodedata.normalize("NFD", text).replace("\u093c", "").replace("\u0901", "\u0902")
    if code not in _FOLDED:
        return unicodedata.normalize("NFC", text)
    marks_apart = unicodedata.normalize("NFD", text)
    return "".join(letter for letter in marks_apart if unicodedata.category(letter) != "Mn")
