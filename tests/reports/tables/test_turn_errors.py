"""Turn error tables: shares by model and dimension, examples, and no table without examined turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ragtasks.reports.comparison import compare_evaluations
from ragtasks.reports.tables import report_sections
from ragtasks.reports.tables._turn_errors import TITLE, turn_error_tables
from ragtasks.results import Evaluation, read_evaluations
from ragtasks.tables import Value
from tests.reports._saved import save

TASKS = tuple((conversation, turn) for conversation in "abcdefghijkl" for turn in (1, 2))


def evaluations(folder: Path, *wrong_turns: int) -> list[Evaluation]:
    """Save one model per number: its first turns have an error, and the others do not."""
    for day, wrong in enumerate(wrong_turns, start=1):

        def note(sample: dict[str, Any], wrong: int = wrong) -> None:
            doc = sample["doc"]
            is_wrong = doc["turn"] == wrong
            doc["scoring"]["turn_error"] = {"kind": "invented", "reason": "words"} if is_wrong else {}

        save(folder, f"model{wrong}", day=day, change_sample=note, tasks=TASKS)
    return read_evaluations([folder])


def test_shares_are_by_model_and_dimension_with_examples(tmp_path: Path) -> None:
    complete, *parts = turn_error_tables(evaluations(tmp_path, 2, 0))
    assert complete.title == f"{TITLE} in setting reference"
    assert [row[0] for row in complete.rows] == ["invented", "turns"]
    shares = {head: cell.value for head, cell in zip(complete.columns[2:], complete.rows[0][2:], strict=True)
              if isinstance(cell, Value)}  # fmt: skip
    assert shares == {"model2": 0.5, "model0": 0.0}
    assert complete.legend == ("invented, model2: a<::>2, b<::>2, c<::>2 and 9 more",)
    by_turn = {row[:2]: row[3] for row in parts[0].rows}
    assert isinstance(first := by_turn["turn", "first"], Value)
    assert isinstance(later := by_turn["turn", "later"], Value)
    assert (first.value, later.value) == (0.0, 1.0)


def test_results_without_examined_turns_have_no_table(tmp_path: Path) -> None:
    save(tmp_path)
    assert turn_error_tables(read_evaluations([tmp_path])) == []
    assert read_evaluations([tmp_path])[0].rows[0].turn_error is None


def test_errors_are_compared_by_name_and_are_not_columns_of_scores(tmp_path: Path) -> None:
    found = evaluations(tmp_path, 2, 0)
    (section,) = report_sections(found)
    assert not any("invented" in table.columns for table in section.tables if TITLE not in table.title)
    (pair,) = compare_evaluations(found, metrics=["invented"]).pairs
    assert pair.difference.value == -0.5


def test_the_conclusion_names_the_most_frequent_errors(tmp_path: Path) -> None:
    found = evaluations(tmp_path, 2, 0)
    (section,) = report_sections(found)
    sentence = "Most frequent errors (reference): model2: unsupported content in 50% of 24 turns."
    assert sentence in section.conclusion.legend
