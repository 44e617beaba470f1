"""Which words of an answer are in which passage, from the words alone: no judge, no model.

Words match by their stem, numbers by their value. A function word counts half as much as a content word. An answer that
copies a passage has all its words from there, so this is a diagnosis and ranks nobody; read it next to `copied`.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache
from itertools import accumulate, filterfalse, pairwise
from statistics import fmean

from ragtasks.errors import ConfigurationError, clear_error, excerpt
from ragtasks.languages import ENGLISH, language_of
from ragtasks.metrics._citation_forms import (
    Cited,
    Mark,
    listed_marks,
    marks_of,
    parse_cited,
    sentences_of,
    unseen_files,
    without,
)
from ragtasks.metrics._metric import Metric
from ragtasks.metrics._words import (
    MOST_TEXTS,
    is_negation,
    plain_text,
    token_pattern,
    tokens_of,
    units_in,
    units_of_text,
    with_pairs,
    words_of_text,
)
from ragtasks.metrics.cited import SUPPORT_WEIGHTS, CitedSentence
from ragtasks.records import Message, Passage, Support

GROUNDED = Metric(
    "grounded",
    "share of the answer's words that its passages have, function words half; ranks nobody",
    higher_is_better=None,
    in_groups=False,
)
CITED_PRECISION = Metric(
    "cited_precision",
    "share of citations whose passage has the words of the sentence; a part counts half",
)
CITED_RECALL = Metric(
    "cited_recall", "share of sentences whose words the passages that they cite have; a part counts half"
)
COPIED = Metric(
    "copied",
    "share of the answer's words in runs of five or more that a passage has; ranks nobody",
    higher_is_better=None,
    in_groups=False,
)


class Source(str, Enum):
    """Where a word, or most words of a sentence, are found."""

    PASSAGES = "passages"
    QUESTION = "question"
    CONVERSATION = "conversation"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a text, as Python slices it."""

    start: int
    """First character."""
    end: int
    """Character after the last one."""


@dataclass(frozen=True, slots=True)
class PassageSpan:
    """The part of a passage that has most words of a sentence."""

    passage: int
    """Position among the passages, from 0."""
    span: Span


@dataclass(frozen=True, slots=True)
class GroundedSentence:
    """One sentence of an answer, or one line of a list, a table or code."""

    text: str
    """The sentence with its citations."""
    span: Span
    share: float | None
    """Share of its words that the passages have; None without content words."""
    share_with_conversation: float | None
    """Share of its words that the passages, the question or an earlier turn have."""
    source: Source
    """Where most of its content words are found; nothing if more than half are found nowhere."""
    best: PassageSpan | None
    """The part of a passage with most of its words; None if no passage has any."""
    not_found: tuple[Span, ...] = ()
    """Its content words that no passage has, as places in the answer."""
    from_conversation: tuple[Span, ...] = ()
    """Those of them that the question or an earlier turn has."""
    numbers_not_found: tuple[str, ...] = ()
    """Its numbers, as written, that no passage and no turn has."""
    flipped: Span | None = None
    """Words that its passage has with a negation and the answer without one, or the reverse."""
    cited: tuple[int, ...] = ()
    """Numbers of the passages that it cites, from 1, in their order; 0 for a name that no passage has."""
    support: Support | None = None
    """How far the passages that it cites have its words, together; None without citations or content words."""
    supports: tuple[Support, ...] = ()
    """How far each of them supports it: alone, or because the others have less of it without this one."""


@dataclass(frozen=True, repr=False)
class Grounding:
    """What an answer is based on, sentence by sentence."""

    sentences: tuple[GroundedSentence, ...]
    """Its sentences with a letter or digit, in order."""
    share: float | None
    """Share of its words that the passages have, 0 to 1; None without passages or content words."""
    share_with_conversation: float | None
    """Share of its words that the passages, the question or an earlier turn have."""
    copied: float | None
    """Share of its words in runs of five or more that one passage has word for word; None as for `share`."""

    @property
    def citation_precision(self) -> float | None:
        """Mean support of all citations, partial support counting half; None without citations."""
        values = [SUPPORT_WEIGHTS[one] for item in self.sentences for one in item.supports]
        return fmean(values) if values else None

    @property
    def citation_recall(self) -> float | None:
        """Mean support of all sentences by what they cite; a sentence that does not cite counts 0."""
        judged = [item for item in self.sentences if not item.cited or item.support]
        return fmean(SUPPORT_WEIGHTS[item.support or Support.NO] for item in judged) if judged else None

    def __repr__(self) -> str:
        """Return the share, and each sentence with its source."""
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
    text = excerpt(" ".join(sentence.text.split()), _MOST_CHARACTERS)
    notes = [f"numbers not found: {', '.join(sentence.numbers_not_found)}"] if sentence.numbers_not_found else []
    notes += ["negation differs"] if sentence.flipped else []
    if sentence.support in (Support.PARTIAL, Support.NO):
        does = "supports a part of it" if sentence.support is Support.PARTIAL else "does not support it"
        notes.append(f"passage {', '.join(str(number or 'unknown') for number in sentence.cited)} {does}")
    return f"  {share}  {where:<12}  {text}" + (f"  ({'; '.join(notes)})" if notes else "")


Passages = Sequence[str | Passage | Mapping[str, object]]
"""Passages in order: texts, `Passage`s, or dictionaries with `text` and perhaps `title`, `id` and `url`."""


def ground(
    answer: str,
    passages: Passages,
    history: Sequence[str | Message | Mapping[str, object]] = (),
    citations: Sequence[Mapping[str, object]] = (),
) -> Grounding:
    """Return where the words of each sentence of an answer are found.

    Args:
        answer: the answer. Its citations are no words: `[1]`, `[doc 2]`, `[^1]`, `[rules.pdf#page=4]` where a passage
            has that name, and the marks of Command-R and OpenAI.
        passages: the passages that it was given, in order: texts, `Passage`s, or dictionaries with `text` and perhaps
            `title`, `id` and `url`.
        history: the conversation so far, the question last: texts, `Message`s, or dictionaries with `text` or
            `content`. Words that only the conversation has are counted apart.
        citations: citations that an interface returned next to the answer: OpenAI's annotations, or Cohere's citations.

    Returns:
        Sentences with shares, sources and places. The time grows linearly with the length of the texts.

    Raises:
        ConfigurationError: a passage or a turn without a text, or a citation without a place.

    Source: our own; measured against people's labels by `perf/grounding.py`, table in docs/grounding.md.
    """
    return GroundedAnswer(answer, passages, history, citations).whole


class GroundedAnswer:
    """An answer with the texts that it may be based on; every result is computed on demand."""

    def __init__(
        self,
        answer: str,
        passages: Passages,
        history: Sequence[str | Message | Mapping[str, object]] = (),
        citations: Sequence[Mapping[str, object]] = (),
    ) -> None:
        """Read the arguments of `ground`."""
        self._answer, self._passages = answer, passages
        self._shown = [_text_and_title(item, "passages", place) for place, item in enumerate(passages)]
        self._turns = tuple(_text_and_title(item, "history", place)[0] for place, item in enumerate(history))
        self._language = _language(answer, self._shown)
        ids = _ids(passages)
        self._parts = _parts(answer, self._language, ids, tuple(listed_marks(citations, ids)))

    @cached_property
    def _indexes(self) -> tuple[frozenset[str], ...]:
        """The words of each passage."""
        return tuple(units_of_text(text, self._language, title) for text, title in self._shown)

    @cached_property
    def _held(self) -> tuple[frozenset[str], ...]:
        """The words of the passages, of the question, and of the earlier turns."""
        turns = [units_of_text(text, self._language, "") for text in self._turns]
        return tuple(frozenset().union(*some) for some in (self._indexes, turns[-1:], turns[:-1]))

    @property
    def share(self) -> float | None:
        """The share of its words that the passages have."""
        return _share(self._parts, *self._indexes) if self._shown else None

    @property
    def share_with_conversation(self) -> float | None:
        """The share of its words that the passages, the question or an earlier turn have."""
        return _share(self._parts, *self._held) if self._shown else None

    @property
    def sentences(self) -> tuple[GroundedSentence, ...]:
        """The sentences of a `Grounding`."""
        return tuple(map(self._sentence, self._parts))

    @property
    def whole(self) -> Grounding:
        """The result of `ground`."""
        return Grounding(self.sentences, self.share, self.share_with_conversation, copied(self._answer, self._passages))

    def _sentence(self, part: _Part) -> GroundedSentence:
        order, start = part.in_order(self._language), part.span.start
        missing = self._missing(part, order)
        source = self._source(part)
        best = flipped = None
        if found := self._best(part):
            passage, shown, first, last = found
            best = PassageSpan(passage, shown.span(first, last))
            flipped = _flipped(order, shown, first, last) if source is Source.PASSAGES else None
        return GroundedSentence(
            self._answer[part.span.start : part.span.end],
            part.span,
            _share([part], *self._held[:1]),
            _share([part], *self._held),
            source,
            best,
            tuple(span for span, _ in missing),
            tuple(span for span, is_said in missing if is_said),
            tuple(filter(_is_number, self._words_nowhere(missing))),
            order.span(*flipped, start) if flipped else None,
            *_support(part, self._indexes),
        )

    def _missing(self, part: _Part, order: _InOrder) -> list[tuple[Span, bool]]:
        """Return the place in the answer of each content word that no passage has, and whether a turn has it."""
        passages, *turns = self._held
        return [
            (order.span(place, place, part.span.start), any(unit in held for held in turns))
            for place, unit in enumerate(order.units)
            if unit not in passages
        ]

    def _best(self, part: _Part) -> tuple[int, _InOrder, int, int] | None:
        """Return the passage that has most of a sentence, of equals the first, its words, and the first and last."""
        most, best = 0, 0
        for passage, (index, (text, _)) in enumerate(zip(self._indexes, self._shown, strict=True)):
            if _n_held(part.content, [index]) > most:  # a title adds words, so with it is no less than without
                n_held = _n_held(part.content, [units_of_text(text, self._language, "")])
                most, best = (n_held, passage) if n_held > most else (most, best)
        if not most:
            return None
        shown = _in_order(self._shown[best][0], self._language)
        places = sorted({place for unit in part.content for place in shown.places.get(unit, ())[:_MOST_PLACES]})
        if not places:
            return None
        first, last = _densest(places, _LONGER * len(part.content))
        return (best, shown, *_without_repeats(shown, [place for place in places if first <= place <= last]))

    def _source(self, part: _Part) -> Source:
        """Return the source that has most content words of a sentence; of equal ones the first."""
        n_words = len(part.content)
        if not n_words or _n_held(part.content, self._held) < _HALF * n_words:
            return Source.NOTHING
        counts = [_n_held(part.content, [held]) for held in self._held]
        return list(Source)[counts.index(max(counts))]

    def _words_nowhere(self, missing: Iterable[tuple[Span, bool]]) -> Iterator[str]:
        return (self._answer[span.start : span.end] for span, is_said in missing if not is_said)

    def words_not_found(self) -> Iterator[str]:
        """Yield every content word that no passage and no turn has."""
        for part in self._parts:
            yield from self._words_nowhere(self._missing(part, part.in_order(self._language)))

    def numbers_not_found(self) -> Iterator[str]:
        """Yield every number that no passage and no turn has."""
        return filter(_is_number, self.words_not_found())

    def is_held(self, least: float) -> bool:
        """Return whether passages and conversation have every number, and at least that share of all words."""
        numbers = [unit for part in self._parts for unit in part.content if _is_number(unit)]
        share = _share(self._parts, *self._held)
        return share is None or (share >= least and _n_held(numbers, self._held) == len(numbers))


def grounded(answer: str, passages: Sequence[Passage]) -> float | None:
    """Return the share of an answer's words that its passages have, 0 to 1: `ground(...).share`, without the places.

    None without passages, and for an answer without content words: nothing in it could be supported.

    Args:
        answer: the answer.
        passages: the passages that it was given; their titles count.
    """
    return GroundedAnswer(answer, passages).share


def cited_sentences(answer: str, passages: Sequence[Passage]) -> tuple[CitedSentence, ...]:
    """Return the sentences of an answer with what each cites, in every form that `ground` reads; `[1]` is the first."""
    return parse_cited(answer, len(passages), _ids(passages))


def unseen_citations(answer: str, passages: Sequence[Passage]) -> tuple[str, ...]:
    """Return the citations that name no passage: numbers above the last one, as `[9]`, and names of files."""
    numbers = {number for one in cited_sentences(answer, passages) for number in one.invalid if number > len(passages)}
    return *(f"[{number}]" for number in sorted(numbers)), *unseen_files(answer, _ids(passages))


def share_in(text: str, *others: str) -> float:
    """Return the share of a text's words that any of some others has, 0 to 1; 0 without content words."""
    language = _language(text, [(other, "") for other in others])
    return _share(_parts(text, language), *(units_of_text(other, language, "") for other in others)) or 0.0


def copied(answer: str, passages: Passages) -> float | None:
    """Return the share of an answer's words in runs of five or more that one passage has word for word, 0 to 1.

    Case and punctuation apart. None without passages, and for an answer without words.
    """
    words = words_of_text(_words_alone(answer, marks_of(answer, _ids(passages))))
    if not words or not passages:
        return None
    runs = list(_runs(words))
    wanted = frozenset(runs)
    texts = (_text_and_title(item, "passages", place)[0] for place, item in enumerate(passages))
    held = frozenset().union(*(wanted.intersection(_runs(words_of_text(text))) for text in texts))
    inside = bytearray(len(words))
    for start, run in enumerate(runs):
        if run in held:
            inside[start : start + _RUN] = b"\1" * _RUN
    return sum(inside) / len(words)


def _is_number(word: str) -> bool:
    return word[0].isdecimal()


def _runs(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Return the runs of five words in their order."""
    return zip(*(words[start:] for start in range(_RUN)), strict=False)


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


_ID_KEYS = ("passage_id", "id", "url", "title", "file_id", "filepath", "file_name", "source")


def _ids(passages: Passages) -> tuple[tuple[str, ...], ...]:
    """Return the names that a citation may use for each passage."""
    return tuple(map(_names_of, passages))


def _names_of(item: str | Passage | Mapping[str, object]) -> tuple[str, ...]:
    if isinstance(item, Passage):
        return item.passage_id, item.url, item.title
    return tuple(str(item[key]) for key in _ID_KEYS if item.get(key)) if isinstance(item, Mapping) else ()


_NOT_LATIN = re.compile("[\u0370-\u1fff\u2c00-\ufaff]")


def _language(answer: str, shown: Sequence[tuple[str, str]]) -> str:
    """Return the language that an answer is read in; that of the passages where the answer is too short to tell."""
    found = language_of(answer) or (language_of(shown[0][0]) if shown else None)
    return found or ("" if _NOT_LATIN.search(answer) else ENGLISH)


# What of an answer counts as words


def _words_alone(text: str, marks: Sequence[Mark]) -> str:
    """Return a text of the same length with blanks for citations, marks of Markdown, and the numbers of lists."""
    clean = without(text, [(mark.start, mark.end) for mark in marks])
    if "](" in text or "]:" in text or "```" in text or "~~~" in text or "</" in text or "<br" in text:
        clean = without(clean, (match.span() for match in _MARKDOWN.finditer(text)))
    return without(clean, _list_numbers(clean))


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


# The words that passages and turns have, and the sentences of an answer.


@dataclass(frozen=True, slots=True)
class _Part:
    """The words of one sentence."""

    span: Span
    text: str
    """The sentence with blanks in the place of citations."""
    cited: tuple[Cited, ...]
    content: list[str]
    """Units of its content words."""
    function: list[str]
    """Its function words."""
    words: list[str]

    def in_order(self, language: str) -> _InOrder:
        """Return its content words in their order."""
        return _InOrder(self.text, self.words, language)


def _share(parts: Sequence[_Part], *held: frozenset[str]) -> float | None:
    """Return the share of some sentences' words that are in any of some sets; None without content words.

    A function word counts half. Weights, and the question and pairs of words left out, follow people's labels
    (docs/grounding.md).
    """
    if not any(part.content for part in parts):
        return None
    n_words = sum(2 * len(part.content) + len(part.function) for part in parts)
    n_held = sum(2 * _n_held(part.content, held) + _n_held(part.function, held) for part in parts)
    return n_held / n_words


def _n_held(words: Sequence[str], held: Iterable[frozenset[str]]) -> int:
    left = words
    for some in held:
        left = list(filterfalse(some.__contains__, left))
    return len(words) - len(left)


@lru_cache(maxsize=MOST_TEXTS)
def _parts(
    text: str, language: str, ids: tuple[tuple[str, ...], ...] = (), listed: tuple[Mark, ...] = ()
) -> list[_Part]:
    """Return the sentences of a text; citations listed next to it come after its own."""
    own = marks_of(text, ids)
    clean = _words_alone(text, own)
    return [_part(clean, Span(*place), cited, language) for *place, cited in sentences_of(clean, [*own, *listed])]


def _part(clean: str, span: Span, cited: tuple[Cited, ...], language: str) -> _Part:
    text = clean[span.start : span.end]
    words = tokens_of(text)
    units = list(map(units_in(language).__getitem__, with_pairs(words)))
    content, function = ([unit for unit, is_one in units if is_one is wanted] for wanted in (True, False))
    return _Part(span, text, cited, content, function, words)


_FULL, _PARTLY = 0.75, 0.6


def _level(part: _Part, *held: frozenset[str]) -> Support:
    """Return how far some texts support a sentence.

    The limits are those that agree best with NIST's assessors on half of their topics (`perf/grounding.py`).
    """
    share = _share([part], *held) or 0.0
    return Support.FULL if share >= _FULL else Support.PARTIAL if share >= _PARTLY else Support.NO


def _support(
    part: _Part, passages: Sequence[frozenset[str]]
) -> tuple[tuple[int, ...], Support | None, tuple[Support, ...]]:
    """Return the passages that a sentence cites, their support together, and that of each.

    Of passages that one name may mean, the one with most of the words counts. As in ALCE (Gao et al. 2023, "Enabling
    Large Language Models to Generate Text with Citations"), a citation is right where its passage supports the sentence
    alone, or where the others support less without it.
    """

    def held(number: int) -> frozenset[str]:
        return passages[number - 1] if 1 <= number <= len(passages) else frozenset()

    cited = tuple(dict.fromkeys(max(one, key=lambda number: _share([part], held(number)) or 0.0) for one in part.cited))
    if not cited or not part.content:
        return cited, None, ()
    indexes = [held(number) for number in cited]
    whole = _level(part, *indexes)
    each = []
    for place, index in enumerate(indexes):
        others = _level(part, frozenset(), *indexes[:place], *indexes[place + 1 :])
        alone = _level(part, index)
        each.append(max(alone, Support.NO if others is whole else whole, key=SUPPORT_WEIGHTS.__getitem__))
    return cited, whole, tuple(each)


# The place in a passage: the piece whose words are more the sentence's than not.

_GAP = 0.5
_LONGER = 3
_MOST_PLACES = 64
_CLAUSE_WORDS = frozenset(["and", "because", "but", "if", "or", "that", "when", "which", "who"])
_SAME_SUBJECT = frozenset(["he", "it", "she", "these", "they", "this", "ils", "elles", "sie", "diese"])
_CLAUSE_END = re.compile(r"[.,;:!?\n\u3002\uff0c\uff1b]")
_WITHIN = ",;:\uff0c\uff1b"
"""Signs that end a clause and no sentence."""


class _InOrder:
    """The content words of a text in their order; what few sentences need is read on demand."""

    def __init__(self, text: str, words: Sequence[str], language: str) -> None:
        self._text, self._words = plain_text(text), words
        self._read = list(map(units_in(language).__getitem__, words))
        self._content = [place for place, (_, is_content) in enumerate(self._read) if is_content]
        self.units = [self._read[place][0] for place in self._content]

    @cached_property
    def _spans(self) -> list[tuple[int, int]]:
        return [match.span() for match in token_pattern(self._text).finditer(self._text)]

    def span(self, first: int, last: int, start: int = 0) -> Span:
        """Return the characters of some content words, in a text that begins at `start`."""
        return Span(start + self._spans[self._content[first]][0], start + self._spans[self._content[last]][1])

    @cached_property
    def places(self) -> dict[str, list[int]]:
        """Unit -> its places among the content words."""
        found: dict[str, list[int]] = {}
        for place, unit in enumerate(self.units):
            found.setdefault(unit, []).append(place)
        return found

    @cached_property
    def _ends(self) -> dict[int, str]:
        """Word -> the first sign between the word before and it that ends a clause."""
        starts = [start for start, _ in self._spans]
        found: dict[int, str] = {}
        for match in _CLAUSE_END.finditer(self._text):
            place = bisect(starts, match.start())
            if place < len(starts) and (not place or self._spans[place - 1][1] <= match.start()):
                found.setdefault(place, match[0])
        return found

    @cached_property
    def sentences(self) -> list[int]:
        """The sentence of each content word, counted from 0; with `they` or `it` none begins."""
        opens = {place for place, sign in self._ends.items() if sign not in _WITHIN}
        opens = {place for place in opens if self._words[place] not in _SAME_SUBJECT}
        numbers = list(accumulate(place in opens for place in range(len(self._words))))
        return [numbers[place] for place in self._content]

    @cached_property
    def negated(self) -> list[bool]:
        """Whether a content word is the first behind a negation of its clause."""
        found = set()
        for place in filter(self._is_negation, range(len(self._words))):
            for behind in range(place + 1, len(self._words)):
                if behind in self._ends or self._words[behind] in _CLAUSE_WORDS:
                    break
                if self._read[behind][1]:
                    found.add(behind)
                    break
        return [place in found for place in self._content]

    def _is_negation(self, place: int) -> bool:
        return not self._read[place][1] and is_negation(self._words[place])


@lru_cache(maxsize=256)
def _in_order(passage: str, language: str) -> _InOrder:
    return _InOrder(passage, words_of_text(passage), language)


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


def _flipped(sentence: _InOrder, passage: _InOrder, first: int, last: int) -> tuple[int, int] | None:
    """Return the first two words of a sentence that the place in the passage has only with the other polarity."""
    if not any(sentence.negated) and not any(passage.negated):
        return None
    inside: dict[tuple[str, ...], set[tuple[bool, ...]]] = {}
    for place in range(first, last):
        inside.setdefault(tuple(passage.units[place : place + 2]), set()).add(tuple(passage.negated[place : place + 2]))
    for place in range(len(sentence.units) - 1):
        negated = tuple(sentence.negated[place : place + 2])
        if negated not in inside.get(tuple(sentence.units[place : place + 2]), {negated}):
            return place, place + 1
    return _flipped_apart(sentence, passage)


_NEARLY_ALL = 0.75


def _flipped_apart(sentence: _InOrder, passage: _InOrder) -> tuple[int, int] | None:
    """Return the same where the words stand apart: in a sentence of the passage that has nearly all of them."""
    wanted = frozenset(sentence.units)
    least = max(2, _NEARLY_ALL * len(wanted))
    if len(wanted & passage.places.keys()) < least:
        return None
    by_sentence: dict[int, dict[str, set[bool]]] = {}
    for unit in wanted:
        for place in passage.places.get(unit, ())[:_MOST_PLACES]:
            words = by_sentence.setdefault(passage.sentences[place], {})
            words.setdefault(unit, set()).add(passage.negated[place])
    most = max(map(len, by_sentence.values()), default=0)
    if most < least:
        return None
    is_negated = any(sentence.negated)
    alike = [words for words in by_sentence.values() if len(words) == most]
    if any(is_negated == any(True in polarity for polarity in words.values()) for words in alike):
        return None
    for place, unit in enumerate(sentence.units):
        if not any(sentence.negated[place] in words.get(unit, {sentence.negated[place]}) for words in alike):
            return max(0, place - 1), place
    return None
