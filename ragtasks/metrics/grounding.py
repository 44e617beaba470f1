"""Grounding by words: which words of an answer occur in which passage, without a judge or a model.

Words match by their stem, numbers by their value. A function word has half the weight of a content word. An answer that
copies a passage has the highest share, so this is a diagnosis and not a ranking. Read it next to `copied`.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter
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
    blank_out,
    listed_marks,
    marks_of,
    parse_cited,
    sentences_of,
    unseen_files,
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
from ragtasks.metrics.cited import SUPPORT_WEIGHTS, CitationKind, CitedSentence, citation_kind
from ragtasks.records import Message, Passage, Support

GROUNDED = Metric(
    "grounded",
    "share of the answer's words in its passages (function words half); not a ranking",
    higher_is_better=None,
    in_groups=False,
)
CITED_PRECISION = Metric(
    "cited_precision",
    "share of citations whose passage has the words of the sentence; partial support counts half",
)
CITED_RECALL = Metric(
    "cited_recall", "share of sentences whose words are in the passages they cite; partial support counts half"
)
COPIED = Metric(
    "copied",
    "share of the answer's words in runs of five or more from a passage; not a ranking",
    higher_is_better=None,
    in_groups=False,
)


class Source(str, Enum):
    """Source of a word, or of most words of a sentence."""

    PASSAGES = "passages"
    QUESTION = "question"
    CONVERSATION = "conversation"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a text, as a Python slice."""

    start: int
    """First character."""
    end: int
    """Character after the last one."""


@dataclass(frozen=True, slots=True)
class PassageSpan:
    """The part of a passage with the most words of a sentence."""

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
    """Share of its words in the passages, 0 to 1; None without content words."""
    share_with_conversation: float | None
    """Share of its words in the passages, the question or an earlier turn."""
    source: Source
    """Source of most of its content words; `nothing` if more than half have no source."""
    best: PassageSpan | None
    """The part of a passage with the most words of the sentence; None if no passage has any."""
    not_found: tuple[Span, ...] = ()
    """Its content words that no passage has, as spans of the answer."""
    from_conversation: tuple[Span, ...] = ()
    """Words of `not_found` that the question or an earlier turn has."""
    numbers_not_found: tuple[str, ...] = ()
    """Its numbers, as written, that no passage and no turn contains."""
    flipped: Span | None = None
    """Up to two words that are negated in the sentence but not in its passage, or the reverse."""
    cited: tuple[int, ...] = ()
    """Numbers of the cited passages, from 1, in the order of the text; 0 for a name that matches no passage."""
    support: Support | None = None
    """Support by the cited passages together; None without citations or content words."""
    supports: tuple[Support, ...] = ()
    """Support by each cited passage: alone, or as a necessary part of the cited passages."""
    kinds: tuple[CitationKind, ...] = ()
    """The kind of each citation of `cited`; never `missing`."""


@dataclass(frozen=True, repr=False)
class Grounding:
    """Sources of an answer, sentence by sentence."""

    sentences: tuple[GroundedSentence, ...]
    """Its sentences with a letter or digit, in order."""
    share: float | None
    """Share of its words in the passages, 0 to 1; None without passages or content words."""
    share_with_conversation: float | None
    """Share of its words in the passages, the question or an earlier turn."""
    copied: float | None
    """Share of its words in verbatim runs of five or more from one passage; None as for `share`."""

    @property
    def citation_precision(self) -> float | None:
        """Mean support of all citations, partial support counting half; None without citations."""
        values = [SUPPORT_WEIGHTS[support] for sentence in self.sentences for support in sentence.supports]
        return fmean(values) if values else None

    @property
    def citation_recall(self) -> float | None:
        """Mean support of all sentences by their citations; a sentence without citations counts 0."""
        judged = [sentence for sentence in self.sentences if not sentence.cited or sentence.support]
        return fmean(SUPPORT_WEIGHTS[sentence.support or Support.NO] for sentence in judged) if judged else None

    @cached_property
    def uncited(self) -> tuple[GroundedSentence, ...]:
        """Statements without a citation: no question, refusal, greeting, offer of help or heading."""
        return _statements([sentence for sentence in self.sentences if not sentence.cited])

    @property
    def citation_kinds(self) -> dict[CitationKind, int]:
        """Number of citations of each kind; for `missing` the number of statements without one."""
        counts = Counter(kind for sentence in self.sentences for kind in sentence.kinds)
        return {kind: counts[kind] for kind in CitationKind} | {CitationKind.MISSING: len(self.uncited)}

    def __repr__(self) -> str:
        """Return the share, and each sentence with its source."""
        n = len(self.sentences)
        share = "no share" if self.share is None else f"{self.share:.0%} grounded, {self.copied or 0:.0%} copied"
        cites = "" if self.citation_precision is None else f", citations {self.citation_precision:.0%} supported"
        lines = [f"<Grounding: {share}{cites}, {n} {'sentence' if n == 1 else 'sentences'}>"]
        lines += [_line(sentence) for sentence in self.sentences[:_MOST_LINES]]
        if n > _MOST_LINES:
            lines.append(f"  ... and {n - _MOST_LINES} more")
        return "\n".join(lines)


_LEAST_WORDS = 4
_AFTER_END = "\"'*_) \u201d"
_NO_STATEMENT = (":", "\uff1a", "?", "\uff1f")
_HEADING = re.compile(r"\s*(?:#{1,6}\s.*|(\*\*|__)[^.!]*\1)\s*")
_TO_THE_USER = frozenset(["glad", "hello", "hi", "i", "me", "please", "sorry", "thank", "thanks", "welcome"])


def _statements(sentences: Iterable[GroundedSentence]) -> tuple[GroundedSentence, ...]:
    from ragtasks.metrics.refusals import probabilities

    candidates = []
    for sentence in sentences:
        words = tokens_of(sentence.text)
        is_to_user = sentence.source is not Source.PASSAGES and not _TO_THE_USER.isdisjoint(words)
        is_long = sentence.share is not None and len(words) >= _LEAST_WORDS
        is_heading = _HEADING.fullmatch(sentence.text) or sentence.text.rstrip(_AFTER_END).endswith(_NO_STATEMENT)
        if is_long and not is_to_user and not is_heading:
            candidates.append(sentence)
    verdicts = probabilities([sentence.text for sentence in candidates]) if candidates else []
    return tuple(
        sentence for sentence, (values, _) in zip(candidates, verdicts, strict=True) if values[0] < max(values)
    )


_MOST_LINES = 20
_MOST_CHARACTERS = 70
_HALF = 0.5
_RUN = 5


def _line(sentence: GroundedSentence) -> str:
    share = "   -" if sentence.share_with_conversation is None else f"{sentence.share_with_conversation:4.0%}"
    source = {
        Source.PASSAGES: f"passage {sentence.best.passage + 1}" if sentence.best else "passages",
        Source.QUESTION: "question",
        Source.CONVERSATION: "conversation",
        Source.NOTHING: "nothing" if sentence.share is not None else "",
    }[sentence.source]
    text = excerpt(" ".join(sentence.text.split()), _MOST_CHARACTERS)
    notes = [f"numbers not found: {', '.join(sentence.numbers_not_found)}"] if sentence.numbers_not_found else []
    notes += ["negation differs"] if sentence.flipped else []
    if sentence.support in (Support.PARTIAL, Support.NO):
        does = "supports it partly" if sentence.support is Support.PARTIAL else "does not support it"
        notes.append(f"passage {', '.join(str(number or 'unknown') for number in sentence.cited)} {does}")
    return f"  {share}  {source:<12}  {text}" + (f"  ({'; '.join(notes)})" if notes else "")


Passages = Sequence[str | Passage | Mapping[str, object]]
"""Passages in order: texts, `Passage`s, or dictionaries with `text` and optionally `title`, `id` and `url`."""


def ground(
    answer: str,
    passages: Passages,
    history: Sequence[str | Message | Mapping[str, object]] = (),
    citations: Sequence[Mapping[str, object]] = (),
) -> Grounding:
    """Return the source of the words of each sentence of an answer.

    Args:
        answer: the answer. Citations do not count as words: `[1]`, `[doc 2]`, `[^1]`, `[rules.pdf#page=4]` if a passage
            has that name, and the marks of Command-R and OpenAI.
        passages: the passages that the model received, in order: texts, `Passage`s, or dictionaries with `text` and
            optionally `title`, `id` and `url`.
        history: the conversation so far, ending with the question: texts, `Message`s, or dictionaries with `text` or
            `content`. Words that only the conversation has are counted separately.
        citations: citations that an API returned next to the answer: OpenAI's annotations, or Cohere's citations.

    Returns:
        Sentences with shares, sources and spans. Time is linear in the length of the texts.

    Raises:
        ConfigurationError: a passage or a turn without text, or a citation without a position.

    Source: our own; measured against human labels (docs/background/grounding-evidence.md).
    """
    return GroundedAnswer(answer, passages, history, citations).grounding


class GroundedAnswer:
    """An answer with its possible sources; every result is computed on demand."""

    def __init__(
        self,
        answer: str,
        passages: Passages,
        history: Sequence[str | Message | Mapping[str, object]] = (),
        citations: Sequence[Mapping[str, object]] = (),
    ) -> None:
        """Accept the arguments of `ground`."""
        self._answer, self._passages = answer, passages
        self._texts = [_text_and_title(text, "passages", position) for position, text in enumerate(passages)]
        self._turns = tuple(_text_and_title(text, "history", position)[0] for position, text in enumerate(history))
        self._language = _language(answer, self._texts)
        ids = _ids(passages)
        self._answer_sentences = _read_sentences(answer, self._language, ids, tuple(listed_marks(citations, ids)))

    @cached_property
    def _passage_words(self) -> tuple[frozenset[str], ...]:
        """Words of each passage."""
        return tuple(units_of_text(text, self._language, title) for text, title in self._texts)

    @cached_property
    def _sources(self) -> tuple[frozenset[str], ...]:
        """Words of the passages, of the question, and of the earlier turns."""
        turns = [units_of_text(text, self._language, "") for text in self._turns]
        return tuple(frozenset().union(*word_sets) for word_sets in (self._passage_words, turns[-1:], turns[:-1]))

    @property
    def share(self) -> float | None:
        """Share of the answer's words in the passages."""
        return _share(self._answer_sentences, *self._passage_words) if self._texts else None

    @property
    def share_with_conversation(self) -> float | None:
        """Share of the answer's words in the passages, the question or an earlier turn."""
        return _share(self._answer_sentences, *self._sources) if self._texts else None

    @property
    def sentences(self) -> tuple[GroundedSentence, ...]:
        """Sentences of a `Grounding`."""
        return tuple(map(self._sentence, self._answer_sentences))

    @property
    def grounding(self) -> Grounding:
        """Result of `ground`."""
        return Grounding(self.sentences, self.share, self.share_with_conversation, copied(self._answer, self._passages))

    def _sentence(self, sentence: _Sentence) -> GroundedSentence:
        order, start = sentence.ordered(self._language), sentence.span.start
        missing = self._missing(sentence, order)
        source = self._source(sentence)
        best = flipped = None
        if match := self._best(sentence):
            passage, passage_words, first, last = match
            best = PassageSpan(passage, passage_words.span(first, last))
            flipped = _flipped(order, passage_words, first, last) if source is Source.PASSAGES else None
        return GroundedSentence(
            self._answer[sentence.span.start : sentence.span.end],
            sentence.span,
            _share([sentence], *self._sources[:1]),
            _share([sentence], *self._sources),
            source,
            best,
            tuple(span for span, _ in missing),
            tuple(span for span, in_conversation in missing if in_conversation),
            tuple(filter(_is_number, self._words_without_source(missing))),
            order.span(*flipped, start) if flipped else None,
            *_support(sentence, self._passage_words),
        )

    def _missing(self, sentence: _Sentence, order: _OrderedWords) -> list[tuple[Span, bool]]:
        """Return the span of each content word that no passage contains, and whether a turn contains it."""
        passages, *turns = self._sources
        return [
            (order.span(position, position, sentence.span.start), any(unit in turn for turn in turns))
            for position, unit in enumerate(order.units)
            if unit not in passages
        ]

    def _best(self, sentence: _Sentence) -> tuple[int, _OrderedWords, int, int] | None:
        """Return (index of the first passage with the most words of a sentence, its words, first word, last word)."""
        most, best = 0, 0
        for passage, (words, (text, _)) in enumerate(zip(self._passage_words, self._texts, strict=True)):
            if _n_covered(sentence.content, [words]) > most:  # a title only adds words
                n_covered = _n_covered(sentence.content, [units_of_text(text, self._language, "")])
                most, best = (n_covered, passage) if n_covered > most else (most, best)
        if not most:
            return None
        ordered = _ordered_words(self._texts[best][0], self._language)
        positions = sorted(
            {position for unit in sentence.content for position in ordered.positions.get(unit, ())[:_MAX_POSITIONS]}
        )
        if not positions:
            return None
        first, last = _densest(positions, _LONGER * len(sentence.content))
        return (
            best,
            ordered,
            *_without_repeats(ordered, [position for position in positions if first <= position <= last]),
        )

    def _source(self, sentence: _Sentence) -> Source:
        """Return the source with the most content words of a sentence; of equal sources, the first."""
        n_words = len(sentence.content)
        if not n_words or _n_covered(sentence.content, self._sources) < _HALF * n_words:
            return Source.NOTHING
        counts = [_n_covered(sentence.content, [source]) for source in self._sources]
        return list(Source)[counts.index(max(counts))]

    def _words_without_source(self, missing: Iterable[tuple[Span, bool]]) -> Iterator[str]:
        return (self._answer[span.start : span.end] for span, in_conversation in missing if not in_conversation)

    def words_not_found(self) -> Iterator[str]:
        """Yield every content word that no passage and no turn has."""
        for sentence in self._answer_sentences:
            yield from self._words_without_source(self._missing(sentence, sentence.ordered(self._language)))

    def numbers_not_found(self) -> Iterator[str]:
        """Yield every number that no passage and no turn has."""
        return filter(_is_number, self.words_not_found())

    def is_supported(self, least: float) -> bool:
        """Return whether passages and conversation contain every number and at least the share `least` of all words."""
        numbers = [unit for sentence in self._answer_sentences for unit in sentence.content if _is_number(unit)]
        share = _share(self._answer_sentences, *self._sources)
        return share is None or (share >= least and _n_covered(numbers, self._sources) == len(numbers))


def grounded(answer: str, passages: Sequence[Passage]) -> float | None:
    """Return the share of an answer's words in its passages, 0 to 1: the same as `ground(...).share`, but faster.

    None without passages, and for an answer without content words.

    Args:
        answer: the answer.
        passages: the passages that the model received; their titles count.
    """
    return GroundedAnswer(answer, passages).share


def cited_sentences(answer: str, passages: Sequence[Passage]) -> tuple[CitedSentence, ...]:
    """Return the sentences of an answer with their citations, in every form that `ground` reads."""
    return parse_cited(answer, len(passages), _ids(passages))


def unseen_citations(answer: str, passages: Sequence[Passage]) -> tuple[str, ...]:
    """Return citations that match no passage: numbers above the last one, as `[9]`, and file names."""
    numbers = {
        number
        for sentence in cited_sentences(answer, passages)
        for number in sentence.invalid
        if number > len(passages)
    }
    return *(f"[{number}]" for number in sorted(numbers)), *unseen_files(answer, _ids(passages))


def share_in(text: str, *sources: str) -> float:
    """Return the share of a text's words in any of other texts, 0 to 1; 0 without content words."""
    language = _language(text, [(source, "") for source in sources])
    return _share(_read_sentences(text, language), *(units_of_text(source, language, "") for source in sources)) or 0.0


def copied(answer: str, passages: Passages) -> float | None:
    """Return the share of an answer's words in verbatim runs of five or more from one passage, 0 to 1.

    Case and punctuation are ignored. None without passages, and for an answer without words.
    """
    words = words_of_text(_words_alone(answer, marks_of(answer, _ids(passages))))
    if not words or not passages:
        return None
    runs = list(_runs(words))
    wanted = frozenset(runs)
    texts = (_text_and_title(passage, "passages", position)[0] for position, passage in enumerate(passages))
    shared_runs = frozenset().union(*(wanted.intersection(_runs(words_of_text(text))) for text in texts))
    inside = bytearray(len(words))
    for start, run in enumerate(runs):
        if run in shared_runs:
            inside[start : start + _RUN] = b"\1" * _RUN
    return sum(inside) / len(words)


def _is_number(word: str) -> bool:
    return word[0].isdecimal()


def _runs(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Return all runs of five words, in order."""
    return zip(*(words[start:] for start in range(_RUN)), strict=False)


def _text_and_title(
    source: str | Passage | Message | Mapping[str, object], name: str, position: int
) -> tuple[str, str]:
    if isinstance(source, str):
        return source, ""
    if isinstance(source, Mapping):
        text, title = source.get("text", source.get("content")), source.get("title") or ""
    else:
        text, title = getattr(source, "text", None), getattr(source, "title", "")
    if not isinstance(text, str):
        found = (
            f"a dictionary with {', '.join(map(str, source))}" if isinstance(source, Mapping) else type(source).__name__
        )
        expected = "a text, or an object with `text`"
        where = f"{name}[{position}]"
        raise ConfigurationError(
            clear_error("ground", where=where, expected=expected, found=found, next_step="pass the text")
        )
    return text, str(title)


_ID_KEYS = ("passage_id", "id", "url", "title", "file_id", "filepath", "file_name", "source")


def _ids(passages: Passages) -> tuple[tuple[str, ...], ...]:
    """Return the names that a citation may use for each passage."""
    return tuple(map(_names_of, passages))


def _names_of(passage: str | Passage | Mapping[str, object]) -> tuple[str, ...]:
    if isinstance(passage, Passage):
        return passage.passage_id, passage.url, passage.title
    return tuple(str(passage[key]) for key in _ID_KEYS if passage.get(key)) if isinstance(passage, Mapping) else ()


_NOT_LATIN = re.compile("[\u0370-\u1fff\u2c00-\ufaff]")


def _language(answer: str, texts: Sequence[tuple[str, str]]) -> str:
    """Return the language of an answer, or of the first passage if the answer is too short to detect it."""
    code = language_of(answer) or (language_of(texts[0][0]) if texts else None)
    return code or ("" if _NOT_LATIN.search(answer) else ENGLISH)


# Text that counts as words


def _words_alone(text: str, marks: Sequence[Mark]) -> str:
    """Return a text of the same length with citations, Markdown marks and list numbers replaced by spaces."""
    clean = blank_out(text, [(mark.start, mark.end) for mark in marks])
    if "](" in text or "]:" in text or "```" in text or "~~~" in text or "</" in text or "<br" in text:
        clean = blank_out(clean, (match.span() for match in _MARKDOWN.finditer(text)))
    return blank_out(clean, _list_numbers(clean))


_ADDRESS = r"(?:https?:|mailto:|www\.|[/#.])[^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)*"
_MARKDOWN = re.compile(
    rf"(?<=\])\(<?{_ADDRESS}>?(?:[ \t]+[\"'][^\"'\n]*[\"'])?\)"
    r"|</?(?:a|b|br|code|div|em|h[1-6]|hr|i|img|li|ol|p|pre|span|strong|su[bp]|t(?:able|body|d|h|head|r)|ul?)(?:\s[^<>=]*=[^<>]*)?/?>"
    r"|^[ \t]*\[[^\]\n]+\]:[ \t]*<?https?:[^\n]*|^[ \t>]*(?:```|~~~)[^`\n]*$",
    re.MULTILINE,
)
"""Addresses of links (inline or in a list), HTML tags, and the lines that open or close code, with the language."""
_LIST_NUMBER = re.compile(r"\(?(?<![\w.,-])(\d{1,3})[.)](?=[*_]*[ \t]+\S)")
_OPENS_ITEM = re.compile(r"(?:^|\n|[.:;,!?)][*_]*\s|\b(?:and|or|und|et|y|e|o|ou)\s)[\s>#*_+|-]*\Z")
_BEFORE_ITEM = 12


def _list_numbers(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of `1.`, `2)` and `(3)` before list items, each on its own line or within one.

    A single number opens an item only if it is a 1 at the start of a line. Any other number opens an item only if its
    predecessor occurs before it or its successor after it, so a sentence keeps its number in `40. That is all.`
    """
    candidates = [
        (int(match[1]), "\n" in before[0] or before.start() == 0, match.span())
        for match in _LIST_NUMBER.finditer(text)
        if (before := _OPENS_ITEM.search(text, max(0, match.start() - _BEFORE_ITEM), match.start()))
    ]
    last = {number: index for index, (number, _, _) in enumerate(candidates)}
    done = set()
    for index, (number, opens_line, span) in enumerate(candidates):
        if number - 1 in done or last.get(number + 1, 0) > index or (number == 1 and opens_line):
            yield span
        done.add(number)


# Words of passages and turns, and sentences of an answer.


@dataclass(frozen=True, slots=True)
class _Sentence:
    span: Span
    text: str
    """The sentence with spaces in place of citations."""
    cited: tuple[Cited, ...]
    content: list[str]
    """Units of its content words."""
    function: list[str]
    words: list[str]

    def ordered(self, language: str) -> _OrderedWords:
        return _OrderedWords(self.text, self.words, language)


def _share(sentences: Sequence[_Sentence], *sources: frozenset[str]) -> float | None:
    """Return the share of the sentences' words that are in any of the sets; None without content words.

    A function word counts half. The weights follow human labels (docs/background/grounding-evidence.md), as does the
    exclusion of the question and of pairs of words.
    """
    if not any(sentence.content for sentence in sentences):
        return None
    n_words = sum(2 * len(sentence.content) + len(sentence.function) for sentence in sentences)
    n_covered = sum(
        2 * _n_covered(sentence.content, sources) + _n_covered(sentence.function, sources) for sentence in sentences
    )
    return n_covered / n_words


def _n_covered(words: Sequence[str], sources: Iterable[frozenset[str]]) -> int:
    uncovered = words
    for source in sources:
        uncovered = list(filterfalse(source.__contains__, uncovered))
    return len(words) - len(uncovered)


@lru_cache(maxsize=MOST_TEXTS)
def _read_sentences(
    text: str, language: str, ids: tuple[tuple[str, ...], ...] = (), listed: tuple[Mark, ...] = ()
) -> list[_Sentence]:
    """Return the sentences of a text; `listed` citations come after those in the text."""
    marks_in_text = marks_of(text, ids)
    clean = _words_alone(text, marks_in_text)
    return [
        _read_sentence(clean, Span(*span), cited, language)
        for *span, cited in sentences_of(clean, [*marks_in_text, *listed])
    ]


def _read_sentence(clean: str, span: Span, cited: tuple[Cited, ...], language: str) -> _Sentence:
    text = clean[span.start : span.end]
    words = tokens_of(text)
    units = list(map(units_in(language).__getitem__, with_pairs(words)))
    content, function = ([unit for unit, is_content in units if is_content is wanted] for wanted in (True, False))
    return _Sentence(span, text, cited, content, function, words)


_FULL, _PARTLY = 0.75, 0.6


def _level(sentence: _Sentence, *sources: frozenset[str]) -> Support:
    """Return how far texts support a sentence.

    The limits agree best with NIST's assessors on half of their topics (`perf/grounding.py`).
    """
    share = _share([sentence], *sources) or 0.0
    return Support.FULL if share >= _FULL else Support.PARTIAL if share >= _PARTLY else Support.NO


def _support(
    sentence: _Sentence, passages: Sequence[frozenset[str]]
) -> tuple[tuple[int, ...], Support | None, tuple[Support, ...], tuple[CitationKind, ...]]:
    """Return the passages that a sentence cites, their joint support, and the support and kind of each.

    If a name matches several passages, the passage with the most words counts. As in ALCE (Gao et al. 2023, "Enabling
    Large Language Models to Generate Text with Citations"), a citation is correct if its passage supports the sentence
    alone, or if the other cited passages support the sentence less without it.
    """

    def words_of(number: int) -> frozenset[str]:
        return passages[number - 1] if 1 <= number <= len(passages) else frozenset()

    cited = tuple(
        dict.fromkeys(
            max(numbers, key=lambda number: _share([sentence], words_of(number)) or 0.0) for numbers in sentence.cited
        )
    )
    is_shown = [1 <= number <= len(passages) for number in cited]
    if not cited or not sentence.content:
        unread = tuple(citation_kind(is_shown=shown, support=Support.NO, by_other=False) for shown in is_shown)
        return cited, None, (), unread
    cited_words = [words_of(number) for number in cited]
    together = _level(sentence, *cited_words)
    supports = []
    for position, words in enumerate(cited_words):
        without_one = _level(sentence, frozenset(), *cited_words[:position], *cited_words[position + 1 :])
        alone = _level(sentence, words)
        supports.append(
            max(alone, Support.NO if without_one is together else together, key=SUPPORT_WEIGHTS.__getitem__)
        )
    by_other = Support.NO in supports and any(_level(sentence, words) is not Support.NO for words in passages)
    kinds = (
        citation_kind(is_shown=shown, support=support, by_other=by_other)
        for shown, support in zip(is_shown, supports, strict=True)
    )
    return cited, together, tuple(supports), tuple(kinds)


# Best part of a passage: more than half of its words are in the sentence.

_GAP = 0.5
_LONGER = 3
_MAX_POSITIONS = 64
_CLAUSE_WORDS = frozenset(["and", "because", "but", "if", "or", "that", "when", "which", "who"])
_SAME_SUBJECT = frozenset(["he", "it", "she", "these", "they", "this", "ils", "elles", "sie", "diese"])
_CLAUSE_END = re.compile(r"[.,;:!?\n\u3002\uff0c\uff1b]")
_WITHIN = ",;:\uff0c\uff1b"
"""Signs that end a clause but not a sentence."""


class _OrderedWords:
    """Content words of a text in order; rarely used parts are computed on demand."""

    def __init__(self, text: str, words: Sequence[str], language: str) -> None:
        self._text, self._words = plain_text(text), words
        self._read = list(map(units_in(language).__getitem__, words))
        self._content = [position for position, (_, is_content) in enumerate(self._read) if is_content]
        self.units = [self._read[position][0] for position in self._content]

    @cached_property
    def _spans(self) -> list[tuple[int, int]]:
        return [match.span() for match in token_pattern(self._text).finditer(self._text)]

    def span(self, first: int, last: int, start: int = 0) -> Span:
        """Return the characters from one content word to another, in a text that begins at `start`."""
        return Span(start + self._spans[self._content[first]][0], start + self._spans[self._content[last]][1])

    @cached_property
    def positions(self) -> dict[str, list[int]]:
        """Unit -> its positions among the content words."""
        positions: dict[str, list[int]] = {}
        for position, unit in enumerate(self.units):
            positions.setdefault(unit, []).append(position)
        return positions

    @cached_property
    def _ends(self) -> dict[int, str]:
        """Position of a word -> the first sign before it that ends a clause."""
        starts = [start for start, _ in self._spans]
        ends: dict[int, str] = {}
        for match in _CLAUSE_END.finditer(self._text):
            position = bisect(starts, match.start())
            if position < len(starts) and (not position or self._spans[position - 1][1] <= match.start()):
                ends.setdefault(position, match[0])
        return ends

    @cached_property
    def sentences(self) -> list[int]:
        """Number of the sentence of each content word, from 0. `they` or `it` does not start a new sentence."""
        opens = {position for position, sign in self._ends.items() if sign not in _WITHIN}
        opens = {position for position in opens if self._words[position] not in _SAME_SUBJECT}
        numbers = list(accumulate(position in opens for position in range(len(self._words))))
        return [numbers[position] for position in self._content]

    @cached_property
    def negated(self) -> list[bool]:
        """Whether each content word is the first after a negation in its clause."""
        first_words = set()
        for position in filter(self._is_negation, range(len(self._words))):
            for next_position in range(position + 1, len(self._words)):
                if next_position in self._ends or self._words[next_position] in _CLAUSE_WORDS:
                    break
                if self._read[next_position][1]:
                    first_words.add(next_position)
                    break
        return [position in first_words for position in self._content]

    def _is_negation(self, position: int) -> bool:
        return not self._read[position][1] and is_negation(self._words[position])


@lru_cache(maxsize=256)
def _ordered_words(passage: str, language: str) -> _OrderedWords:
    return _OrderedWords(passage, words_of_text(passage), language)


def _without_repeats(passage_words: _OrderedWords, positions: list[int]) -> tuple[int, int]:
    """Return the first and last position, without outer sentences whose words also occur in the inner ones."""
    for end in (0, -1):
        while positions and passage_words.sentences[positions[0]] != passage_words.sentences[positions[-1]]:
            outer = passage_words.sentences[positions[end]]
            inner = [position for position in positions if passage_words.sentences[position] != outer]
            if {passage_words.units[position] for position in positions} != {
                passage_words.units[position] for position in inner
            }:
                break
            positions = inner
    return positions[0], positions[-1]


def _densest(positions: Sequence[int], longest: int) -> tuple[int, int]:
    """Return the first and last of the densest run of positions: each counts 1, each word in between costs 0.5."""
    first = best_first = best_last = positions[0]
    value = best = 1.0
    for before, position in pairwise(positions):
        value += 1 - _GAP * (position - before - 1)
        if value <= 1 or position - first > longest:
            first, value = position, 1.0
        if value > best:
            best, best_first, best_last = value, first, position
    return best_first, best_last


def _flipped(sentence: _OrderedWords, passage: _OrderedWords, first: int, last: int) -> tuple[int, int] | None:
    """Return the first two words of a sentence that the passage part has only with the other polarity."""
    if not any(sentence.negated) and not any(passage.negated):
        return None
    inside: dict[tuple[str, ...], set[tuple[bool, ...]]] = {}
    for start in range(first, last):
        inside.setdefault(tuple(passage.units[start : start + 2]), set()).add(tuple(passage.negated[start : start + 2]))
    for start in range(len(sentence.units) - 1):
        negated = tuple(sentence.negated[start : start + 2])
        if negated not in inside.get(tuple(sentence.units[start : start + 2]), {negated}):
            return start, start + 1
    return _flipped_apart(sentence, passage)


_NEARLY_ALL = 0.75


def _flipped_apart(sentence: _OrderedWords, passage: _OrderedWords) -> tuple[int, int] | None:
    """Return a word with the other polarity and the word before it, by passage sentences with nearly all words."""
    wanted = frozenset(sentence.units)
    least = max(2, _NEARLY_ALL * len(wanted))
    if len(wanted & passage.positions.keys()) < least:
        return None
    by_sentence: dict[int, dict[str, set[bool]]] = {}
    for unit in wanted:
        for position in passage.positions.get(unit, ())[:_MAX_POSITIONS]:
            words = by_sentence.setdefault(passage.sentences[position], {})
            words.setdefault(unit, set()).add(passage.negated[position])
    most = max(map(len, by_sentence.values()), default=0)
    if most < least:
        return None
    is_negated = any(sentence.negated)
    best_sentences = [words for words in by_sentence.values() if len(words) == most]
    if any(is_negated == any(True in polarity for polarity in words.values()) for words in best_sentences):
        return None
    for position, unit in enumerate(sentence.units):
        if not any(
            sentence.negated[position] in words.get(unit, {sentence.negated[position]}) for words in best_sentences
        ):
            return max(0, position - 1), position
    return None
