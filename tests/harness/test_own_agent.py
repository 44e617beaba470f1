"""A custom agent: its searches are scored as in an agentic harness task, and compared with full RAG."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragtasks.results import read_evaluations
from tests._commands import run_command
from tests.clients._server import Action, chat_server
from tests.harness.conftest import SAMPLE, CommandResult
from tests.harness.test_own_system import samples

Command = Callable[..., CommandResult]
PLACE = ("--benchmark", "custom", "--data", "sample", "--encoder", "none", "--metadata", "max_implausible=1")
UNSAID = {"replies", "failed_calls", "out_of_calls", "context_full"}


def as_answer(sample: dict[str, Any]) -> dict[str, Any]:
    """Return a logged sample of a harness task in the form of a custom agent's answer."""
    doc = sample["doc"]
    texts = {passage["passage_id"]: passage["text"] for passage in doc["passages"]}
    searches = [
        {
            "query": step["arguments"]["query"],
            "passages": [{"id": name, "text": texts[name]} for name in step["passages"]],
        }
        for step in doc["trajectory"]["steps"]
    ]
    return {"id": doc["task_id"], "answer": sample["filtered_resps"][0], "searches": searches}


def score(*arguments: object) -> CommandResult:
    done = run_command("score", *arguments, *PLACE)
    assert done.status == 0, done.err
    return done


def test_searches_of_a_custom_agent_score_as_those_of_a_harness_task(command: Command, tmp_path: Path) -> None:
    harness, own = tmp_path / "harness", tmp_path / "own"
    run = ("--model", "ragtasks-agent-rewrite", "--tasks", "custom_agentic", "--log_samples", "--output_path", harness)
    assert command(*run, "--metadata", json.dumps(SAMPLE)).status == 0
    logged = {sample["doc"]["task_id"]: sample for sample in samples(harness)}
    answers = tmp_path / "agent.jsonl"
    answers.write_text("".join(json.dumps(as_answer(sample)) + "\n" for sample in logged.values()))
    done = score(answers, "--setting", "agentic", "--output", own)
    assert "| recall_seen " in done.out
    assert "| replies " not in done.out
    by_task = {sample["doc"]["task_id"]: sample for sample in samples(own)}
    assert by_task.keys() == logged.keys()
    for name, sample in by_task.items():
        assert sample["metrics"] == logged[name]["metrics"]
        assert sample["balanced_ans_acc"] == pytest.approx(logged[name]["balanced_ans_acc"], nan_ok=True)
        others = {*UNSAID, "balanced_ans_acc"}
        values = {metric: logged[name][metric] for metric in sample["metrics"] if metric not in others}
        assert {metric: sample[metric] for metric in values} == pytest.approx(values, nan_ok=True)
        assert set(sample["doc"]["scoring"]["unscored"]) >= UNSAID
        steps = (row["doc"]["trajectory"] for row in (sample, logged[name]))
        left, right = ([step["passages"] for step in row["steps"]] + [row["relevant"]] for row in steps)
        assert left == right


def agent(_: str, n: int) -> Action:
    passages = [{"id": "lending-02", "text": "Power tools are lent for 5 days."}]
    searches = [{"query": "how long is a drill lent", "passages": passages}]
    return Action(json.dumps({"answer": "For 5 days." if n % 2 else " ", "searches": searches}).encode())


def test_an_endpoint_with_searches_is_compared_with_its_full_rag(tmp_path: Path) -> None:
    with chat_server(agent) as server:
        options = (server.base_url, "--protocol", "plain", "--name", "mine", "--output", tmp_path)
        agentic = score(*options, "--setting", "agentic")
        full = score(*options, "--setting", "full_rag")
    assert {frozenset(body) for body in server.bodies if "id" in body} == {frozenset({"id", "messages"})}
    assert "searches: 9 of 9 answers contain searches; --setting agentic scores them" in full.out
    assert "| searches " in agentic.out
    assert "| searches " not in full.out
    endings = {sample["doc"]["trajectory"]["ending"] for sample in samples(tmp_path)}
    assert endings == {"answered", "gave_up"}
    settings = {row.setting for evaluation in read_evaluations([tmp_path]) for row in evaluation.rows}
    assert settings == {"full_rag", "agentic"}
    done = run_command("report", tmp_path, "--full")
    assert done.status == 0, done.err
    assert "## Gain of searching in" in done.out
    assert "| mine" in done.out.partition("## Recall after each call")[2]


def test_answers_without_searches_are_counted_and_unscored(tmp_path: Path) -> None:
    answers = tmp_path / "agent.jsonl"
    rows = [
        {"id": "loans-1<::>1", "answer": "For 5 days.", "searches": []},
        {"id": "loans-1<::>2", "answer": "Half a florin a day.", "contexts": ["Half a florin."]},
    ]
    answers.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = score(answers, "--setting", "agentic", "--output", tmp_path / "own")
    assert "searches: 1 of 2 answers have no `searches` and no search scores" in done.out
    first, second = samples(tmp_path / "own")
    assert (first["unsearched"], first["searches"]) == (1, 0)
    assert second["doc"]["scoring"]["unscored"]["searches"] == "no trajectory"


def test_own_rows_have_search_scores(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    search = {"query": "How long?", "passages": ["Three weeks."]}
    texts = [{"question": "How long?", "answer": "Three weeks.", "searches": [search, search]}]
    rows.write_text("".join(json.dumps(row) + "\n" for row in texts))
    done = run_command("score", rows, "--encoder", "none", "--output", tmp_path / "own")
    assert done.status == 0, done.err
    lines = {line.split("|")[1].strip(): line.split("|")[2].strip() for line in done.out.splitlines() if "| " in line}
    assert (lines["searches"], lines["repeated_calls"], lines["k_precision"]) == ("2.000", "0.500", "1.000")
    assert "recall_seen" not in lines
