"""Artificial scored answers and evaluations for tests of tables."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from ragtasks.records import Answerability, Message, Passage, Response, Role, Task
from ragtasks.results import Evaluation, Kind, ScoredAnswer
from ragtasks.tables import Table, Value

KIND: Kind = ("mtrag", "minilm", "ngrams-2")
_NUMBERS = itertools.count()
_OF_TASK = {item.name for item in fields(Task)}


def row(number: int, value: float | None, **changes: Any) -> ScoredAnswer:
    """Return an answer in its own conversation, with the given rb_alg and a rouge_l of 0.25."""
    task = Task(
        f"c{number}<::>{number}",
        f"c{number}",
        number,
        "govt",
        messages=(Message(Role.USER, "which"),),
        target="",
        answerability=Answerability.ANSWERABLE,
        question_types=("Factoid",),
        multi_turn="N/A" if number == 1 else "Follow-up",
    )
    response = Response(task, (), f"answer {next(_NUMBERS)}")  # no two are the same
    result = ScoredAnswer(response, "reference", {"rb_alg": value, "rouge_l": 0.25}, idk="no")
    return changed(result, **{"n_passages": 1, "n_references": 1, "n_found": 1} | changes)


def changed(answer: ScoredAnswer, **changes: Any) -> ScoredAnswer:
    """Return an answer with changed fields of the answer or of its task.

    `values` are the scores, `verdicts` are (rubric, judge) -> value, `turn_error` is a kind, and `again` are the scores
    of further judgings. `n_found` of the `n_passages` passages are among the `n_references` reference passages.
    """
    counts = {"n_passages": len(answer.response.passages), "n_references": len(answer.references)}
    counts |= {"n_found": answer.n_found}
    counts |= {name: changes.pop(name) for name in counts if name in changes}
    counts["n_found"] = min(counts["n_found"], counts["n_passages"])
    references = tuple(Passage(f"reference {number}", "") for number in range(counts["n_references"]))
    n_others = counts["n_passages"] - counts["n_found"]
    passages = (*references[: counts["n_found"]], *(Passage(f"other {number}", "") for number in range(n_others)))
    of_task = {name: changes.pop(name) for name in _OF_TASK & changes.keys()}
    if "answerability" in of_task:
        of_task["answerability"] = Answerability(of_task["answerability"])
    task = replace(answer.task, references=references, **of_task)
    response = replace(answer.response, task=task, passages=passages, text=changes.pop("text", answer.response.text))
    if "values" in changes:
        changes["scores"] = changes.pop("values")
    if "verdicts" in changes:
        given = changes["verdicts"].items()
        changes["verdicts"] = tuple(
            {"rubric": rubric, "judge": judge, "value": value} for (rubric, judge), value in given
        )
    if "again" in changes:
        changes["repeats"] = tuple({"values": values} for values in changes.pop("again"))
    if isinstance(kind := changes.get("turn_error"), str):
        changes["turn_error"] = {"kind": kind} if kind else {}
    return replace(answer, response=response, **changes)


def evaluation(
    rows: Sequence[ScoredAnswer], model: str = "m", kind: Kind = KIND, *, suite: str = "mtrag", revision: str = ""
) -> Evaluation:
    """Return an evaluation of some answers."""
    provenance = {"mtrag_reference": {"revision": revision}} if revision else {}
    samples = {"mtrag_reference": Path("samples.jsonl")}
    return Evaluation(model, kind, tuple(rows), suite, provenance, Path("results.json"), samples)


def without_intervals(table: Table) -> Table:
    """Return a table whose scores are means without intervals."""
    rows = (
        tuple(replace(cell, low=None, high=None) if isinstance(cell, Value) else cell for cell in row)
        for row in table.rows
    )
    return replace(table, rows=tuple(rows))
