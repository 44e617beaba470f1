"""The files of MultiDoc2Dial and Doc2Dial: found unpacked or in the official zip, read whole.

A file is one JSON object, so an error names the document or dialogue instead of a line.
"""

from __future__ import annotations

import logging
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from ragtasks.errors import BenchmarkFileError, clear_error
from ragtasks.files import Problems, parse_json
from ragtasks.records import Passage

DOMAINS = ("dmv", "ssa", "studentaid", "va")
"""The four domains of both data sets."""
EXTRA_DOMAINS = ("cdccovid",)
"""Domains of further files of MultiDoc2Dial: its unseen dialogues, whose documents the release may lack."""

_FOLDERS = ("", "multidoc2dial", "doc2dial/v1.0.1", "doc2dial", "data")
NEXT_STEP = "unpack the official zip again"
"""Where a file is not what the format says."""


def read_json(root: Path, name: str) -> tuple[Any, Path]:
    """Return the parsed file of a name below `root` and where it was found: unpacked, or in a zip of `root`."""
    path = next((root / folder / name for folder in _FOLDERS if (root / folder / name).is_file()), None)
    try:
        if path is not None:
            return parse_json(path.read_bytes()), path
        for archive in sorted(root.glob("*.zip")):
            with zipfile.ZipFile(archive) as opened:
                member = next((item for item in opened.namelist() if item.rpartition("/")[2] == name), None)
                if member is not None:
                    path = archive / member
                    return parse_json(opened.read(member)), path
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise _unreadable(path or root, "JSON, or a zip with it", str(error)) from error
    raise _unreadable(root / name, "the file, unpacked or in the official zip", "no such file")


def _unreadable(path: Path, expected: str, found: str) -> BenchmarkFileError:
    step = "run `ragtasks data fetch multidoc2dial`, or put the official zip there"
    return BenchmarkFileError(
        clear_error("Doc2Dial data", where=str(path), expected=expected, found=found, next_step=step)
    )


def by_domain(content: Any, key: str, kind: type, problems: Problems) -> Iterator[tuple[str, Any]]:
    """Yield (domain, what it holds) of a file, after noting what has no such shape."""
    domains = content.get(key) if isinstance(content, dict) else None
    if not isinstance(domains, dict) or not domains:
        problems.add(0, f"an object with `{key}` by domain", domains)
        return
    for domain, inner in domains.items():
        if domain in {*DOMAINS, *EXTRA_DOMAINS} and isinstance(inner, kind):
            yield domain, inner
        else:
            all_domains = ", ".join((*DOMAINS, *EXTRA_DOMAINS))
            problems.add(0, f"`{key}` with one of {all_domains} and a {kind.__name__}", domain)


# Dialogues of MultiDoc2Dial and Doc2Dial over their documents, checked and made records.

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Turn:
    """One utterance of a dialogue."""

    turn_id: int
    """Number in the dialogue, from 1, as in the file."""
    role: str
    """`user` or `agent`."""
    act: str
    """Dialogue act, such as `query_condition`."""
    text: str
    """What is said."""
    references: tuple[tuple[str, str], ...]
    """(document id, span id) of what it rests on; may be empty."""


@dataclass(frozen=True, slots=True)
class Dialogue:
    """One dialogue."""

    dialogue_id: str
    domain: str
    turns: tuple[Turn, ...]
    """Utterances in their order; a speaker may have several in a row."""


def read_dialogues(root: Path, name: str, documents: Mapping[str, Document]) -> tuple[Dialogue, ...]:
    """Return the dialogues of a split, in the order of the file.

    A blank utterance says nothing and is left out, as is a dialogue of `EXTRA_DOMAINS` over documents that are not
    there; a warning says how many.
    """
    content, path = read_json(root, name)
    problems = Problems(path, "Doc2Dial dialogues", NEXT_STEP)
    dialogues: dict[str, Dialogue] = {}
    n_left_out: Counter[str] = Counter()
    for domain, document_id, row in _dialogue_rows(content, name.startswith("doc2dial"), problems):
        if domain in EXTRA_DOMAINS and not _named_documents(row) <= documents.keys():
            n_left_out[f"dialogues of {domain} over documents that are not there"] += 1
            continue
        spoken, n_blank = _without_blank(row)
        n_left_out["blank utterances"] += n_blank
        dialogue = _dialogue(domain, document_id, spoken, documents, problems)
        if dialogue is not None and dialogues.setdefault(dialogue.dialogue_id, dialogue) is not dialogue:
            problems.add(0, "each dialogue once", "this dialogue again", dialogue.dialogue_id)
    counts = ", ".join(f"{n} {what}" for what, n in n_left_out.items() if n)
    if not dialogues and not len(problems):
        problems.add(0, "at least one dialogue", f"no dialogue ({counts} left out)" if counts else "no dialogue")
    problems.raise_if_any()
    if counts:
        _LOGGER.warning("%s: left out: %s", path, counts)
    return tuple(dialogues.values())


def _without_blank(row: Any) -> tuple[Any, int]:
    """Return a dialogue without the turns whose utterance is blank, and how many these are; anything else as it is."""
    turns = row.get("turns") if isinstance(row, dict) else None
    if not isinstance(turns, list):
        return row, 0
    present = [turn for turn in turns if not _is_blank(turn)]
    return {**row, "turns": present}, len(turns) - len(present)


def _is_blank(turn: Any) -> bool:
    utterance = turn.get("utterance") if isinstance(turn, dict) else None
    return isinstance(utterance, str) and not utterance.strip()


def _named_documents(row: Any) -> set[str]:
    """Return the documents that a dialogue refers to, as far as it has the shape of one."""
    turns = row.get("turns") if isinstance(row, dict) else None
    references = [
        reference
        for turn in (turns if isinstance(turns, list) else ())
        if isinstance(turn, dict) and isinstance(turn.get("references"), list)
        for reference in turn["references"]
    ]
    return {str(item["doc_id"]) for item in references if isinstance(item, dict) and "doc_id" in item}


def _dialogue_rows(content: Any, is_by_document: bool, problems: Problems) -> Iterator[tuple[str, str, Any]]:
    """Yield (domain, document id or "", dialogue)."""
    if not is_by_document:
        for domain, rows in by_domain(content, "dial_data", list, problems):
            yield from ((domain, "", row) for row in rows)
        return
    for domain, by_document in by_domain(content, "dial_data", dict, problems):
        for document_id, rows in by_document.items():
            yield from ((domain, document_id, row) for row in (rows if isinstance(rows, list) else [rows]))


def _dialogue(
    domain: str, document_id: str, row: Any, documents: Mapping[str, Document], problems: Problems
) -> Dialogue | None:
    dialogue_id = row.get("dial_id") if isinstance(row, dict) else None
    rows = row.get("turns") if isinstance(row, dict) else None
    if not isinstance(dialogue_id, str) or not dialogue_id or not isinstance(rows, list) or not rows:
        problems.add(0, "a dialogue with `dial_id` and `turns`", row)
        return None
    turns = [_turn(item, document_id) for item in rows]
    for number, turn in enumerate(turns, start=1):
        if turn is None:
            expected = "`turn_id`, `role` user or agent, `da`, `utterance` and `references`"
            problems.add(0, f"turn {number} with {expected}", rows[number - 1], dialogue_id)
            continue
        for name, span_id in turn.references:
            if name not in documents or span_id not in documents[name].spans:
                problems.add(0, "references to spans of the documents", (name, span_id), dialogue_id)
    return Dialogue(dialogue_id, domain, tuple(turn for turn in turns if turn))


def _turn(row: Any, document_id: str) -> Turn | None:
    row = row if isinstance(row, dict) else {}
    turn_id, role, act, text = (row.get(key) for key in ("turn_id", "role", "da", "utterance"))
    references = row.get("references")
    if not isinstance(turn_id, int) or role not in ("user", "agent") or not isinstance(act, str):
        return None
    if not isinstance(text, str) or not text.strip() or not isinstance(references, list):
        return None
    found = [_reference(item, document_id) for item in references]
    if not all(found):
        return None
    return Turn(turn_id, role, act, text, tuple(item for item in found if item))


def _reference(row: Any, document_id: str) -> tuple[str, str] | None:
    """Return (document id, span id); MultiDoc2Dial calls the latter `id_sp`, Doc2Dial `sp_id` and has one document."""
    row = row if isinstance(row, dict) else {}
    span_id, name = row.get("id_sp", row.get("sp_id")), row.get("doc_id", document_id)
    return (name, span_id) if isinstance(span_id, str) and isinstance(name, str) and name else None


# Documents of MultiDoc2Dial and Doc2Dial with their marked spans, checked and made records.


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
    title: str
    text: str
    """Whole text; spans point into it."""
    spans: Mapping[str, Span]
    """Span id -> span, in the order of the file."""


def read_documents(root: Path, name: str) -> dict[str, Document]:
    """Return document id -> document, in the order of the file."""
    content, path = read_json(root, name)
    problems = Problems(path, "Doc2Dial documents", NEXT_STEP)
    documents: dict[str, Document] = {}
    for domain, by_id in by_domain(content, "doc_data", dict, problems):
        for document_id, row in by_id.items():
            document = _document(document_id, domain, row, problems)
            if document is not None and documents.setdefault(document_id, document) is not document:
                problems.add(0, "each document once", "this document again", document_id)
    problems.raise_if_any()
    return documents


def _document(document_id: str, domain: str, row: Any, problems: Problems) -> Document | None:
    row = row if isinstance(row, dict) else {}
    title, text, spans = row.get("title"), row.get("doc_text"), row.get("spans")
    if not isinstance(title, str) or not isinstance(text, str) or not text.strip() or not isinstance(spans, dict):
        problems.add(0, "`title`, `doc_text` and `spans`", sorted(row), document_id)
        return None
    found = {span_id: _span(item, len(text)) for span_id, item in spans.items()}
    for span_id, span in found.items():
        if span is None:
            problems.add(0, f"span {span_id} with texts, and offsets into `doc_text`", spans[span_id], document_id)
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


# Retrieval units of the Doc2Dial documents, and which of them hold the grounding of an answer.
# The two segmentations are the official ones, number by number, so that scores compare: `token` cuts every 100
# blank-separated words, `structure` joins the spans of a section behind its titles. Passages are numbered over all
# documents in the order of the file.

STRUCTURE = "structure"
"""Passages of one section each."""
TOKEN = "token"
"""Passages of 100 words each."""

_N_WORDS = 100
_CUT_AT_ENDS = 3
_BLANKS = str.maketrans("", "", " \n\t\r")
_TO_BLANK = str.maketrans(dict.fromkeys("\n\r\t", " "))


def cut(documents: Iterable[Document], unit: str) -> dict[str, tuple[Passage, ...]]:
    """Return document id -> its passages, in order."""
    texts = {document.document_id: _TEXTS[unit](document) for document in documents}
    titles = {document.document_id: document.title for document in documents}
    numbers = iter(range(sum(map(len, texts.values()))))
    return {
        document_id: tuple(Passage(f"{unit}-{next(numbers)}", text, titles[document_id]) for text in document_text)
        for document_id, document_text in texts.items()
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
    headings = [title.replace("/", "-").split("#")[0] for title in titles]
    return _one_line(f"{' / '.join(headings)} // {' '.join(span.text for span in spans)}")


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
    """Yield the propositions of the released file in its order, numbered by row; a text that stands again is kept."""
    rows = zip(columns["Propositions"], columns["Document_names"], strict=True)
    for number, (text, name) in enumerate(rows):
        yield Passage(f"proposition-{number}", text, name)
