"""Prompts over a model's context, and servers that drop system messages: both are errors before the first request."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragtasks.harness.run import WORD
from ragtasks.reports.tables import report_sections
from ragtasks.results import read_evaluations
from ragtasks.tables import Format, render
from tests._commands import CommandResult
from tests.clients._server import Action, ChatServer, chat_server, completion
from tests.harness._endpoint import Endpoint
from tests.harness.conftest import CHATML

Command = Callable[..., CommandResult]
GROUP = "mtrag_full_rag_fiqa"


def evaluate_by_server(command: Command, server: ChatServer, *options: str, **metadata: Any) -> CommandResult:
    """Evaluate two tasks by a server on the loopback interface."""
    return command(
        "--model", "local-chat-completions", "--apply_chat_template", "--tasks", GROUP, "--limit", "2",
        "--model_args", f"base_url={server.base_url}/chat/completions,model=m,eos_string=</s>", *options,
        metadata=metadata,
    )  # fmt: skip


def counted(n_tokens: int) -> Action:
    """Return a server's reply that reports a number of prompt tokens."""
    return completion("It takes three days.", usage={"prompt_tokens": n_tokens, "completion_tokens": 5})


def test_a_server_that_drops_system_messages_is_detected_by_token_count(command: Command) -> None:
    with chat_server(lambda *_: counted(21), is_tested=True) as server:
        done = evaluate_by_server(command, server)
        assert done.status == 1
        assert len(server.asked) == 1  # only the test, no task
        error = done.err[done.err.index("ragtasks: the server drops system messages") :]
        assert "it counted 21 prompt tokens, fewer than" in error
        assert "--metadata system_role=user" in error
        assert evaluate_by_server(command, server, system_role="user").status == 0
    first, *_ = server.bodies[1]["messages"]
    assert first["role"] == "user"
    assert "passages" in first["content"].lower()
    assert all(message["role"] != "system" for message in server.bodies[1]["messages"])


@pytest.mark.parametrize("reply", [completion(f"{WORD.title()}."), counted(150)])
def test_a_server_that_reads_system_messages_passes(reply: Action, command: Command) -> None:
    with chat_server(lambda *_: reply, is_tested=True) as server:
        assert evaluate_by_server(command, server).status == 0
    assert [body["messages"][0]["role"] for body in server.bodies] == ["system"] * 3


def test_an_inconclusive_test_is_logged(command: Command, endpoint: Endpoint) -> None:
    with chat_server(lambda *_: completion("It takes three days.", usage={}), is_tested=True) as server:
        done = evaluate_by_server(command, server)
    assert done.status == 0, done.err
    assert "its reply to a test does not show whether the server reads system messages" in done.err


def samples(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in folder.rglob("samples_*.jsonl") for line in file.read_text().splitlines()]


def test_prompts_over_the_context_are_an_error_before_the_first_request(command: Command) -> None:
    with chat_server(lambda *_: counted(500), is_tested=True) as server:
        done = evaluate_by_server(command, server, context_tokens=1400)
    assert done.status == 1
    assert len(server.asked) == 1
    lines = done.err[done.err.index(f"ragtasks: prompts of {GROUP}") :].splitlines()
    assert lines[0].startswith(f"ragtasks: prompts of {GROUP}: 2 of 2, the longest of about ")
    assert lines[1] == "  expected: at most 376 tokens: a context of 1400 minus 1024 for the answer"
    assert '"too_long": "drop_passages"' in lines[-1]


def test_the_lowest_ranked_passages_are_dropped_and_counted(command: Command, tmp_path: Path) -> None:
    options = ("--log_samples", "--output_path", str(tmp_path))
    with chat_server(lambda *_: counted(500), is_tested=True) as server:
        done = evaluate_by_server(
            command, server, *options, "--gen_kwargs", "max_gen_toks=200", context_tokens=1000, too_long="drop_passages"
        )
    assert done.status == 0, done.err
    rows = samples(tmp_path)
    shown_to = {body["messages"][-1]["content"]: body["messages"][0]["content"] for body in server.bodies}
    for row in rows:
        kept = row["doc"]["passages"]
        assert 0 < len(kept) < 5
        shown = shown_to[row["doc"]["question"]]
        assert all(passage["text"] in shown for passage in kept)
    (results,) = (json.loads(file.read_text()) for file in tmp_path.rglob("results_*.json"))
    counts = results["configs"][GROUP]["metadata"]["ragtasks"]["too_long"]
    n_dropped = sum(5 - len(row["doc"]["passages"]) for row in rows)
    assert (counts["prompts"], counts["passages_dropped"], counts["counted_by"]) == (2, n_dropped, "estimate")
    report = render(report_sections(read_evaluations([tmp_path])), Format.MARKDOWN)
    assert f"2 prompts without {n_dropped} of their lowest-ranked passages" in report


def test_a_model_in_this_process_counts_with_its_own_tokenizer(
    command: Command, tiny_model: Callable[[str], Path], tmp_path: Path
) -> None:
    arguments = f"pretrained={tiny_model(CHATML)},max_length=3000"
    options = ("--model", "hf", "--device", "cpu", "--limit", "1", "--tasks", GROUP, "--apply_chat_template")
    refused = command(*options, "--model_args", arguments, "--gen_kwargs", "max_gen_toks=1")
    assert refused.status == 1
    assert f"ragtasks: prompts of {GROUP}: 1 of 1, the longest of " in refused.err
    done = command(
        *options, "--model_args", arguments, "--gen_kwargs", "max_gen_toks=1", "--log_samples",
        "--output_path", str(tmp_path), metadata={"too_long": "drop_passages"},
    )  # fmt: skip
    assert done.status == 0, done.err
    (row,) = samples(tmp_path)
    assert len(row["doc"]["passages"]) < 5
    assert len(row["arguments"]["gen_args_0"]["arg_0"].encode()) <= 2999
