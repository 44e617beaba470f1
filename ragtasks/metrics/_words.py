"""Words of a text as comparable units: words by their stem, numbers by their value, function words separately.

A scale after a number is part of it: 1.5 million is 1,500,000. Numbers in words are converted too.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from sys import intern

from ragtasks.languages import ENGLISH

MOST_TEXTS = 8192
"""Number of cached texts: settings share passages, and several metrics read the same answer."""
_IDEOGRAPH = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_SCALES = {"hundred": 2, "thousand": 3, "lakh": 5, "million": 6, "crore": 7, "billion": 9, "trillion": 12}
_SHORT_SCALES = {"k": "thousand", "m": "million", "mn": "million", "b": "billion", "bn": "billion"}
_LIST = r",? (?:and|or|&) [0-9]"
"""Last part of a list of numbers: in `4,5 and 6` the comma is not a decimal comma."""
_DIGITS = (
    r"(?:\d{1,3}(?: \d{3})+(?:[.,]\d+)?(?!\w)|\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?(?!\d)"
    rf"|\d{{1,3}}(?:[,']\d{{3}})+(?:\.\d+)?(?!\d)|(?<!\d,)\d+(?:\.\d+)*,(?!\d{{3}}\b)\d+(?![,\d]|{_LIST})"
    r"|\d{1,3}(?:\.\d{3})+,\d+|\d+(?:\.\d+)*)"
)
_GROUPS = re.compile(r"(?:\d{1,3}(?:([.,' ])\d{3}(?:\1\d{3})*)|\d{1,2}(?:,\d{2})+,\d{3})(?:[.,](\d+))?")
_SCALE = rf"(?i:(?:{'|'.join(_SCALES)})s?)\b"
_SHORT_SCALE = r"(?:[kKMB]|[mMbB]n)(?!\w)"
"""A scale attached to its number. A small `m` means million after a currency sign only, and metre elsewhere."""
_NUMBER = rf"(?<=[$\u20ac\u00a3])\d+(?:[.,]\d+)?[mb](?!\w)|{_DIGITS}(?:[ -]{_SCALE}|{_SHORT_SCALE})?"
_LETTER = rf"[^\W\d_{_IDEOGRAPH}]"
_MORE = rf"[^\W_{_IDEOGRAPH}]*"
_LINE_END = r"[ \t]*\r?\n[ \t]*"
_HIDDEN = "\u00ad\u0300-\u036f\u200b-\u200d\u2060\ufeff"
"""Characters inside a word that are not letters: soft hyphens, combining accents, zero-width spaces."""
_WORD = (
    rf"{_LETTER}(?:(?:\.{_LETTER})+(?!\w)|{_MORE}(?:(?:'|[-\u00ad]{_LINE_END}){_LETTER}{_MORE}|[{_HIDDEN}]+{_MORE})*)"
)
"""A word, also if split at the end of a line, or the letters of an abbreviation without the last point: `U.S`."""
_ONES = "one|two|three|four|five|six|seven|eight|nine"
_TEENS = "ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen"
_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_ORDINALS = "first|second|third|fourth|fifth|sixth|seventh|eighth|ninth"
_SMALL = rf"(?:(?:{_TENS})(?:[ -](?:{_ONES})|-(?:{_ORDINALS}))?|{_TEENS}|{_ONES})\b"
_BELOW_THOUSAND = (
    rf"(?:(?:an?|{_ONES}|{_TEENS})[ -]hundred\b(?:[ -](?:and[ -])?{_SMALL})?|{_SMALL}|an?(?=[ -]{_SCALE}))"
)
_SPELLED = rf"(?i:{_BELOW_THOUSAND}(?:[ -]{_SCALE}(?: (?:and )?{_BELOW_THOUSAND})?)*)\b"
_IN_SPELLED = (*_TENS.split("|"), *_SCALES)
_REST = rf"{_WORD}|{_NUMBER}|[%$\u20ac\u00a3]|[{_IDEOGRAPH}]"
_BEGIN = rf"(?=[\w%$\u20ac\u00a3{_IDEOGRAPH}])"
"""Start of every token, so that no pattern is tried at a space."""
_TOKENS = {
    (is_plain, has_spelled): re.compile(
        rf"{_BEGIN}(?:{_SPELLED}|{_REST})" if has_spelled else rf"{_BEGIN}(?:{_REST})", re.ASCII * is_plain
    )
    for is_plain in (False, True)
    for has_spelled in (False, True)
}
"""(all letters are ASCII, contains numbers in words) -> pattern of the tokens."""
_BEYOND = re.compile("[^\\x00-\\x7f\u2018\u201c\u201d\u2013\u2014\u2026\u2022]")
_AS_SIGNS = {"\u2019": "'", "\u02bc": "'", "\u2010": "-", "\u2011": "-", "\u2212": "-", "\u066b": ".", "\u066c": ","}


class _UsualForms(dict[int, str]):
    """Character -> its usual form if that is one character, so that positions are kept. Superscripts become spaces."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        usual = _AS_SIGNS.get(character) or unicodedata.normalize("NFKC", character)
        if unicodedata.decomposition(character).startswith("<super>"):
            usual = " "
        form = self[code] = usual if len(usual) == 1 else character
        return form


_USUAL_FORMS = _UsualForms()


def plain_text(text: str) -> str:
    """Return a text of the same length with spaces, digits, dashes and letters in their usual forms."""
    return text if text.isascii() else text.translate(_USUAL_FORMS)


def token_pattern(plain: str) -> re.Pattern[str]:
    lower = plain.lower()
    return _TOKENS[not _BEYOND.search(plain), any(word in lower for word in _IN_SPELLED)]


def tokens_of(text: str) -> list[str]:
    """Return the words, numbers and signs of a text in lower case, with ligatures and line-end hyphens resolved."""
    plain = plain_text(text)
    tokens = token_pattern(plain).findall(plain)
    lines = "\n".join(tokens)
    is_simple = lines.isascii() and lines.count("\n") == len(tokens) - 1  # no token has an accent or a line end
    return list(map(intern, lines.lower().split("\n") if is_simple else map(small_letters, tokens)))


words_of_text = lru_cache(maxsize=MOST_TEXTS)(tokens_of)
"""Cached `tokens_of` for complete texts, which several metrics read. Sentences are read once."""


def with_pairs(words: list[str]) -> list[str]:
    """Return words, and every pair of adjacent words that are single characters of a script without spaces."""
    if "".join(words).isascii():
        return words
    signs = [word if _IS_SIGN.fullmatch(word) else "" for word in words]
    return [*words, *(first + second for first, second in pairwise(signs) if first and second)]


_IS_SIGN = re.compile(f"[{_IDEOGRAPH}]")


def small_letters(token: str) -> str:
    if not token.isascii():
        token = unicodedata.normalize("NFKC", re.sub(r"[\u00ad\u200b-\u200d\u2060\ufeff]\s*", "", token))
    return (re.sub(r"-\s+", "", token) if "\n" in token else token).lower()


_UNITS = {
    **{"%": "percent", "$": "dollar", "\u20ac": "euro", "\u00a3": "pound"},
    **{"km": "kilometer", "kilometre": "kilometer", "kilometres": "kilometer", "kg": "kilogram", "cm": "centimeter"},
    **{"mm": "millimeter", "gb": "gigabyte", "mb": "megabyte", "tb": "terabyte", "hrs": "hour", "mins": "minute"},
    **{"usd": "dollar", "eur": "euro", "gbp": "pound", "percentage": "percent"},
}
_TEENTHS = _TEENS.replace("twelve", "twelf").replace("|", "th|") + "th"
_NUMBER_WORDS = {
    word: str(number)
    for words, numbers in (
        (f"zero|{_ONES}|{_TEENS}", range(20)),
        (f"{_ORDINALS}|{_TEENTHS}", range(1, 20)),
        (_TENS, range(20, 100, 10)),
        (_TENS.replace("y", "ieth"), range(20, 100, 10)),
    )
    for word, number in zip(words.split("|"), numbers, strict=True)
}
_NO_NUMBERS = frozenset(["one", "first", "second"])
"""Words that mean no number in most texts, unless they are part of a number."""
_MONTH_NAMES = (
    "january/jan february/feb march/mar april/apr may june/jun july/jul august/aug september/sept/sep october/oct",
    "november/nov december/dec",
)
_MONTHS = {
    name: str(number)
    for number, names in enumerate(" ".join(_MONTH_NAMES).split(), start=1)
    for name in names.split("/")
}
_NUMERALS = "ii iii iv v vi vii viii ix x xi xii xiii xiv xv xvi"
_ROMAN = {word: str(n) for n, word in enumerate(_NUMERALS.split(), start=2) if len(word) > 1}
_ALONE = {**_ROMAN, "first": "1", "second": "2"}
_BESIDE_A_NUMBER = frozenset([*_SHORT_SCALES, *_MONTHS])
_STEMMERS = {
    **{"ar": "arabic", "ca": "catalan", "da": "danish", "de": "german", "el": "greek", "en": "english"},
    **{"es": "spanish", "fi": "finnish", "fr": "french", "hi": "hindi", "hu": "hungarian", "id": "indonesian"},
    **{"it": "italian", "nl": "dutch", "no": "norwegian", "pt": "portuguese", "ro": "romanian", "ru": "russian"},
    **{"sv": "swedish", "ta": "tamil", "tr": "turkish"},
}
_PREFIX = 5
_SHORT = 3
_MOST_WORDS = 200_000


@lru_cache(maxsize=1)
def _function_words() -> dict[str, frozenset[str]]:
    """Return language -> its function words; the key `negations` has the negations of all languages.

    The lists of other languages omit ASCII words of up to three letters, which `_Words` treats as function words
    anyway.
    """
    text = Path(__file__).with_name("function_words.json").read_text(encoding="utf-8")
    return {name: frozenset(words.split()) for name, words in json.loads(text).items()}


class _Words(dict[str, tuple[str, bool]]):
    """Lower-case word -> (unit, whether it is a content word); filled on demand."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._is_english = language == ENGLISH
        self._function_words = _function_words().get(language, frozenset())
        self._stem = _stemmer(language)

    def __missing__(self, word: str) -> tuple[str, bool]:
        if len(self) >= _MOST_WORDS:
            self.clear()
        unit = self[word] = self._unit(word)
        return unit

    def _unit(self, word: str) -> tuple[str, bool]:
        if word[0].isdecimal() or " " in word or "-" in word:
            return _number(word) if word[0].isdecimal() else _spelled(word), True
        word = word.replace(".", "").replace("\u2019", "'").removesuffix("'s")
        if is_negation(word):
            return ("not" if word.endswith("n't") else word), False
        if self._is_english:
            word = word if word in _NO_NUMBERS else _NUMBER_WORDS.get(word, word)
            begin = word.partition("'")[0]
            if begin in self._function_words:
                return begin, False
        else:
            longest = _SHORT if word.isascii() else _SHORT - 1 if self._function_words else 0
            if (len(word) <= longest and word.isalpha()) or word in self._function_words:
                return word, False
        return self._stem(_UNITS.get(word, word)), True


def is_negation(word: str) -> bool:
    return word in _function_words()["negations"] or word.endswith(("n't", "n\u2019t"))


@lru_cache(maxsize=64)
def units_in(language: str) -> _Words:
    return _Words(language)


def _stemmer(language: str) -> Callable[[str], str]:
    """Return the stemmer of a language; without one, words are cut after their fifth letter."""
    import Stemmer

    name = _STEMMERS.get(language)
    if name is None or name not in Stemmer.algorithms():
        return lambda word: word[:_PREFIX]
    stem: Callable[[str], str] = Stemmer.Stemmer(name).stemWord
    return stem


def _number(text: str) -> str:
    """Return a number without group separators, multiplied by its scale."""
    if not text.isascii():
        text = "".join(str(unicodedata.decimal(character, character)) for character in text)
    digits, scale = text, 0
    if (bare := text.rstrip("kmbn")) != text and bare[-1].isdecimal():
        digits, scale = bare, _SCALES[_SHORT_SCALES[text[len(bare) :]]]
    elif (word := re.sub(r"[^a-z]", "", text).removesuffix("s")) in _SCALES:
        digits, scale = re.split(r"[ -][a-z]", text)[0], _SCALES[word]
    if match := _GROUPS.fullmatch(digits):
        integer = re.sub(r"\D", "", digits[: match.start(2) - 1] if match[2] else digits)
        digits = f"{integer}.{match[2]}" if match[2] else integer
    elif digits.count(",") == 1:
        digits = digits.replace(",", ".")
    integer, dot, decimals = digits.partition(".")
    if not dot or not decimals.isdigit():
        return (digits.lstrip("0") or "0") + "0" * scale if digits.isdigit() else digits
    decimals = decimals.rstrip("0")
    moved = (integer + decimals.ljust(scale, "0")[:scale]).lstrip("0") or "0"
    return f"{moved}.{decimals[scale:]}" if decimals[scale:] else moved


def _spelled(text: str) -> str:
    """Return the value of a number in words."""
    total = below = 0
    for word in re.findall("[a-z]+", text):
        if word == "hundred":
            below = max(1, below) * 100
        elif (name := word.removesuffix("s")) in _SCALES:
            total, below = total + max(1, below) * 10 ** _SCALES[name], 0
        else:
            below += int(_NUMBER_WORDS.get(word, 0))
    return str(total + below)


@lru_cache(maxsize=MOST_TEXTS)
def units_of_text(text: str, language: str, title: str) -> frozenset[str]:
    """Return the units of a text and its title, with alternative forms that an answer may use."""
    words, units = with_pairs([*words_of_text(title), *words_of_text(text)]), units_in(language)
    text = f"{title}\n{text}"
    distinct = frozenset(words)
    readings = {units[word][0] for word in distinct}
    readings.update(_other_readings(words, distinct, language))
    for word in _compounds(text):
        parts = word.split("-")
        readings.add(units["".join(map(str.strip, parts))][0])
        if len(word.split()) > 1:
            readings.update(units[part.strip()][0] for part in parts)
    if not _HALVES.isdisjoint(distinct) or (":" in text and not _AFTERNOON.isdisjoint(distinct)):
        readings.update(_hours(text.lower()))
    return frozenset(readings)


_ONE_LETTER = re.compile(r"[^\W\d_]")
_COMPOUND = re.compile(r"[^\W\d_]+(?:-\s{0,3}[^\W\d_]+)+")
"""A word with hyphens, or split at a line end that extraction may have joined: `infor- mation`."""


def _compounds(text: str) -> set[str]:
    """Return the distinct hyphenated words of a text, in lower case."""
    plain, compounds, end = plain_text(text).lower(), set(), 0
    for hyphen in re.finditer("-", plain):  # the pattern alone would try every word
        start = hyphen.start()
        while start > end and _ONE_LETTER.match(plain, start - 1):
            start -= 1
        if match := _COMPOUND.match(plain, start):
            compounds.add(match[0])
            end = match.end()
    return compounds


def _other_readings(words: Sequence[str], distinct: frozenset[str], language: str) -> Iterator[str]:
    """Yield alternative forms of the words of a text: `twenty-five`, `5k`, `March 5`, `II`.

    Two adjacent numbers of a table look like one number in groups (`32 512`), so each counts separately too. A version
    belongs to its series: 3.11.2 is also 3.11. `J.R.` is both `JR` and `J. R.`.
    """
    for word in [word for word in distinct if " " in word or "." in word or word[0] <= "9" < word[-1]]:
        if word[0].isdecimal() and (bare := word.rstrip("kmbn"))[-1].isdecimal():
            yield _number(bare)
        if " " in word:
            groups = word.split()
            yield from map(_number, groups if groups[-1].isdecimal() else ())
        elif not word[0].isdecimal():
            yield from (word.replace(".", ""), *word.split("."))
        elif word.count(".") == _VERSION_DOTS and not _GROUPS.fullmatch(word):
            yield _number(word.rpartition(".")[0])
    if language == ENGLISH:
        yield from (_ALONE[word] for word in distinct & _ALONE.keys())
        yield from (name for name, suffix in (("first", "st"), ("second", "nd")) if suffix in distinct)
        for index in [index for index, word in enumerate(words) if word in _BESIDE_A_NUMBER]:
            yield from filter(None, (_number_of_two(*pair) for pair in pairwise(words[max(0, index - 1) : index + 2])))


_VERSION_DOTS = 2
_HALF_DAY = 12
_HALVES = frozenset(["am", "pm", "a.m", "p.m", "m"])
_AFTERNOON = frozenset(map(str, range(13, 24)))
_HOUR = re.compile(
    r"\b(?P<half>1[0-2]|0?[1-9])(?:[:.][0-5]\d)?\s?(?P<which>[ap])\.?m\b|\b(?P<hour>1[3-9]|2[0-3]):[0-5]\d\b"
)


def _hours(text: str) -> Iterator[str]:
    """Yield the hours of a text on the other clock: 2 and pm for 14:30, 14 and 0 for 2 pm."""
    for match in _HOUR.finditer(text):
        if match["hour"]:
            yield from (str(int(match["hour"]) - _HALF_DAY), "pm", "p.m")
            continue
        yield "0"
        if match["which"] == "p" and int(match["half"]) < _HALF_DAY:
            yield str(int(match["half"]) + _HALF_DAY)


def _number_of_two(first: str, second: str) -> str | None:
    """Return the number of two adjacent words: 5000 for `5 k`, the month for `March 5`; None for other words."""
    if first[0].isdecimal() and second in _SHORT_SCALES:
        return _number(f"{first} {_SHORT_SCALES[second]}")
    if (first[0].isdecimal() and second in _MONTHS) or (second[0].isdecimal() and first in _MONTHS):
        return _MONTHS.get(second) or _MONTHS[first]
    return None
