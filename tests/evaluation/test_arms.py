"""Two arms of one system in one file: equal questions, and scores, tokens and first failures compared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.reports.comparison import compare_evaluations
from ragtasks.results import Evaluation, read_evaluations
from tests.evaluation.conftest import Command

pytestmark = pytest.mark.slow
LAST_TURN = 3
"""With `compact`, the system forgets the conversation after this turn."""


class System(BaseHTTPRequestHandler):
    """A system that knows the reference answers, and counts the words that it reads as tokens."""

    targets: dict[str, str]
    bodies: list[dict[str, Any]]
    is_broken = False
    """Whether the arm with `compact` fails after the last turn that it remembers."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.bodies.append(body)
        messages = body["messages"]
        has_forgotten = body.get("compact") and sum(message["role"] == "user" for message in messages) > LAST_TURN
        if has_forgotten and self.is_broken:
            self.send_error(400)
            return
        answer = "I do not know." if has_forgotten else self.targets.get(messages[-1]["content"], "ready")
        n_read = sum(len(message["content"].split()) for message in messages[-1 if has_forgotten else 0 :])
        reply = {"answer": answer, "input_tokens": n_read, "output_tokens": len(answer.split())}
        text = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name of the base class)
        pass


@contextmanager
def running() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the address of the system, and the bodies of its requests."""
    benchmark = open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path()))
    System.targets = {task.question: task.target or "It depends." for task in benchmark.tasks}
    System.bodies, System.is_broken = [], False
    server = ThreadingHTTPServer(("127.0.0.1", 0), System)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", System.bodies
    finally:
        server.shutdown()
        server.server_close()


def write_file(address: str, task_or_setting: str) -> None:
    Path("evaluation.yaml").write_text(
        f"{task_or_setting}\ndata: sample\noutput: results/arms\nreport: {{html: null}}\n"
        f"endpoint: {{base_url: '{address}', protocol: plain, name: mine, "
        "arms: {full: {}, compacted: {extra_body: {compact: true}}}}\n"
        "options: {encoder: none, max_implausible: 1}\n"
    )


def compared(command: Command, task_or_setting: str) -> tuple[str, list[Evaluation], list[dict[str, Any]]]:
    """Evaluate both arms, and return the output, the results and the requests."""
    with running() as (address, bodies):
        write_file(address, task_or_setting)
        done = command("eval")
        assert done.status == 0, done.err
    return done.out, read_evaluations([Path("results/arms")]), bodies


def assert_compacted_is_worse(
    out: str, evaluations: list[Evaluation], n: int, n_conversations: int, failure_free: float = 1.0
) -> None:
    assert "| mine-full" in out
    assert "| mine-compacted" in out
    for metric in ("ans_acc", "tokens (lower is better)", "failure_free", "turns_before_failure"):
        assert f" | {metric} " in out.partition("## Differences")[2]
    evaluations = sorted(evaluations, key=lambda evaluation: "compacted" in evaluation.model)
    pairs = {pair.first.metric: pair for pair in compare_evaluations(evaluations).pairs}
    assert (pairs["tokens"].difference.n_values, pairs["tokens"].n_unshared) == (n, 0)
    assert (pairs["tokens"].difference.value or 0) < 0
    assert (pairs["failure_free"].first_mean, pairs["failure_free"].second_mean) == (failure_free, 0.0)
    assert pairs["turns_before_failure"].difference.n_values == n_conversations
    assert LAST_TURN <= (pairs["turns_before_failure"].second_mean or 0) < LAST_TURN + 1


def test_arms_in_live_conversations(command: Command) -> None:
    out, evaluations, bodies = compared(command, "tasks: mtrag_live_reference_fiqa")
    n = len(evaluations[0].rows)
    assert_compacted_is_worse(out, evaluations, n, 4)
    assert sorted(evaluation.model for evaluation in evaluations) == [
        *("mine-compacted (own history)", "mine-full (own history)"),
    ]
    # The history of an arm has its own answers.
    forgotten = [body for body in bodies if body.get("compact") and len(body["messages"]) > 2 * LAST_TURN + 2]
    assert forgotten
    assert all(body["messages"][2 * LAST_TURN + 1]["content"] == "I do not know." for body in forgotten)
    assert "next: ragtasks " in out


def test_arms_with_the_history_of_the_benchmark(command: Command) -> None:
    out, evaluations, bodies = compared(command, "settings: full_rag")
    # The detector reads one partial reference answer as a refusal.
    assert_compacted_is_worse(out, evaluations, 108, 16, failure_free=15 / 16)
    assert not any("I do not know." in message["content"] for body in bodies for message in body["messages"])


def test_the_same_command_requests_only_what_an_arm_has_missed(command: Command) -> None:
    with running() as (address, bodies):
        write_file(address, "tasks: mtrag_live_reference_fiqa")
        System.is_broken = True
        first = command("eval")
        assert first.status == 1
        assert "requests got no answer" in first.err
        System.is_broken = False
        bodies.clear()
        again = command("eval")
    assert again.status == 0, again.err
    asked = [body for body in bodies if body["messages"][-1]["content"] in System.targets]
    assert asked
    assert all(body.get("compact") and len(body["messages"]) > 2 * LAST_TURN for body in asked)
    assert "## Differences" in again.out
