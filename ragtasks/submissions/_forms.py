"""What a file of JSON lines is, told by its first object: a submission of a track, a corpus, answers of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from ragtasks.files import first_row, parse_json


class FileForm(str, Enum):
    """The forms that a file of JSON lines may have."""

    TASK_A = "MTRAGEval, task A"
    TASK_B = "MTRAGEval, task B"
    TASK_C = "MTRAGEval, task C"
    TREC_2024 = "TREC RAG 2024"
    TREC_2025 = "TREC RAG 2025"
    IKAT_2023 = "TREC iKAT 2023"
    IKAT_2024 = "TREC iKAT 2024"
    IKAT_2025 = "TREC iKAT 2025"
    CORPUS = "a corpus"
    ANSWERS = "answers to score"


_PASSAGE_IDS = ("_id", "id", "docid", "passage_id")
_PASSAGE_TEXTS = ("text", "segment", "contents")


def form_of_file(path: Path) -> FileForm | None:
    """Return the form of a file by its first object; None where it can be none, or cannot be read.

    Task B and C of MTRAGEval share their fields but `Collection`, which only A and C must have.
    """
    row = first_object(path)
    keys = row.keys()
    metadata, has_sentences = row.get("metadata"), isinstance(row.get("answer"), list)
    if isinstance(metadata, dict) and (has_sentences or "narrative_id" in metadata):
        return FileForm.TREC_2025
    if "topic_id" in keys or ("references" in keys and has_sentences):
        return FileForm.TREC_2024 if "answer" in keys else None
    if "task_id" in keys and ("contexts" in keys or "Collection" in keys):
        if "predictions" in keys:
            return FileForm.TASK_C if "Collection" in keys else FileForm.TASK_B
        if "answer" not in keys:
            return FileForm.TASK_A
    if keys & {"id", "task_id"} and ("answer" in keys or "predictions" in keys):
        return FileForm.ANSWERS
    is_passage = keys & set(_PASSAGE_IDS) and keys & set(_PASSAGE_TEXTS)
    return FileForm.CORPUS if is_passage else _form_of_run(path, row)


def _form_of_run(path: Path, row: Mapping[str, Any]) -> FileForm | None:
    """Return the year of a run of TREC iKAT; the topics of 2023 alone have numbers such as `9-1`."""
    if "turn_id" in row and "responses" in row:
        return FileForm.IKAT_2025
    if not row and path.suffix == ".json":  # one object over many lines
        try:
            row = _object(path.read_bytes())
        except OSError:
            return None
    turns = row.get("turns")
    if "run_name" not in row or not isinstance(turns, list):
        return None
    first = turns[0] if turns and isinstance(turns[0], dict) else {}
    return FileForm.IKAT_2023 if "-" in str(first.get("turn_id")) else FileForm.IKAT_2024


def first_object(path: Path) -> Mapping[str, Any]:
    """Return the first object of a file in any container; an empty one where none is."""
    return first_row(path)


def _object(content: bytes) -> dict[str, Any]:
    try:
        row = parse_json(content)
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}
