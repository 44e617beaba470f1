"""Citations in an answer, in the forms that systems write: brackets, tags, footnotes, file names, annotations.

A citation is the number of a passage, from 1, or a name of a passage: its id, address, title or file. Only this module
reads these forms.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from urllib.parse import unquote

from ragtasks.errors import ConfigurationError, clear_error
from ragtasks.metrics.cited import CitedSentence, cited_sentence, sentence_ends

Cited = tuple[int, ...]
"""Passages that a citation may mean, from 1: several if they share a file or a title, (0,) if it matches no passage."""
_UNKNOWN: Cited = (0,)
_MOST_TEXTS = 8192
"""Number of cached texts and names; several metrics read the same answer."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The characters of a citation; they do not count as words of the answer."""

    start: int
    """First character."""
    end: int
    """Character after the last one."""
    cited: tuple[Cited, ...] = ()
    """Its citations; () for a tag that only opens a span, and for a line in a list of sources."""
    since: int | None = None
    """Start of the cited span; None if the mark cites the sentence that contains or precedes it."""


# Names of passages

_EXTENSION = r"\.(?:pdf|mdx?|txt|docx?|html?|csv|tsv|json|xml|xlsx?|pptx?|rst|ya?ml)"
_FILE = re.compile(rf"[^/\\\n]*[^\s/\\.]{_EXTENSION}")
_FILE_NAME = re.compile(rf"[\w-]+{_EXTENSION}\b", re.IGNORECASE)
_PAGE = re.compile(r"[#?]\S.*$|[\s,;:(]+(?:pages?|pp?\.?|seiten?|s\.|section|\u00a7|lines?)\s*\d[\d\s\u2013-]*\)?$")
_SHORTEST_STEM = 3


class _Names:
    """Names under which an answer may cite its passages."""

    def __init__(self, ids: Sequence[Sequence[str]]) -> None:
        self.n_passages = len(ids)
        self.exact: dict[str, list[int]] = {}
        self.files: dict[str, list[tuple[int, str]]] = {}
        """File name (with its path, without it, without the extension) -> its passages, each with a page."""
        self.shapes: set[str] = set()
        for number, passage_names in enumerate(ids, start=1):
            for name in filter(None, map(_key, passage_names)):
                self.exact.setdefault(name, []).append(number)
                self.shapes.add(_shape(name))
                base, page = _base_and_page(name)
                for form in _file_forms(base):
                    self.files.setdefault(form, []).append((number, page))

    def find(self, text: str) -> Cited:
        """Return the passages with this name or of this file; () for other text and other pages of the file."""
        name = _key(text)
        base, page = _base_and_page(name)
        if same := self.exact.get(name) or self.exact.get(base):
            return tuple(dict.fromkeys(same))
        pages = next((self.files[form] for form in _file_forms(base) or [base] if form in self.files), [])
        return tuple(dict.fromkeys(number for number, passage_page in pages if not page or passage_page in ("", page)))

    def resembles_name(self, text: str) -> bool:
        """Return whether a text resembles the name of a passage: a file, or an id with other digits."""
        name = _key(text)
        return bool(_FILE.fullmatch(_base_and_page(name)[0])) or ("0" in _shape(name) and _shape(name) in self.shapes)


_names_of = lru_cache(maxsize=64)(_Names)


@lru_cache(maxsize=_MOST_TEXTS)
def _key(name: str) -> str:
    plain = unicodedata.normalize("NFKC", name).strip(" \t\"'`*_\u201c\u201d\u2018\u2019")
    return re.sub(r"^https?://(?:www\.)?", "", " ".join(unquote(plain).casefold().split())).rstrip("/.,;:")


def _shape(name: str) -> str:
    """Return a name with every number and hexadecimal part replaced by 0; a bare number unchanged."""
    return name if name.isdigit() else re.sub(r"\b(?=[a-f]*\d)[\da-f]{4,}\b|\d+", "0", name)


def _base_and_page(name: str) -> tuple[str, str]:
    match = _PAGE.search(name)
    return (name[: match.start()], "".join(_DIGITS.findall(match[0])[:1])) if match else (name, "")


def _file_forms(base: str) -> list[str]:
    name = re.split(r"[/\\]", base)[-1]
    if not _FILE.fullmatch(name):
        return []
    stem = name.rpartition(".")[0]
    return list(dict.fromkeys([base, name, *([stem] if len(stem) >= _SHORTEST_STEM else [])]))


# Marks in a text

_DASH = r"[-\u2010-\u2015\u2212]"
_RANGE = rf"[0-9]+(?:\s*{_DASH}\s*[0-9]+)?"
_BRACKET = rf"\[\s*{_RANGE}(?:\s*[,;]\s*{_RANGE})*\s*,?\s*\]"
_GROUP = re.compile(rf"{_BRACKET}(?:[^\S\n]*(?:,|{_DASH})?[^\S\n]*{_BRACKET})*")
_BRACKET_RANGE = re.compile(rf"\]\s*({_DASH})\s*\[")
_ONE_RANGE = re.compile(rf"([0-9]+)(?:\s*{_DASH}\s*([0-9]+))?")
_LONGEST_RANGE = 100
_NAME = (
    r"(?:(?:doc(?:ument[eo]?)?|dokument|passage|source|quelle|fuente|fonte|bron|ref(?:erence)?|context|citation|cite|chunk)s?"
    r"|quellen|fonti|bronnen|\u0438\u0441\u0442\u043e\u0447\u043d\u0438\u043a|\u0434\u043e\u043a\u0443\u043c\u0435\u043d\u0442|\ucd9c\ucc98|\ubb38\uc11c|\u8cc7\u6599|\u6587\u66f8"
    r"|\u6765\u6e90|\u51fa\u5178|\u5f15\u7528|\u6587\u6863|\u53c2\u8003)(?![^\W\d_])[\s_#:.\uff1a]*"
)
_LEAD = re.compile(
    rf"\s*(?:{_NAME}(?:\d+\s*[:\uff1a]\s*)?|(?:see|from|per|via|id|file(?:name)?|siehe|vgl|voir)s?(?:[\s:.\uff1a]+))+",
    re.IGNORECASE,
)
_SOURCE_AT_END = re.compile(rf"(?<=[.!?\u3002])[\s*_(]*({_NAME}(?<=[:\uff1a\s])\S.*)", re.IGNORECASE)
_LABELS = re.compile(rf"\s*(?:{_NAME})+", re.IGNORECASE)
_NUMBERED = re.compile(rf"(?P<name>{_NAME})?(?P<number>\d+)", re.IGNORECASE)
_SEPARATOR = re.compile(r"\s*(?:[,;|&\uff0c\uff1b\u3001]|\band\b|\bund\b|\bet\b|\by\b)\s*", re.IGNORECASE)
_TAGS = "cite|citation|doc|document|ref|source"
_BRACKETS = re.compile(
    r"\[{1,2}(?P<square>[^^\[\]\n][^\[\]\n]{0,299})\]{1,2}|\((?P<round>[^()\n]{1,300})\)|\{{1,2}(?P<curly>[^{}\n]{1,300})\}{1,2}"
    "|[\u3010\uff3b](?P<wide>[^\u3010\u3011\uff3b\uff3d\n]{1,300})[\u3011\uff3d]"
    "|\uff08(?P<wide_round>[^\uff08\uff09\n]{1,300})\uff09"
    rf"|<(?:{_TAGS})>(?P<tagged>[^<>\n]{{1,300}})</(?:{_TAGS})>"
    r"|<sup>(?P<raised>\d{1,3}(?:[,;\s]{1,3}\d{1,3}){0,9})</sup>"
)
_BEFORE_RAISED = re.compile(r"[^\W\d_]{3}$|[.,;:!?)\"'>\u201d\u2019]$")
"""Text before a raised number that is a citation and not an exponent."""
_DAGGER = re.compile("(?:(\\d+):)?(\\d+)\u2020(.*)")
_TAG = re.compile(rf"<(?P<closes>/?)(?:(?P<co>co)(?=[:>])|{_TAGS})(?P<attributes>[:\s][^<>\n]*)?>|\[cite_?start\]")
"""Tags around a span. Command-R's `<co: 0>` and `</co: 0>` count from 0."""
_NAMED_IN_TAG = re.compile(r"\b(?:doc(?:ument)?|id|index|name|ref|source|src)=(?:\"([^\"]*)\"|'([^']*)'|([^\s/>]+))")
_TURNS = re.compile("\ue200\\w*cite[^\ue200\ue201]*\ue201")
_FOOTNOTE = re.compile(r"\[\^([^\]\n^]{1,100})\^?\](?!:)")
_SOURCE_LINE = re.compile(
    r"[\s>*\u2022-]*(?:\d{1,3}[.)]\s+)?(?:\[(?P<note>\^?)(?P<label>[^\]]{1,100})\](?P<colon>:?)\s*)?(?P<names>.*)"
)
_HEADING = re.compile(r"[\W_]*(?:(?:source|reference|citation)s?|quellen?|\u6765\u6e90)[\W_]*", re.IGNORECASE)
_LONGEST_LINE = 300
_CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
_SUPERSCRIPTS = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
_SUPERSCRIPT = re.compile(rf"(?<=[.,;:!?)\"'\u201d\u2019])[{_SUPERSCRIPTS}]+")
_DIGITS = re.compile(r"\d+")
_TO_DIGITS = str.maketrans(_SUPERSCRIPTS, "0123456789")


@lru_cache(maxsize=_MOST_TEXTS)
def marks_of(text: str, ids: tuple[tuple[str, ...], ...] = ()) -> tuple[Mark, ...]:
    """Return the citations in a text, in order.

    Numbers: `[1]`, `[1, 3]`, `[1-3]`, `[doc 2]`, `(source 1)`, `[[citation:1]]`, `[^1]` and `[^1^]` with their notes, a
    superscript after punctuation, the marks of OpenAI and Command-R, `<cite>1</cite>`. Names: `[rules.pdf#page=4]`,
    `[reg-2024]`, `(source: intro.md)`. Other brackets are text.

    Args:
        text: an answer.
        ids: the names of each passage: id, address, title. Cited numbers are read as ids if all of them are ids and one
            exceeds the number of passages.
    """
    names = _names_of(ids)
    code = [match.span() for match in _CODE.finditer(text)] if "`" in text else []
    all_marks = (mark for mark in _all_marks(text, names) if not _is_index(text, mark.start, code))
    marks = tuple(_outermost(sorted(all_marks, key=lambda mark: (mark.start, -mark.end))))
    written = {str(cited[0]) for mark in marks for cited in mark.cited if len(cited) == 1}
    if written <= names.exact.keys() and any(int(number) > names.n_passages for number in written):
        return tuple(
            replace(mark, cited=tuple(tuple(names.exact[str(cited[0])]) for cited in mark.cited)) for mark in marks
        )
    return marks


def unseen_files(text: str, ids: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """Return the cited files that belong to no passage; () unless passages are named by files."""
    names = _names_of(ids)
    marks = (text[mark.start : mark.end] for mark in marks_of(text, ids) if names.files and _UNKNOWN in mark.cited)
    return tuple(name for mark in marks for name in _FILE_NAME.findall(mark) if not names.find(name))


def _all_marks(text: str, names: _Names) -> Iterator[Mark]:
    sources: dict[str, Cited] = {}
    if "\n" in text or ":" in text:
        yield from _source_lines(text, names, sources)
    for match in _BRACKETS.finditer(text):
        if cited := _bracket_citations(match, names):
            yield Mark(*match.span(), cited)
    for match in _GROUP.finditer(text):
        yield Mark(*match.span(), tuple(sources.get(str(number), (number,)) for number in _range_numbers(match[0])))
    for match in _FOOTNOTE.finditer(text):
        cited = _numbers(match[1])[:1] if match[1].isdecimal() else (names.find(match[1]) or _UNKNOWN,)
        yield Mark(*match.span(), (sources.get(match[1]) or cited[0],))
    if "<" in text or "[cite" in text:
        yield from _tags(text, names)
    if not text.isascii():
        yield from (
            Mark(*digits.span(), _numbers(digits[0].translate(_TO_DIGITS))) for digits in _SUPERSCRIPT.finditer(text)
        )
        for match in _TURNS.finditer(text):
            numbers = " ".join(re.findall("(\\d+)[\ue201\ue202]", match[0]))
            yield Mark(*match.span(), _numbers(numbers, counts_from=0))


def _bracket_citations(match: re.Match[str], names: _Names) -> tuple[Cited, ...]:
    """Return the citations in brackets; () if any part of their content is neither a name nor a number of a passage."""
    form = str(match.lastgroup)
    content = match[form].strip()
    if dagger := _DAGGER.fullmatch(content):
        by_name = names.find(dagger[3])
        return (by_name,) if by_name else _numbers(dagger[2], counts_from=0 if dagger[1] else 1)
    if form == "raised":
        return _numbers(content) if _BEFORE_RAISED.search(match.string[: match.start()].rstrip()[-3:]) else ()
    if form in ("wide", "tagged") and not re.search(r"[^\d\s,;\u3001]", content):
        return _numbers(content)
    is_link = form == "square" and match.string.startswith("(", match.end())
    return _names_in(content, names, is_strict=is_link or form in ("round", "wide_round"))


def _names_in(content: str, names: _Names, *, is_strict: bool = False) -> tuple[Cited, ...]:
    """Return the citations in a list of names and numbers; () if a part is neither.

    Args:
        content: the list, optionally after `source:` or `see`.
        names: the names of the passages.
        is_strict: whether plain words are text even if they are the title of a passage.
    """
    lead = None if names.find(content) else _LEAD.match(content)
    listing = content[lead.end() :] if lead else content
    is_labelled = lead is not None and lead[0].rstrip().endswith((":", "\uff1a"))
    is_page_of = not is_strict and content[:1].isdigit() and _PAGE.search(content.casefold())  # [1, p. 4]
    are_numbers = is_page_of or (lead is not None and _LABELS.fullmatch(lead[0]) is not None)
    cited: list[Cited] = []
    if not listing.strip():
        return ()
    for part in [listing] if names.find(listing) else _SEPARATOR.split(listing):
        number = _NUMBERED.fullmatch(part)
        if citation := names.find(part):
            if is_strict and not lead and part.replace(" ", "").isalpha():
                return ()
        elif number and (are_numbers or number["name"]):
            citation = (_number(number["number"]),)
        elif cited and _PAGE.fullmatch(f" {part.casefold()}"):
            continue
        elif is_labelled or _FILE.fullmatch(part.casefold()) or (not is_strict and names.resembles_name(part)):
            citation = _UNKNOWN
        else:
            return ()
        cited.append(citation)
    return tuple(cited)


def _tags(text: str, names: _Names) -> Iterator[Mark]:
    """Yield the tags around cited spans; the closing tag has the citations, for the complete span."""
    counts_from = 0 if re.search("<cite[^<>]*=[\"']?0", text) else 1
    opened: tuple[Cited, ...] = ()
    since = None
    for match in _TAG.finditer(text):
        attributes, closes = match["attributes"] or "", bool(match["closes"])
        if match["co"]:
            opened = _numbers(attributes, counts_from=0)[:_LONGEST_RANGE]
        elif not closes:
            value = next(("".join(values) for values in _NAMED_IN_TAG.findall(attributes)), "")
            parts = [value] if names.find(value) else [part for part in re.split(r"[,;\s]+", value) if part]
            numbers = [_numbers(part.partition("-")[0], counts_from=counts_from)[:1] or (_UNKNOWN,) for part in parts]
            opened = tuple(names.find(part) or cited for part, (cited,) in zip(parts, numbers, strict=True))
        is_alone = attributes.endswith("/")
        yield Mark(*match.span(), opened if closes or is_alone else (), since if closes else None)
        since = None if closes or is_alone else match.end()


def _source_lines(text: str, names: _Names, sources: dict[str, Cited]) -> Iterator[Mark]:
    """Yield the lines that name sources, and fill `sources` with label -> passage, such as 1 for `[1] rules.pdf`.

    `Source: rules.pdf` is a citation. A list under a heading is not: it repeats the answer's citations, or it does not
    state which sentence it supports.
    """
    end, heading = 0, None
    for line in text.splitlines(keepends=True):
        start, end = end, end + len(line)
        content = line.rstrip()
        if not content or not (match := _SOURCE_LINE.fullmatch(content)):
            continue
        line_names = match["names"] if len(match["names"]) <= _LONGEST_LINE else ""
        cited = _names_in(line_names, names, is_strict=True)
        if _UNKNOWN in cited:  # else every sentence after `Source:` would be a citation
            cited = ()
        line_mark = Mark(start, start + len(content))
        if match["label"] and (cited or (match["note"] and match["colon"])):
            sources.update({match["label"]: cited[0]} if cited else {})
            yield line_mark
        elif cited and heading:
            yield from (heading, line_mark)
        elif cited and _LEAD.match(line_names):
            yield Mark(line_mark.start, line_mark.end, cited)
        elif (last := _SOURCE_AT_END.search(content)) and (cited := _names_in(last[1], names)) and all(map(any, cited)):
            yield Mark(start + last.start(1), line_mark.end, cited)
        else:
            heading = line_mark if _HEADING.fullmatch(content) else None


def _is_index(text: str, start: int, code: Sequence[tuple[int, int]]) -> bool:
    """Return whether the bracket at `start` is an index of a name in code: `rows[1]`."""
    before = bisect_left(code, (start, 0))
    is_in_code = before > 0 and start < code[before - 1][1]
    return is_in_code and re.match(r"[\w\])]\[", text[start - 1 : start + 1]) is not None


def _outermost(marks: Sequence[Mark]) -> Iterator[Mark]:
    """Yield the marks that do not overlap an earlier mark; of two with the same characters, the first."""
    end = 0
    for mark in marks:
        if mark.start >= end:
            end = mark.end
            yield mark


def _range_numbers(group: str) -> Iterator[int]:
    """Yield the numbers of a group of brackets; only the two ends of a reversed or very long range."""
    for first, last in _ONE_RANGE.findall(_BRACKET_RANGE.sub(r"\1", group)):
        low, high = _number(first), _number(last or first)
        yield from range(low, high + 1) if 0 <= high - low < _LONGEST_RANGE else (low, high)


def _numbers(text: str, *, counts_from: int = 1) -> tuple[Cited, ...]:
    return tuple((_number(digits) + 1 - counts_from,) for digits in _DIGITS.findall(text))


def _number(digits: str) -> int:
    return int(digits[:9])  # `int` rejects thousands of digits


# Sentences with their citations: split into lines, then into sentences

_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_CUT_WORD = re.compile(r"[^\W\d_][-\u00ad\u2010][ \t]*[\r\n]+\Z")
_CUT_WORD_LENGTH = 20
_IDEOGRAPHIC_END = re.compile("[\u3002\uff01\uff1f]+[\u300d\u300f\u201d\uff09]*")


def parse_cited(text: str, n_references: int, ids: tuple[tuple[str, ...], ...] = ()) -> tuple[CitedSentence, ...]:
    """Return the sentences of an answer with their citations; () for a text without a letter or digit.

    Reads every form of `marks_of`, before or after the full stop. A citation at the start of a line belongs to the next
    sentence, a citation on its own line to the previous sentence, and a citation of a span to each sentence that
    overlaps the span. If passages share a name, the first one is cited.

    Args:
        text: the answer.
        n_references: number of passages that the model received.
        ids: the names of each passage.
    """
    marks = marks_of(text, ids)
    clean = blank_out(text, ((mark.start, mark.end) for mark in marks))
    spans = [(" ".join(clean[start:end].split()), cited) for start, end, cited in sentences_of(clean, marks)]
    return tuple(
        cited_sentence(re.sub(r" (?=[.,;:!?](?:\s|$))", "", words), [number for number, *_ in cited], n_references)
        for words, cited in spans
    )


def blank_out(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return a text with the given spans, in ascending order, replaced by spaces."""
    parts, done = [], 0
    for start, end in spans:
        parts += [text[done:start], " " * (end - start)]
        done = end
    return "".join([*parts, text[done:]])


def sentences_of(text: str, marks: Sequence[Mark]) -> Iterator[tuple[int, int, tuple[Cited, ...]]]:
    """Yield the start, end and citations of each sentence with a letter or digit; each citation once.

    Args:
        text: an answer in which spaces replace the citations.
        marks: the citations.
    """
    spans = list(_sentence_spans(text))
    starts = [start for start, _ in spans]
    cited: list[list[Cited]] = [[] for _ in spans]
    for mark in marks if spans else ():
        sentence = bisect_left(starts, mark.start) - 1
        line_end = text.find("\n", mark.end)
        after = text[mark.end : line_end if line_end >= 0 else len(text)]
        opens_line = not text[text.rfind("\n", 0, mark.start) + 1 : mark.start].strip()
        if sentence < 0 or (opens_line and after.strip() and sentence + 1 < len(spans)):
            sentence += 1
        first = sentence if mark.since is None else min(sentence, max(0, bisect_left(starts, mark.since + 1) - 1))
        for cited_in_sentence in cited[first : sentence + 1]:
            cited_in_sentence.extend(mark.cited)
    for (start, end), citations in zip(spans, cited, strict=True):
        yield start, end, tuple(dict.fromkeys(citations))


def _sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    starts, end, before = [], 0, ""
    for line in text.splitlines(keepends=True):
        if not (line.lstrip()[:1].islower() and _CUT_WORD.search(before)):
            starts.append(end)
        end, before = end + len(line), line[-_CUT_WORD_LENGTH:]
    for start, stop in pairwise([*starts, len(text)]):
        line = text[start:stop]
        cuts = {*sentence_ends(line)}
        if not line.isascii():
            cuts |= {match.end() for match in _IDEOGRAPHIC_END.finditer(line)}
        for low, high in pairwise([0, *sorted(cuts), len(line)]):
            sentence = line[low:high]
            if _LETTER_OR_DIGIT.search(sentence):
                first = start + low + len(sentence) - len(sentence.lstrip())
                yield first, first + len(sentence.strip())


# Citations that an API returns next to the text.

_STARTS, _ENDS = ("start_index", "start"), ("end_index", "end")
_NAMES = ("index", "document_ids", "sources", "url", "file_id", "id", "title")


def listed_marks(citations: Sequence[Mapping[str, object]], ids: Sequence[Sequence[str]]) -> list[Mark]:
    """Return citations from the API of OpenAI or Cohere as marks after the cited text.

    Args:
        citations: annotations with `start_index`, `end_index` and `url` or `file_id`, or citations with `start`, `end`
            and `document_ids` or `sources`.
        ids: the names of each passage: id, address, title. `doc_0` always means the first passage. An unknown name
            becomes the number 0.

    Raises:
        ConfigurationError: a citation without a position or without a source.
    """
    return [_listed_mark(citation, position, ids) for position, citation in enumerate(citations)]


def _listed_mark(citation: Mapping[str, object], position: int, ids: Sequence[Sequence[str]]) -> Mark:
    inner = next(
        (value for key, value in citation.items() if key.endswith("_citation") and isinstance(value, Mapping)), citation
    )
    start, end = (next((inner[key] for key in keys if key in inner), None) for keys in (_STARTS, _ENDS))
    name = next((inner[key] for key in _NAMES if inner.get(key) is not None), None)
    if not isinstance(start, int) or not isinstance(end, int) or name is None:
        expected = "`start_index`, `end_index` and `url`, or `start`, `end` and `document_ids`"
        found = f"a citation with {', '.join(map(str, inner)) or 'nothing'}"
        where = f"citations[{position}]"
        raise ConfigurationError(
            clear_error(
                "ground",
                where=where,
                expected=expected,
                found=found,
                next_step="pass the citations as the API returned them",
            )
        )
    names = name if isinstance(name, (list, tuple)) else [name]
    listed_names = (source.get("id") if isinstance(source, Mapping) else source for source in names)
    return Mark(end, end, tuple((_passage_number(source, ids),) for source in listed_names))


def _passage_number(name: object, ids: Sequence[Sequence[str]]) -> int:
    """Return the number of a passage, from 1; 0 if the name is unknown."""
    if isinstance(name, int):
        return name + 1 if name < len(ids) else 0
    number_by_name = next(
        (number for number, passage_names in enumerate(ids, start=1) if name and name in passage_names), 0
    )
    match = re.fullmatch(r"doc_(\d+)(?::\d+)?", str(name))
    return number_by_name or (_number(match[1]) + 1 if match and _number(match[1]) < len(ids) else 0)
