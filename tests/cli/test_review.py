"""`ragtasks review` at the command line: from decisions to a benchmark that runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragtasks.arena.store import VoteStore
from ragtasks.synthesis.review import decide, read_pairs
from tests._commands import run_command
from tests.cli.test_retrieve import printed
from tests.synthesis._making import rows
from tests.synthesis._tiny import write_dialogues


@pytest.fixture
def reviewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a benchmark of which Ann accepted two pairs and Bob rejected one of them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    folder = write_dialogues(tmp_path / "towns", 2)
    store = VoteStore(folder / "reviews.sqlite")
    pairs = read_pairs(folder)
    for reviewer, number, choice in (("Ann", 1, "accept"), ("Ann", 2, "edit"), ("Bob", 1, "reject")):
        decision = decide(pairs[number - 1], choice, {**pairs[number - 1].texts, "answer": "It costs nothing."})
        store.save_review(reviewer, pairs[number - 1].pair_id, decision.model_dump_json(), float(number))
    store.close()
    return folder


@pytest.mark.slow
def test_decisions_become_files_and_a_benchmark_that_runs(reviewed: Path) -> None:
    done = run_command("review", "results", "towns", "--accepted", "kept", "--output", "said.jsonl")
    assert "| Ann and Bob" in done.out
    assert done.err.splitlines() == [
        "wrote said.jsonl: 3 decisions",
        "kept: 1 pair kept, 1 of them edited; 1 rejected, 4 not decided on",
        "next: ragtasks check kept",
    ]
    assert [(row["reviewer"], row["choice"]) for row in rows(Path("said.jsonl"))][-1] == ("Ann", "edit")
    assert printed("check", "kept")[0] == "kept: no error"
    lines = printed(
        "run", "--model", "ragtasks-oracle", "--tasks", "custom_reference",
        "--metadata", json.dumps({"data": "kept", "encoder": "none"}),
    )  # fmt: skip
    assert any(line.startswith("| reference") and "ragtasks-oracle" in line for line in lines)
    assert "2 pairs kept" in run_command("review", "results", "towns", "--accepted", "own", "--reviewer", "Ann").err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--output", "x.jsonl", "--reviewer", "An"], "did you mean 'Ann'"),
        (["--output", "x.jsonl", "--database", "none.sqlite"], "no such file"),
        (["--accepted", "x", "--reviewer", "Bob"], "no pair was accepted or edited"),
    ],
)
def test_invalid_exports_are_one_error(reviewed: Path, more: list[str], message: str) -> None:
    done = run_command("review", "results", "towns", *more)
    assert done.status == 1
    assert message in done.err
    assert not Path("x").exists()
