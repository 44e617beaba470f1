"""`ragtasks arena` at the command line: judges over HTTP, export and import of votes, forms, errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from ragtasks.arena.battles import read_answers
from ragtasks.arena.forms import read_form
from ragtasks.arena.store import Queue, VoteStore
from ragtasks.benchmarks.mtrag import FANC, load_human_evaluation
from tests._commands import run_command
from tests.arena._made import vote
from tests.judges._demo import DemoServer
from tests.reports._saved import save

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))

    def call(*arguments: object) -> tuple[int, str, str]:
        done = run_command("arena", *arguments)
        return done.status, done.out, done.err

    return call


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for day, (model, said) in enumerate({"long": "It runs from April to June. ", "short": "April. "}.items(), 1):

        def answer(sample: dict[str, Any], said: str = said) -> None:
            sample["filtered_resps"] = [said * sample["doc"]["turn"]]

        save(tmp_path / "results", model, day=day, change_sample=answer)
    return tmp_path / "results"


def test_battles_and_ratings_that_save_each_vote_once(tmp_path: Path, results: Path, command: Command) -> None:
    votes, again = tmp_path / "votes.jsonl", tmp_path / "again.jsonl"
    with DemoServer() as server:
        judge = json.dumps(server.judge("steady-a"))
        for asked in (8, 0):
            before = len(server.asked)
            status, out, err = command("battle", results, "--judge", judge, "--output", votes)
            assert status == 0, err
            assert len(server.asked) - before == asked
    assert "## Position bias" in out
    assert f"wrote {votes}: 4 votes" in err
    status, out, err = command("ratings", votes, votes, "--format", "csv", "--save", again)
    assert out.startswith("context,section,")
    assert f"wrote {again}: 4 votes" in err
    assert again.read_bytes() == votes.read_bytes()
    assert (tmp_path / "again.events.jsonl").read_bytes() == b"", "judges were given nothing"


def test_each_long_step_is_named_while_it_lasts(
    tmp_path: Path, results: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    named: list[str] = []

    def step(what: str) -> AbstractContextManager[None]:
        named.append(what)
        return nullcontext()

    for module in ("ragtasks.arena.commands", "ragtasks.cli.judges"):
        monkeypatch.setattr(f"{module}.step", step)
    with DemoServer() as server:
        judge = json.dumps(server.judge("m"))
        assert command("battle", results, "--judge", judge, "--output", tmp_path / "votes.jsonl")[0] == 0
    assert run_command("judges", "anchors", "--output", tmp_path / "anchors.jsonl").status == 0
    assert [text.partition(" ")[0] for text in named] == ["reading", "ratings", "choosing"]


def test_saved_votes_include_skipped_and_undone_votes(tmp_path: Path, command: Command) -> None:
    database = tmp_path / "arena.sqlite"
    status, out, _ = command("invite", "Ann Lee", "Bob", "--database", database, "--address", "https://arena.example/")
    assert status == 0
    links = [line.partition(": https://arena.example/enter?invitation=") for line in out.splitlines()]
    assert [name for name, _, _ in links] == ["Ann Lee", "Bob"]
    assert "needs a name" in command("invite", " ", "--database", database)[2]
    store = VoteStore(database)
    assert [store.invited(token) for _, _, token in links] == ["Ann Lee", "Bob"]
    queue = Queue(store, ["b", "c"], 1)
    for preference in ("first", "second"):
        given = queue.next_for("Ann Lee")
        assert given
        queue.vote(given, vote("x", "y", preference, vote_id=preference, rater="Ann Lee"))
        if preference == "first":
            queue.undo("Ann Lee")
    skipped = queue.next_for("Ann Lee")
    assert skipped
    queue.skip(skipped)
    store.close()
    status, out, err = command("ratings", database, "--save", tmp_path / "v.jsonl")
    assert status == 0, err
    assert f"wrote {tmp_path / 'v.jsonl'}: 1 votes" in err
    _, _, err = command("ratings", database, tmp_path / "v.jsonl", "--save", tmp_path / "both.jsonl")
    assert f"wrote {tmp_path / 'both.jsonl'}: 1 votes" in err, "a vote in a database and a file is one vote"
    events = [json.loads(line) for line in (tmp_path / "v.events.jsonl").read_text().splitlines()]
    said = [(row["event"], row.get("preference"), row["view"]) for row in events if row["event"] != "names_shown"]
    assert said == [
        ("given", None, "blinded"),
        ("voted", "first", "blinded"),
        ("undone", None, "blinded"),
        ("voted", "second", "revealed"),
        ("given", None, "blinded"),
        ("skipped", None, "blinded"),
    ]


def test_a_failing_judge_is_reported_and_keeps_votes(tmp_path: Path, results: Path, command: Command) -> None:
    judge = json.dumps({"model": "m", "base_url": "http://127.0.0.1:9/v1", "attempts": 1})
    status, _, err = command("battle", results, "--judge", judge, "--output", tmp_path / "votes.jsonl")
    assert status == 1
    assert "no server answers at the address" in err
    assert not (tmp_path / "votes.jsonl").exists()


def test_a_missing_key_is_named_before_answers_are_read(
    tmp_path: Path, results: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for line in (("arena", "battle", results), ("judges", "passages", "official", "--benchmark", "mtrag")):
        done = run_command(*line, "--data", "sample", "--judge", "openai/j", "--output", tmp_path / "x")
        assert done.status == 1
        assert "judge openai/j: OPENAI_API_KEY is not set" in done.err


def test_forms_become_the_file_that_calibrate_reads(tmp_path: Path, results: Path, command: Command) -> None:
    database = tmp_path / "arena.sqlite"
    pool, store = read_answers([results]), VoteStore(database)
    fields = {f"rating-{place}-{name}": str(3 + place) for place in range(2) for name in FANC} | {"pair-0-1": "second"}
    for item in pool.items:
        for rater in ("Ann", "Bob"):
            form = read_form(pool, item, pool.systems, fields, 3.0)
            Queue(store, ["\t".join(item)], 2, view="form").save_form(rater, "\t".join(item), form.model_dump_json())
    store.close()
    status, out, err = command("forms", results, "--database", database, "--output", tmp_path / "people")
    assert status == 0, err
    assert "human evaluation" in out
    assert len(load_human_evaluation(tmp_path / "people")) == 8


def test_serve_and_export_errors_state_the_reason(tmp_path: Path, results: Path, command: Command) -> None:
    assert "no such file" in command("ratings", tmp_path / "no")[2]
    assert "nothing to compare" in command("serve")[2]
    (tmp_path / "other").write_text("no database", encoding="utf-8")
    assert "a database of votes" in command("serve", results, "--database", tmp_path / "other", "--port", 0)[2]
    assert "requires --benchmark" in command("serve", "--system", "{}")[2]


def test_a_live_system_without_its_key_is_named_before_its_corpus_is_read(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    line = '{{"name": "{}", "retriever": "bm25", "generator": {{"model": "openai/m"}}}}'
    systems = [part for name in ("one", "two") for part in ("--system", line.format(name))]
    status, _, err = command("serve", "--benchmark", "mtrag", "--data", "sample", *systems)
    assert status == 1
    assert "two openai/m: OPENAI_API_KEY is not set" in err
