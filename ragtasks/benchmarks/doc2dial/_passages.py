"""Retrieval units of the Doc2Dial documents, and which of them hold the grounding of an answer.

The two segmentations are the official ones, number by number, so that scores compare: `token` cuts every 100
blank-separated words, `structure` joins the spans of a section behind its titles. Passages are numbered over all
documents in the order of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from ragtasks.benchmarks.doc2dial._documents import Document, Span
from ragtasks.records import Passage

STRUCTURE = "structure"
"""Passages of one section each."""
TOKEN = "token"
"""Passages of 100 words each."""

_N_WORDS = 100
_CUT_AT_ENDS = 3
_BLANKS = str.maketrans("", "", " \n\t\r")
_TO_BLANK = str.maketrans(dict.fromkeys("\n\r\t", " "))


def cut(documents: Iterable[Document], unit: str) -> dict[str, tuple[Passage, ...]]:
    """Return document id -> its passages, in order.

    Args:
        documents: all documents, in the order of the file: the numbers in the ids run over all of them.
        unit: `structure` or `token`.
    """
    texts = {document.document_id: _TEXTS[unit](document) for document in documents}
    titles = {document.document_id: document.title for document in documents}
    numbers = iter(range(sum(map(len, texts.values()))))
    return {
        document_id: tuple(Passage(f"{unit}-{next(numbers)}", text, titles[document_id]) for text in own)
        for document_id, own in texts.items()
    }


def _token_texts(document: Document) -> list[str]:
    words = document.text.split(" ")
    pieces = [" ".join(words[start : start + _N_WORDS]) for start in range(0, len(words), _N_WORDS)]
    return [_one_line(piece) for piece in pieces if piece.strip()]


def _structure_texts(document: Document) -> list[str]:
    return [_section_text(document, spans) for spans in _sections(document.spans.values())]


def _sections(spans: Iterable[Span]) -> Iterator[list[Span]]:
    """Yield runs of neighbouring spans of one section or one title."""
    ordered = list(spans)
    group = ordered[:1]
    for before, span in pairwise(ordered):
        if before.section_id == span.section_id or before.title.strip() == span.title.strip():
            group.append(span)
        else:
            yield group
            group = [span]
    if group:
        yield group


def _section_text(document: Document, spans: Sequence[Span]) -> str:
    """Return the titles above a section's last span (the document's where there is one at most), then its spans."""
    above = spans[-1].parent_titles
    titles = above if len(above) > 1 else (document.title,)
    # The official passages lose what follows a `#`, and slashes separate titles only.
    shown = [title.replace("/", "-").split("#")[0] for title in titles]
    return _one_line(f"{' / '.join(shown)} // {' '.join(span.text for span in spans)}")


_TEXTS = {STRUCTURE: _structure_texts, TOKEN: _token_texts}


def _one_line(text: str) -> str:
    return text.translate(_TO_BLANK).strip()


def gold_passages(grounding: str, passages: Sequence[Passage]) -> tuple[Passage, ...]:
    """Return the passages of the grounded document that hold an answer's grounding.

    The first passage that holds it alone; else the run of neighbours that holds it and begins latest, as short as it
    can be; else none. A passage holds it as it is, or without blanks and case and three characters at either end.

    Known difference: the official script takes a grounding of at most six characters for one that any passage holds;
    here it must occur as it is.

    Source: `scripts/data_preprocessor.py` of IBM/multidoc2dial at 1f0ab09.
    """
    for passage in passages:
        if _holds(passage.text, grounding):
            return (passage,)
    for start in reversed(range(len(passages))):
        for end in range(start + 2, len(passages) + 1):
            if _holds("".join(passage.text for passage in passages[start:end]), grounding):
                return tuple(passages[start:end])
    return ()


def _holds(text: str, grounding: str) -> bool:
    core = grounding.lower().translate(_BLANKS)[_CUT_AT_ENDS:-_CUT_AT_ENDS]
    return grounding in text or (bool(core) and core in text.lower().translate(_BLANKS))


def proposition_passages(columns: Mapping[str, Sequence[str]]) -> Iterator[Passage]:
    """Yield the propositions of the released file in its order, numbered by row; a text that stands again is kept.

    Args:
        columns: the parallel lists `Propositions` and `Document_names`.
    """
    rows = zip(columns["Propositions"], columns["Document_names"], strict=True)
    for number, (text, name) in enumerate(rows):
        yield Passage(f"proposition-{number}", text, name)


__all__ = ["STRUCTURE", "TOKEN", "cut", "gold_passages", "proposition_passages"]
