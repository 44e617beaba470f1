"""Retrieval with a real model, checks before it runs, and a model that is too weak to judge."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragtasks.errors import JudgeError
from retrieval_cache import Rewriter, Workspace, fallbacks_of, retrieve
from tests._commands import CommandResult

pytestmark = pytest.mark.model
TASK = "mtrag_full_rag_fiqa"
SHORTER = "mtrag_reference_fiqa"
"""The same questions with fewer passages."""
Command = Callable[..., CommandResult]


def served(address: str) -> tuple[str, ...]:
    """Return the arguments of a model behind the real server."""
    return (
        *("--model", "local-chat-completions", "--apply_chat_template", "--tasks", TASK, "--limit", "1"),
        *("--model_args", f"base_url={address}/chat/completions,model=gemma,eos_string=</s>"),
        *("--gen_kwargs", "max_gen_toks=16"),
    )


def samples_in(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in folder.rglob("samples_*.jsonl") for line in file.read_text().splitlines()]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """The sample of custom data: a few short conversations."""
    return Workspace("custom", "sample", tmp_path / "data", tmp_path / "store")


def test_too_few_rewrites_are_an_error_and_fallbacks_are_counted(workspace: Workspace, model_server: str) -> None:
    line = "gemma,slots=1,max_tokens=48"
    with pytest.raises(JudgeError, match="at least 95% of the questions rewritten; nothing was stored"):
        retrieve(workspace, "bm25", "llm_rewrite", depth=5, rewriter=Rewriter(f"{line},base_url={model_server}"))
    assert not list(workspace.store.glob("runs/*"))
    run = retrieve(workspace, "bm25", "llm_rewrite", depth=5, rewriter=Rewriter(f"{line},base_url={model_server}", 0.0))
    assert "are the last turn, not a rewrite" in fallbacks_of(run.manifest)
    assert run.manifest.spec["queries"]["client"]["model"] == "gemma"


def test_it_reranks_and_its_usage_is_counted(workspace: Workspace, model_server: str) -> None:
    line = f"rerank(bm25,listwise:gemma,base_url={model_server},depth=4,window=4,stride=2,words=40,max_tokens=24"
    line += ",max_unanswered=1)"  # it continues until the limit
    run = retrieve(workspace, line, "last_turn", depth=4)
    for counted in run.manifest.metadata["retrieval"].values():
        assert counted["windows"] > 0


def test_a_chat_format_that_drops_system_messages_is_reported(command: Command, deaf_server: str) -> None:
    done = command(*served(deaf_server))
    assert done.status == 1
    assert "ragtasks: the server drops system messages" in done.err
    again = command(*served(deaf_server), metadata={"system_role": "user"})
    assert again.status == 0 or "the reply reached the token limit" in again.err


def test_prompts_over_the_context_lose_passages_or_are_rejected(
    command: Command, model_server: str, tmp_path: Path
) -> None:
    refused = command(*served(model_server), metadata={"context_tokens": 512})
    assert refused.status == 1
    assert f"ragtasks: prompts of {TASK}: 1 of 1" in refused.err
    done = command(
        *served(model_server), "--log_samples", "--output_path", str(tmp_path),
        metadata={"context_tokens": 1024, "too_long": "drop_passages"},
    )  # fmt: skip
    assert done.status == 0 or "the reply reached the token limit" in done.err
    (row,) = samples_in(tmp_path)
    assert len(row["doc"]["passages"]) < 5


def test_weights_without_a_chat_template_are_one_line(command: Command, weights: Path) -> None:
    done = command(
        "--model", "hf", "--device", "cpu", "--tasks", TASK, "--limit", "1", "--apply_chat_template",
        "--gen_kwargs", "max_gen_toks=4",
        "--model_args", f"pretrained={weights.parent},gguf_file={weights.name},max_length=8192",
    )  # fmt: skip
    assert "Traceback" not in done.err
    assert done.status == 1
    assert "ragtasks: --apply_chat_template: the model has no chat template" in done.err


def test_refusals_fall_back_to_rules_for_a_weak_judge(
    command: Command, model_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    judge = {"model": "gemma", "base_url": model_server, "slots": 1, "max_tokens": 8}
    command(
        "--model", "ragtasks-extractive", "--tasks", SHORTER, "--limit", "1", "--log_samples",
        "--output_path", str(tmp_path / "out"), metadata={"judges": [judge]},
    )  # fmt: skip
    (row,) = samples_in(tmp_path / "out")
    assert row["doc"]["scoring"]["idk"] is not None
    assert not math.isnan(row["idk_yes"])
