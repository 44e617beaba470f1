from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ragtasks.benchmarks import SAMPLE, benchmark_folder, open_benchmark
from ragtasks.clients import Decoding, OpenAIClient
from ragtasks.prompts import shipped_template
from ragtasks.records import Task
from retrieval_cache.queries import Queries, rewrite_queries
from tests._shared import KILLS
from tests.clients._server import Action, ChatServer, Script, chat_server, completion, refusal
from tests.retrieval_cache._rewriting_run import SLOTS

CHECKOUT = Path(__file__).resolve().parents[3]
MODULE = "tests.retrieval_cache._rewriting_run"


def contract(version: object = "v", label: object = "non-standalone") -> str:
    return json.dumps({"class": label, "reworded version": version})


def sample_tasks() -> tuple[Task, ...]:
    return open_benchmark("mtrag", benchmark_folder("mtrag", SAMPLE, Path())).tasks


def later_turns() -> list[Task]:
    return [task for task in sample_tasks() if task.turn > 1]


def rewritten(server: ChatServer, tasks: list[Task], decoding: Decoding | None = None) -> Queries:
    endpoint = {"model": "m", "base_url": server.base_url, "attempts": 1}
    return rewrite_queries(tasks, OpenAIClient(endpoint, None, decoding))


def test_only_later_turns_are_sent_to_the_model() -> None:
    tasks = list(sample_tasks())
    with chat_server(lambda *_: completion(contract("reworded"))) as server:
        rewrites = rewritten(server, tasks)
    assert rewrites.texts == {task.task_id: task.question if task.turn == 1 else "reworded" for task in tasks}
    assert list(rewrites.texts) == [task.task_id for task in tasks]
    assert len(server.asked) == len(later_turns())
    assert not rewrites.fallbacks


def test_the_prompt_contains_the_conversation() -> None:
    task = later_turns()[0]
    with chat_server(lambda *_: completion(contract())) as server:
        rewritten(server, [task])
    positions = [server.asked[0].index(message.text) for message in task.messages]
    assert positions == sorted(positions)
    assert '"reworded version"' in server.asked[0]


@pytest.mark.parametrize(
    ("action", "reason", "n_unanswered"),
    [
        (completion("sure"), "invalid reply: not one JSON object", 0),
        (completion('{"class": "stand', finish_reason="length"), "the reply reached the token limit", 0),
        (completion(None), "the reply has no content", 0),
        (refusal(400, "odd"), "HTTP 400", 1),
        (Action(b"{}"), "no chat completion", 1),
    ],
)
def test_an_invalid_reply_falls_back_to_the_last_turn_with_a_reason(
    action: Action, reason: str, n_unanswered: int
) -> None:
    good, bad = later_turns()[:2]
    script: Script = lambda text, _: action if bad.question in text else completion(contract())  # noqa: E731
    with chat_server(script) as server:
        rewrites = rewritten(server, [good, bad])
    assert rewrites.texts == {good.task_id: "v", bad.task_id: bad.question}
    ((name, message),) = rewrites.fallbacks.items()
    assert name == bad.task_id
    assert message.startswith(reason)
    assert rewrites.n_unanswered == n_unanswered


def test_the_description_depends_on_model_decoding_and_prompt() -> None:
    with chat_server(lambda *_: completion(contract())) as server:
        url = server.base_url
        specs = [
            rewrite_queries([], OpenAIClient({"model": model, "base_url": url}, None, decoding)).describe()
            for model in "mn"
            for decoding in (Decoding(), Decoding(seed=1))
        ]
    assert len({json.dumps(spec) for spec in specs}) == 4
    assert specs[0]["prompt_sha256"] == shipped_template("rewrite/conversation").sha256


@KILLS
def test_killed_rewriting_resumes_to_the_same_bytes(tmp_path: Path, n_kills: int) -> None:
    def script(text: str, _: int) -> Action:
        return Action(completion(contract(text[-300:-200])).body, delay_seconds=0.03)  # readable: only these are cached

    def start(folder: str) -> subprocess.Popen[bytes]:
        files = [str(tmp_path / folder / "replies"), str(tmp_path / folder / "queries.json")]
        return subprocess.Popen([sys.executable, "-m", MODULE, server.base_url, *files], cwd=CHECKOUT)

    chance = random.Random(5)
    with chat_server(script) as server:
        for _ in range(n_kills):
            wanted = len(server.asked) + chance.randint(1, 4)
            killed = start("killed")
            while len(server.asked) < wanted and killed.poll() is None:
                time.sleep(0.002)
            killed.kill()
            killed.wait()
        assert start("killed").wait() == 0
        n_asked = len(server.asked)
        assert start("whole").wait() == 0
    n_tasks = len(later_turns())
    # Only requests in flight at a kill are sent twice.
    assert n_tasks <= n_asked <= n_tasks + n_kills * SLOTS
    assert (tmp_path / "killed/queries.json").read_bytes() == (tmp_path / "whole/queries.json").read_bytes()
