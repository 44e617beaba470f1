"""Which words of an answer rest on which passage, read off the words alone: no judge, no model.

A unit is a content word, or two content words in a row. A unit is held where a passage has it too: words by their stem,
names as they are, numbers by their value. Function words and negations are no units. Who copies holds everything, so
this says where an answer comes from and never which answer is better; `copied` stands beside it.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache
from itertools import filterfalse, pairwise
from operator import or_

from ragtasks.errors import ConfigurationError, clear_error
from ragtasks.languages import language_of
from ragtasks.metrics._citation_forms import Mark, listed_marks, marks_of
from ragtasks.metrics._metric import Metric
from ragtasks.metrics.cited import (
    CitedSentence,
    cited_sentence,
    sentence_ends,
    support_precision,
    support_recall,
)
from ragtasks.records import Message, Passage, Support

GROUNDED = Metric(
    "grounded",
    "share of the answer's words and word pairs in its passages or the question; ranks nobody",
    higher_is_better=None,
    in_groups=False,
)
CITED_PRECISION = Metric(
    "cited_precision",
    "support of the sentences that cite by the words of the first passage that they cite; a part counts half",
)
CITED_RECALL = Metric("cited_recall", "the same over all sentences; one that does not cite counts 0")
COPIED = Metric(
    "copied",
    "share of the answer's words in runs of five or more that a passage has; ranks nobody",
    higher_is_better=None,
    in_groups=False,
)


class Source(str, Enum):
    """What holds a word or a sentence."""

    PASSAGES = "passages"
    QUESTION = "question"
    CONVERSATION = "conversation"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a text, as Python slices it."""

    start: int
    """Its first character."""
    end: int
    """Behind its last one."""


@dataclass(frozen=True, slots=True)
class PassageSpan:
    """The piece of a passage that a sentence rests on most."""

    passage: int
    """Place among the passages, from 0."""
    span: Span


@dataclass(frozen=True, slots=True)
class GroundedSentence:
    """One sentence of an answer, or one line of a list, a table or code."""

    text: str
    """As it stands in the answer, citations included."""
    span: Span
    share: float | None
    """Share of its units that the passages or the question hold; None where it has no content words."""
    share_with_conversation: float | None
    """The same where earlier turns count too."""
    source: Source
    """What it rests on most; nothing where more than half of its words are nowhere."""
    best: PassageSpan | None
    """Where it rests on most; None where no passage has any of its units."""
    not_found: tuple[Span, ...] = ()
    """Its words that stand in no passage and not in the question, as places in the answer."""
    from_conversation: tuple[Span, ...] = ()
    """Those of them that an earlier turn holds."""
    numbers_not_found: tuple[str, ...] = ()
    """Those of them that are numbers, as written, and in no earlier turn either."""
    flipped: Span | None = None
    """Words that its passage has with a negation and the answer without one, or the reverse."""
    cited: tuple[int, ...] = ()
    """Numbers of the passages that it cites, from 1, in their order; some may name none."""
    support: Support | None = None
    """How far the first passage that it cites holds its units; None where it cites none, or has no content words."""


@dataclass(frozen=True, repr=False)
class Grounding:
    """What an answer rests on, sentence by sentence."""

    sentences: tuple[GroundedSentence, ...]
    """Its sentences with a letter or digit, in order."""
    share: float | None
    """Share of its units that the passages or the question hold, 0 to 1; None without passages or content words."""
    share_with_conversation: float | None
    """The same where earlier turns count too."""
    copied: float | None
    """Share of its words in runs of five or more that one passage has word for word; None as for `share`."""

    @property
    def citation_precision(self) -> float | None:
        """Mean support of the sentences that cite, partial support counting half; None where none does."""
        return support_precision(*self._support).value

    @property
    def citation_recall(self) -> float | None:
        """The same over all sentences; one that does not cite counts 0."""
        return support_recall(*self._support).value

    @property
    def _support(self) -> tuple[list[bool], list[Support | None]]:
        return [bool(item.cited) for item in self.sentences], [item.support for item in self.sentences]

    def __repr__(self) -> str:
        """Return the share, and each sentence with what it rests on."""
        n = len(self.sentences)
        share = "no share" if self.share is None else f"{self.share:.0%} held, {self.copied or 0:.0%} copied"
        cites = "" if self.citation_precision is None else f", citations {self.citation_precision:.0%} supported"
        lines = [f"<Grounding: {share}{cites}, {n} {'sentence' if n == 1 else 'sentences'}>"]
        lines += [_line(sentence) for sentence in self.sentences[:_MOST_LINES]]
        if n > _MOST_LINES:
            lines.append(f"  ... and {n - _MOST_LINES} more")
        return "\n".join(lines)


_MOST_LINES = 20
_MOST_CHARACTERS = 70
_HALF = 0.5
_RUN = 5


def _line(sentence: GroundedSentence) -> str:
    share = "   -" if sentence.share_with_conversation is None else f"{sentence.share_with_conversation:4.0%}"
    where = {
        Source.PASSAGES: f"passage {sentence.best.passage + 1}" if sentence.best else "passages",
        Source.QUESTION: "question",
        Source.CONVERSATION: "conversation",
        Source.NOTHING: "nothing" if sentence.share is not None else "",
    }[sentence.source]
    text = " ".join(sentence.text.split())
    text = text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 3] + "..."
    notes = [f"numbers not found: {', '.join(sentence.numbers_not_found)}"] if sentence.numbers_not_found else []
    notes += ["negation differs"] if sentence.flipped else []
    if sentence.support in (Support.PARTIAL, Support.NO):
        does = "supports a part of it" if sentence.support is Support.PARTIAL else "does not support it"
        notes.append(f"passage {sentence.cited[0]} {does}")
    return f"  {share}  {where:<12}  {text}" + (f"  ({'; '.join(notes)})" if notes else "")


def ground(
    answer: str,
    passages: Sequence[str | Passage | Mapping[str, object]],
    history: Sequence[str | Message | Mapping[str, object]] = (),
    citations: Sequence[Mapping[str, object]] = (),
) -> Grounding:
    """Return what each sentence of an answer rests on.

    Args:
        answer: what was answered. Citations in it are no words: `[1]`, `[doc 2]`, `[^1]`, Command-R's and OpenAI's.
        passages: what it was given, in order: texts, `Passage`s, or dictionaries with `text` and perhaps `title`.
        history: the conversation so far, the question last: texts, `Message`s, or dictionaries with `text` or
            `content`. What the question says counts as held, since to repeat it claims nothing; what only earlier turns
            hold is counted apart.
        citations: what an interface listed beside the answer: OpenAI's annotations, or Cohere's citations.

    Returns:
        Sentences with shares, sources and places. Time grows with the length of the texts, and no faster.

    Raises:
        ConfigurationError: a passage or a turn without a text, or a citation without a place.

    Source: our own; measured against people's ratings by `perf/grounding.py`, table in docs/grounding.md.
    """
    return Resting.of(answer, passages, history, citations).whole


class Resting:
    """An answer beside what it may rest on; each sentence is looked at where somebody asks for it."""

    def __init__(
        self, answer: str, shown: Sequence[tuple[str, str]], turns: Sequence[str], listed: Sequence[Mark] = ()
    ) -> None:
        """Take an answer, texts and titles of its passages, the conversation with the question last, more citations."""
        self._answer, self._shown, self._turns = answer, shown, turns
        self._language = _language(answer, shown)
        self._content = _content(answer, self._language, tuple(listed))

    @classmethod
    def of(
        cls,
        answer: str,
        passages: Sequence[str | Passage | Mapping[str, object]],
        history: Sequence[str | Message | Mapping[str, object]] = (),
        citations: Sequence[Mapping[str, object]] = (),
    ) -> Resting:
        """Return it for what `ground` takes."""
        shown = [_text_and_title(item, "passages", place) for place, item in enumerate(passages)]
        turns = [_text_and_title(item, "history", place)[0] for place, item in enumerate(history)]
        return cls(answer, shown, turns, listed_marks(citations, [_ids(item) for item in passages]))

    @cached_property
    def _held(self) -> _Held:
        return _held(self._shown, self._turns, self._language)

    @cached_property
    def _counts(self) -> list[_Counts]:
        return [self._held.counts(part) for part in self._content.parts]

    @property
    def shares(self) -> tuple[float | None, float | None]:
        """The shares of a `Grounding`: without earlier turns, and with them."""
        return _shares(self._counts) if self._shown else (None, None)

    @property
    def whole(self) -> Grounding:
        """All that `ground` returns."""
        texts = [text for text, _ in self._shown]
        sentences = tuple(map(self.sentence, range(len(self._content.parts))))
        return Grounding(sentences, *self.shares, copied(self._answer, texts))

    def sentence(self, place: int) -> GroundedSentence:
        """Return a sentence, from 0."""
        texts = [text for text, _ in self._shown]
        return _sentence(self._answer, self._content.parts[place], self._counts[place], texts, self._held)

    def words_not_found(self) -> Iterator[str]:
        """Yield every word that no passage and no question holds."""
        for part, counts in zip(self._content.parts, self._counts, strict=True):
            for span, source in _sources(part, counts, self._language):
                if source in (Source.CONVERSATION, Source.NOTHING):
                    yield self._answer[span.start : span.end]

    def numbers_not_found(self) -> Iterator[tuple[int, str]]:
        """Yield every number that stands nowhere, behind the place of its sentence."""
        for place, (part, counts) in enumerate(zip(self._content.parts, self._counts, strict=True)):
            if any(map(_is_number_nowhere, part.units, counts.words)):
                sources = _sources(part, counts, self._language)
                yield from ((place, number) for number in _numbers_nowhere(self._answer, sources))

    def is_held(self, least: float) -> bool:
        """Return whether passages and conversation hold every number, and at least that share of all units.

        It is sure after a text or two of most answers, and the others are not read.
        """
        content, n_units = self._content, self._content.n_units
        plain, named, pairs = content.plain, content.named, content.pairs
        for text in (*_with_titles(self._shown), *reversed(self._turns)):
            index = _index(text, self._language)
            plain, named, pairs = index.without(plain, named, pairs)
            n_held = n_units - len(plain) - len(named) - len(pairs)
            if n_held >= least * n_units and not any(unit[0].isdecimal() for unit in plain):
                return True
        return not n_units


def _is_number_nowhere(unit: str, source: Source) -> bool:
    return source is Source.NOTHING and unit[0].isdecimal()


def grounded(answer: str, passages: Sequence[Passage], question: str = "") -> float | None:
    """Return `ground(...).share`, without the places: the share of an answer's units that passages or question hold.

    None without passages, and for an answer without content words: there is nothing that could rest on anything.
    """
    shown = [(passage.text, passage.title) for passage in passages]
    return _share(answer, _language(answer, shown), (*_with_titles(shown), question)) if passages else None


def cited_sentences(answer: str, n_passages: int) -> tuple[CitedSentence, ...]:
    """Return the sentences of an answer with what each cites, in every form that `ground` reads; `[1]` is the first."""
    marks = marks_of(answer)
    clean = _words_alone(answer, marks)
    return tuple(
        cited_sentence(_tidy(clean[span.start : span.end]), numbers, n_passages)
        for span, numbers in _sentences(clean, marks)
    )


def _tidy(text: str) -> str:
    return re.sub(r" (?=[.,;:!?](?:\s|$))", "", " ".join(text.split()))


def share_in(text: str, *others: str) -> float:
    """Return the share of a text's units that any of some others has, 0 to 1: `grounded` of texts; 0 without units."""
    return _share(text, _language(text, [(other, "") for other in others]), others) or 0.0


def _share(text: str, language: str, others: Sequence[str]) -> float | None:
    """Return the share of a text's units that any of some others has; None where it has none."""
    content = _content(text, language)
    indexes = (_index(other, language) for other in others)
    return content.n_held(indexes) / content.n_units if content.n_units else None


def copied(answer: str, passages: Sequence[str]) -> float | None:
    """Return the share of an answer's words in runs of five or more that one passage has word for word, 0 to 1.

    Case and punctuation apart. None without passages, and for an answer without words.
    """
    n_words, runs = _runs_in_order(answer)
    if not n_words or not passages:
        return None
    wanted = frozenset(runs)
    held = frozenset().union(*(wanted & _runs(passage) for passage in passages))
    inside = bytearray(n_words)
    for start, run in enumerate(runs):
        if run in held:
            inside[start : start + _RUN] = b"\1" * _RUN
    return sum(inside) / n_words


@lru_cache(maxsize=16)
def _runs_in_order(answer: str) -> tuple[int, list[str]]:
    """Return how many words an answer has, and its runs of five in their order."""
    words = _tokens(_words_alone(answer, marks_of(answer)).lower())
    return len(words), [" ".join(words[start : start + _RUN]) for start in range(len(words) - _RUN + 1)]


@lru_cache(maxsize=256)
def _runs(passage: str) -> frozenset[str]:
    words = _tokens(passage.lower())
    return frozenset(" ".join(words[start : start + _RUN]) for start in range(len(words) - _RUN + 1))


def _text_and_title(item: str | Passage | Message | Mapping[str, object], name: str, place: int) -> tuple[str, str]:
    if isinstance(item, str):
        return item, ""
    if isinstance(item, Mapping):
        text, title = item.get("text", item.get("content")), item.get("title") or ""
    else:
        text, title = getattr(item, "text", None), getattr(item, "title", "")
    if not isinstance(text, str):
        found = f"one with {', '.join(map(str, item))}" if isinstance(item, Mapping) else type(item).__name__
        expected = "a text, or an object with `text`"
        where = f"{name}[{place}]"
        raise ConfigurationError(
            clear_error("ground", where=where, expected=expected, found=found, next_step="pass the text itself")
        )
    return text, str(title)


def _ids(item: str | Passage | Mapping[str, object]) -> list[str]:
    """Return what a citation may call a passage."""
    if isinstance(item, str):
        return []
    names = ("passage_id", "id", "url", "title", "file_id")
    own = [item.get(name) if isinstance(item, Mapping) else getattr(item, name, None) for name in names]
    return [str(name) for name in own if name]


def _language(answer: str, shown: Sequence[tuple[str, str]]) -> str:
    """Return the language that an answer is read in; that of the passages where the answer is too short to tell."""
    found = language_of(answer) or (language_of(shown[0][0]) if shown else None)
    return found or ("" if _NOT_LATIN.search(answer) else _ENGLISH)


# Sentences of an answer, where they stand: lines first, then sentences within a line.

_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_IDEOGRAPHIC_END = re.compile("[\u3002\uff01\uff1f]+[\u300d\u300f\u201d\uff09]*")


def _sentences(text: str, marks: Sequence[Mark]) -> Iterator[tuple[Span, tuple[int, ...]]]:
    """Yield the place of each sentence with a letter or digit, and the numbers that it cites, each once.

    A citation belongs to the sentence that it stands in or behind; one that opens a line, to the sentence after it.

    Args:
        text: an answer with blanks in the place of its citations.
        marks: the citations.
    """
    places = list(_places_of_sentences(text))
    starts = [span.start for span in places]
    cited: list[list[int]] = [[] for _ in places]
    for mark in marks if places else ():
        place = bisect_left(starts, mark.start) - 1
        line_end = text.find("\n", mark.end)
        rest = text[mark.end : line_end if line_end >= 0 else len(text)]
        opens_line = not text[text.rfind("\n", 0, mark.start) + 1 : mark.start].strip()
        if place < 0 or (opens_line and rest.strip() and place + 1 < len(places)):
            place += 1
        cited[place] += mark.numbers
    for span, numbers in zip(places, cited, strict=True):
        yield span, tuple(dict.fromkeys(numbers))


def _words_alone(text: str, marks: Sequence[Mark]) -> str:
    """Return a text of the same length with blanks for citations, marks of Markdown, and the numbers of lists."""
    clean = _without(text, [(mark.start, mark.end) for mark in marks])
    if "](" in text or "]:" in text or "```" in text or "~~~" in text or "</" in text or "<br" in text:
        clean = _without(clean, (match.span() for match in _MARKDOWN.finditer(text)))
    return _without(clean, _list_numbers(clean))


def _without(text: str, places: Iterable[tuple[int, int]]) -> str:
    parts, done = [], 0
    for start, end in places:
        parts += [text[done:start], " " * (end - start)]
        done = end
    return "".join([*parts, text[done:]])


_ADDRESS = r"(?:https?:|mailto:|www\.|[/#.])[^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)*"
_MARKDOWN = re.compile(
    rf"(?<=\])\(<?{_ADDRESS}>?(?:[ \t]+[\"'][^\"'\n]*[\"'])?\)"
    r"|</?(?:a|b|br|code|div|em|h[1-6]|hr|i|img|li|ol|p|pre|span|strong|su[bp]|t(?:able|body|d|h|head|r)|ul?)(?:\s[^<>=]*=[^<>]*)?/?>"
    r"|^[ \t]*\[[^\]\n]+\]:[ \t]*<?https?:[^\n]*|^[ \t>]*(?:```|~~~)[^`\n]*$",
    re.MULTILINE,
)
"""Links' addresses, in place or at the end, tags of HTML, and the line that opens or closes code, with its language."""
_LIST_NUMBER = re.compile(r"\(?(?<![\w.,-])(\d{1,3})[.)](?=[*_]*[ \t]+\S)")
_OPENS_ITEM = re.compile(r"(?:^|\n|[.:;,!?)][*_]*\s|\b(?:and|or|und|et|y|e|o|ou)\s)[\s>#*_+|-]*\Z")
_BEFORE_ITEM = 12


def _list_numbers(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of `1.`, `2)` and `(3)` before the items of a list, on lines or within one.

    A number alone opens an item where it is the first of a line and a 1; any other has a neighbour before or behind it,
    so that a sentence that begins with a number (`40. That is all.`) keeps it.
    """
    found = [
        (int(match[1]), "\n" in before[0] or before.start() == 0, match.span())
        for match in _LIST_NUMBER.finditer(text)
        if (before := _OPENS_ITEM.search(text, max(0, match.start() - _BEFORE_ITEM), match.start()))
    ]
    last = {number: place for place, (number, _, _) in enumerate(found)}
    done = set()
    for place, (number, opens_line, span) in enumerate(found):
        if number - 1 in done or last.get(number + 1, 0) > place or (number == 1 and opens_line):
            yield span
        done.add(number)


def _places_of_sentences(text: str) -> Iterator[Span]:
    end = 0
    for line in text.splitlines(keepends=True):
        start, end = end, end + len(line)
        cuts = {*sentence_ends(line)}
        if not line.isascii():
            cuts |= {match.end() for match in _IDEOGRAPHIC_END.finditer(line)}
        for low, high in pairwise([0, *sorted(cuts), len(line)]):
            piece = line[low:high]
            if _LETTER_OR_DIGIT.search(piece):
                first = start + low + len(piece) - len(piece.lstrip())
                yield Span(first, first + len(piece.strip()))


# Words as they count. A scale behind a number is part of it: 1.5 million is 1,500,000.

_ENGLISH = "en"
_IDEOGRAPH = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_NOT_LATIN = re.compile("[\u0370-\u1fff\u2c00-\ufaff]")
_SCALES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_BLANKS = " \u00a0\u2009\u202f"
_LIST = r",? (?:and|or|&) [0-9]"
"""What goes on a list of numbers: of `4,5 and 6` the first two are no fraction."""
_DIGITS = (
    rf"(?:\d{{1,3}}(?:[{_BLANKS}]\d{{3}})+(?!\w)|\d{{1,3}}(?:[,'\u2019]\d{{3}})+(?:\.\d+)?(?!\d)"
    rf"|(?<!\d,)\d+(?:\.\d+)*,(?!\d{{3}}\b)\d+(?![,\d]|{_LIST})|\d{{1,3}}(?:\.\d{{3}})+,\d+|\d+(?:\.\d+)*)"
)
_SCALE = rf"(?:{'|'.join(f'[{name[0]}{name[0].upper()}]{name[1:]}' for name in _SCALES)})\b"
_SHORT_SCALE = r"(?:[kKMB]|[mMbB]n)(?!\w)"
"""A scale that is written onto its number. A small `m` is a million behind a currency alone, elsewhere a metre."""
_NUMBER = rf"(?<=[$\u20ac\u00a3])\d+(?:[.,]\d+)?[mb](?!\w)|{_DIGITS}(?:[{_BLANKS}-]{_SCALE}|{_SHORT_SCALE})?"
_LETTER = rf"[^\W\d_{_IDEOGRAPH}]"
_MORE = rf"[^\W_{_IDEOGRAPH}]*"
_WORD = rf"{_LETTER}(?:(?:\.{_LETTER})+(?!\w)|{_MORE}(?:['\u2019]{_LETTER}{_MORE})*)"
"""A word, or the letters of an abbreviation: `U.S`, less its last point."""
_TOKEN = re.compile(rf"{_WORD}|{_NUMBER}|[%$\u20ac\u00a3]|[{_IDEOGRAPH}]")
_PLAIN_TEXT = "\u2018\u201c\u201d\u2013\u2014\u2026\u2022"
"""What is no part of a word, in texts that are else of ASCII."""
_BEYOND = re.compile(f"[^\\x00-\\x7f{_PLAIN_TEXT}]")
_PLAIN_WORD = r"[a-zA-Z](?:(?:\.[a-zA-Z])+(?!\w)|[a-zA-Z0-9]*(?:'[a-zA-Z][a-zA-Z0-9]*)*)"
_PLAIN_DIGITS = (
    r"(?:[0-9]{1,3}(?: [0-9]{3})+(?![0-9a-zA-Z_])|[0-9]{1,3}(?:[,'][0-9]{3})+(?:\.[0-9]+)?(?![0-9])"
    rf"|(?<![0-9],)[0-9]+(?:\.[0-9]+)*,(?![0-9]{{3}}\b)[0-9]+(?![,0-9]|{_LIST})|[0-9]{{1,3}}(?:\.[0-9]{{3}})+,[0-9]+"
    r"|[0-9]+(?:\.[0-9]+)*)"
)
_PLAIN_NUMBER = rf"(?<=[$])[0-9]+(?:[.,][0-9]+)?[mb](?!\w)|{_PLAIN_DIGITS}(?:[ -]{_SCALE}|{_SHORT_SCALE})?"
_PLAIN_TOKEN = re.compile(rf"{_PLAIN_WORD}|{_PLAIN_NUMBER}|[%$]")
"""`_TOKEN` in such texts, in half the time."""
_GROUPS = re.compile(rf"\d{{1,3}}(?:([.,'\u2019{_BLANKS}])\d{{3}}(?:\1\d{{3}})*)(?:[.,](\d+))?")


def _token_of(text: str) -> re.Pattern[str]:
    """Return the pattern of the tokens of a text and of its parts."""
    return _PLAIN_TOKEN if text.isascii() or not _BEYOND.search(text) else _TOKEN


def _tokens(text: str) -> list[str]:
    return _token_of(text).findall(text)


def _words(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


_NEGATIONS = _words(
    "not no never none neither nor without cannot nicht kein keine keinen keiner keines nie ohne ne pas jamais sans",
    "nunca sin ni não nem sem non mai senza niet geen nooit zonder inte ingen aldrig utan ikke aldri uten bez",
    "не нет без 不 没 沒 未 无 無",
)
_FUNCTION_WORDS = _words(
    "a about above after again against al all also am an and any are as at be because been before being below between",
    "both but by can cf could d did do does doing done down during each eg either else etc ever every few for from",
    "further had has have having he hence her here hers him his how however i ie if in into is it its just ll m may",
    "me might more most much must my of off on once one only onto or other others our ours out over own per please",
    "quite rather re s same shall she should since so some st nd rd th such than that the their theirs them then",
    "there therefore these they this those though through thus t to too under until up upon us ve very via was we were",
    "what when where whether which while who whom whose why will with within would yes yet you your yours",
)
_MORE_FUNCTION_WORDS = {
    "da": _words(
        "alle andre blev blevet bliver både deres dette disse efter eller fordi gennem hans havde have hende hendes",
        "hvad hver hvis hvor hvordan hvorfor ikke inden ingen jeres kunne mange meget mellem mens mere mest måtte",
        "noget nogle når også omkring over samme selv siden skal skulle således uden under ville vores være været",
    ),
    "de": _words(
        "aber alle allem allen aller alles also andere anderen auch außer beide beim bereits bevor dabei dadurch",
        "dafür dagegen daher damit danach daran darauf daraus darin darum darüber dass davon davor dazu daß dein",
        "deine denen denn dennoch deren derer deshalb dessen dich dies diese diesem diesen dieser dieses doch dort",
        "durch eben ebenso eine einem einen einer eines einige einigen entweder etwa etwas euch euer falls für gegen",
        "gemäß habe haben hast hatte hatten hier hinter hätte hätten ihnen ihre ihrem ihren ihrer ihres immer indem",
        "innerhalb jede jedem jeden jeder jedes jedoch jene jenem jenen jener jetzt kann kannst können könnte könnten",
        "manche mehr mein meine meist mich muss musste möchte müssen nach nachdem neben noch obwohl oder ohne sehr",
        "sein seine seinem seinen seiner seines seit selbst sich sind sobald sodass sofern solche solchen soll sollen",
        "sollte sollten somit sondern sonst soweit sowie sowohl trotz unser unsere unter viel viele vielen wann waren",
        "warum wegen weil weiter welche welchem welchen welcher welches wenn werde werden wieder will wird wirst",
        "wobei wodurch wofür wollen worden wurde wurden während würde würden zwar zwischen über",
    ),
    "es": _words(
        "además aquel aquella aquellos así aunque aún cada como contra cual cuales cualquier cuando cuanto cuál",
        "cuándo cómo debe deben debería desde después donde durante dónde ella ellas ellos entonces entre eran eres",
        "esas esos esta estaba estamos estar estas este esto estos estoy está están fueron haber había hasta hemos",
        "incluso lugar mediante menos mientras misma mismo mucha muchas mucho muchos más nosotros nuestra nuestro",
        "otra otras otro otros para pero poco podría podrían porque pueda puede pueden pues quien quienes quién qué",
        "salvo sean según será serán sido siempre sino sobre solo somos sólo también tampoco tanto tenemos tener",
        "tenía tiene tienen toda todas todavía todo todos tras unas unos usted ustedes varios vosotros",
    ),
    "fr": _words(
        "afin ainsi alors après assez aucun aucune aujourd aussi autant autre autres auxquels avaient avait avant",
        "avec avez avoir avons beaucoup ceci cela celle celles celui certain certaine certains cette ceux chacun",
        "chaque chez combien comme comment contre dans depuis desquels devait devez doit doivent donc dont durant",
        "elle elles encore entre faut furent hors jusqu jusque laquelle lequel lesquels leur leurs lors lorsque mais",
        "malgré mieux moins même mêmes notre nous parce parmi pendant peut peuvent plus plusieurs plutôt pour",
        "pourquoi pourrait pouvez près puis puisque quand quel quelle quelles quelque quelques quels quoi sans sauf",
        "selon sera seraient serait seront seul sinon soient soit sommes sont sous souvent suis tandis tant telle",
        "telles tels tous tout toute toutefois toutes trop très vers voici voilà votre vous étaient était étant été",
        "êtes être",
    ),
    "it": _words(
        "abbiamo affinché agli alcune alcuni alla alle allo allora altra altre altri altro anche ancora avere avete",
        "aveva avevano bensì ciascun ciascuna cioè ciò come contro cosa così dagli dalla dalle dallo degli della",
        "delle dello dentro deve devono dopo dove dovrebbe dunque durante ecco entrambi erano essa esse essere essi",
        "fino fuori già grazie hanno infatti inoltre invece loro lungo mediante meno mentre miei molta molte molti",
        "molto negli nella nelle nello nostra nostro ogni oltre oppure ovvero perché perciò però più poco poiché",
        "possono potrebbe presso prima proprio può qual qualche quale quali quando quanto quasi quella quelle quelli",
        "quello questa queste questi questo quindi saranno sarebbe sarà sebbene secondo sempre senza siamo siano solo",
        "soltanto sono sopra sotto stata state stati stato stessa stesso sugli sulla sulle sullo suoi tale tali tanto",
        "tramite troppo tutta tutte tutti tutto vari verso vostra vostro",
    ),
    "nl": _words(
        "alle alleen altijd ander andere anders binnen buiten daar daarin daarna daarom daarvoor deze dezelfde doch",
        "door echter eens eerst elke enige enkele ervan geweest hadden hebben hebt heeft hier hoewel ieder iedere",
        "iemand iets indien jouw jullie konden kunnen maar mede meer meest mijn moest moesten moet moeten mogen naar",
        "naast nadat ofwel omdat onder onze over sinds slechts sommige soms steeds tegen terwijl tijdens toch toen",
        "tussen vanaf vanuit vanwege veel vele volgens voor voordat waar waarbij waarin waarom wanneer want waren",
        "weer welke werd werden wilt worden wordt zeer zelf zich zijn zoals zodat zodra zouden zowel zullen",
    ),
    "no": _words(
        "alle andre blir blitt både deres dette disse eller etter fordi før gjennom hadde hans hennes hvem hver",
        "hvilke hvilken hvis hvor hvordan hvorfor innen kunne mange mellom mens mest måtte noen når også over samme",
        "selv siden skal skulle slik under ville vår våre være vært",
    ),
    "pt": _words(
        "ainda algum alguma algumas alguns alguém além antes apenas após aquela aquelas aquele aqueles aquilo até",
        "cada como contra cujo dela delas dele deles depois desde dessa desse desta deste deve devem durante elas",
        "eles embora enquanto entre eram essa essas esse esses esta estar estas estava este estes estou está estão",
        "foram isso isto lhes mais mediante menos mesma mesmo minha muita muitas muito muitos nessa nesse nesta neste",
        "nossa nosso numa nós onde outra outras outro outros para pela pelas pelo pelos perante pode podem poderia",
        "podia pois porque portanto porém pouco quais qual quando quanto quase quem seja sejam sempre sendo será",
        "serão seus sido sobre somente suas são também tanto tenha teve tinha toda todas todavia todo todos tão têm",
        "umas você vocês",
    ),
    "ru": _words(
        "без был была были было быть вам вас ваш ведь весь вот все всего всех всё где даже для если есть еще ещё",
        "здесь или как какая какие какой когда которая которого которой которые который которых кто либо лишь между",
        "меня мне многие могут может можно мой над надо нам нас наш него нее неё них однако она они оно очень перед",
        "под после потому почти при про раз сам сами самый свое своего своей своих себя собой также такие такой там",
        "тем тогда того тоже той только том тот уже хотя чего чем через что чтобы эта эти этих это этого этой этом",
        "этот эту является являются",
    ),
    "sv": _words(
        "alla allt andra bland blev blir blivit både denna deras dess dessa detta därför efter eftersom eller finns",
        "från för före genom hade hans hennes här innan inom kunde medan mellan mest mycket många måste när någon",
        "något några också redan samma samt sedan sina sitt själv skulle sådan till under utan vara varför varit",
        "varje vilka vilken vilket vill vår våra över",
    ),
}
"""Language -> its function words; of those of three letters the ones outside ASCII, as the length tells the others."""
_SYMBOLS = {"%": "percent", "$": "dollar", "\u20ac": "euro", "\u00a3": "pound"}
_UNITS = {
    **{"km": "kilometer", "kilometre": "kilometer", "kilometres": "kilometer", "kg": "kilogram", "cm": "centimeter"},
    **{"mm": "millimeter", "gb": "gigabyte", "mb": "megabyte", "tb": "terabyte", "hrs": "hour", "mins": "minute"},
    **{"usd": "dollar", "eur": "euro", "gbp": "pound", "percentage": "percent"},
}
_SMALL = "zero _ two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
_TENS = "thirty forty fifty sixty seventy eighty ninety"
_NUMBER_WORDS = {
    **{word: str(number) for number, word in enumerate(f"{_SMALL} seventeen eighteen nineteen twenty".split())},
    **{word: str(10 * number) for number, word in enumerate(_TENS.split(), start=3)},
}
_DIGIT_WORDS = {"a": "1", "one": "1"} | {word: str(n) for n, word in enumerate(_SMALL.split()) if 1 < n < 10}
_TEN_WORDS = frozenset(["twenty", *_TENS.split()])
_POWERS = {"hundred": 2, **_SCALES}
_SHORT_SCALES = {"k": "thousand", "m": "million", "mn": "million", "b": "billion", "bn": "billion"}
_MONTH_NAMES = (
    "january/jan february/feb march/mar april/apr may june/jun july/jul august/aug september/sept/sep october/oct",
    "november/nov december/dec",
)
_MONTHS = {
    name: str(number)
    for number, names in enumerate(" ".join(_MONTH_NAMES).split(), start=1)
    for name in names.split("/")
}
_TEEN_ORDINALS = "thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
_FIRST_ORDINALS = "third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
_ORDINALS = {word: str(n) for n, word in enumerate(f"{_FIRST_ORDINALS} {_TEEN_ORDINALS}".split(), start=3)}
"""Without the first and the second, which stand for no number in most texts."""
_NUMERALS = "ii iii iv v vi vii viii ix x xi xii xiii xiv xv xvi"
_ROMAN = {word: str(n) for n, word in enumerate(_NUMERALS.split(), start=2) if len(word) > 1}
_ALONE = _ORDINALS | _ROMAN
_BESIDE_A_NUMBER = frozenset([*_TEN_WORDS, *_POWERS, *_SHORT_SCALES, *_MONTHS])
_SPELLED = _BESIDE_A_NUMBER.union(_ALONE)
"""Words of which a text has one where other readings of its numbers are looked for."""
_STEMMERS = {
    **{"ar": "arabic", "ca": "catalan", "da": "danish", "de": "german", "el": "greek", "en": "english"},
    **{"es": "spanish", "fi": "finnish", "fr": "french", "hi": "hindi", "hu": "hungarian", "id": "indonesian"},
    **{"it": "italian", "nl": "dutch", "no": "norwegian", "pt": "portuguese", "ro": "romanian", "ru": "russian"},
    **{"sv": "swedish", "ta": "tamil", "tr": "turkish"},
}
_PREFIX = 5
_SHORT = 3
_MOST_WORDS = 200_000


class _Words(dict[str, tuple[str, str]]):
    """Word -> the unit that it is, and itself in small letters where it begins with another; filled as words come."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self.units = _Units(language)

    def __missing__(self, text: str) -> tuple[str, str]:
        if len(self) >= _MOST_WORDS:
            self.clear()
        word = text.lower()
        unit, name = self.units[word], word if text[0] != word[0] else ""
        found = self[text] = unit, name if name.isalnum() else name.replace(".", "")
        return found


class _Units(dict[str, str]):
    """Word in small letters -> the unit that it is, "" for a word that counts for nothing; filled as words come."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._is_english = language == _ENGLISH
        self._function_words = _MORE_FUNCTION_WORDS.get(language, frozenset())
        self._stem = _stemmer(language)

    def __missing__(self, word: str) -> str:
        if len(self) >= _MOST_WORDS:
            self.clear()
        unit = self[word] = self._unit(word)
        return unit

    def _unit(self, word: str) -> str:
        if word[0].isdecimal():
            return _number(word)
        if word in _SYMBOLS:
            return _SYMBOLS[word]
        word = word.replace(".", "").replace("\u2019", "'").removesuffix("'s")
        if _is_negation(word):
            return ""
        if self._is_english:
            word = _NUMBER_WORDS.get(word, word)
            is_function = word.partition("'")[0] in _FUNCTION_WORDS
        else:
            longest = _SHORT if word.isascii() else _SHORT - 1 if self._function_words else 0
            is_short = len(word) <= longest and word.isalpha()
            is_function = is_short or word in self._function_words
        return "" if is_function else self._stem(_UNITS.get(word, word))


def _is_negation(word: str) -> bool:
    return word in _NEGATIONS or word.endswith(("n't", "n\u2019t"))


@lru_cache(maxsize=64)
def _words_in(language: str) -> _Words:
    return _Words(language)


def _stemmer(language: str) -> Callable[[str], str]:
    """Return what cuts inflections off; in a language without a stemmer words are cut at their fifth letter."""
    import Stemmer

    name = _STEMMERS.get(language)
    if name is None or name not in Stemmer.algorithms():
        return lambda word: word[:_PREFIX]
    stem: Callable[[str], str] = Stemmer.Stemmer(name).stemWord
    return stem


def _number(text: str) -> str:
    """Return a number without what separates its groups, and its scale multiplied out."""
    if not text.isascii():
        text = "".join(str(unicodedata.decimal(character, character)) for character in text)
    digits, scale = text, 0
    if (bare := text.rstrip("kmbn")) != text and bare[-1].isdecimal():
        digits, scale = bare, _SCALES[_SHORT_SCALES[text[len(bare) :]]]
    for name, power in _SCALES.items():
        if text.endswith(name):
            digits, scale = text[: -len(name) - 1], power
    if match := _GROUPS.fullmatch(digits):
        whole = re.sub(r"\D", "", digits[: match.start(2) - 1] if match[2] else digits)
        digits = f"{whole}.{match[2]}" if match[2] else whole
    elif digits.count(",") == 1:
        digits = digits.replace(",", ".")
    whole, dot, rest = digits.partition(".")
    if not dot or not rest.isdigit():
        return (digits.lstrip("0") or "0") + "0" * scale if digits.isdigit() else digits
    rest = rest.rstrip("0")
    moved = (whole + rest.ljust(scale, "0")[:scale]).lstrip("0") or "0"
    return f"{moved}.{rest[scale:]}" if rest[scale:] else moved


# What passages and turns hold, and what of an answer that is.


@dataclass(frozen=True, slots=True)
class _Index:
    """The words and pairs of words of some texts."""

    stems: frozenset[str]
    words: frozenset[str]
    pairs: frozenset[tuple[str, str]]

    def without(
        self, plain: list[str], named: list[str], pairs: list[tuple[str, str]]
    ) -> tuple[list[str], list[str], list[tuple[str, str]]]:
        """Return the units that it does not hold."""
        return (
            list(filterfalse(self.stems.__contains__, plain)),
            list(filterfalse(self.words.__contains__, named)),
            list(filterfalse(self.pairs.__contains__, pairs)),
        )

    def holds(self, part: _Part) -> list[bool]:
        """Return whether it has each unit of a sentence: names as they are, other words by stem; then the pairs."""
        words = zip(part.units, part.names, strict=True)
        found = [name in self.words if name else unit in self.stems for unit, name in words]
        return [*found, *map(self.pairs.__contains__, part.pairs)]


@dataclass(frozen=True, slots=True)
class _Part:
    """The content words of one sentence, one item a word in `units` and `names`."""

    span: Span
    text: str
    """As it stands in the answer, with blanks in the place of citations."""
    cited: tuple[int, ...]
    units: list[str]
    names: list[str]
    """A name in small letters; "" for what is none."""
    pairs: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class _Content:
    """The content words of a text: by its sentences, and all together."""

    parts: list[_Part]
    plain: list[str]
    """Units of words that are no names."""
    named: list[str]
    pairs: list[tuple[str, str]]

    @property
    def n_units(self) -> int:
        return len(self.plain) + len(self.named) + len(self.pairs)

    def n_held(self, indexes: Iterable[_Index]) -> int:
        """Return how many units any of some texts holds."""
        plain, named, pairs = self.plain, self.named, self.pairs
        for index in indexes:
            plain, named, pairs = index.without(plain, named, pairs)
        return self.n_units - len(plain) - len(named) - len(pairs)


@dataclass(frozen=True, slots=True)
class _Counts:
    """How many units of a sentence are where."""

    n_units: int
    n_held: int
    """In a passage or the question."""
    n_all: int
    """In an earlier turn too."""
    sources: tuple[int, int, int]
    """In the passages, in the question, in earlier turns, each whether or not another has them."""
    words: tuple[Source, ...]
    """The first that holds each word."""


@dataclass(frozen=True, slots=True)
class _Held:
    """What an answer may rest on: all passages together, the question, all earlier turns together."""

    language: str
    texts: tuple[str, ...]
    """The passages, titles included."""
    passages: _Index
    question: _Index
    turns: _Index

    def counts(self, part: _Part) -> _Counts:
        """Return which units of a sentence are where."""
        passages, question, turns = (index.holds(part) for index in (self.passages, self.question, self.turns))
        each = list(zip(passages, question, turns, strict=True))
        return _Counts(
            len(each),
            sum(map(or_, passages, question)),
            sum(map(any, each)),
            (sum(passages), sum(question), sum(turns)),
            tuple(map(_first_source, each[: len(part.units)])),
        )


def _first_source(holds: tuple[bool, bool, bool]) -> Source:
    return next((source for source, is_held in zip(Source, holds, strict=False) if is_held), Source.NOTHING)


@lru_cache(maxsize=256)
def _index(text: str, language: str) -> _Index:
    words = list(map(str.lower, _tokens(text)))
    units = list(filter(None, map(_words_in(language).units.__getitem__, words)))
    known = frozenset(words)
    readings = frozenset(_other_readings(words, known, language))
    if not _HALVES.isdisjoint(known) or (":" in text and not _AFTERNOON.isdisjoint(known)):
        readings = readings.union(_hours(text.lower()))
    return _Index(readings.union(units), known | readings if readings else known, frozenset(pairwise(units)))


def _other_readings(words: Sequence[str], known: frozenset[str], language: str) -> Iterator[str]:
    """Yield the words that a text may mean in another form than an answer's: `twenty-five`, `5k`, `March 5`, `II`.

    Two numbers of a table side by side look like one of several groups (`32 512`), so each of them counts too. A
    version is one of its series: 3.11.2 is a 3.11. `J.R.` is both `JR` and `J. R.`.
    """
    for word in [word for word in known if " " in word or "." in word or word[0] <= "9" < word[-1]]:
        if word[0].isdecimal() and (bare := word.rstrip("kmbn"))[-1].isdecimal():
            yield _number(bare)
        if " " in word:
            groups = word.split()
            yield from map(_number, groups if groups[-1].isdecimal() else ())
        elif not word[0].isdecimal():
            yield from (word.replace(".", ""), *word.split("."))
        elif word.count(".") == _VERSION_DOTS and not _GROUPS.fullmatch(word):
            yield _number(word.rpartition(".")[0])
    if language != _ENGLISH or _SPELLED.isdisjoint(known):
        return
    yield from (_ALONE[word] for word in known & _ALONE.keys())
    for place in [place for place, word in enumerate(words) if word in _BESIDE_A_NUMBER]:
        yield from filter(None, (_number_of_two(*pair) for pair in pairwise(words[max(0, place - 1) : place + 2])))


_VERSION_DOTS = 2
_HALF_DAY = 12
_HALVES = frozenset(["am", "pm", "a.m", "p.m", "m"])
_AFTERNOON = frozenset(map(str, range(13, 24)))
_HOUR = re.compile(
    r"\b(?P<half>1[0-2]|0?[1-9])(?:[:.][0-5]\d)?\s?(?P<which>[ap])\.?m\b|\b(?P<hour>1[3-9]|2[0-3]):[0-5]\d\b"
)


def _hours(text: str) -> Iterator[str]:
    """Yield what the hours of a text are on the other clock: of 14:30 the 2 and its pm, of 2 pm the 14 and its 00."""
    for found in _HOUR.finditer(text):
        if found["hour"]:
            yield from (str(int(found["hour"]) - _HALF_DAY), "pm", "p.m")
            continue
        yield "0"
        if found["which"] == "p" and int(found["half"]) < _HALF_DAY:
            yield str(int(found["half"]) + _HALF_DAY)


def _number_of_two(first: str, second: str) -> str | None:
    """Return the number that two words in a row mean: of `March 5` the month, as the day stands there."""
    if first[0].isdecimal() and second in _SHORT_SCALES:
        return _number(f"{first} {_SHORT_SCALES[second]}")
    if (first[0].isdecimal() and second in _MONTHS) or (second[0].isdecimal() and first in _MONTHS):
        return _MONTHS.get(second) or _MONTHS[first]
    if first in _TEN_WORDS and (small := _DIGIT_WORDS.get(second) or _ORDINALS.get(second)):
        return str(int(_NUMBER_WORDS[first]) + int(small))
    if second in _POWERS and (factor := _DIGIT_WORDS.get(first) or _NUMBER_WORDS.get(first)):
        return factor + "0" * _POWERS[second]
    return None


@lru_cache(maxsize=16)
def _together(texts: tuple[str, ...], language: str) -> _Index:
    indexes = [_index(text, language) for text in texts]
    return _Index(
        frozenset().union(*(index.stems for index in indexes)),
        frozenset().union(*(index.words for index in indexes)),
        frozenset().union(*(index.pairs for index in indexes)),
    )


def _with_titles(shown: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(f"{title}\n{text}" if title else text for text, title in shown)


def _held(shown: Sequence[tuple[str, str]], turns: Sequence[str], language: str) -> _Held:
    full = _with_titles(shown)
    return _Held(
        language,
        full,
        _together(full, language),
        _index(turns[-1] if turns else "", language),
        _together(tuple(turns[:-1]), language),
    )


@lru_cache(maxsize=64)
def _content(text: str, language: str, listed: tuple[Mark, ...] = ()) -> _Content:
    """Return the content words of a text; marks listed beside it stand behind its own."""
    own = marks_of(text)
    clean = _words_alone(text, own)
    known, token = _words_in(language), _token_of(clean)
    parts = [_part(clean, span, cited, known, token) for span, cited in _sentences(clean, [*own, *listed])]
    words = [word for part in parts for word in zip(part.units, part.names, strict=True)]
    return _Content(
        parts,
        [unit for unit, name in words if not name],
        [name for _, name in words if name],
        [pair for part in parts for pair in part.pairs],
    )


def _part(clean: str, span: Span, cited: tuple[int, ...], known: _Words, token: re.Pattern[str]) -> _Part:
    words = list(map(known.__getitem__, token.findall(clean, span.start, span.end)))
    words[:1] = [(unit, "") for unit, _ in words[:1]]  # capitals say nothing there
    units = [unit for unit, _ in words if unit]
    names = [name for unit, name in words if unit]
    return _Part(span, clean[span.start : span.end], cited, units, names, list(pairwise(units)))


def _shares(counts: Sequence[_Counts]) -> tuple[float | None, float | None]:
    """Return the share that passages and question hold of all units, and that with earlier turns."""
    n_units = sum(count.n_units for count in counts)
    if not n_units:
        return None, None
    return sum(count.n_held for count in counts) / n_units, sum(count.n_all for count in counts) / n_units


def _sources(part: _Part, counts: _Counts, language: str) -> list[tuple[Span, Source]]:
    """Return the place in the answer of each content word of a sentence, and the first that holds it."""
    start, spans = part.span.start, _in_order(part.text, language).spans
    return [
        (Span(start + span.start, start + span.end), source) for span, source in zip(spans, counts.words, strict=True)
    ]


def _numbers_nowhere(answer: str, sources: Sequence[tuple[Span, Source]]) -> list[str]:
    words = [answer[span.start : span.end] for span, source in sources if source is Source.NOTHING]
    return [word for word in words if word[0].isdecimal()]


def _sentence(answer: str, part: _Part, counts: _Counts, texts: Sequence[str], held: _Held) -> GroundedSentence:
    language = held.language
    text = answer[part.span.start : part.span.end]
    share, with_conversation = _shares([counts])
    order = _in_order(part.text, language)
    sources = _sources(part, counts, language)
    best, flipped, found = None, None, _best(part, texts, language)
    if found:
        passage, first, last = found
        shown = _in_order(texts[passage], language)
        best = PassageSpan(passage, Span(shown.spans[first].start, shown.spans[last].end))
        flipped = _flipped(order, shown, first, last) if _source(counts) is Source.PASSAGES else None
    return GroundedSentence(
        text,
        part.span,
        share,
        with_conversation,
        _source(counts),
        best,
        tuple(span for span, source in sources if source in (Source.CONVERSATION, Source.NOTHING)),
        tuple(span for span, source in sources if source is Source.CONVERSATION),
        tuple(_numbers_nowhere(answer, sources)),
        Span(part.span.start + flipped.start, part.span.start + flipped.end) if flipped else None,
        part.cited,
        _support(part, held),
    )


_FULL, _PARTLY = 0.6, 0.3


def _support(part: _Part, held: _Held) -> Support | None:
    """Return how far the first passage that a sentence cites holds its units; what names no passage supports nothing.

    The cuts are those that agree best with NIST's assessors on half of their topics (`perf/grounding.py`).
    """
    if not part.cited or not part.units:
        return None
    if not 1 <= part.cited[0] <= len(held.texts):
        return Support.NO
    passage = _index(held.texts[part.cited[0] - 1], held.language)
    holds = list(map(or_, passage.holds(part), held.question.holds(part)))
    share = sum(holds) / len(holds)
    return Support.FULL if share >= _FULL else Support.PARTIAL if share >= _PARTLY else Support.NO


def _source(counts: _Counts) -> Source:
    """Return what holds most of a sentence; passages where others hold no more."""
    n_nowhere = counts.words.count(Source.NOTHING)
    if not counts.words or n_nowhere > _HALF * len(counts.words):
        return Source.NOTHING
    return max(zip(counts.sources, (2, 1, 0), Source, strict=False))[-1]


# The place in a passage: the piece whose words are more the sentence's than not.

_GAP = 0.5
_LONGER = 3
_MOST_PLACES = 64
_CLAUSE_WORDS = frozenset(["and", "because", "but", "if", "or", "that", "when", "which", "who"])
_SAME_SUBJECT = frozenset(["he", "it", "she", "these", "they", "this", "ils", "elles", "sie", "diese"])
_CLAUSE_END = re.compile(r"[.,;:!?\n\u3002\uff0c\uff1b]")


@dataclass(frozen=True, slots=True)
class _InOrder:
    """The content words of a text in their order."""

    units: list[str]
    spans: list[Span]
    negated: list[bool]
    """Whether a word is the first behind a negation of its clause."""
    places: dict[str, list[int]]
    """Unit -> its first places among the content words."""
    sentences: list[int]
    """The sentence of each word, counted from 0; one that begins with `they` or `it` belongs to the one before."""

    def pairs(self, first: int, last: int) -> Iterator[tuple[tuple[str, str], tuple[bool, bool], int]]:
        """Yield each two words in a row between two places with whether either is negated, and the first's place."""
        for place in range(first, last):
            after = place + 1
            yield (self.units[place], self.units[after]), (self.negated[place], self.negated[after]), place


@lru_cache(maxsize=256)
def _in_order(text: str, language: str) -> _InOrder:
    found = _InOrder([], [], [], {}, [])
    unit_of, is_negated, end, sentence = _words_in(language).units, False, 0, 0
    for match in _token_of(text).finditer(text):
        word = match[0].lower()
        if (ends := _CLAUSE_END.search(text, end, match.start())) or word in _CLAUSE_WORDS:
            is_negated = False
            sentence += bool(ends and ends[0] not in ",;:\uff0c\uff1b" and word not in _SAME_SUBJECT)
        end = match.end()
        if unit := unit_of[word]:
            places = found.places.setdefault(unit, [])
            if len(places) < _MOST_PLACES:
                places.append(len(found.units))
            found.units.append(unit)
            found.spans.append(Span(match.start(), end))
            found.negated.append(is_negated)
            found.sentences.append(sentence)
            is_negated = False
        elif _is_negation(word):  # which is no unit
            is_negated = True
    return found


def _best(part: _Part, texts: Sequence[str], language: str) -> tuple[int, int, int] | None:
    """Return the passage that holds most of a sentence, of equals the first, and the first and last word there."""
    held = [sum(_index(text, language).holds(part)) for text in texts]
    if not any(held):
        return None
    passage = held.index(max(held))
    shown = _in_order(texts[passage], language)
    places = sorted({place for unit in part.units for place in shown.places.get(unit, ())})
    if not places:
        return None
    first, last = _densest(places, _LONGER * len(part.units))
    return (passage, *_without_repeats(shown, [place for place in places if first <= place <= last]))


def _without_repeats(shown: _InOrder, places: list[int]) -> tuple[int, int]:
    """Return the first and last of some places, without sentences at either end whose words the others have too."""
    for end in (0, -1):
        while places and shown.sentences[places[0]] != shown.sentences[places[-1]]:
            outer = shown.sentences[places[end]]
            inner = [place for place in places if shown.sentences[place] != outer]
            if {shown.units[place] for place in places} != {shown.units[place] for place in inner}:
                break
            places = inner
    return places[0], places[-1]


def _densest(places: Sequence[int], longest: int) -> tuple[int, int]:
    """Return the first and last of the places that lie closest: each counts 1, each between them costs a half."""
    first = best_first = best_last = places[0]
    value = best = 1.0
    for before, place in pairwise(places):
        value += 1 - _GAP * (place - before - 1)
        if value <= 1 or place - first > longest:
            first, value = place, 1.0
        if value > best:
            best, best_first, best_last = value, first, place
    return best_first, best_last


def _flipped(sentence: _InOrder, passage: _InOrder, first: int, last: int) -> Span | None:
    """Return the first two words of a sentence that the place in the passage has only with the other polarity."""
    inside: dict[tuple[str, str], set[tuple[bool, bool]]] = {}
    for pair, negated, _ in passage.pairs(first, last):
        inside.setdefault(pair, set()).add(negated)
    for pair, negated, place in sentence.pairs(0, len(sentence.units) - 1):
        if negated not in inside.get(pair, {negated}):
            return Span(sentence.spans[place].start, sentence.spans[place + 1].end)
    return _flipped_apart(sentence, passage)


_NEARLY_ALL = 0.75


def _flipped_apart(sentence: _InOrder, passage: _InOrder) -> Span | None:
    """Return the same where the words stand apart: in a sentence of the passage that has nearly all of them."""
    wanted = frozenset(sentence.units)
    by_sentence: dict[int, dict[str, set[bool]]] = {}
    for unit in wanted:
        for place in passage.places.get(unit, ()):
            words = by_sentence.setdefault(passage.sentences[place], {})
            words.setdefault(unit, set()).add(passage.negated[place])
    most = max(map(len, by_sentence.values()), default=0)
    if most < max(2, _NEARLY_ALL * len(wanted)):
        return None
    is_negated = any(sentence.negated)
    alike = [words for words in by_sentence.values() if len(words) == most]
    if any(is_negated == any(True in polarity for polarity in words.values()) for words in alike):
        return None
    for place, unit in enumerate(sentence.units):
        if not any(sentence.negated[place] in words.get(unit, {sentence.negated[place]}) for words in alike):
            return Span(sentence.spans[max(0, place - 1)].start, sentence.spans[place].end)
    return None
