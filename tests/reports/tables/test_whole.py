"""Evaluations with missing tasks: marked at each score, and never ranked with complete ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.cli import app
from ragtasks.records import Answerability, Setting, Task
from ragtasks.reports.comparison import compare_evaluations, comparison_sections
from ragtasks.reports.history import read_history
from ragtasks.reports.history_output import render_entries, render_list
from ragtasks.reports.leaderboard import leaderboard_tables
from ragtasks.reports.tables import report_sections
from ragtasks.results import read_evaluations
from ragtasks.tables import Format, Value, render
from tests.conftest import REAL_DATA

MTRAG_UN = REAL_DATA / "mt-rag-benchmark"
NAMES = ("whole", "partial")


def save(folder: Path, name: str, benchmark: str, data: str, tasks: list[Task]) -> None:
    """Score the answers to some tasks without an encoder, as a user's own system."""
    lines = [
        {
            "task_id": task.task_id,
            "contexts": [{"document_id": passage.passage_id, "text": passage.text} for passage in task.references],
            "predictions": [{"text": never_refuses(task)}],
        }
        for task in tasks
    ]
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    options = ["--benchmark", benchmark, "--setting", "reference", "--output_path", str(folder / "results" / name)]
    metadata = json.dumps({"data": data, "encoder": "none"})
    done = CliRunner().invoke(app, ["score", str(path), "--metadata", metadata, *options], catch_exceptions=False)
    assert done.exit_code == 0, done.output


def never_refuses(task: Task) -> str:
    return task.target if task.answerability is not Answerability.UNANSWERABLE else "The doors open at nine in summer."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("benchmark", "data", "n", "n_left"),
    [
        ("mtrag", "sample", 108, 92),
        pytest.param(
            "mtrag_un",
            str(MTRAG_UN),
            507,
            410,
            marks=pytest.mark.skipif(not MTRAG_UN.is_dir(), reason=f"no real files in {MTRAG_UN}"),
        ),
    ],
)
def test_leaving_out_unanswerable_tasks_gives_no_lead(
    tmp_path: Path, benchmark: str, data: str, n: int, n_left: int
) -> None:
    tasks = open_benchmark(benchmark, benchmark_folder(benchmark, data, REAL_DATA)).tasks
    counted = [task for task in tasks if task.answerability is not Answerability.CONVERSATIONAL]
    kept = [task for task in counted if task.answerability is not Answerability.UNANSWERABLE]
    assert (len(counted), len(kept)) == (n, n_left)
    save(tmp_path, "partial", benchmark, data, kept)
    save(tmp_path, "whole", benchmark, data, counted)
    folder = tmp_path / "results"
    evaluations = read_evaluations([folder])
    mark = f"({n_left} of {n} tasks"

    (section,) = report_sections(evaluations)
    overview, as_zero = section.tables[:2]
    assert [row[1] for row in overview.rows if row[1] in NAMES] == list(NAMES)
    index = overview.columns.index("ans_acc")
    complete, partial = ({row[1]: row for row in overview.rows}[name][index] for name in NAMES)
    assert isinstance(complete, Value)
    assert isinstance(partial, Value)
    assert complete.missing == ""
    assert partial.missing == f"{n_left} of {n} tasks"
    assert partial.value > complete.value
    ((*_, shown),) = [row[: as_zero.columns.index("ans_acc") + 1] for row in as_zero.rows]
    assert isinstance(shown, Value)
    assert shown.value == pytest.approx(partial.value * partial.n_scored / (partial.n_scored + n - n_left))
    assert f"{mark})" in render([section], Format.MARKDOWN)

    history = read_history(folder)
    for text in (render_list(history.entries, folder), render_entries(history.entries)):
        assert f"{mark}; " in text
        assert "with missing tasks as 0)" in text
    first, second = leaderboard_tables(history.entries)
    assert [(first.missing, first.standings[0].rank), (second.missing, second.standings[0].rank)] == [
        ("", 1),
        (f"{n_left} of {n} tasks", None),
    ]
    compared = compare_evaluations(evaluations, metrics=["ans_acc"])
    text = render(comparison_sections(compared, group="setting", name="model", items="tasks"), Format.MARKDOWN)
    assert f"{mark})" in text
    assert " with missing tasks as 0" in text


def test_the_number_of_tasks_is_that_of_the_setting() -> None:
    mtrag = open_benchmark("mtrag", benchmark_folder("mtrag", "sample", REAL_DATA))
    queries = open_benchmark("multihop_rag", benchmark_folder("multihop_rag", "sample", REAL_DATA))
    topics = open_benchmark("trec_rag24", benchmark_folder("trec_rag24", "sample", REAL_DATA))
    every = {setting: sum(mtrag.count_tasks(setting, ["fiqa"], conversational=False).values()) for setting in Setting}
    assert every == {Setting.REFERENCE: 108, Setting.REFERENCE_RAG: 79, Setting.FULL_RAG: 108, Setting.AGENTIC: 108}
    n_conversational = sum(task.answerability is Answerability.CONVERSATIONAL for task in mtrag.tasks)
    assert sum(mtrag.count_tasks(Setting.FULL_RAG, [], conversational=True).values()) == 108 + n_conversational
    # A null query receives no passages. TREC's sets of topics are benchmarks of their own.
    with_evidence = sum(bool(task.references) for task in queries.tasks)
    assert sum(queries.count_tasks(Setting.REFERENCE, [], conversational=False).values()) == with_evidence
    assert list(topics.count_tasks(Setting.FULL_RAG, ["raggy"], conversational=False)) == ["raggy"]
