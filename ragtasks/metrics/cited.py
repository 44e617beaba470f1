"""Scores of answers with citations: sentences with their citations, support, nuggets."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import fmean

from ragtasks.metrics._metric import COUNT, Metric
from ragtasks.records import Grade, Importance, Nugget, Score, Support


@dataclass(frozen=True, slots=True)
class CitedSentence:
    """One sentence of an answer with its citations."""

    text: str
    """The sentence without its citations, not blank."""
    citations: tuple[int, ...] = ()
    """Positions in the references, from 0, in the order of the text, each once."""
    invalid: tuple[int, ...] = ()
    """Cited numbers, as written, that match no reference."""


def n_words(sentences: Iterable[str]) -> int:
    """Return the length of an answer as the track counts it: NFKC, split at whitespace, summed over sentences.

    Source: the organizers' validator for 2024.
    """
    return sum(len(unicodedata.normalize("NFKC", sentence.strip()).split()) for sentence in sentences)


def cut_to_words(sentences: Sequence[CitedSentence], limit: int) -> tuple[CitedSentence, ...]:
    """Return the sentences, dropped from the end until the answer has at most `limit` words.

    Empty if the first sentence is too long, as in the organizers' validator.
    """
    remaining = list(sentences)
    while remaining and n_words(sentence.text for sentence in remaining) > limit:
        remaining.pop()
    return tuple(remaining)


def cited_sentence(text: str, numbers: Iterable[int], n_references: int) -> CitedSentence:
    """Return a sentence with its cited numbers split into valid positions and invalid numbers."""
    unique = list(dict.fromkeys(numbers))
    valid = tuple(number - 1 for number in unique if 1 <= number <= n_references)
    return CitedSentence(text, valid, tuple(number for number in unique if not 1 <= number <= n_references))


# Citations: whether they match a passage that was shown, and whether the passage supports the sentence. Support is
# judged for the first citation of each sentence: full counts 1, partial 0.5. Precision is the mean over sentences with
# citations, recall the mean over all sentences, so an uncited sentence counts as unsupported.
#
# Source: arXiv 2504.15205, sections 3.2 to 3.4 (TREC RAG 2024), from a third party's summary that includes the paper's
# worked example.

SUPPORT_SCORES = ("support_precision", "support_recall")

SUPPORT_WEIGHTS = {Support.FULL: 1.0, Support.PARTIAL: 0.5, Support.NO: 0.0}

_NO_SENTENCE = "the answer has no sentence"
_NO_STATEMENT = "the answer states nothing"
_NOTHING_CITED = "no sentence cites"


def support_precision(cites: Sequence[bool], levels: Sequence[Support | None]) -> Score:
    """Return the mean support of the sentences with citations, 0 to 1, higher is better; unscored without citations.

    Args:
        cites: whether each sentence cites a reference.
        levels: support by its first citation; None if not judged. Such a sentence is left out.
    """
    judged = [SUPPORT_WEIGHTS[level] for cited, level in zip(cites, levels, strict=True) if cited and level is not None]
    return Score(sum(judged) / len(judged)) if judged else Score(None, _why_none(cites))


def support_recall(cites: Sequence[bool], levels: Sequence[Support | None]) -> Score:
    """Return the mean support of all sentences, 0 to 1, higher is better; an uncited sentence counts 0.

    Unscored without sentences, or if no sentence could be judged. Arguments as in `support_precision`.
    """
    pairs = zip(cites, levels, strict=True)
    judged = [SUPPORT_WEIGHTS[level or Support.NO] for cited, level in pairs if not cited or level is not None]
    return Score(sum(judged) / len(judged)) if judged else Score(None, _why_none(cites))


def support_scores(cites: Sequence[bool], levels: Sequence[Support | None]) -> dict[str, Score]:
    """Return both scores of an answer by name; arguments as in `support_precision`."""
    return dict(zip(SUPPORT_SCORES, (support_precision(cites, levels), support_recall(cites, levels)), strict=True))


def citation_validity(sentences: Sequence[CitedSentence]) -> Score:
    """Return the share of an answer's citations that match a reference, 0 to 1; unscored without citations."""
    n_valid = sum(len(sentence.citations) for sentence in sentences)
    n_invalid = sum(len(sentence.invalid) for sentence in sentences)
    return Score(n_valid / (n_valid + n_invalid)) if n_valid + n_invalid else Score(None, _NOTHING_CITED)


def cited_share(sentences: Sequence[CitedSentence]) -> Score:
    """Return the share of sentences that cite a reference, 0 to 1; unscored without sentences."""
    if not sentences:
        return Score(None, _NO_SENTENCE)
    return Score(sum(bool(sentence.citations) for sentence in sentences) / len(sentences))


def _why_none(cites: Sequence[bool]) -> str:
    if not cites:
        return _NO_SENTENCE
    return "no sentence that cites was judged" if any(cites) else _NOTHING_CITED


# Citations one by one: each has one kind, and a statement without a citation is a missing one.


class CitationKind(str, Enum):
    """What is right or wrong about a citation, or that it is missing."""

    RIGHT = "right"
    """The cited passage supports the sentence, at least partially."""
    OTHER_PASSAGE = "other_passage"
    """The cited passage does not support the sentence, but another passage that was shown does."""
    UNSUPPORTED = "unsupported"
    """No passage that was shown supports the sentence."""
    NEVER_SHOWN = "never_shown"
    """A number or a name of no passage that was shown."""
    MISSING = "missing"
    """The sentence is a statement and cites nothing."""


def citation_kind(*, is_shown: bool, support: Support, by_other: bool) -> CitationKind:
    """Return the kind of a citation.

    Args:
        is_shown: whether it names a passage that was shown.
        support: support of the sentence by this passage.
        by_other: whether another passage that was shown supports the sentence.
    """
    if not is_shown:
        return CitationKind.NEVER_SHOWN
    if support is not Support.NO:
        return CitationKind.RIGHT
    return CitationKind.OTHER_PASSAGE if by_other else CitationKind.UNSUPPORTED


def judged_kinds(kinds: Sequence[CitationKind], level: Support | None) -> tuple[CitationKind, ...]:
    """Return the kinds of a sentence's citations with a judge's label of the first one that was shown.

    The others keep their kinds by words, as do all without a label. If words disagree with the label "no", whether
    another passage supports the sentence is unknown, and the citation counts as unsupported.
    """
    first = next((index for index, kind in enumerate(kinds) if kind is not CitationKind.NEVER_SHOWN), None)
    if first is None or level is None:
        return tuple(kinds)
    unsupported = CitationKind.UNSUPPORTED if kinds[first] is CitationKind.RIGHT else kinds[first]
    kind = CitationKind.RIGHT if level is not Support.NO else unsupported
    return (*kinds[:first], kind, *kinds[first + 1 :])


_BY = "by judges' labels of first citations if judged, else by words"
KIND_METRICS = {
    kind: Metric(f"cited_{kind.value}", f"{text}, {_BY}", higher_is_better=kind is CitationKind.RIGHT)
    for kind, text in {
        CitationKind.RIGHT: "share of citations whose passage supports the sentence",
        CitationKind.OTHER_PASSAGE: "share of citations of a wrong passage, where another one supports the sentence",
        CitationKind.UNSUPPORTED: "share of citations of sentences that no passage supports",
    }.items()
} | {
    CitationKind.NEVER_SHOWN: Metric(
        "cited_never_shown", "share of citations of a number or name that was not shown", higher_is_better=False
    ),
    CitationKind.MISSING: Metric("cited_missing", "share of statements without a citation", higher_is_better=False),
}
"""Kind -> its metric: a share of the citations of an answer, or of its statements."""
N_CITATIONS = Metric("n_citations", "citations of the answer", higher_is_better=None, bounds=COUNT)
N_STATEMENTS = Metric(
    "n_statements", "sentences of the answer that cite or should", higher_is_better=None, bounds=COUNT
)
CITATION_METRICS = (*KIND_METRICS.values(), N_CITATIONS, N_STATEMENTS)


def kind_scores(by_sentence: Iterable[Sequence[CitationKind]], n_missing: int) -> dict[str, Score]:
    """Return metric name -> score for one answer; shares are unscored without citations or statements.

    Args:
        by_sentence: the kinds of the citations of each sentence; empty for a sentence without citations.
        n_missing: number of statements without a citation.
    """
    citing = [kinds for kinds in by_sentence if kinds]
    counts = Counter(kind for kinds in citing for kind in kinds)
    n_citations, n_statements = counts.total(), len(citing) + n_missing
    counts[CitationKind.MISSING] = n_missing
    scores = {N_CITATIONS.name: Score(float(n_citations)), N_STATEMENTS.name: Score(float(n_statements))}
    for kind, metric in KIND_METRICS.items():
        n, reason = (n_statements, _NO_STATEMENT) if kind is CitationKind.MISSING else (n_citations, _NOTHING_CITED)
        scores[metric.name] = Score(counts[kind] / n) if n else Score(None, reason)
    return scores


# Nugget recall: the share of the required facts (nuggets) that an answer states. A judge grades every nugget; scores
# are shares over all nuggets or over the vital nuggets. `strict` scores count full support only, the others count
# partial support 0.5. Weighted scores count an okay nugget 0.5. Nuggets of TREC RAG 2025 name a part of the narrative;
# the scores over these parts are ours.
#
# Sources: castorini/nuggetizer at d00dc3e, `core/metrics.py` (the four scores of TREC RAG 2024). The weighted scores
# follow a third party's account of arXiv 2411.09607, except that a list without vital or okay nuggets is not padded.

NUGGET_SCORES = (
    "strict_vital_score",
    "strict_all_score",
    "vital_score",
    "all_score",
    "weighted_score",
    "strict_weighted_score",
)
"""Names of the scores; the first four are those of the track's metrics files."""

SUB_NARRATIVE_SCORES = ("sub_narrative_score", "sub_narratives_answered")

OKAY_WEIGHT = 0.5
"""Weight of an okay nugget in the weighted scores; a vital nugget has weight 1."""

_PARTIAL = 0.5


def nugget_scores(importance: Sequence[Importance], grades: Sequence[Grade | None]) -> dict[str, Score]:
    """Return the six scores of one answer, 0 to 1, higher is better.

    All six are unscored if a nugget has no grade. A score is also unscored if the list has no nuggets that it counts.

    Args:
        importance: one value per nugget.
        grades: one grade per nugget, None if no judge gave one.
    """
    missing = sum(grade is None for grade in grades)
    if missing:
        return dict.fromkeys(NUGGET_SCORES, Score(None, f"{missing} of {len(grades)} nuggets have no grade"))
    vital = [float(value is Importance.VITAL) for value in importance]
    every = [1.0] * len(importance)
    weighted = [1.0 if value is Importance.VITAL else OKAY_WEIGHT for value in importance]
    return {
        "strict_vital_score": _share(vital, grades, partial=0.0),
        "strict_all_score": _share(every, grades, partial=0.0),
        "vital_score": _share(vital, grades, partial=_PARTIAL),
        "all_score": _share(every, grades, partial=_PARTIAL),
        "weighted_score": _share(weighted, grades, partial=_PARTIAL),
        "strict_weighted_score": _share(weighted, grades, partial=0.0),
    }


def nugget_scores_official(importance: Sequence[Importance], grades: Sequence[Grade | None]) -> dict[str, float]:
    """Return the four scores of the track's files by the track's convention: missing values count 0.

    A nugget without a grade counts as not supported, and a score over no nuggets is 0.
    """
    labels = [grade or Grade.NOT_SUPPORT for grade in grades]
    return {name: nugget_scores(importance, labels)[name].value or 0.0 for name in NUGGET_SCORES[:4]}


def scores_by_part(
    nuggets: Sequence[Nugget], grades: Sequence[Grade | None]
) -> dict[str, tuple[int, dict[str, Score]]]:
    """Return sub-narrative -> (number of its nuggets, their six scores), in the order of the nuggets.

    Nuggets without a sub-narrative are left out.

    Args:
        nuggets: the nuggets of one topic.
        grades: one grade per nugget, None if no judge gave one.
    """
    parts: dict[str, list[tuple[Importance, Grade | None]]] = {}
    for nugget, grade in zip(nuggets, grades, strict=True):
        if nugget.sub_narrative:
            parts.setdefault(nugget.sub_narrative, []).append((nugget.importance, grade))
    return {
        name: (len(pairs), nugget_scores([importance for importance, _ in pairs], [grade for _, grade in pairs]))
        for name, pairs in parts.items()
    }


def sub_narrative_scores(nuggets: Sequence[Nugget], grades: Sequence[Grade | None]) -> dict[str, Score]:
    """Return two scores of one answer over the parts of its narrative, 0 to 1, higher is better.

    `sub_narrative_score` is the mean `all_score` over the parts, so every part has the same weight.
    `sub_narratives_answered` is the share of the parts with at least one fully stated nugget. Both are ours: the track
    publishes the parts, and scores over all nuggets. Unscored without parts, or if a nugget has no grade.

    Args:
        nuggets: the nuggets of one topic.
        grades: one grade per nugget, None if no judge gave one.
    """
    missing = sum(grade is None for grade in grades)
    parts = scores_by_part(nuggets, grades)
    if missing or not parts:
        reason = f"{missing} of {len(grades)} nuggets have no grade" if missing else "no nugget names a sub-narrative"
        return dict.fromkeys(SUB_NARRATIVE_SCORES, Score(None, reason))
    shares = [scores["all_score"].value or 0.0 for _, scores in parts.values()]
    answered = [bool(scores["strict_all_score"].value) for _, scores in parts.values()]
    return {"sub_narrative_score": Score(fmean(shares)), "sub_narratives_answered": Score(fmean(answered))}


def _share(weights: Sequence[float], grades: Sequence[Grade | None], *, partial: float) -> Score:
    """Return the weighted mean of the grades."""
    total = sum(weights)
    if not total:
        return Score(None, "the topic has no such nuggets")
    worth = {Grade.SUPPORT: 1.0, Grade.PARTIAL_SUPPORT: partial}
    pairs = zip(weights, grades, strict=True)
    return Score(sum(weight * worth.get(grade, 0.0) for weight, grade in pairs if grade is not None) / total)


# Ends of English sentences: a small rule for abbreviations, initials, decimals and numbered lists.

_CLOSING = "\"'\u201d\u2019)\\]*_"
_OPENING = "\"'\u201c\u2018(\\[*_"
_END = re.compile(rf"[.!?\u2026]+[{_CLOSING}]*(?=\s+[{_OPENING}]*(?P<next>\w+))")
_WORD_BEFORE = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]+$|[0-9]+$")
_LONGEST_WORD = 200
_LIST_NUMBER = re.compile(r"\s*(?:[-*\u2022]\s*)?[0-9]{1,3}$")


def _words(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


# Never at the end of a sentence: a name, a number or an example follows.
_TITLES = _words(
    "adm al approx capt cf col cmdr dr eds e.g eq fig figs ft gen gov hon i.e lt messrs mr mrs ms mt pp prof rep rev",
    "sen sgt st ste viz vol vols vs bzw ggf inkl vgl sra dra z",
)
# Not at the end of a sentence if a number follows.
_BEFORE_NUMBERS = _words("abs art arts ca ch chap nr no nos núm p pág para sec sect")
# May end a sentence if the next word is one of `_OPENERS`, which rarely follow these words within a sentence.
_MAY_END = _words(
    "a.d a.m assn ave b.c blvd bros co corp d.c dept est etc inc jr ltd m.d p.m ph.d rd sr u.k u.n u.s univ",
    "u.s.a jan feb mar apr jun jul aug sep sept oct nov dec",
)
_OPENERS = _words(
    "A After All Also Although An And As At Because Before Both But By Each Every For From He Here How However I If In",
    "Instead It Its Many Moreover Most No Not On One Other Others Our She Since So Some Such Than That The Their Then",
    "There These They This Those Thus To Under Until We What When Where While Who With Without You Your",
)


def sentence_ends(line: str) -> Iterator[int]:
    """Yield the end of every sentence that is followed by another sentence, in order.

    A full stop, question mark or exclamation mark ends a sentence if whitespace follows and the next word does not
    begin with a lower-case letter. Full stops of abbreviations, initials and list numbers do not count.

    Args:
        line: a line, or a complete text, whose line ends count as whitespace.
    """
    start = 0
    for match in _END.finditer(line):
        before, following = line[max(start, match.start() - _LONGEST_WORD) : match.start()], match["next"]
        if following[0].islower() or (match[0].startswith(".") and _is_inside_word(before, match[0], following)):
            continue
        start = match.end()
        yield start


def _is_inside_word(before: str, mark: str, following: str) -> bool:
    """Return whether the full stop after `before` belongs to the word."""
    if mark.startswith(".."):
        return False
    if _LIST_NUMBER.fullmatch(before):
        return True
    match = _WORD_BEFORE.search(before.rpartition(" ")[2])  # words have no spaces, and a search of all words is slow
    word = match[0] if match else ""
    if word.lower() in _TITLES:
        return True
    is_initial = word.isupper() and (len(word) == 1 or "." in word) and word != "I"
    if word.lower() in _BEFORE_NUMBERS and following[0].isdigit():
        return True
    return (is_initial or word.lower() in _MAY_END) and following not in _OPENERS
