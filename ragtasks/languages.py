"""Languages: which one a text is in, and what a word is in it.

English texts are cut into words where they are measured, as the official scripts do. Every other language is cut here.
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
"""Language of a text that is too short to detect: its script decides (`settled`)."""

_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
_ENGLISH_WORDS = (  # those of Dutch, Danish or French ("is", "of", "for", "or") are left out
    "the and that with this these those you your has from which not are were can will would should its they their "
    "there been when who how but does also may because"
)
_ENGLISH = frozenset(_ENGLISH_WORDS.split())
_ENGLISH_SHARE = 0.1
_ENOUGH_LETTERS = 15
_ENOUGH_IDEOGRAMS = 5
_IDEOGRAMS = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_MOST_CHARACTERS = 600  # of what the detector reads: more makes it slower, not surer
_UNSURE = 0.02  # probability of English from which a text may be English or not
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
"""Language -> its articles, which scores of words leave out as they do in English."""
_A_WORD_EACH = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Characters of Chinese, Japanese and Korean, and of Thai, Lao, Burmese and Khmer, which write no blanks."""
_LATIN = re.compile(r"[\W\d_a-z\u00aa-\u02af\u1e00-\u1eff]*")


@lru_cache(maxsize=1 << 12)
def language_of(text: str) -> str | None:
    """Return the ISO 639-1 code of a text's language; None where the text is too short to tell, or nothing is sure.

    Capitalised words are not read, as names are foreign in every language; ideograms are.
    """
    words = _WORD.findall(text[:_MOST_CHARACTERS])
    if sum(word.lower() in _ENGLISH for word in words) >= max(2, _ENGLISH_SHARE * len(words)):
        return "en"
    if len(_IDEOGRAMS.findall(text[:_MOST_CHARACTERS])) < _ENOUGH_IDEOGRAMS:
        words = [word for word in words if not word[0].isupper()]
        if sum(map(len, words)) < _ENOUGH_LETTERS:
            return None
    ranked = _identifier().rank(" ".join(words))
    # Danish and Norwegian, Indonesian and Malay: the detector may be sure of neither, but of both together.
    is_english = float(dict(ranked)["en"])
    return None if _UNSURE < is_english < 1 - _UNSURE else str(ranked[0][0])


@lru_cache(maxsize=1)
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # its model takes a second to load

    found = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    found.set_languages(_LANGUAGES)
    return found


def settled(language: str, *texts: str) -> str:
    """Return the language for cutting texts that are compared with each other: one for all of them.

    Only `UNKNOWN` changes: to English if all letters and digits are ASCII, else to "", by which `words_of` cuts every
    script.
    """
    # Composed, so that an accent counts with its letter; a mark alone may be the variation selector of an emoji.
    signs = set(unicodedata.normalize("NFC", " ".join(texts))) if language == UNKNOWN else set()
    is_ascii = all(sign.isascii() or not (sign.isalpha() or sign.isdecimal()) for sign in signs)
    return language if language != UNKNOWN else ENGLISH if is_ascii else ""


def is_foreign(text: str) -> bool:
    """Return whether at least a fifth of the words are in another script than Latin."""
    words = [] if text.isascii() else words_of(text, "")
    return 5 * sum(not _LATIN.fullmatch(word) for word in words) >= max(1, len(words))


class _Signs(dict[int, str]):
    """Character -> what it is between words: itself, or apart from its neighbours, or a blank."""

    def __missing__(self, code: int) -> str:
        sign = str(unicodedata.decimal(chr(code), chr(code)))  # Arabic, Persian and Hindi have digits of their own
        is_in_word = unicodedata.category(sign)[0] in "LNM"  # marks too: Hindi writes vowels as such
        self[code] = " " if not is_in_word else f" {sign} " if _A_WORD_EACH.match(sign) else sign
        return self[code]


_SIGNS = _Signs()


def words_of(text: str, language: str, *, articles: bool = True) -> list[str]:
    """Return the words of a text in another language than English, without case and punctuation.

    Words are runs of letters, marks and digits, the forms of a character made one (NFKC), digits of every script those
    of ASCII; each character of Chinese, Japanese, Korean, Thai, Lao, Burmese and Khmer is a word.

    Args:
        text: what is cut.
        language: ISO 639-1 code, which decides what the articles are; "" has those of English.
        articles: whether they stay.

    Source: the mixed segmentation and the articles by language of MLQA (Lewis et al. 2020, section 4), for more
    languages.
    """
    words = unicodedata.normalize("NFKC", text).casefold().translate(_SIGNS).split()
    without = frozenset() if articles else frozenset(_ARTICLES.get(language, "").split())
    return [word for word in words if word not in without]
