"""What a reply's text is before anything is scored: an answer behind a thought, no answer at all, or not English.

All of it is read off the text alone. Nothing here is sure of a short text, so short texts pass.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_OPENINGS = ("<think>", "<thinking>")

_NAMES_AN_ERROR = re.compile(
    r"""\s*[\[("'`*]*(?:
      (?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception)\b\s*[:(\[{-]                    # openai.RateLimitError: ...
    | (?i:error|fatal)(?i:\ (?:code|type|message|status))?\s*:                    # Error code: 429
    | (?i:https?|error|status|code)(?:/\d\.\d)?(?i:\ (?:error|code|status))*:?\ ?[45]\d\d\s*(?:$|[-:,({\n.])
    | [45]\d\d\ (?:(?:Client|Server)\ Error|Bad\ Request|Unauthorized|Payment\ Required|Forbidden|Not\ Found
        |Request\ Timeout|Payload\ Too\ Large|Too\ Many\ Requests|Internal\ Server\ Error|Bad\ Gateway
        |Service\ Unavailable|Gateway\ Time-?out)\s*(?:$|[-:,;({.\n]|for\b)
    | Traceback\ \(most\ recent\ call\ last\)
    | \{\s*["'](?:error|errors|detail|error_code|status_code)["']\s*:             # {"error": {"message": ...}}
    | (?i:<!doctype\ html|<html[\s>])
    | (?i:this\ model's\ maximum\ context\ length\ is|you\ exceeded\ your\ current\ quota)
    )""",
    re.VERBOSE,
)
_IS_AN_ERROR = re.compile(
    r"""[\s\[(<"'`*]*(?i:
      (?:error|undefined|nan|null|\[object\ object\]|no\ response|no\ output|timeout|generation\ failed)
    | (?:the\ |an?\ )?
      (?:api|internal|server|gateway|upstream|connection|request|read|network|rate[\ -]?limit|unexpected|unknown)
      (?:[\ -](?:api|server|request|response|connection|limit|call))*\ (?:was\ |has\ |has\ been\ |is\ )?
      (?:error(?:\ occurred)?|exceeded|reached|timed?\ ?-?out|timeout|failed|refused|aborted|reset|unavailable)
      (?:\ by\ peer|\ for\ \S+|,?\ (?:please\ )?(?:try|retry)\ again.{0,40})?
    | (?:service|model|bad)\ (?:temporarily\ |is\ )?(?:unavailable|overloaded|gateway)
    | too\ many\ requests | (?:an?\ )?error\ (?:has\ )?occurred.{0,80}
    | (?:failed|unable)\ to\ (?:generate|get)\ (?:an?\ |the\ )?(?:response|answer|completion)
    )[\s\])>"'`*.!]*""",
    re.VERBOSE | re.DOTALL,
)
_EXPLAINS = re.compile(r"\W*\w+(?: \w+)?:? ?\d* (?:means|indicates|occurs|refers|happens|is (?:an?|the|returned))\b")
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


def answer_text(text: str, end_of_thinking: str) -> str:
    """Return what a model answered, without the thinking text before it.

    A reply without a thought is the answer as it came, blanks at its ends included; behind a thought they go with it.
    The answer begins after the last end marker. A reply that opens a thought and never ends it (cut off by the token
    limit) holds no answer: it gives "", which is counted as an empty response.

    Args:
        text: the model's reply.
        end_of_thinking: the marker that ends a thought, such as `</think>`.
    """
    _, marker, rest = text.rpartition(end_of_thinking)
    answer = rest.strip()
    if answer.startswith(_OPENINGS):
        return ""
    return answer if marker else text


def is_error_text(text: str) -> bool:
    """Return whether a text is what a server, a client library or a program writes in the place of an answer.

    An answer about errors ("Error code 429 means that ...") is none.
    """
    return bool((_NAMES_AN_ERROR.match(text) and not _EXPLAINS.match(text)) or _IS_AN_ERROR.fullmatch(text))


def is_no_answer(text: str) -> bool:
    """Return whether a text is no answer at all: without a letter or digit, or an error's text."""
    return not any(map(str.isalnum, text)) or is_error_text(text)


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
