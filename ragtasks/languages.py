"""Language detection, and splitting of texts into words by language.

Metrics split English texts themselves, as the official scripts do. Texts in other languages are split here.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

ENGLISH = "en"
UNKNOWN = "und"
"""Language of a text that is too short to detect. `settled` then decides by script."""

_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
_ENGLISH_WORDS = (  # without the words of Dutch, Danish or French ("is", "of", "for", "or")
    "the and that with this these those you your has from which not are were can will would should its they their "
    "there been when who how but does also may because"
)
_ENGLISH = frozenset(_ENGLISH_WORDS.split())
_ENGLISH_SHARE = 0.1
_ENOUGH_LETTERS = 15
_ENOUGH_IDEOGRAMS = 5
_IDEOGRAMS = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_MOST_CHARACTERS = 600  # input of the detector; more makes it slower, not more accurate
_UNSURE = 0.02  # the language is unknown if the probability of English is between 0.02 and 0.98
_CODES = (
    "ar bg bn ca cs da de el en es et fa fi fr he hi hr hu id it ja ko lt lv mr ms nl no pl pt ro ru sk sl sr sv "
    "sw ta te th tl tr uk ur vi zh"
)
_LANGUAGES = _CODES.split()
_ARTICLES = {
    "": "a an the",
    "de": "der die das den dem des ein eine einen einem einer eines",
    "es": "el la los las un una unos unas",
    "fr": "le la les l un une",
    "it": "il lo la i gli le l un uno una",
    "nl": "de het een",
    "pt": "o a os as um uma uns umas",
}
"""Language -> its articles, which word-based scores leave out as they do in English."""
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Chinese, Japanese, Korean, Thai, Lao, Burmese and Khmer characters: scripts without spaces between words."""
_LATIN = re.compile(r"[\W\d_a-z\u00aa-\u02af\u1e00-\u1eff]*")


@lru_cache(maxsize=1 << 12)
def language_of(text: str) -> str | None:
    """Return the ISO 639-1 code of a text's language, or None if the text is too short or the result is uncertain.

    Capitalized words are ignored, because names are foreign in every language, except in texts with ideograms.
    """
    words = _WORD.findall(text[:_MOST_CHARACTERS])
    if sum(word.lower() in _ENGLISH for word in words) >= max(2, _ENGLISH_SHARE * len(words)):
        return "en"
    if len(_IDEOGRAMS.findall(text[:_MOST_CHARACTERS])) < _ENOUGH_IDEOGRAMS:
        words = [word for word in words if not word[0].isupper()]
        if sum(map(len, words)) < _ENOUGH_LETTERS:
            return None
    ranked = _identifier().rank(" ".join(words))
    # Only English is compared with a threshold: the detector may be unsure between Danish and Norwegian, or Indonesian
    # and Malay, and yet sure that a text is not English.
    english_probability = float(dict(ranked)["en"])
    return None if _UNSURE < english_probability < 1 - _UNSURE else str(ranked[0][0])


@lru_cache(maxsize=1)
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # loading its model takes a second

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages(_LANGUAGES)
    return identifier


def settled(language: str, *texts: str) -> str:
    """Return the language for splitting texts that are compared with each other.

    Only `UNKNOWN` changes: to English if all letters and digits are ASCII, else to "", for which `words_of` splits
    texts of every script.
    """
    # NFC joins an accent with its letter. A mark that remains may be the variation selector of an emoji.
    characters = set(unicodedata.normalize("NFC", " ".join(texts))) if language == UNKNOWN else set()
    is_ascii = all(
        character.isascii() or not (character.isalpha() or character.isdecimal()) for character in characters
    )
    return language if language != UNKNOWN else ENGLISH if is_ascii else ""


def is_foreign(text: str) -> bool:
    """Return whether at least a fifth of the words are in a non-Latin script."""
    words = [] if text.isascii() else words_of(text, "")
    return 5 * sum(not _LATIN.fullmatch(word) for word in words) >= max(1, len(words))


class _SplitForms(dict[int, str]):
    """Character code -> its form for splitting: unchanged, surrounded by spaces, or a space."""

    def __missing__(self, code: int) -> str:
        character = str(unicodedata.decimal(chr(code), chr(code)))  # Arabic, Persian and Hindi have their own digits
        is_in_word = unicodedata.category(character)[0] in "LNM"  # marks too: Hindi vowel signs are marks
        self[code] = " " if not is_in_word else f" {character} " if _UNSPACED.match(character) else character
        return self[code]


_SPLIT_FORMS = _SplitForms()


def words_of(text: str, language: str, *, articles: bool = True) -> list[str]:
    """Return the words of a text in a language other than English, without case and punctuation.

    A word is a run of letters, marks and digits after NFKC normalization, with all digits as ASCII. Each Chinese,
    Japanese, Korean, Thai, Lao, Burmese or Khmer character is a word of its own.

    Args:
        text: the text to split.
        language: ISO 639-1 code, which selects the articles; "" selects the English articles.
        articles: keep articles.

    Source: the mixed segmentation and the articles by language of MLQA (Lewis et al. 2020, section 4), extended to more
        languages.
    """
    words = unicodedata.normalize("NFKC", text).casefold().translate(_SPLIT_FORMS).split()
    dropped = frozenset() if articles else frozenset(_ARTICLES.get(language, "").split())
    return [word for word in words if word not in dropped]
