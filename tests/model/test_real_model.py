"""Effects of a weak real model: replies without verdicts, loops, empty replies, and prompts over the context."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragtasks.clients import Decoding, OpenAIClient, Outcome, Prompt
from ragtasks.judges import rubrics_named
from tests._commands import CommandResult
from tests.conftest import REAL_DATA
from tests.judges._scripted import response, verdicts_of

pytestmark = pytest.mark.model
TASK = "mtrag_reference_fiqa"
SHORTEST = "mtrag_reference_clapnq"
"""Its first twenty real tasks have the shortest passages of the four domains."""
SHORT = Decoding(max_tokens=48)
Command = Callable[..., CommandResult]


def samples_in(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in folder.rglob("samples_*.jsonl") for line in file.read_text().splitlines()]


def evaluated(
    command: Command, folder: Path, *arguments: str, n_tasks: int = 2, **metadata: Any
) -> list[dict[str, Any]]:
    """Evaluate with short answers and return the logged samples, each scored or cut at the limit of the server."""
    done = command(
        *arguments, "--limit", str(n_tasks), "--gen_kwargs", "max_gen_toks=16", "--log_samples",
        "--output_path", str(folder), metadata=metadata,
    )  # fmt: skip
    rows = samples_in(folder)
    assert len(rows) == n_tasks
    assert all(isinstance(row["filtered_resps"][0], str) for row in rows)
    reasons = [row["doc"].get("no_answer", "") for row in rows]
    assert done.status == any(reasons), done.err[-2000:]
    assert set(reasons) <= {"", "the reply reached the token limit"}
    assert [math.isnan(row["rouge_l"]) for row in rows] == [bool(reason) for reason in reasons]
    return rows


def test_it_generates_from_messages(command: Command, model_server: str, tmp_path: Path) -> None:
    evaluated(
        command, tmp_path, "--model", "local-chat-completions", "--apply_chat_template", "--tasks", TASK,
        "--model_args", f"base_url={model_server}/chat/completions,model=gemma,eos_string=</s>",
    )  # fmt: skip


def test_it_generates_from_plain_text(command: Command, model_server: str, tmp_path: Path) -> None:
    evaluated(
        command, tmp_path, "--model", "local-completions", "--tasks", TASK,
        "--model_args", f"base_url={model_server}/completions,model=gemma,tokenizer_backend=none,eos_string=</s>",
    )  # fmt: skip


def test_it_generates_in_this_process(command: Command, weights: Path, tmp_path: Path) -> None:
    evaluated(
        command, tmp_path, "--model", "hf", "--device", "cpu", "--tasks", TASK,
        "--model_args", f"pretrained={weights.parent},gguf_file={weights.name},max_length=8192", n_tasks=1,
    )  # fmt: skip


def test_twenty_real_tasks_are_answered(command: Command, model_server: str, tmp_path: Path) -> None:
    root = REAL_DATA / "mt-rag-benchmark"
    if not root.is_dir():
        pytest.skip(f"no real MTRAG data at {root}")
    evaluated(
        command, tmp_path, "--model", "local-chat-completions", "--apply_chat_template", "--tasks", SHORTEST,
        "--model_args", f"base_url={model_server}/chat/completions,model=gemma,eos_string=</s>", n_tasks=20,
        data=str(root),
    )  # fmt: skip


def test_a_server_that_drops_tool_results_is_rejected(command: Command, forgetful_server: str, tmp_path: Path) -> None:
    done = command(
        "--model", "local-chat-completions", "--apply_chat_template", "--tasks", "mtrag_agentic_govt", "--limit", "1",
        "--model_args", f"base_url={forgetful_server}/chat/completions,model=gemma,eos_string=</s>",
        "--output_path", str(tmp_path), metadata={"search_protocol": "tool_calls"},
    )  # fmt: skip
    assert done.status == 1
    assert "the server drops tool results" in done.err


def test_a_model_without_tag_training_answers_or_searches(command: Command, model_server: str, tmp_path: Path) -> None:
    done = command(
        "--model", "local-completions", "--tasks", "mtrag_agentic_govt", "--limit", "2", "--log_samples",
        "--model_args", f"base_url={model_server}/completions,model=gemma,tokenizer_backend=none,eos_string=</s>",
        "--gen_kwargs", "max_gen_toks=32", "--output_path", str(tmp_path), metadata={"search_calls": 2},
    )  # fmt: skip
    rows = samples_in(tmp_path)
    reasons = {row["doc"].get("no_answer", "") for row in rows} - {""}
    assert reasons <= {"the reply reached the token limit"}, done.err[-2000:]
    endings = {"answered", "gave_up", "out_of_calls", *(["error"] if reasons else [])}
    assert {row["doc"]["trajectory"]["ending"] for row in rows} <= endings
    assert all(len(row["doc"]["trajectory"]["steps"]) <= 3 for row in rows)


def test_a_prompt_over_the_context_is_a_failed_request(command: Command, model_server: str, tmp_path: Path) -> None:
    done = command(
        "--model", "local-chat-completions", "--apply_chat_template", "--tasks", TASK, "--limit", "1",
        "--system_instruction", "word " * 9000, "--log_samples", "--output_path", str(tmp_path),
        "--model_args", f"base_url={model_server}/chat/completions,model=gemma,eos_string=</s>",
    )  # fmt: skip
    assert done.status == 1
    (row,) = samples_in(tmp_path)
    assert row["doc"]["no_answer"] == "HTTP 400 Bad Request"
    assert math.isnan(row["rouge_l"])


def test_a_verdict_is_never_invented(model_server: str) -> None:
    client = OpenAIClient({"model": "gemma", "base_url": model_server, "slots": 1}, decoding=SHORT)
    verdicts = list(verdicts_of([response()], rubrics_named(["rb_llm", "idk", "rl_f"]), [client]).all())
    assert len(verdicts) == 3
    for verdict in verdicts:
        assert (verdict.value is None) == (verdict.outcome.value != "given")
        assert verdict.reason or verdict.value is not None


def test_a_rewrite_is_answered_or_has_a_reason(model_server: str) -> None:
    client = OpenAIClient({"model": "gemma", "base_url": model_server, "slots": 1}, decoding=SHORT)
    (reply,) = client.answer([Prompt.of("Rewrite as one question that can be understood alone: and the second one?")])
    assert (reply.outcome is Outcome.ANSWERED) == bool(reply.text)
    assert reply.text or reply.reason
