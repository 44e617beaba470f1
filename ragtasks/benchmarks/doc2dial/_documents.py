"""Documents of MultiDoc2Dial and Doc2Dial with their marked spans, checked and made records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtasks.benchmarks.doc2dial._files import NEXT_STEP, by_domain, read_json
from ragtasks.files import Violations


@dataclass(frozen=True, slots=True)
class Span:
    """A marked piece of a document; dialogues are grounded in these."""

    start: int
    """Offset of its first character in the document's text."""
    end: int
    """Offset behind its last character."""
    text: str
    """Its text, as the file has it beside the offsets."""
    section_id: str
    """The section that it is part of."""
    title: str
    """Title that it stands under."""
    parent_titles: tuple[str, ...]
    """Titles above it, outermost first; empty where the file names none."""


@dataclass(frozen=True, slots=True)
class Document:
    """One page of a public service."""

    document_id: str
    """Id, which may hold `#`, blanks and digits: a text that is never taken apart."""
    domain: str
    """One of `DOMAINS`."""
    title: str
    """Title."""
    text: str
    """Whole text; spans point into it."""
    spans: Mapping[str, Span]
    """Span id -> span, in the order of the file."""


def read_documents(root: Path, name: str) -> dict[str, Document]:
    """Return document id -> document, in the order of the file.

    Raises:
        BenchmarkFileError: the file is missing, or a document is not what the format says.
    """
    content, path = read_json(root, name)
    violations = Violations(path, "Doc2Dial documents", NEXT_STEP)
    documents: dict[str, Document] = {}
    for domain, by_id in by_domain(content, "doc_data", dict, violations):
        for document_id, row in by_id.items():
            document = _document(document_id, domain, row, violations)
            if document is not None and documents.setdefault(document_id, document) is not document:
                violations.add(0, "each document once", "this document again", document_id)
    violations.raise_if_any()
    return documents


def _document(document_id: str, domain: str, row: Any, violations: Violations) -> Document | None:
    row = row if isinstance(row, dict) else {}
    title, text, spans = row.get("title"), row.get("doc_text"), row.get("spans")
    if not isinstance(title, str) or not isinstance(text, str) or not text.strip() or not isinstance(spans, dict):
        violations.add(0, "`title`, `doc_text` and `spans`", sorted(row), document_id)
        return None
    found = {span_id: _span(item, len(text)) for span_id, item in spans.items()}
    for span_id, span in found.items():
        if span is None:
            violations.add(0, f"span {span_id} with texts, and offsets into `doc_text`", spans[span_id], document_id)
    return Document(document_id, domain, title, text, {key: span for key, span in found.items() if span})


def _span(row: Any, n_characters: int) -> Span | None:
    row = row if isinstance(row, dict) else {}
    start, end = row.get("start_sp"), row.get("end_sp")
    texts = [row.get(key) for key in ("text_sp", "id_sec", "title")]
    above = row.get("parent_titles")
    if not (isinstance(start, int) and isinstance(end, int) and 0 <= start <= end <= n_characters):
        return None
    if not isinstance(above, list):
        return None
    titles = [item.get("text") if isinstance(item, dict) else None for item in above]
    if not all(isinstance(text, str) for text in (*texts, *titles)):
        return None
    return Span(start, end, texts[0], texts[1], texts[2], tuple(titles))  # type: ignore[arg-type] # checked above


__all__ = ["Document", "Span", "read_documents"]
