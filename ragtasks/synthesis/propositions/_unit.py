"""A unit of knowledge, whichever way it came about, and the lists that dialogues are written from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragtasks.synthesis.documents import Document, DocumentPassage
from retrieval_cache.corpora import sentence_spans


@dataclass(frozen=True, slots=True)
class Unit:
    """One proposition or sentence."""

    unit_id: str
    """`p` or `s` and its number, from 1."""
    text: str
    """What it says."""
    passage_ids: tuple[str, ...]
    """Passages that it was taken from; of overlapping ones each that gave it."""
    document_id: str
    """The document of the first of them."""
    domain: str
    """The corpus that it belongs to."""


def sublists(units: Sequence[Unit], size: int) -> Iterator[tuple[Unit, ...]]:
    """Yield lists of neighbouring units, `size` at most and each of one domain; every unit stands in one of them.

    Source: OR-CONVQA paper, section 3.2: units of one document stay together, and a list may hold several documents'.
    """
    for domain in dict.fromkeys(unit.domain for unit in units):
        own = [unit for unit in units if unit.domain == domain]
        for start in range(0, len(own), size):
            yield tuple(own[start : start + size])


def cut_sentences(documents: Sequence[Document], passages: Sequence[DocumentPassage]) -> list[Unit]:
    """Return the sentences of documents as units, in order, each with the passages that hold all of it.

    A sentence that no passage holds (its passages were near-duplicates, or it was cut in two) is left out.

    Source: OR-CONVQA paper, section 4.2, the comparison with propositions.
    """
    by_document: dict[str, list[DocumentPassage]] = {}
    for passage in passages:
        by_document.setdefault(passage.document_id, []).append(passage)
    units: list[Unit] = []
    for document in documents:
        held = [(*_span(item), item.passage.passage_id) for item in by_document.get(document.document_id, [])]
        for start, end in sentence_spans(document.text):
            ids = tuple(name for first, last, name in held if first <= start and end <= last)
            if ids:
                text = " ".join(document.text[start:end].split())
                units.append(Unit(f"s{len(units) + 1}", text, ids, document.document_id, document.domain))
    return units


def whole_passages(passages: Sequence[DocumentPassage]) -> list[Unit]:
    """Return each passage as a unit, its text on one line, as MTRAG-S's conversations were written from passages."""
    return [
        Unit(f"u{number}", " ".join(one.passage.text.split()), (one.passage.passage_id,), one.document_id, one.domain)
        for number, one in enumerate(passages, start=1)
    ]


def _span(item: DocumentPassage) -> tuple[int, int]:
    """Return the offsets that stand at the end of a passage's id."""
    start, end = item.passage.passage_id.rsplit("-", 2)[-2:]
    return int(start), int(end)


__all__ = ["Unit", "cut_sentences", "sublists", "whole_passages"]
