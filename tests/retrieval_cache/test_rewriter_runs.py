"""Runs of rewritten questions from a model with few or no rewrites: stored runs and messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ragtasks.cli import app
from ragtasks.errors import JudgeError
from retrieval_cache.service import Rewriter, Workspace, retrieve
from retrieval_cache.stage import read_run
from tests._messages import raises
from tests.clients._server import Script, chat_server, completion

REWRITE = json.dumps({"class": "non-standalone", "reworded version": "ferry to the island"})
N_ASKED = 96


def empty(*_: object) -> Any:
    return completion("")


def except_the_first(n: int) -> Script:
    """Return a script that returns no text for `n` of the questions and a rewrite for all others."""
    poor: list[str] = []

    def script(text: str, _: int) -> Any:
        if len(poor) < n and text not in poor:
            poor.append(text)
        return completion("" if text in poor else REWRITE)

    return script


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    return Workspace("mtrag", "sample", tmp_path / "data", tmp_path / "store")


def printed(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_model_without_rewrites_makes_no_run(workspace: Workspace) -> None:
    with chat_server(empty) as server, raises(JudgeError):
        retrieve(workspace, "bm25", "llm_rewrite", depth=20, rewriter=Rewriter(f"m,base_url={server.base_url}"))
    assert not list(workspace.store.glob("runs/*"))


def test_fallbacks_are_counted_wherever_the_run_is_shown(workspace: Workspace) -> None:
    with chat_server(except_the_first(10)) as server:
        options = ("--retriever", "bm25", "--queries", "llm_rewrite", "--rewriter", f"m,base_url={server.base_url}")
        refused = CliRunner().invoke(app, ["retrieve", *options, "--data", "sample", "--no-probe"])
        assert isinstance(refused.exception, JudgeError)
        made = printed(
            "retrieve", *options, "--data", "sample", "--name", "weak", "--min-rewritten", "0.8", "--no-probe"
        )
    note = f"10 of {N_ASKED} queries are the last turn, not a rewrite (10: the reply has no content)"
    assert note in made
    assert f"llm_rewrite (m; 10 of {N_ASKED} are the last turn)" in printed("results", "list")
    shown = json.loads(printed("results", "show", "weak"))
    rewriting = shown["metadata"]["rewriting"]
    assert (rewriting["asked"], rewriting["fallbacks"]) == (N_ASKED, {"the reply has no content": 10})
    assert {call["n"] for call in rewriting["spending"]["rewriter m"]} == {N_ASKED - 10, 10}
    assert f"- weak: {note}." in printed("evaluate-run", "weak", "--data", "sample")
    assert note in printed("evaluate-run", "weak", "--data", "sample", "--measures", "nDCG@5")
    assert f"- weak: {note}" in printed("compare", "weak", "official", "--data", "sample")


def test_the_model_and_its_prompt_are_part_of_the_key_of_a_run(workspace: Workspace) -> None:
    with chat_server(lambda *_: completion(REWRITE)) as server:
        first, second = (
            retrieve(
                workspace, "bm25", "llm_rewrite", depth=20, rewriter=Rewriter(f"{model},base_url={server.base_url}")
            )
            for model in ("m", "n")
        )
    assert read_run(first) == read_run(second)
    assert first.manifest.key != second.manifest.key
    queries = second.manifest.spec["queries"]
    assert (queries["form"], queries["client"]["model"], len(queries["prompt_sha256"])) == ("llm_rewrite", "n", 64)
