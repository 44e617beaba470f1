"""Failed turns as a benchmark: the selection, a run of it, and bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import open_benchmark
from ragtasks.config import FailedTurn
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.records import Setting
from ragtasks.reports.failed_turns import write_failed_turns
from ragtasks.results import Evaluation, read_evaluations
from tests._commands import run_command
from tests._messages import raises
from tests.reports._saved import save

INVENTED = FailedTurn(errors=("invented",))


def failed(folder: Path) -> list[Evaluation]:
    """Save a model whose second turns invent."""

    def note(sample: dict[str, Any]) -> None:
        doc = sample["doc"]
        history = [("user", "What?"), ("assistant", "That."), ("user", "Why?"), ("assistant", "So.")][
            : 2 * doc["turn"] - 2
        ]
        doc["history"] = [{"role": role, "content": text} for role, text in history]
        doc["scoring"]["turn_error"] = {"kind": "invented", "reason": "x"} if doc["turn"] == 2 else {}

    save(folder, "m", change_sample=note, tasks=(("a", 1), ("a", 2), ("b", 1), ("b", 2), ("b", 3)))
    return read_evaluations([folder])


def test_turns_of_a_kind_become_tasks_with_their_history_and_their_passages(tmp_path: Path) -> None:
    found = failed(tmp_path / "results")
    (line,) = write_failed_turns(found, tmp_path / "own", INVENTED)
    assert line.startswith("2 turns of 2 conversations")
    own = open_benchmark("custom", tmp_path / "own")
    assert [task.task_id for task in own.tasks] == ["a<::>2", "b<::>2"]
    before = {row.task.task_id: row.response for row in found[0].rows}
    for task in own.tasks:
        assert task.messages == before[task.task_id].task.messages
        assert task.target == before[task.task_id].task.target
    shown = own.read_contexts(Setting.FULL_RAG).passages
    assert [one.passage_id for one in shown["a<::>2"]] == [one.passage_id for one in before["a<::>2"].passages]


def test_failed_turns_are_those_of_the_tables_of_conversations(tmp_path: Path) -> None:
    found = failed(tmp_path / "results")
    write_failed_turns(found, tmp_path / "default")
    assert [task.task_id for task in open_benchmark("custom", tmp_path / "default").tasks] == ["a<::>2", "b<::>2"]
    (line,) = write_failed_turns(found, tmp_path / "score", FailedTurn(metric="rb_alg", above=0.4))
    assert line.startswith("5 turns of 2 conversations")


def test_flagged_turns_are_selected_too(tmp_path: Path) -> None:
    notes = tmp_path / "notes.jsonl"
    rows = [("b<::>3", True), ("b<::>1", False)]
    lines = [
        {"task_id": name, "model": "m", "setting": "reference", "flag": flag, "comment": ""} for name, flag in rows
    ]
    notes.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    write_failed_turns(failed(tmp_path / "results"), tmp_path / "own", None, notes)
    assert [task.task_id for task in open_benchmark("custom", tmp_path / "own").tasks] == ["b<::>3"]


def test_bad_input_is_one_error_and_writes_nothing(tmp_path: Path) -> None:
    result, own = failed(tmp_path / "results"), tmp_path / "own"
    notes = tmp_path / "notes.jsonl"
    notes.write_text('{"task_id": "a"}\n', encoding="utf-8")
    with pytest.raises(ConfigurationError, match="did you mean 'invented'"):
        write_failed_turns(result, own, FailedTurn(errors=("invente",)))
    with raises(ConfigurationError):
        write_failed_turns(result, own, FailedTurn(errors=("missed",)))
    with raises(BenchmarkFileError):
        write_failed_turns(result, own, None, notes)
    assert not own.exists()
    own.mkdir()
    (own / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="is not empty"):
        write_failed_turns(result, own, INVENTED)


THINGS = [
    "drill",
    "saw",
    "lathe",
    "sander",
    "router",
    "planer",
    "welder",
    "grinder",
    "mixer",
    "ladder",
    "hoist",
    "trailer",
]


def write_answers(path: Path, text: str) -> Path:
    rows = [
        {"id": f"{thing}<::>1", "answer": text.format(thing=thing, days=10 + number, other=900 + number)}
        for number, thing in enumerate(THINGS)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def test_failed_turns_become_tests_of_a_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers, the benchmark of those that failed, scores of two later versions, the gate's status."""
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data"
    data.mkdir()
    conversations, passages = [], []
    for number, thing in enumerate(THINGS):
        fact = f"A {thing} may be kept for {10 + number} days and has to be cleaned before it is returned."
        passages.append({"_id": thing, "text": fact, "title": "", "domain": "tools"})
        asked = {"question": f"How long may I keep a {thing}?", "answer": f"You may keep it for {10 + number} days."}
        turns = [{**asked, "answerability": "ANSWERABLE", "references": [thing]}]
        conversations.append({"conversation_id": thing, "domain": "tools", "turns": turns})
    for name, rows in (("conversations", conversations), ("passages", passages)):
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (data / f"{name}.jsonl").write_text(text, encoding="utf-8")
    invented = (
        "The {thing} belongs to {other} zebras, who paint marble lighthouses beside Jupiter for whispering orchestras."
    )
    right = "A {thing} may be kept for {days} days."

    def score(answers: Path, folder: Path, output: str) -> None:
        options = ("--benchmark", "custom", "--data", folder, "--encoder", "none", "--name", "mine")
        done = run_command("score", answers, *options, "--setting", "reference", "--output", output)
        assert done.status == 0, done.err

    today = write_answers(tmp_path / "today.jsonl", invented)
    score(today, data, "today")
    done = run_command("results", "export", "benchmark", "today", "--kind", "invented", "--output", "failed")
    assert (done.status, done.out.split(":")[0]) == (0, "12 turns of 12 conversations, 12 passages")
    assert run_command("check", "failed").status == 0
    for name, text in (("unchanged", invented), ("better", right)):
        score(write_answers(tmp_path / f"{name}.jsonl", text), tmp_path / "failed", name)
    margin = ("--margin", "invented=0.3")
    assert run_command("gate", "better", "--baseline", "unchanged", *margin).status == 0
    worse = run_command("gate", "unchanged", "--baseline", "better", *margin)
    assert (worse.status, "worse" in worse.out) == (1, True)
