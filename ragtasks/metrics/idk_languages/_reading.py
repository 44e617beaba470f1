"""Which language a response in another one than English is in, and whether it refuses.

A response is cut into clauses, and these are read by what their words mean (`_meanings.py`); what was learned of
meanings and of runs of letters decides (`_learned.py`). A refusal with an answer beside it is `partial`. English is
read by `idk_rules`, which knows more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from ragtasks.languages import language_of
from ragtasks.metrics.idk_languages._learned import weights_of
from ragtasks.metrics.idk_languages._meanings import clauses_in
from ragtasks.metrics.idk_languages._tables import LANGUAGES, table_of
from ragtasks.records import IdkVerdict

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


def read(text: str) -> tuple[IdkVerdict | None, str] | None:
    """Return (verdict, reason) of a response in another language than English; None where it is to be read as English.

    The verdict is None, with the reason, where no table covers the language, or a short text does not tell it.
    """
    code = _detected(text)
    if code == "en":
        return None
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
    if _is_sure(codes, text):
        return classify(text, codes[0])
    return None, "not read: it is no English, and too short to tell its language"


def certain_language(text: str) -> str | None:
    """Return which of `LANGUAGES` a response is in, None for any other and where it is too short to tell."""
    code = _detected(text)
    if code is not None:
        return code if code in LANGUAGES else None
    codes = _possible(text)
    return codes[0] if _is_sure(codes, text) else None


def _detected(text: str) -> str | None:
    """Return the language that is detected, None where a text is too short for that."""
    code = language_of(text)
    if code is None or code == "en" or len(text) > _SHORT:
        return code
    if code in _CLOSE:
        return None
    return "es" if code == "pt" and not _PORTUGUESE.search(text.lower()) else code


def _is_sure(codes: Sequence[str], text: str) -> bool:
    return len(codes) == 1 and re.search(table_of(codes[0]).sure, text.lower()) is not None


def classify(text: str, code: str) -> tuple[IdkVerdict, str]:
    """Return (verdict, reason) of a response in the language of a table; the reason names the language."""
    clauses, weights = clauses_in(text, code), weights_of(code)
    verdict = weights.verdict(clauses, code) if clauses else IdkVerdict.NO
    if verdict is IdkVerdict.NO:
        return verdict, f"nothing that says that information is missing ({code})"
    place = weights.refusing_clause(clauses, code)
    where = f" clause {place + 1} of {len(clauses)}:" if len(clauses) > 1 else ""
    return verdict, f"({code}){where} {clauses[place].text.strip()}"


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
