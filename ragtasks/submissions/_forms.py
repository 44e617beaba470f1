"""Detection of the form of a file: rows, answers, a submission, a corpus, a ranking, results."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from ragtasks.files import first_row, has_candidates, queries_in, trec_form


class FileForm(str, Enum):
    """The forms of files."""

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
    ROWS = "rows of your own"
    RUN = "a run"
    QRELS = "relevance judgements"
    RESULTS = "results"


_PASSAGE_IDS = frozenset({"_id", "id", "docid", "passage_id"})
_PASSAGE_TEXTS = frozenset({"text", "segment", "contents"})
_RESULTS_KEYS = frozenset({"results", "configs"})
_QRELS_KEYS = frozenset({"query-id", "corpus-id", "score"})
_MAY_BE_ROWS = (None, FileForm.ANSWERS, FileForm.RUN, FileForm.QRELS, FileForm.TREC_2024, FileForm.TREC_2025)
"""Forms whose keys may also occur in users' own rows."""
_TREC_FORMS = {"run": FileForm.RUN, "qrels": FileForm.QRELS, None: None}


def form_of_file(path: Path) -> FileForm | None:
    """Return the form of a file, detected from its first object or lines; None if it is unknown or unreadable.

    Tasks B and C of MTRAGEval have the same fields except `Collection`, which only A and C require.
    """
    from ragtasks.results import is_own_row

    row = first_row(path)
    form = _form_of_submission(row) or _form_of_run(row) or _form_of_data(row) or _TREC_FORMS[trec_form(path)]
    return FileForm.ROWS if form in _MAY_BE_ROWS and not has_candidates(row) and is_own_row(row) else form


def _form_of_submission(row: Mapping[str, Any]) -> FileForm | None:
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
    return FileForm.ANSWERS if keys & {"id", "task_id"} and keys & {"answer", "predictions"} else None


def _form_of_run(row: Mapping[str, Any]) -> FileForm | None:
    """Return the year of a TREC iKAT run. Only the topics of 2023 have numbers such as `9-1`."""
    if "turn_id" in row and "responses" in row:
        return FileForm.IKAT_2025
    turns = row.get("turns")
    if "run_name" not in row or not isinstance(turns, list):
        return None
    first = turns[0] if turns and isinstance(turns[0], dict) else {}
    return FileForm.IKAT_2023 if "-" in str(first.get("turn_id")) else FileForm.IKAT_2024


def _form_of_data(row: Mapping[str, Any]) -> FileForm | None:
    """Return the form of results, a corpus, rankings or judgements.

    Rankings and judgements may be a single JSON object of queries.
    """
    keys = row.keys()
    forms = {
        FileForm.RESULTS: keys >= _RESULTS_KEYS,
        FileForm.CORPUS: keys & _PASSAGE_IDS and keys & _PASSAGE_TEXTS,
        FileForm.RUN: has_candidates(row) and "query" in keys,
        FileForm.QRELS: keys >= _QRELS_KEYS,
    }
    if matching_form := next((form for form, fits in forms.items() if fits), None):
        return matching_form
    queries = queries_in(row).values()
    scores = [
        score for passage_scores in queries if isinstance(passage_scores, dict) for score in passage_scores.values()
    ]
    if not scores or not all(isinstance(passage_scores, dict) for passage_scores in queries):
        return None
    if all(isinstance(score, int) for score in scores):
        return FileForm.QRELS
    return FileForm.RUN if all(isinstance(score, int | float) for score in scores) else None
