"""Servers that reject a setting or stop within a thought. Every answer arrives, and results list changed settings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragtasks.harness.served_model import PLAIN_STOP
from tests._commands import CommandResult, run_command
from tests.clients._server import Action, ChatServer, chat_server, completion, refusal
from tests.harness._endpoint import Endpoint
from tests.judges._demo import QUICK, DemoServer, _demo

TASK = "mtrag_reference_fiqa"
ANSWER = "It takes three days."
Command = Callable[..., CommandResult]


@pytest.fixture
def evaluated(command: Command, tmp_path: Path) -> Callable[..., tuple[list[dict[str, Any]], dict[str, Any]]]:
    """Evaluate a server's model on two tasks and return the samples and the results' entry of the task."""

    def run(server: ChatServer, *options: str, **arguments: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        own = {"model": "m", "base_url": f"{server.base_url}/chat/completions", "num_concurrent": 4, **arguments}
        done = command(
            "--model", "local-chat-completions", "--apply_chat_template", "--tasks", TASK, "--limit", "2",
            "--model_args", json.dumps(own), "--output_path", str(tmp_path / "out"), *options,
        )  # fmt: skip
        assert done.status == 0, done.err
        (results,) = tmp_path.rglob("results_*.json")
        (samples,) = tmp_path.rglob("samples_*.jsonl")
        rows = [json.loads(line) for line in samples.read_text().splitlines()]
        return rows, json.loads(results.read_text())["configs"][TASK]["metadata"]["ragtasks"]

    return run


def test_a_model_without_max_tokens_receives_the_newer_name(evaluated: Any) -> None:
    words = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    with chat_server(lambda *_: completion(ANSWER)) as server:
        server.script = lambda *_: refusal(400, words) if "max_tokens" in server.bodies[-1] else completion(ANSWER)
        rows, shown = evaluated(server)
    assert [row["filtered_resps"] for row in rows] == [[ANSWER]] * 2
    assert {body["max_completion_tokens"] for body in server.bodies if "max_tokens" not in body} == {1024}
    assert shown["server_settings"] == {"max_tokens": "max_completion_tokens"}
    assert "server_settings" not in rows[0]["doc"]


def test_a_model_without_a_system_role_gets_the_passages_before_the_first_question(evaluated: Any) -> None:
    with chat_server(lambda *_: completion(ANSWER)) as server:

        def script(*_: Any) -> Action:
            roles = [message["role"] for message in server.bodies[-1]["messages"]]
            words = "System role not supported"
            return refusal(400, words) if "system" in roles else completion(ANSWER)

        server.script = script
        rows, shown = evaluated(server)
    assert [row["filtered_resps"] for row in rows] == [[ANSWER]] * 2
    assert shown["server_settings"] == {"system role": "user"}
    texts = [body["messages"][0]["content"] for body in server.bodies if body["messages"][0]["role"] == "user"]
    for row in rows:
        first = row["doc"]["history"][0]["content"] if row["doc"]["history"] else row["doc"]["question"]
        passage = row["doc"]["passages"][0]["text"]
        assert any(passage in text and text.endswith(f"\n\n{first}") for text in texts)


def test_the_stop_string_of_plain_prompts_is_not_sent_to_a_chat_server(evaluated: Any) -> None:
    """Otherwise a thought that quotes the conversation would end at it, and the answer would be lost."""
    thought = f"The conversation:{PLAIN_STOP} asked for the days."

    def script(*_: Any) -> Action:
        written = f"<think>{thought}</think>{ANSWER}{PLAIN_STOP} and then?"
        ends = [position for stop in server.bodies[-1]["stop"] if (position := written.find(stop)) >= 0]
        return completion(written[: min(ends, default=len(written))])

    with chat_server(lambda *_: completion()) as server:
        server.script = script
        rows, shown = evaluated(server)
    assert [body["stop"] for body in server.bodies] == [["</s>"]] * 2
    assert [row["filtered_resps"] for row in rows] == [[ANSWER]] * 2
    assert [row["resps"] for row in rows] == [[[f"<think>{thought}</think>{ANSWER}"]]] * 2
    assert "server_settings" not in shown


def test_a_single_stop_string_is_sent_complete(evaluated: Any) -> None:
    with chat_server(lambda *_: completion(ANSWER)) as server:
        evaluated(server, "--gen_kwargs", "until=END")
    assert [body["stop"] for body in server.bodies] == [["END"]] * 2


def test_a_plain_text_model_still_stops_at_the_next_turn(
    command: Command, endpoint: Endpoint, tiny_model: Callable[[str], Path]
) -> None:
    arguments = {"model": "m", "base_url": endpoint.completions_url, "tokenizer_backend": "None"}
    done = command(
        "--model", "local-completions", "--tasks", TASK, "--limit", "1", "--model_args", json.dumps(arguments)
    )  # fmt: skip
    assert done.status == 0, done.err
    (request,) = endpoint.requests
    assert PLAIN_STOP in request.body["stop"]
    assert request.body["prompt"].endswith("Assistant:")


def test_a_judge_whose_content_is_a_list_of_parts_gives_verdicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    row = {"question": "When?", "answer": "At nine.", "contexts": ["It opens at nine."], "reference": "At nine."}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    with DemoServer(content=lambda text: [{"type": "text", "text": text}]) as server:
        done = run_command(
            "score", str(tmp_path / "rows.jsonl"), "--encoder", "none", "--force", "--output", str(tmp_path / "out"),
            "--judge", json.dumps(server.judge("steady")),
        )  # fmt: skip
    assert done.status == 0, done.err
    (samples,) = tmp_path.rglob("samples_*.jsonl")
    scored = json.loads(samples.read_text().splitlines()[0])
    assert scored["judge_coverage"] == 1
    assert scored["rb_llm_raw"] > 0


def test_results_list_the_settings_that_a_judge_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    row = {"question": "When?", "answer": "At nine.", "contexts": ["It opens at nine."], "reference": "At nine."}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    verdict = _demo().verdict
    with chat_server(lambda *_: completion(ANSWER)) as server:

        def script(prompt: str, _: int) -> Action:
            words = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
            return refusal(400, words) if "max_tokens" in server.bodies[-1] else completion(verdict(prompt))

        server.script = script
        done = run_command(
            "score", str(tmp_path / "rows.jsonl"), "--encoder", "none", "--force", "--output", str(tmp_path / "out"),
            "--judge", json.dumps({"model": "newer", "base_url": server.base_url, **QUICK}),
        )  # fmt: skip
    assert done.status == 0, done.err
    (results,) = tmp_path.rglob("results_*.json")
    (shown,) = json.loads(results.read_text())["configs"].values()
    learned = shown["metadata"]["ragtasks"]["scoring"]["server_settings"]
    assert learned == {"newer": {"max_tokens": "max_completion_tokens"}}
