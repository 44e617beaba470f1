"""From answers to a submission: requested before the model runs, with errors that name the command that helps."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragtasks.cli import app
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.harness.run import expand_submission
from ragtasks.submissions import SubmissionTask, render_text
from ragtasks.submissions.mtrageval import Submission, check, submit
from tests._commands import run_command
from tests._messages import raises
from tests.conftest import REAL_DATA
from tests.submissions.mtrageval._files import sample

REFERENCE = REAL_DATA / "mt-rag-benchmark/mtragun-human/generation_tasks/reference.jsonl"


@pytest.mark.parametrize(("task", "harness_task"), [("B", "mtrag_reference"), ("c", "mtrag_full_rag")])
def test_the_option_evaluates_the_submitted_tasks(task: str, harness_task: str) -> None:
    given = ["--model", "m", f"--for-submission={task}", "--output_path", "out", "--metadata", '{"data": "sample"}']
    arguments = expand_submission(given)
    assert arguments[:6] == ["--model", "m", "--output_path", "out", "--metadata", '{"data": "sample"}']
    assert arguments[6:] == ["--tasks", harness_task, "--log_samples", "--metadata", "conversational=true"]
    other_task = harness_task.replace("mtrag", "mtrag_un")
    named = expand_submission(["--for-submission", task, "--tasks", other_task, "--output_path", "out"])
    assert named[:2] == ["--tasks", other_task]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--for-submission"], "expected B"),
        (["--for-submission", "A", "--output_path", "o"], "expected B"),
        (["--for-submission", "B"], "requires --output_path"),
        (["--for-submission", "B", "-o", "o", "--metadata", "{data"], "neither KEY=VALUE nor JSON"),
        (["--for-submission", "B", "-o", "o", "--metadata", "conversational=False"], "remove"),
        (["--for-submission", "B", "-o", "o", "--metadata", '{"conversational": false}'], "remove"),
    ],
)
def test_incompatible_options_are_refused_before_the_model_runs(given: list[str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        expand_submission(given)


def test_other_arguments_are_unchanged() -> None:
    given = ["--model", "m", "--metadata={}", "--tasks=mtrag"]
    assert expand_submission(given) == given


def test_a_file_of_predictions_names_the_command_that_scores_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"task_id": "x<::>1", "predictions": [{"text": "a"}]}\n', encoding="utf-8")
    with raises(BenchmarkFileError) as error:
        submit(Submission(SubmissionTask.B, tmp_path / "b.jsonl", results=path), sample(), tmp_path)
    assert "one results_*.json" in str(error.value)


def test_equal_findings_are_combined_in_one_line_with_their_number(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [{"task_id": f"x<::>{n}", "Collection": "c", "contexts": [{"document_id": "d"}]} for n in range(1, 31)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    report = check(path, SubmissionTask.A, None, None, documents=False)
    lines = list(render_text(report))
    (together,) = [line for line in lines if ".score" in line]
    assert together.startswith("  problem score: 30 times (line 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...); the first: ")
    assert "  equal findings are combined; --all prints each" in lines
    assert sum(".score" in line for line in render_text(report, every=True)) == 30


@pytest.mark.skipif(not REFERENCE.is_file(), reason=f"no {REFERENCE}")
def test_the_official_reference_file_has_few_lines() -> None:
    """It fails 1,187 times, for a handful of causes."""
    runner = CliRunner()
    short = runner.invoke(app, ["check", str(REFERENCE), "--task", "B"]).output.splitlines()
    lines = runner.invoke(app, ["check", str(REFERENCE), "--task", "B", "--all"]).output.splitlines()
    assert len(short) < 20
    assert len(lines) > 1000


def test_each_long_step_is_named_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[str] = []

    def step(label: str) -> AbstractContextManager[None]:
        named.append(label.partition(" ")[0])
        return nullcontext()

    monkeypatch.setattr("ragtasks.submissions.mtrageval._build.step", step)
    given = ("--data", "sample", "--task", "A", "--run", "official", "--output", tmp_path / "a.jsonl")
    assert run_command("submit", *given).status == 0
    assert named == ["reading", "checking"]
