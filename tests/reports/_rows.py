"""Rows and evaluations made by hand, for tests of tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragtasks.results import Evaluation, Kind, Row

KIND: Kind = ("mtrag", "minilm", "ngrams-1")


def row(number: int, value: float | None, **changes: Any) -> Row:
    """Return a row of a conversation of its own, whose rb_alg is a value and whose rouge_l is 0.25."""
    fields: dict[str, Any] = {
        "task_id": f"c{number}<::>{number}",
        "conversation_id": f"c{number}",
        "turn": number,
        "domain": "govt",
        "setting": "reference",
        "answerability": "ANSWERABLE",
        "question_types": ("Factoid",),
        "multi_turn": "N/A" if number == 1 else "Follow-up",
        "n_passages": 1,
        "n_references": 1,
        "n_found": 1,
        "idk": "no",
        "values": {"rb_alg": value, "rouge_l": 0.25},
        "unscored": {},
        "verdicts": {},
    }
    return Row(**fields | changes)


def evaluation(
    rows: Sequence[Row], model: str = "m", kind: Kind = KIND, *, suite: str = "mtrag", revision: str = ""
) -> Evaluation:
    """Return an evaluation of some rows."""
    provenance = {"mtrag_reference": {"revision": revision}} if revision else {}
    samples = {"mtrag_reference": Path("samples.jsonl")}
    return Evaluation(model, kind, tuple(rows), suite, provenance, Path("results.json"), samples)
