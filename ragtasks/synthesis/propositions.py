"""Units of knowledge for dialogues: propositions extracted by a model, sentences of documents, or complete passages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragtasks.synthesis.asking import (
    Asker,
    UnreadableReplyError,
    UnusableReply,
    covered_share,
    listed_texts,
    object_with,
    question_of,
)
from ragtasks.synthesis.cutting import DocumentPassage
from ragtasks.synthesis.documents import Document, LeftOut
from ragtasks.tables import grouped
from retrieval_cache import sentence_spans

# Propositions: stand-alone statements worth a question, extracted from each passage by a model. Each statement is
# checked by its words: a statement that shares too few with the passage is invented or in another language. It is left
# out and counted. A reply with too many statements for one passage is left out too. Source: OR-CONVQA paper, section
# 3.2, step 1. The wording of the prompt is ours.

MOST_IN_A_PASSAGE = 200
"""Maximum number of propositions per passage; a reply with more cannot be about the passage."""
LEAST_SHARED = 0.4
"""Minimum share of a proposition's words in its passage or title."""

HELD = 0.9
"""Minimum share of a proposition's words in an overlapping passage that also supports it."""


def extract_propositions(
    passages: Sequence[DocumentPassage], asker: Asker
) -> tuple[list[Unit], list[LeftOut], Counter[str]]:
    """Return the propositions of passages, the passages without a usable reply, and counts of other omissions.

    The order is that of the passages. A text is listed once per domain, with all its passages.
    """
    replies = asker.ask(
        "propositions",
        [
            question_of("propositions", _read, {"title": passage.passage.title, "passage": passage.passage.text})
            for passage in passages
        ],
    )
    counts: Counter[str] = Counter()
    left_out: list[LeftOut] = []
    texts: dict[tuple[str, str], str] = {}
    origins: dict[tuple[str, str], list[DocumentPassage]] = {}
    for index, (passage, statements) in enumerate(zip(passages, replies, strict=True)):
        if isinstance(statements, UnusableReply):
            left_out.append(LeftOut(passage.passage.passage_id, statements.reason))
            continue
        if not statements:
            counts["passages without propositions"] += 1
        for text in _supported(statements, passage, counts):
            key = (passage.domain, text.casefold())
            texts.setdefault(key, text)
            sources = origins.setdefault(key, [])
            sources += [source for source in _supporting_passages(text, index, passages) if source not in sources]
    units = []
    for number, (key, text) in enumerate(texts.items(), start=1):
        ids = tuple(passage.passage.passage_id for passage in origins[key])
        units.append(Unit(f"p{number}", text, ids, origins[key][0].document_id, origins[key][0].domain))
    return units, left_out, counts


def _read(reply: str) -> list[str]:
    propositions = listed_texts(object_with(reply, "propositions")["propositions"], '"propositions"')
    if len(propositions) > MOST_IN_A_PASSAGE:
        raise UnreadableReplyError(f"{len(propositions):,} propositions of one passage, more than {MOST_IN_A_PASSAGE}")
    return propositions


def _supported(statements: Sequence[str], passage: DocumentPassage, counts: Counter[str]) -> list[str]:
    source = f"{passage.passage.title}\n{passage.passage.text}"
    supported = [text for text in statements if covered_share(text, source) >= LEAST_SHARED]
    n_foreign = len(statements) - len(supported)
    if n_foreign:
        counts["propositions with words missing from their passage (invented, or in another language)"] += n_foreign
    return supported


def _supporting_passages(text: str, index: int, passages: Sequence[DocumentPassage]) -> list[DocumentPassage]:
    """Return the source passage of a proposition, and adjacent passages that also contain its words by overlap."""
    passage = passages[index]
    neighbours = [*passages[max(0, index - 1) : index], *passages[index + 1 : index + 2]]
    near = [neighbour for neighbour in neighbours if neighbour.document_id == passage.document_id]
    return [passage, *(neighbour for neighbour in near if covered_share(text, neighbour.passage.text) >= HELD)]


# Units of knowledge, and lists of units for dialogues.


@dataclass(frozen=True, slots=True)
class Unit:
    """A proposition, a sentence or a complete passage."""

    unit_id: str
    """`p`, `s` or `u`, and its number, from 1."""
    text: str
    passage_ids: tuple[str, ...]
    """Source passages; of overlapping passages, each that contains the unit."""
    document_id: str
    """Document of the first source passage."""
    domain: str


def sublists(units: Sequence[Unit], size: int) -> Iterator[tuple[Unit, ...]]:
    """Yield lists of adjacent units, at most `size` and of one domain each; every unit is in one list.

    Source: OR-CONVQA paper, section 3.2: units of a document stay together, and a list may span several documents.
    """
    for domain in dict.fromkeys(unit.domain for unit in units):
        of_domain = [unit for unit in units if unit.domain == domain]
        for start in range(0, len(of_domain), size):
            yield tuple(of_domain[start : start + size])


def cut_sentences(documents: Sequence[Document], passages: Sequence[DocumentPassage]) -> list[Unit]:
    """Return the sentences of documents as units, in order, each with the passages that contain it completely.

    A sentence without such a passage is left out: its passage was removed as a near-duplicate, or cuts it in two.

    Source: OR-CONVQA paper, section 4.2, the comparison with propositions.
    """
    by_document = grouped(passages, lambda passage: passage.document_id)
    units: list[Unit] = []
    for document in documents:
        spans = [(*_span(passage), passage.passage.passage_id) for passage in by_document.get(document.document_id, [])]
        for start, end in sentence_spans(document.text):
            ids = tuple(name for first, last, name in spans if first <= start and end <= last)
            if ids:
                text = " ".join(document.text[start:end].split())
                units.append(Unit(f"s{len(units) + 1}", text, ids, document.document_id, document.domain))
    return units


def whole_passages(passages: Sequence[DocumentPassage]) -> list[Unit]:
    """Return each passage as a unit, its text on one line; MTRAG-S's conversations were written from passages."""
    return [
        Unit(
            f"u{number}",
            " ".join(passage.passage.text.split()),
            (passage.passage.passage_id,),
            passage.document_id,
            passage.domain,
        )
        for number, passage in enumerate(passages, start=1)
    ]


def _span(passage: DocumentPassage) -> tuple[int, int]:
    """Return the offsets at the end of a passage's id."""
    start, end = passage.passage.passage_id.rsplit("-", 2)[-2:]
    return int(start), int(end)
