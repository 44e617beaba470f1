"""Failed turns as a benchmark of one's own: what is chosen, that it can be run, and bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import open_benchmark
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.records import Setting
from ragtasks.reports.failed_turns import write_failed_turns
from ragtasks.results import TURN_ERROR, Evaluation, read_evaluations
from tests.reports._saved import save


def failed(folder: Path) -> list[Evaluation]:
    """Save a model whose second turns invent."""

    def note(sample: dict[str, Any]) -> None:
        doc = sample["doc"]
        history = [("user", "What?"), ("assistant", "That."), ("user", "Why?"), ("assistant", "So.")][
            : 2 * doc["turn"] - 2
        ]
        doc["history"] = [{"role": role, "content": text} for role, text in history]
        doc["scoring"][TURN_ERROR] = {"kind": "invented", "reason": "x"} if doc["turn"] == 2 else {}

    save(folder, "m", change_sample=note, tasks=(("a", 1), ("a", 2), ("b", 1), ("b", 2), ("b", 3)))
    return read_evaluations([folder])


def test_turns_of_a_kind_become_tasks_with_their_history_and_their_passages(tmp_path: Path) -> None:
    found = failed(tmp_path / "results")
    (line,) = write_failed_turns(found, tmp_path / "own", ["invented"])
    assert line.startswith("2 turns of 2 conversations")
    own = open_benchmark("custom", tmp_path / "own")
    assert [task.task_id for task in own.tasks] == ["a<::>2", "b<::>2"]
    before = {row.task_id: response for row, response in found[0].answers()}
    for task in own.tasks:
        assert task.messages == before[task.task_id].task.messages
        assert task.target == before[task.task_id].task.target
    shown = own.read_contexts(Setting.FULL_RAG).passages
    assert [one.passage_id for one in shown["a<::>2"]] == [one.passage_id for one in before["a<::>2"].passages]


def test_flagged_turns_are_taken_too(tmp_path: Path) -> None:
    notes = tmp_path / "notes.jsonl"
    rows = [("b<::>3", True), ("b<::>1", False)]
    lines = [
        {"task_id": name, "model": "m", "setting": "reference", "flag": flag, "comment": ""} for name, flag in rows
    ]
    notes.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    write_failed_turns(failed(tmp_path / "results"), tmp_path / "own", (), notes)
    assert [task.task_id for task in open_benchmark("custom", tmp_path / "own").tasks] == ["b<::>3"]


def test_bad_input_is_one_error_and_writes_nothing(tmp_path: Path) -> None:
    found, own = failed(tmp_path / "results"), tmp_path / "own"
    notes = tmp_path / "notes.jsonl"
    notes.write_text('{"task_id": "a"}\n', encoding="utf-8")
    with pytest.raises(ConfigurationError, match="did you mean 'invented'"):
        write_failed_turns(found, own, ["invente"])
    with pytest.raises(ConfigurationError, match=r"the results hold \w+ \(\d+\)"):
        write_failed_turns(found, own, ["unused"])
    with pytest.raises(BenchmarkFileError, match="model, setting, task_id and flag"):
        write_failed_turns(found, own, (), notes)
    assert not own.exists()
    own.mkdir()
    (own / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="holds something already"):
        write_failed_turns(found, own, ["invented"])
