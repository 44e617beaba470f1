"""A chat server that fails midway: answers so far are saved, and only the missing ones are requested."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests._commands import CommandResult
from tests.clients._server import Action, ChatServer, chat_server, completion, refusal

TASK = "mtrag_reference_fiqa"
N_TASKS = 6
SECRET = "sk-31337"
Evaluating = Callable[..., CommandResult]

FAILING: dict[str, tuple[Action, str]] = {
    "content filter": (refusal(400, "filtered", "content_filter"), "a content filter stopped the prompt (HTTP 400: "),
    "server error": (refusal(500), "HTTP 500: "),
    "reset": (Action(reset=True), "the connection broke ("),
    "half a reply": (Action(b'{"choices": [{"index"', sent_bytes=7), "the connection broke ("),
    "no JSON": (Action(b"<html>"), "the reply is not JSON"),
    "null": (completion(None), "the reply has no content"),
    "null at the limit": (completion(None, finish_reason="length"), "the reply reached the token limit"),
    "empty at the limit": (completion("", finish_reason="length"), "the reply reached the token limit"),
    "filtered reply": (completion("", finish_reason="content_filter"), "a content filter stopped the reply"),
    "refusal": (completion(None, refusal="I will not."), "the model refused: I will not."),
    "no choice": (Action(b'{"choices": []}'), "no chat completion: its choices are empty"),
    "no message": (Action(b'{"choices": [{"index": 0}]}'), "no chat completion: it has no message, but choices"),
    "an error in a 200": (Action(b'{"error": {"message": "it broke"}}'), "an error in place of a reply: it broke"),
    "cut at the limit": (completion("It takes th", finish_reason="MAX_TOKENS"), "the reply reached the token limit"),
    "broken off": (completion("It ta", finish_reason="abort"), "the server broke the reply off (finish_reason abort)"),
    "calls without tools": (
        completion("I look", finish_reason="tool_calls"),
        "the reply ended early (finish_reason to",
    ),
}


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server(lambda *_: completion("It takes three days.")) as running:
        yield running


@pytest.fixture
def evaluating(command: Evaluating, server: ChatServer, tmp_path: Path) -> Evaluating:
    """Evaluate the server's model on six tasks into `out`, one attempt per request."""

    def run(*more: str, n_concurrent: int = 1, **arguments: Any) -> CommandResult:
        own = {
            "base_url": f"{server.base_url}/chat/completions", "model": "loopback", "eos_string": "</s>",
            "max_retries": 1, "num_concurrent": n_concurrent, **arguments,
        }  # fmt: skip
        return command(
            "--model", "local-chat-completions", "--apply_chat_template", "--tasks", TASK, "--limit", str(N_TASKS),
            "--model_args", json.dumps(own), "--log_samples", "--output_path", str(tmp_path / "out"), *more,
        )  # fmt: skip

    return run


def newest_samples(folder: Path) -> list[dict[str, Any]]:
    file = max(folder.rglob("samples_*.jsonl"), key=lambda path: path.name)
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("n_concurrent", [1, 3])
def test_failed_requests_are_unscored_and_can_be_sent_again(
    n_concurrent: int, evaluating: Evaluating, server: ChatServer, tmp_path: Path
) -> None:
    actions = {2 + number: action for number, (action, _) in enumerate(FAILING.values())}
    fine = completion("It takes three days.")
    server.script = lambda text, _: actions.get(server.asked.index(text), fine)
    n_tasks = len(FAILING) + 4
    done = evaluating("--limit", str(n_tasks), n_concurrent=n_concurrent)
    victims = {server.asked[index]: reason for index, (_, reason) in enumerate(FAILING.values(), 2)}
    assert (done.status, len(server.asked)) == (1, n_tasks)
    assert f"{len(FAILING)} of {n_tasks} requests got no answer: " in done.err
    assert "everything is saved in" in done.err
    assert "Traceback" not in done.err
    for row in newest_samples(tmp_path / "out"):
        reason = victims.get(row["doc"]["question"])
        assert (row["filtered_resps"] == [""]) is (reason is not None)
        told = row["doc"].get("no_answer", "")
        if reason is None:
            assert (told, row["coverage"]) == ("", 0)
            continue
        assert told.startswith(reason)
        assert all(math.isnan(row[name]) for name in row["metrics"] if name != "coverage")
        assert row["doc"]["scoring"]["unscored"]["rouge_l"] == f"no answer: {told}"

    server.script = lambda *_: completion("On Monday.")
    again = evaluating("--limit", str(n_tasks), n_concurrent=n_concurrent)
    assert again.status == 0
    assert sorted(server.asked[n_tasks:]) == sorted(victims)
    for row in newest_samples(tmp_path / "out"):
        expected = "On Monday." if row["doc"]["question"] in victims else "It takes three days."
        assert row["filtered_resps"] == [expected]
    assert not list((tmp_path / "out").glob("unfinished*"))


@pytest.mark.parametrize("n_concurrent", [1, 3])
def test_a_key_rejected_midway_ends_the_evaluation_with_one_line(
    n_concurrent: int, evaluating: Evaluating, server: ChatServer, tmp_path: Path
) -> None:
    server.script = lambda *_: completion("fine") if len(server.asked) <= 3 else refusal(401, f"bad key {SECRET}")
    done = evaluating(n_concurrent=n_concurrent, auth_token=SECRET, max_retries=3)
    assert done.status == 1
    assert "the model gives no more answers: the endpoint does not accept the key (HTTP 401: " in done.err
    assert "Traceback" not in done.err
    assert len(server.asked) <= 3 + n_concurrent
    assert not list((tmp_path / "out").rglob("results_*.json"))
    kept = (tmp_path / "out" / "unfinished_rank0.sqlite").read_bytes()
    assert SECRET.encode() not in kept

    answered = set(server.asked[:3])
    n_before = len(server.asked)
    server.script = lambda *_: completion("fine")
    assert evaluating(n_concurrent=n_concurrent).status == 0
    assert len(server.asked[n_before:]) == N_TASKS - 3
    assert answered.isdisjoint(server.asked[n_before:])


def test_a_key_in_the_address_never_appears_in_output(
    evaluating: Evaluating, server: ChatServer, tmp_path: Path
) -> None:
    key = "q31337x"
    address = f"{server.base_url}/chat/completions?key={key}"
    server.script = lambda *_: (
        completion("fine") if len(server.asked) <= 3 else refusal(400, f"bad: {server.paths[-1]}")
    )
    done = evaluating(base_url=address)
    assert "chat/completions?key=***" in newest_samples(tmp_path)[-1]["doc"]["no_answer"]
    saved = [file.read_text(errors="replace") for file in tmp_path.rglob("*") if file.is_file()]
    assert not [text for text in (done.out, done.err, *saved) if key in text]


def test_a_server_that_always_fails_receives_few_requests(
    evaluating: Evaluating, server: ChatServer, tmp_path: Path
) -> None:
    server.script = lambda *_: Action(reset=True)
    done = evaluating("--limit", "27", n_concurrent=2)
    assert done.status == 1
    assert "the model gives no more answers: no reply at all; last failure: the connection broke" in done.err
    assert len(server.asked) <= 4


@pytest.mark.parametrize("failure", [refusal(503), refusal(429, retry_after="0.1"), Action(reset=True)])
def test_temporary_failures_are_retried_and_lose_no_answer(
    failure: Action, evaluating: Evaluating, server: ChatServer, tmp_path: Path
) -> None:
    server.script = lambda text, n_before: failure if text == server.asked[0] and not n_before else completion("a")
    assert evaluating(max_retries=2).status == 0
    assert len(server.asked) == N_TASKS + 1
    assert [row["filtered_resps"] for row in newest_samples(tmp_path / "out")] == [["a"]] * N_TASKS


def test_an_empty_answer_is_an_answer(evaluating: Evaluating, server: ChatServer, tmp_path: Path) -> None:
    server.script = lambda *_: completion("")
    assert evaluating(n_concurrent=2).status == 0
    assert [row["empty"] for row in newest_samples(tmp_path / "out")] == [1] * N_TASKS


def test_predictions_report_failed_requests_too(evaluating: Evaluating, server: ChatServer, tmp_path: Path) -> None:
    server.script = lambda text, _: completion(None if text == server.asked[0] else "fine")
    assert evaluating("--predict_only").status == 1
    named = [row["doc"].get("no_answer", "") for row in newest_samples(tmp_path / "out")]
    assert [reason for reason in named if reason] == ["the reply has no content"]


def test_a_default_output_folder_is_used_and_the_next_run_resumes(command: Evaluating, server: ChatServer) -> None:
    server.script = lambda text, n_before: completion(None if text == server.asked[0] and not n_before else "fine")
    arguments = f"base_url={server.base_url}/chat/completions,model=loopback,eos_string=</s>"
    line = (
        "--model", "local-chat-completions", "--apply_chat_template", "--tasks", TASK, "--limit", "2",
        "--model_args", arguments,
    )  # fmt: skip
    assert command(*line).status == 1
    (folder,) = Path("results").iterdir()
    assert folder.name.startswith("loopback-mtrag-reference-fiqa-20")
    assert command(*line).status == 0
    assert list(Path("results").iterdir()) == [folder]
    assert len(server.asked) == 3


@pytest.mark.parametrize("n_concurrent", [1, 3])
def test_usage_is_exact_over_failures_and_two_processes(
    n_concurrent: int, evaluating: Evaluating, server: ChatServer, tmp_path: Path
) -> None:
    """Usage equals the server's own sum over both processes; unusable replies are listed separately."""
    reported: list[tuple[int, int]] = []
    silent = {1, 4}

    def script(text: str, _: int) -> Action:
        n_requests = len(server.asked)
        reported.append((100 + n_requests, n_requests))
        content = None if server.asked.index(text) in silent else "It takes three days."
        return completion(content, usage={"prompt_tokens": 100 + n_requests, "completion_tokens": n_requests})

    server.script = script
    first = evaluating("--metadata", "price=[1.0, 10.0]", n_concurrent=n_concurrent)
    assert first.status == 1, "two requests got no answer"
    n_first = len(reported)
    silent.clear()
    assert evaluating("--metadata", "price=[1.0, 10.0]", n_concurrent=n_concurrent).status == 0
    rows = [row["doc"]["usage"]["calls"] for row in newest_samples(tmp_path / "out")]
    calls = [call for row in rows for call in row]
    assert sorted((call["input_tokens"], call["output_tokens"]) for call in calls) == sorted(reported)
    assert len(reported) == n_first + 2
    assert sum(not call.get("is_used", True) for call in calls) == 2
    assert sum(call.get("spent") == "before" for call in calls) == n_first
    assert all(call["seconds"] > 0 for call in calls)
    assert all(
        math.isclose(call["dollars"], (call["input_tokens"] + 10 * call["output_tokens"]) / 1e6) for call in calls
    )
