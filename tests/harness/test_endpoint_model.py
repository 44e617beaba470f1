"""A RAG system behind HTTP: two protocols, scores of its own passages, resumed runs, and secret keys."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests._commands import run_command
from tests.clients._server import Action, ChatServer, chat_server, completion, refusal
from tests.harness.test_own_system import samples

KEY = "tk-0123456789abcdef-of-my-system"
FULL_RAG = ("--benchmark", "mtrag", "--setting", "full_rag", "--data", "sample", "--encoder", "none")
N_TASKS = 108
OWN = [{"id": "mine-1", "title": "Mine", "text": "The bridge is forty metres long."}]


def plain(answer: Any = "Forty metres.", contexts: Any = OWN) -> Action:
    content = {"answer": answer} if contexts is None else {"answer": answer, "contexts": contexts}
    return Action(json.dumps(content).encode())


def settings_of(server: ChatServer) -> dict[str, Any]:
    return {"base_url": server.base_url, "api_key_env": "MY_SYSTEM_KEY", "backoff_seconds": 0.01, "attempts": 2}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SYSTEM_KEY", KEY)


def everything_in(folder: Path) -> str:
    return "".join(path.read_bytes().decode("utf-8", "replace") for path in folder.rglob("*") if path.is_file())


def test_the_plain_protocol_sends_the_conversation_and_scores_the_systems_passages(tmp_path: Path) -> None:
    with chat_server(lambda *_: plain()) as server:
        endpoint = json.dumps(settings_of(server))
        done = run_command("score", endpoint, "--protocol", "plain", *FULL_RAG, "--name", "mine", "--output", tmp_path)
    assert done.status == 0, done.err
    assert "| mine   | 108 of 108 |" in done.out
    assert {path.split("?")[0] for path in server.paths} == {"/v1"}
    assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    assert {frozenset(body) for body in server.bodies} == {frozenset({"id", "messages"})}
    assert {message["role"] for body in server.bodies for message in body["messages"]} == {"user", "assistant"}
    rows = list(samples(tmp_path))
    assert len(rows) == N_TASKS
    assert {row["doc"]["passages"][0]["passage_id"] for row in rows} == {"mine-1"}
    assert not list(tmp_path.rglob("unfinished*"))
    assert KEY not in everything_in(tmp_path) + done.out + done.err


def test_the_harness_and_the_command_give_the_same_scores(tmp_path: Path) -> None:
    def script(text: str, _: int) -> Action:
        return completion(f"About {text}", contexts=[{"id": "p", "text": f"All on {text}"}])

    with chat_server(script) as server:
        arguments = json.dumps({**settings_of(server), "model": "mine"})
        metadata = '{"data": "sample", "encoder": "none"}'
        options = ("--model_args", arguments, "--metadata", metadata, "--log_samples", "--output_path", tmp_path / "a")
        assert (
            run_command(
                "run", "--no-probe", "--model", "ragtasks-endpoint", "--tasks", "mtrag_full_rag", *options
            ).status
            == 0
        )
        command = ("score", json.dumps(settings_of(server)), *FULL_RAG, "--output", tmp_path / "b")
        assert run_command(*command).status == 0
    shown = ("metrics", "filtered_resps", "rouge_l", "ans_acc", "token_recall", "idk_yes")
    outcomes = [
        {
            row["doc"]["task_id"]: ([row[key] for key in shown], row["doc"]["passages"])
            for row in samples(tmp_path / name)
        }
        for name in "ab"
    ]
    assert outcomes[0] == outcomes[1]
    assert len(outcomes[0]) == N_TASKS


def test_a_rejected_key_is_a_one_line_error_without_the_key(tmp_path: Path) -> None:
    with chat_server(lambda *_: refusal(401, f"wrong key {KEY}")) as server:
        done = run_command("score", json.dumps(settings_of(server)), *FULL_RAG, "--output", tmp_path)
    assert done.status == 1
    assert "does not accept the key" in done.err
    assert KEY not in everything_in(tmp_path) + done.out + done.err


@pytest.mark.engine
def test_after_a_kill_only_missing_answers_are_requested(tmp_path: Path) -> None:
    victim: list[subprocess.Popen[bytes]] = []
    out = tmp_path / "out"

    def script(text: str, _: int) -> Action:
        if len(server.asked) == 40 and victim:
            victim.pop().send_signal(signal.SIGKILL)
        return completion(f"On {text}", contexts=OWN)

    with chat_server(script) as server:
        endpoint = {**settings_of(server), "slots": 2, "model": "mine"}
        options = ["--no-probe", json.dumps(endpoint), *FULL_RAG, "--output", str(out)]
        program = [sys.executable, "-c", "from ragtasks.cli import main; main()", "score", *options]
        with subprocess.Popen(program, env=os.environ | {"HF_HUB_OFFLINE": "1"}, stderr=subprocess.DEVNULL) as process:
            victim.append(process)
            process.wait()
        assert process.returncode == -signal.SIGKILL
        n_before = len(server.asked)
        assert run_command("score", *options).status == 0
    assert len(server.asked) <= N_TASKS + 2
    assert n_before >= 40
    rows = list(samples(out))
    assert len(rows) == N_TASKS
    assert {row["doc"]["passages"][0]["passage_id"] for row in rows} == {"mine-1"}
    assert not list(out.rglob("unfinished*"))
