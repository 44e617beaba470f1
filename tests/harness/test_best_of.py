"""Best of n: several samples of an answer, of which a judge picks one, over loopback servers."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragtasks.config import config_from_options
from ragtasks.errors import ConfigurationError
from ragtasks.harness.conversation_task import ConversationTask
from ragtasks.harness.judge_model import JudgeModel
from ragtasks.scoring import Place, rescore
from tests._commands import CommandResult
from tests.clients._server import closed_port
from tests.harness._endpoint import Endpoint, Request
from tests.judges._demo import DemoServer

TASK = "mtrag_reference_clapnq"
Running = Callable[..., CommandResult]


@pytest.fixture
def running(
    command: Callable[..., CommandResult], endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Running:
    """Run three tasks on the loopback model, which gives another answer each time."""
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    monkeypatch.setenv("OPENAI_API_KEY", "none")

    def run(*options: str, **metadata: Any) -> CommandResult:
        return command(
            "--model", "local-chat-completions", "--apply_chat_template", "--limit", "3", "--log_samples",
            "--model_args", f"model=loopback,base_url={endpoint.chat_url},max_retries=1",
            "--tasks", TASK, "--output_path", str(tmp_path / "out"), *options, metadata=metadata,
        )  # fmt: skip

    return run


def samples_in(folder: Path) -> list[dict[str, Any]]:
    (file,) = folder.rglob(f"samples_{TASK}_*.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def best_of_in(folder: Path) -> dict[str, Any]:
    (file,) = folder.rglob("results_*.json")
    found: dict[str, Any] = json.loads(file.read_text())["configs"][TASK]["metadata"]["ragtasks"]["best_of"]
    return found


def third_repeats_the_passages(endpoint: Endpoint) -> None:
    """Every third answer is what the system message shows; the demo judge rates by shared words."""
    numbers = itertools.count(1)

    def answer(request: Request) -> str:
        number = next(numbers)
        return request.body["messages"][0]["content"] if number % 3 == 0 else f"Nothing, said for time {number}."

    endpoint.answer = answer


def test_the_best_rated_sample_is_the_answer_that_is_scored(
    running: Running, endpoint: Endpoint, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    third_repeats_the_passages(endpoint)
    with DemoServer() as server:
        done = running(best_of=3, picker=server.judge("steady"))
        assert done.status == 0, done.err
        n_asked = len(server.asked)
    samples = samples_in(tmp_path / "out")
    assert len(endpoint.requests) == 9
    assert n_asked == 9
    for sample in samples:
        picked = sample["doc"]["picked"]
        assert picked["by"] == "steady"
        assert picked["ratings"][picked["index"]] == max(picked["ratings"])
        assert sample["filtered_resps"] == [sample["resps"][0][0]]
        assert len(sample["resps"][0]) == 3
    n_not_first = sum(sample["doc"]["picked"]["index"] > 0 for sample in samples)
    assert n_not_first > 0
    assert best_of_in(tmp_path / "out") == {
        "n": 3,
        "by": "steady",
        "scores_too": False,
        "n_picked": 3,
        "n_unrated": 0,
        "n_not_first": n_not_first,
        "different_samples": 3,
    }
    assert "scores them too" not in caplog.text
    with DemoServer() as server:
        place = Place(tmp_path / "data", tmp_path / "store")
        judges = {"judges": [server.judge("steady")]}
        rescore([tmp_path / "out"], judges, tmp_path / "again", place, local_judge=JudgeModel)
    assert "steady scores answers that it picked" in caplog.text
    assert best_of_in(tmp_path / "again") == best_of_in(tmp_path / "out")
    assert [sample["doc"]["picked"] for sample in samples_in(tmp_path / "again")] == [
        sample["doc"]["picked"] for sample in samples
    ]


def test_a_second_run_asks_the_picker_nothing_and_a_judge_that_scores_too_is_said(
    running: Running, endpoint: Endpoint, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with DemoServer() as server:
        judge = server.judge("steady")
        assert running(best_of=2, picker=judge, judges=[judge]).status == 0
        n_asked = len(server.asked)
        assert running(best_of=2, picker=judge, judges=[judge]).status == 0
        assert len(server.asked) == n_asked
    assert "picks the answers and scores them too" in caplog.text
    assert "all samples of each request are equal" in caplog.text  # the endpoint's answer is a constant
    newest = max((tmp_path / "out").rglob("results_*.json"))
    found = json.loads(newest.read_text())["configs"][TASK]["metadata"]["ragtasks"]["best_of"]
    assert (found["scores_too"], found["different_samples"], found["n_not_first"]) == (True, 1, 0)


def test_without_its_picker_the_first_answers_stand_and_the_evaluation_fails(
    running: Running, endpoint: Endpoint, tmp_path: Path
) -> None:
    third_repeats_the_passages(endpoint)
    dead = {"model": "dead", "base_url": f"http://127.0.0.1:{closed_port()}/v1", "attempts": 1, "backoff_seconds": 0.01}
    done = running(best_of=2, picker=dead)
    assert done.status == 1
    assert "picking" in done.err
    assert all(sample["doc"]["picked"]["index"] == 0 for sample in samples_in(tmp_path / "out"))
    assert best_of_in(tmp_path / "out")["n_unrated"] == 3


@pytest.mark.parametrize("options", [{"best_of": 3}, {"picker": "openai/m"}, {"best_of": 1, "picker": "openai/m"}])
def test_samples_and_picker_go_together(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="go together"):
        config_from_options(options)


def test_a_broken_picker_is_refused_without_showing_it() -> None:
    with pytest.raises(ConfigurationError, match="picker") as error:
        config_from_options({"best_of": 2, "picker": {"lm_eval": "hf", "key": "hunter2"}})
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("name", ["mtrag_rewrite"])
def test_tasks_without_answers_refuse_to_pick(
    load_task: Callable[..., ConversationTask], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with pytest.raises(ConfigurationError, match="no answers that a judge could pick from"):
        load_task(name, best_of=2, picker="openai/m")
