"""`ragtasks judges questions`: a real server labels question types, which appear in tables."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from tests._commands import run_command
from tests.clients._server import ChatServer, completion
from tests.submissions.trec_rag._judge import parts_of

SAMPLE = benchmark_folder("custom", "sample", Path())


def labelled(prompt: str) -> str:
    """Label by the question's words, in any case and order."""
    code, parts = parts_of(prompt)
    question = parts["last message"].lower()
    labels = [label for word, label in {"how": "how-to", "thanks": "Non-Question"}.items() if word in question]
    return json.dumps({"id": code, "labels": labels or ["Factoid"]})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ChatServer]:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    with ChatServer(lambda prompt, _: completion(labelled(prompt))).running() as running:
        yield running


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A custom folder in which only the first conversation has question types."""
    folder = tmp_path / "own"
    shutil.copytree(SAMPLE, folder, ignore=shutil.ignore_patterns("derived", "sample.json"))
    rows = [json.loads(line) for line in (folder / "conversations.jsonl").read_text().splitlines()]
    for row in rows[1:]:
        for turn in row["turns"]:
            del turn["question_types"]
    (folder / "conversations.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def judge(server: ChatServer, model: str = "words") -> list[str]:
    return ["--judge", json.dumps({"model": model, "base_url": server.base_url})]


def types_of(folder: Path) -> dict[str, tuple[str, ...]]:
    return {task.task_id: task.question_types for task in open_benchmark("custom", folder).tasks}


def test_turns_without_question_types_get_those_of_the_judge(server: ChatServer, own: Path, tmp_path: Path) -> None:
    target = tmp_path / "labelled" / "conversations.jsonl"
    shutil.copytree(own, target.parent)
    call = ["judges", "questions", str(own), *judge(server), "--output", str(target)]
    done = run_command(*call)
    assert done.status == 0
    assert "10 of 10 questions have a label" in done.err
    before, after = types_of(own), types_of(target.parent)
    assert after["loans-1<::>1"] == before["loans-1<::>1"] == ("Factoid",), "what was there stays"
    assert after["machines-1<::>3"] == ("Non-Question",)
    assert after["joining-1<::>1"] == ("Factoid",)
    n_asked = len(server.asked)
    assert run_command(*call).status == 0
    assert len(server.asked) == n_asked  # every reply was cached


def test_labels_of_the_benchmark_are_shown_next_to_the_judges(server: ChatServer) -> None:
    done = run_command("judges", "questions", "mtrag", "--data", "sample", *judge(server), "--format", "json")
    assert done.status == 0
    (section,) = json.loads(done.out)
    rows = {row["kind"]: row for row in section["tables"][0]["rows"]}
    tasks = open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path())).tasks
    assert rows["Factoid"]["earlier label"] == sum("Factoid" in task.question_types for task in tasks)
    assert 0 < rows["Factoid"]["F1"]["value"] < 1
    assert rows["Factoid"]["kappa"]["low"] < rows["Factoid"]["kappa"]["value"] < rows["Factoid"]["kappa"]["high"]


def test_topics_have_one_category_and_a_tie_gives_no_label(server: ChatServer, tmp_path: Path) -> None:
    def category(prompt: str, name: str) -> str:
        return json.dumps({"id": parts_of(prompt)[0], "labels": [name]})

    labels = tmp_path / "labels.jsonl"
    call = ["judges", "questions", "trec_rag24", "--data", "sample", "--kinds", "topic_categories"]
    server.script = lambda prompt, _: completion(category(prompt, "set"))
    done = run_command(*call, *judge(server), "--output", str(labels))
    assert (done.status, "kappa" in done.out) == (0, False)
    rows = [json.loads(line) for line in labels.read_text().splitlines()]
    assert {tuple(row["topic_categories"]) for row in rows} == {("Set",)}
    with ChatServer(lambda prompt, _: completion(category(prompt, "Multi-hop"))).running() as other:
        done = run_command(*call, *judge(server), *judge(other, "second"), "--output", str(tmp_path / "none"))
    assert done.status == 1
    assert "the judges are split (words: Set; second: Multi-hop)" in done.err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("said", [["Factoid", "Riddle"], [], "Factoid", ["Simple"]])
def test_a_reply_with_unknown_or_missing_labels_gives_no_label(said: object, server: ChatServer, own: Path) -> None:
    server.script = lambda prompt, _: completion(json.dumps({"id": parts_of(prompt)[0], "labels": said}))
    done = run_command("judges", "questions", str(own), *judge(server))
    assert done.status == 1
    assert "no question has a label" in done.err
    assert "nothing was written" in done.err
