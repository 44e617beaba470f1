"""The citations that an answer gives, in the forms that systems write: brackets, tags, footnotes, and lists beside it.

Numbers are those of the passages, from 1; a form that counts from 0 is counted on by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragtasks.errors import ConfigurationError, clear_error
from ragtasks.metrics.cited import SPAN_CLOSING, SPAN_OPENING, citation_marks


@dataclass(frozen=True, slots=True)
class Mark:
    """One citation in a text: no word of the answer."""

    start: int
    """Its first character."""
    end: int
    """Behind its last one."""
    numbers: tuple[int, ...]
    """What it cites, as written; () for a tag that only opens a piece, and for the text of a footnote."""


_NAME = r"(?:doc(?:ument)?|passage|source|ref(?:erence)?|context)s?[\s_#:.]*"
_NAMED = re.compile(rf"[\[(]\s*{_NAME}\d+(?:\s*(?:,|;|&|and)\s*(?:{_NAME})?\d+)*\s*[\])]", re.IGNORECASE)
_LENTICULAR = re.compile("\u3010(?:(\\d+):)?(\\d+)\u2020[^\u3011\n]*\u3011")
_FOOTNOTE = re.compile(r"\[\^(\d+)\](?!:)")
_FOOTNOTE_TEXT = re.compile(r"^\[\^\w+\]:.*$", re.MULTILINE)
_SUPERSCRIPTS = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
_SUPERSCRIPT = re.compile(rf"(?<=[.,;:!?)\"'\u201d\u2019])[{_SUPERSCRIPTS}]+")
_DIGITS = re.compile(r"\d+")
_TO_DIGITS = str.maketrans(_SUPERSCRIPTS, "0123456789")


def marks_of(text: str) -> list[Mark]:
    """Return the citations in a text, in order.

    `[1]`, `[1, 3]`, `[1-3]`, `[doc 2]`, `(source 1)`, `[^1]` with its text, a raised number behind a mark, OpenAI's
    lenticular brackets, and Command-R's `<co: 0>...</co: 0>`.
    """
    found = [*map(_of_brackets, citation_marks(text))]
    if "[^" in text:
        found += [Mark(*match.span(), ()) for match in _FOOTNOTE_TEXT.finditer(text)]
        found += [Mark(*match.span(), (_number(match[1]),)) for match in _FOOTNOTE.finditer(text)]
    if "<co" in text or "</co" in text:
        found += [Mark(*match.span(), ()) for match in SPAN_OPENING.finditer(text)]
        found += [Mark(*match.span(), _numbers(match[1], counts_from=0)) for match in SPAN_CLOSING.finditer(text)]
    found += [Mark(*match.span(), _numbers(match[0])) for match in _NAMED.finditer(text)]
    if not text.isascii():
        found += [Mark(*one.span(), _numbers(one[0].translate(_TO_DIGITS))) for one in _SUPERSCRIPT.finditer(text)]
    if "\u3010" in text:
        found += [_of_lenticular(match) for match in _LENTICULAR.finditer(text)]
    return list(_apart(sorted(found, key=lambda mark: (mark.start, -mark.end))))


def _of_brackets(found: tuple[int, int, list[int]]) -> Mark:
    start, end, numbers = found
    return Mark(start, end, tuple(numbers))


def _of_lenticular(match: re.Match[str]) -> Mark:
    return Mark(*match.span(), _numbers(match[2], counts_from=0 if match[1] else 1))


def _apart(marks: Sequence[Mark]) -> Iterator[Mark]:
    """Yield the marks that do not stand in another one."""
    end = 0
    for mark in marks:
        if mark.start >= end:
            end = mark.end
            yield mark


def _numbers(text: str, *, counts_from: int = 1) -> tuple[int, ...]:
    return tuple(_number(digits) + 1 - counts_from for digits in _DIGITS.findall(text))


def _number(digits: str) -> int:
    return int(digits[:9])  # `int` refuses thousands of digits


# Citations that an interface returns beside the text: where in it, and what.

_STARTS, _ENDS = ("start_index", "start"), ("end_index", "end")
_NAMES = ("index", "document_ids", "sources", "url", "file_id", "id", "title")


def listed_marks(citations: Sequence[Mapping[str, object]], ids: Sequence[Sequence[str]]) -> list[Mark]:
    """Return citations that OpenAI's or Cohere's interface lists beside an answer, as marks behind what they cite.

    Args:
        citations: annotations with `start_index`, `end_index` and `url` or `file_id`, or citations with `start`, `end`
            and `document_ids` or `sources`.
        ids: what each passage may be called: its id, its address, its title. `doc_0` is the first in any case; what is
            none of them has the number 0.

    Raises:
        ConfigurationError: a citation that says no place, or not what it cites.
    """
    return [_listed(item, place, ids) for place, item in enumerate(citations)]


def _listed(item: Mapping[str, object], place: int, ids: Sequence[Sequence[str]]) -> Mark:
    inner = next(
        (value for key, value in item.items() if key.endswith("_citation") and isinstance(value, Mapping)), item
    )
    start, end = (next((inner[key] for key in keys if key in inner), None) for keys in (_STARTS, _ENDS))
    name = next((inner[key] for key in _NAMES if inner.get(key) is not None), None)
    if not isinstance(start, int) or not isinstance(end, int) or name is None:
        expected = "`start_index`, `end_index` and `url`, or `start`, `end` and `document_ids`"
        found = f"one with {', '.join(map(str, inner)) or 'nothing'}"
        where = f"citations[{place}]"
        raise ConfigurationError(
            clear_error(
                "ground", where=where, expected=expected, found=found, next_step="pass what the interface returned"
            )
        )
    names = name if isinstance(name, (list, tuple)) else [name]
    return Mark(end, end, tuple(_place_of(one.get("id") if isinstance(one, Mapping) else one, ids) for one in names))


def _place_of(name: object, ids: Sequence[Sequence[str]]) -> int:
    """Return the number of a passage, from 1; 0 for what is none."""
    if isinstance(name, int):
        return name + 1 if name < len(ids) else 0
    known = next((number for number, own in enumerate(ids, start=1) if name and name in own), 0)
    match = re.fullmatch(r"doc_(\d+)(?::\d+)?", str(name))
    return known or (_number(match[1]) + 1 if match and _number(match[1]) < len(ids) else 0)
