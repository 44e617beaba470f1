"""Refusals in other languages than English: one small table a language, of phrase families by meaning.

A response is cut into clauses. A clause refuses where a pattern of its language's table says that the speaker does not
know, that what was retrieved is silent, or that what was asked cannot be said; not where somebody else says so, nor
under a condition. A refusal with an answer beside it is `partial`. English is read by `idk_rules`, which knows more.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ragtasks.languages import language_of
from ragtasks.records import IdkVerdict

LANGUAGES = ("ar", "de", "es", "fr", "hi", "it", "ja", "ko", "nl", "pt", "ru", "zh")
"""ISO 639-1 codes of the languages that have a table."""
ANSWER_WORDS = 6
"""Words beside a refusal that make an answer."""
_ANSWER_WORDS = {"ko": 4, "ru": 5}
"""Language -> the same where words hold what others say in two: cases and particles in place of small words."""
_TABLES = Path(__file__).with_name("refusals")
_FOLDED = frozenset({"ar", "de", "fr", "it", "nl", "pt", "ru"})
"""Languages that are read without accents, as many write them so; in the others, a mark tells words apart."""
_UNSPACED = frozenset({"ja", "zh"})
_AMID = frozenset({"de", "nl"})
"""Languages whose words of contrast stand amid clauses too: there a comma must be before them."""
_LETTERS_A_WORD = 2
_QUOTES = re.compile(
    r"\u00ab[^\u00bb]*\u00bb|\u00bb[^\u00ab]*\u00ab|\u201e[^\u201c\u201d]*[\u201c\u201d]|\u201c[^\u201d]*\u201d|\u300c[^\u300d]*\u300d|\u300e[^\u300f]*\u300f"
    r"|\"[^\"\n]*\"|(?<!\w)'[^'\n]{1,80}'(?!\w)"
)
_SENTENCE_END = re.compile(r"(?<=[.!?\u061f\u0964])\s+|(?<=[\u3002\uff01\uff1f])|\n+|[;\uff1b\u061b]\s*")
_WORD = re.compile(r"[^\W\d_]+")
_OPENING_MARKS = " \"'*(\u00bf\u00a1\u00ab\u201c\u201e"
# Those of another language of a table ("no", "in", "is") are left out.
_ENGLISH_WORDS = (
    "and are at be been by can does for from had have he his how i if its my not of one or our she that the their them "
    "they this to were what when where which who will with would yes you your"
)
_ENGLISH = frozenset(_ENGLISH_WORDS.split())
_SCRIPTS = (
    ("ko", re.compile("[\uac00-\ud7af]")),
    ("ja", re.compile("[\u3040-\u30ff\u4e00-\u9fff](?=.*[\u3040-\u30ff])|[\u3040-\u30ff]", re.DOTALL)),
    ("zh", re.compile("[\u4e00-\u9fff]")),
    ("hi", re.compile("[\u0900-\u097f]")),
    ("ar", re.compile("[\u0600-\u06ff]")),
    ("ru", re.compile("[\u0400-\u04ff]")),
)
"""Language -> its script, which alone tells that of a short text where no other language of a table writes so."""
_CLOSE = {"bg": "ru", "mk": "ru", "sr": "ru", "uk": "ru", "ca": "es", "mr": "hi", "fa": "ar", "ur": "ar", "gl": "es"}
"""Language -> the one of a table that short texts in it are taken for."""
_PORTUGUESE = re.compile(r"[ãõçâê]|\b(?:em|um|uma|dos?|das?|os|as|nas?|nos|com|é|ou|isso|pelo|ao)\b")
"""What hardly a short text in Portuguese lacks; without it, what looks like Portuguese is Spanish."""
_SHORT = 60


@dataclass(frozen=True, slots=True)
class Table:
    """How one language refuses (`refusals/CODE.yaml`), as patterns of text in lower case; `<S>` is the source."""

    source: str
    """What was retrieved: "the passages", "the documents at hand"."""
    topic: str
    """The same as the beginning of a sentence, which a clause may leave out that follows on one about it."""
    speaker: list[str]
    """The speaker does not know, has not found, cannot say."""
    silent: list[str]
    """What was retrieved does not say."""
    asked: list[str]
    """What was asked is not given, or cannot be answered."""
    contrast: str
    """What a clause of another mind opens with: "but"."""
    before: list[str]
    """What makes a refusal behind it that of somebody else, or a condition: "he said that", "if"."""
    filler: list[str]
    """Courtesy, offers, where to look instead."""
    parts: dict[str, str] = field(default_factory=dict)
    """Name -> what patterns write as `<NAME>`, such as the verbs of saying."""
    common: str = ""
    """Frequent words that English lacks, which tell the language of a short text in Latin letters."""
    sure: str = ""
    """What only this language has, where others share its script."""


@cache
def table_of(code: str) -> Table:
    """Return the table of a language."""
    import yaml

    return Table(**yaml.safe_load((_TABLES / f"{code}.yaml").read_text(encoding="utf-8")))


def read(text: str) -> tuple[IdkVerdict | None, str] | None:
    """Return (verdict, reason) of a response in another language than English; None where it is to be read as English.

    The verdict is None, with the reason, where no table covers the language, or a short text does not tell it.
    """
    code = language_of(text)
    if code == "en":
        return None
    if len(text) <= _SHORT and code in _CLOSE:
        code = None
    elif len(text) <= _SHORT and code == "pt" and not _PORTUGUESE.search(text.lower()):
        code = "es"
    if code is not None:
        return (
            classify(text, code)
            if code in LANGUAGES
            else (None, f"not read: its language is {code}, which has no table")
        )
    codes = _possible(text)
    for one in codes:
        verdict, reason = classify(text, one)
        if verdict is not IdkVerdict.NO:
            return verdict, reason
    if not codes:
        return None
    if len(codes) == 1 and re.search(table_of(codes[0]).sure, text.lower()):
        return classify(text, codes[0])
    return None, "not read: it is no English, and too short to tell its language"


def classify(text: str, code: str) -> tuple[IdkVerdict, str]:
    """Return (verdict, reason) of a response in the language of a table; the reason names the language."""
    patterns = _patterns(code)
    refusals, n_words, is_about_source = [], 0, False
    for clause in _clauses(text, code):
        if found := patterns.refusal_in(clause) or (is_about_source and patterns.refusal_in(patterns.in_full(clause))):
            refusals.append(found)
        elif not patterns.filler.search(clause):
            n_words += len(clause) // _LETTERS_A_WORD if code in _UNSPACED else len(clause.split())
        is_about_source = is_about_source or bool(patterns.source.search(clause))
    if not refusals:
        return IdkVerdict.NO, f"no phrase that says that information is missing ({code})"
    verdict = IdkVerdict.PARTIAL if n_words >= _ANSWER_WORDS.get(code, ANSWER_WORDS) else IdkVerdict.YES
    return verdict, f"({code}) {refusals[0]}"


@dataclass(frozen=True, slots=True)
class _Patterns:
    refusal: re.Pattern[str]
    source: re.Pattern[str]
    topic: str
    opening: re.Pattern[str]
    contrast: re.Pattern[str]
    before: re.Pattern[str]
    filler: re.Pattern[str]

    def refusal_in(self, clause: str) -> str | None:
        """Return the phrase of a clause that refuses, and that nobody else says and no condition opens."""
        found = self.refusal.search(clause)
        if found is None or self.before.search(clause[: found.start()]):
            return None
        return found[0].strip()

    def in_full(self, clause: str) -> str:
        """Return a clause with the source for its subject, in place of the word of contrast that it opens with."""
        return self.topic + self.opening.sub("", clause)


@cache
def _patterns(code: str) -> _Patterns:
    table = table_of(code)
    families, before, filler = (
        _filled("|".join(patterns), table)
        for patterns in ([*table.speaker, *table.silent, *table.asked], table.before, table.filler)
    )
    gap, end = (r"\s*", "") if code in _UNSPACED else (r",\s+" if code in _AMID else r"[\s,]+", r"(?!\w)")
    opening, contrast = rf"^{table.contrast}{end}[\s,]*", rf"{gap}(?={table.contrast}{end})"
    compiled = [re.compile(_folded(one, code)) for one in (families, table.source, opening, contrast, before, filler)]
    return _Patterns(compiled[0], compiled[1], _folded(table.topic, code), *compiled[2:])


def _filled(pattern: str, table: Table) -> str:
    for name, part in {**table.parts, "S": table.source}.items():
        pattern = pattern.replace(f"<{name}>", part)
    return pattern


def _clauses(text: str, code: str) -> list[str]:
    """Return the clauses of a response in lower case; letters in quotations as x."""
    plain = _folded(text.lower(), code).replace("\u2019", "'")
    plain = _QUOTES.sub(lambda quote: re.sub(r"\w", "x", quote[0]), plain)
    sentences = (sentence.strip(" *-#\t") for sentence in _SENTENCE_END.split(plain))
    return [clause for sentence in sentences for clause in _patterns(code).contrast.split(sentence) if clause.strip()]


def _folded(text: str, code: str) -> str:
    if code == "hi":  # many leave out the dot below, and write one nasal sign for the other
        return unicodedata.normalize("NFD", text).replace("\u093c", "").replace("\u0901", "\u0902")
    if code not in _FOLDED:
        return unicodedata.normalize("NFC", text)
    marks_apart = unicodedata.normalize("NFD", text)
    return "".join(letter for letter in marks_apart if unicodedata.category(letter) != "Mn")


def _possible(text: str) -> list[str]:
    """Return the languages of tables that a short text may be in; [] where nothing says that it is not English."""
    for code, script in _SCRIPTS:
        if 2 * len(script.findall(text)) > sum(map(str.isalpha, text)):
            return [code]
    words = [word for word in _WORD.findall(text) if word.islower() or text.lstrip(_OPENING_MARKS).startswith(word)]
    counts = {code: sum(word.lower() in known for word in words) for code, known in _common_words().items()}
    most = max(counts.values())
    return [code for code, count in counts.items() if count == most > sum(word.lower() in _ENGLISH for word in words)]


@cache
def _common_words() -> dict[str, frozenset[str]]:
    return {code: frozenset(words.split()) for code in LANGUAGES if (words := table_of(code).common)}
