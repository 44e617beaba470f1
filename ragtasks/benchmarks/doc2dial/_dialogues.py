"""Dialogues of MultiDoc2Dial and Doc2Dial over their documents, checked and made records."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtasks.benchmarks.doc2dial._documents import Document
from ragtasks.benchmarks.doc2dial._files import EXTRA_DOMAINS, NEXT_STEP, by_domain, read_json
from ragtasks.files import Violations

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
    """Id."""
    domain: str
    """One of `DOMAINS`."""
    turns: tuple[Turn, ...]
    """Utterances in their order; a speaker may have several in a row."""


def read_dialogues(root: Path, name: str, documents: Mapping[str, Document]) -> tuple[Dialogue, ...]:
    """Return the dialogues of a split, in the order of the file.

    A blank utterance says nothing and is left out, as is a dialogue of `EXTRA_DOMAINS` over documents that are not
    there; a warning says how many.

    Args:
        root: folder of the files.
        name: file; `multidoc2dial_*` lists dialogues by domain, `doc2dial_*` by domain and document.
        documents: what references must point into.

    Raises:
        BenchmarkFileError: the file is missing or has no dialogue, a dialogue is not what the format says (the test
            file of some releases is a dummy without utterances), or it refers to a document or span that is not there.
    """
    content, path = read_json(root, name)
    violations = Violations(path, "Doc2Dial dialogues", NEXT_STEP)
    dialogues: dict[str, Dialogue] = {}
    n_left_out: Counter[str] = Counter()
    for domain, document_id, row in _dialogue_rows(content, name.startswith("doc2dial"), violations):
        if domain in EXTRA_DOMAINS and not _named_documents(row) <= documents.keys():
            n_left_out[f"dialogues of {domain} over documents that are not there"] += 1
            continue
        spoken, n_blank = _without_blank(row)
        n_left_out["blank utterances"] += n_blank
        dialogue = _dialogue(domain, document_id, spoken, documents, violations)
        if dialogue is not None and dialogues.setdefault(dialogue.dialogue_id, dialogue) is not dialogue:
            violations.add(0, "each dialogue once", "this dialogue again", dialogue.dialogue_id)
    said = ", ".join(f"{n} {what}" for what, n in n_left_out.items() if n)
    if not dialogues and not len(violations):
        violations.add(0, "at least one dialogue", f"no dialogue ({said} left out)" if said else "no dialogue")
    violations.raise_if_any()
    if said:
        _LOGGER.warning("%s: left out: %s", path, said)
    return tuple(dialogues.values())


def _without_blank(row: Any) -> tuple[Any, int]:
    """Return a dialogue without the turns whose utterance is blank, and how many these are; anything else as it is."""
    turns = row.get("turns") if isinstance(row, dict) else None
    if not isinstance(turns, list):
        return row, 0
    kept = [turn for turn in turns if not _is_blank(turn)]
    return {**row, "turns": kept}, len(turns) - len(kept)


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


def _dialogue_rows(content: Any, is_by_document: bool, violations: Violations) -> Iterator[tuple[str, str, Any]]:
    """Yield (domain, document id or "", dialogue)."""
    if not is_by_document:
        for domain, rows in by_domain(content, "dial_data", list, violations):
            yield from ((domain, "", row) for row in rows)
        return
    for domain, by_document in by_domain(content, "dial_data", dict, violations):
        for document_id, rows in by_document.items():
            yield from ((domain, document_id, row) for row in (rows if isinstance(rows, list) else [rows]))


def _dialogue(
    domain: str, document_id: str, row: Any, documents: Mapping[str, Document], violations: Violations
) -> Dialogue | None:
    dialogue_id = row.get("dial_id") if isinstance(row, dict) else None
    rows = row.get("turns") if isinstance(row, dict) else None
    if not isinstance(dialogue_id, str) or not dialogue_id or not isinstance(rows, list) or not rows:
        violations.add(0, "a dialogue with `dial_id` and `turns`", row)
        return None
    turns = [_turn(item, document_id) for item in rows]
    for number, turn in enumerate(turns, start=1):
        if turn is None:
            expected = "`turn_id`, `role` user or agent, `da`, `utterance` and `references`"
            violations.add(0, f"turn {number} with {expected}", rows[number - 1], dialogue_id)
            continue
        for name, span_id in turn.references:
            if name not in documents or span_id not in documents[name].spans:
                violations.add(0, "references to spans of the documents", (name, span_id), dialogue_id)
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


__all__ = ["Dialogue", "Turn", "read_dialogues"]
