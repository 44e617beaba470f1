"""Settings without published passages: MTRAG-UN's full RAG, which is task C of MTRAGEval, over a stored run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.submissions import SubmissionTask
from ragtasks.submissions.mtrageval import Submission, submit
from retrieval_cache import Workspace, retrieve
from tests._commands import CommandResult

GROUP = "mtrag_un_full_rag"
Command = Callable[..., CommandResult]


@pytest.mark.slow
def test_a_stored_run_is_answered_and_submitted_as_task_c(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    run = retrieve(
        Workspace("mtrag_un", "sample", tmp_path, tmp_path / "store"), "bm25", "last_turn", depth=10
    ).folder.name
    assert run == "bm25.last_turn.mtrag_un.sample"
    results = tmp_path / "results"
    done = command(
        "--model", "ragtasks-extractive", "--tasks", GROUP, "--log_samples", "--output_path", str(results),
        metadata={"run": run, "conversational": True},
    )  # fmt: skip
    assert done.status == 0, done.err
    samples = [json.loads(line) for file in results.rglob("samples_*.jsonl") for line in file.read_text().splitlines()]
    benchmark = open_benchmark("mtrag_un", benchmark_folder("mtrag_un", "sample", Path()).resolve())
    assert {row["doc"]["task_id"] for row in samples} == {task.task_id for task in benchmark.tasks}
    assert {row["doc"]["run"] for row in samples} == {run}
    assert all(len(row["doc"]["passages"]) == 5 for row in samples)
    assert all(0 < row["doc"]["usage"]["retriever_seconds"] < 60 for row in samples)
    target = tmp_path / "task_c.jsonl"
    submit(Submission(SubmissionTask.C, target, results=results), benchmark, tmp_path / "store")
    assert len(target.read_text(encoding="utf-8").splitlines()) == len(benchmark.tasks)


def test_a_missing_run_is_an_error_with_the_next_step(command: Command) -> None:
    done = command("--model", "ragtasks-oracle", "--tasks", GROUP)
    assert done.status == 1
    retrieving = "ragtasks retrieve --benchmark mtrag_un --retriever bm25 --name mine"
    assert f"`{retrieving}`, then `--run mine`; or use mtrag_un_reference" in done.err


def test_closed_book_needs_no_run(command: Command) -> None:
    done = command(
        "--model", "ragtasks-oracle", "--tasks", f"{GROUP}_fiqa", "--limit", "1", metadata={"run": "closed_book"}
    )
    assert done.status == 0, done.err
