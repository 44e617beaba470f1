"""`ragtasks score --batch`: judges' questions as files of a batch service, and its replies in the place of requests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ragtasks.clients import _batch
from ragtasks.results import read_evaluations
from tests._commands import run_command
from tests.judges._demo import _demo
from tests.scoring._noisy import NoisyServer
from tests.scoring.test_judge import predictions, written

Score = Callable[..., tuple[int, str, str]]
Answer = Callable[[dict[str, Any]], dict[str, Any]]


def said(body: dict[str, Any]) -> dict[str, Any]:
    """Return what the service says of a request: the verdict of the stand-in judge."""
    message = {"role": "assistant", "content": _demo().verdict(body["messages"][-1]["content"])}
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    content = {"choices": [{"index": 0, "finish_reason": "stop", "message": message}], "usage": usage}
    return {"response": {"status_code": 200, "request_id": "r", "body": content}, "error": None}


def service(folder: Path, answer: Answer = said) -> int:
    """Answer the request files that have no replies, as a batch service; return how many requests."""
    n = 0
    for file in sorted(folder.glob("*.requests.jsonl")):
        output = file.with_name(file.name.replace(".requests.", ".output."))
        if not output.exists():
            requests = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
            assert all((one["method"], one["url"]) == ("POST", "/v1/chat/completions") for one in requests)
            lines = [{"id": "b", "custom_id": one["custom_id"], **answer(one["body"])} for one in requests[::-1]]
            written(output, lines)  # in any order
            n += len(lines)
    return n


@pytest.fixture
def score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Score:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    written(tmp_path / "mine.jsonl", answers())

    def ended(*arguments: str, judge: dict[str, Any]) -> tuple[int, str, str]:
        given = ["mine.jsonl", "--setting", "full_rag", "--data", "sample", "--encoder", "none"]
        done = run_command("score", *given, "--judge", json.dumps(judge), *arguments)
        return done.status, done.out, done.err

    return ended


def answers(count: int = 12) -> list[dict[str, Any]]:
    rows = predictions(count)
    return [{"id": row["task_id"].replace("::", "<::>"), "answer": row["predictions"][0]["text"][18:]} for row in rows]


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[NoisyServer, dict[str, Any]]]:
    with NoisyServer(lambda _prompt, _n: 0) as server:
        yield server, server.judge()


def values_of(folder: str) -> list[dict[str, float | None]]:
    (evaluation,) = read_evaluations([Path(folder)])
    # How long a judge took is another number each time, and a batch does not say it.
    return [{name: value for name, value in row.values.items() if "seconds" not in name} for row in evaluation.rows]


@pytest.mark.parametrize("prompts", ["ours", "material_first"])
def test_scores_are_those_of_live_judging_and_nobody_is_asked(
    score: Score,
    judge: tuple[NoisyServer, dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    prompts: str,
) -> None:
    server, named = judge
    status, out, _ = score("--batch", "batch", "--prompts", prompts, judge=named)
    assert (status, "not scored yet" in out, (tmp_path / "results").exists()) == (0, True, False)
    assert service(tmp_path / "batch") > 0
    status, out, _ = score("--batch", "batch", "--prompts", prompts, judge=named)  # the second steps of rl_f
    assert "noisy-002.requests.jsonl" in out
    assert service(tmp_path / "batch") > 0
    status, out, _ = score("--batch", "batch", "--prompts", prompts, judge=named)
    assert (status, server.n_asked) == (0, 0)
    assert "| rb_llm" in out
    batched = values_of("results")
    score("--no-probe", "--output", "again", "--prompts", prompts, judge=named)
    assert server.n_asked == 0  # the cache holds what live judging would ask
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "other"))
    score("--no-probe", "--output", "live", "--prompts", prompts, judge=named)
    assert server.n_asked > 0
    assert batched == values_of("live") == values_of("again")


def test_the_same_call_writes_nothing_twice(
    score: Score, judge: tuple[NoisyServer, dict[str, Any]], tmp_path: Path
) -> None:
    _, named = judge
    score("--batch", "batch", judge=named)
    before = {file.name: file.read_bytes() for file in (tmp_path / "batch").iterdir()}
    _, out, _ = score("--batch", "batch", judge=named)
    assert {file.name: file.read_bytes() for file in (tmp_path / "batch").iterdir()} == before
    assert "stand in request files of batch that were written before" in out


def test_failed_lines_are_named_and_requested_again(
    score: Score, judge: tuple[NoisyServer, dict[str, Any]], tmp_path: Path
) -> None:
    _, named = judge
    numbers = iter(range(10_000))

    def flaky(body: dict[str, Any]) -> dict[str, Any]:
        number = next(numbers)
        if number == 0:
            return {"response": None, "error": {"code": "batch_expired", "message": "not in time"}}
        if number == 1:
            body = {"error": {"code": "rate_limit_exceeded", "message": "slow"}}
            return {"response": {"status_code": 429, "body": body}, "error": None}
        return said(body)

    score("--batch", "batch", judge=named)
    service(tmp_path / "batch", flaky)
    _, out, _ = score("--batch", "batch", judge=named)
    assert "2 came back without a reply, and are asked again:" in out
    assert "output.jsonl, line 1: batch_expired not in time" in out
    assert "output.jsonl, line 2: HTTP 429 rate_limit_exceeded slow" in out
    service(tmp_path / "batch")
    while "not scored yet" in score("--batch", "batch", judge=named)[1]:
        assert service(tmp_path / "batch") > 0
    assert all(row["judge_coverage"] == 1 for row in values_of("results"))


def test_a_reply_that_the_service_broke_off_is_requested_again(
    score: Score, judge: tuple[NoisyServer, dict[str, Any]], tmp_path: Path
) -> None:
    _, named = judge

    def broken(body: dict[str, Any]) -> dict[str, Any]:
        answer = said(body)
        answer["response"]["body"]["choices"][0]["finish_reason"] = "error"
        return answer

    score("--batch", "batch", judge=named)
    n_sent = service(tmp_path / "batch", broken)
    _, out, _ = score("--batch", "batch", judge=named)
    assert f"{n_sent} came back without a reply, and are asked again:" in out
    assert "the server broke the reply off (finish_reason error)" in out
    assert service(tmp_path / "batch") == n_sent


def test_a_reply_without_a_verdict_is_asked_for_again_and_then_unscored(
    score: Score, judge: tuple[NoisyServer, dict[str, Any]], tmp_path: Path
) -> None:
    _, named = judge

    def vague(body: dict[str, Any]) -> dict[str, Any]:
        answer = said(body)
        if "Rating" in body["messages"][-1]["content"].splitlines()[-1]:
            answer["response"]["body"]["choices"][0]["message"]["content"] = "Fine."
        return answer

    rounds = 0
    while "not scored yet" in score("--batch", "batch", "--min-judge-coverage", "0", judge=named)[1]:
        assert service(tmp_path / "batch", vague) > 0
        rounds += 1
    assert rounds == 2
    assert all(row["rb_llm_raw"] is None for row in values_of("results"))


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('{"custom_id": "elsewhere", "response": null, "error": null}', "the custom_id of a request in this folder"),
        ('{"custom_id": 7, "response": {}}', "a reply with `custom_id`"),
        ('{"id": "x"}', "a reply with `custom_id`"),
        ("no json", "one JSON object"),
        ("", "at least one line"),
    ],
)
def test_what_is_no_reply_to_these_requests_is_refused_whole(
    score: Score, judge: tuple[NoisyServer, dict[str, Any]], tmp_path: Path, line: str, found: str
) -> None:
    _, named = judge
    score("--batch", "batch", judge=named)
    (tmp_path / "batch" / "output.jsonl").write_text(line + "\n")
    status, _, err = score("--batch", "batch", judge=named)
    assert status == 1
    assert found in err
    assert "output.jsonl" in err
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--batch", "mine.jsonl"], "is a file"),
        (["--batch", "batch", "--anchors", "40"], "anchors are asked anew"),
    ],
)
def test_what_no_batch_can_do_is_refused(
    score: Score, judge: tuple[NoisyServer, dict[str, Any]], options: list[str], found: str
) -> None:
    status, _, err = score(*options, judge=judge[1])
    assert status != 0
    assert found in err


def test_a_model_of_this_process_and_no_judge_at_all_are_refused(score: Score, tmp_path: Path) -> None:
    status, _, err = score("--batch", "batch", judge={"lm_eval": "hf", "model_args": {"pretrained": "x"}})
    assert (status != 0, "a model of this process" in err) == (True, True)
    done = run_command("score", "mine.jsonl", "--setting", "full_rag", "--data", "sample", "--batch", "batch")
    assert "no judge is named" in done.err


def test_files_stay_within_the_limits_of_the_service(
    score: Score, judge: tuple[NoisyServer, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_batch, "MOST_REQUESTS", 5)
    monkeypatch.setattr(_batch, "MOST_BYTES", 20_000)
    _, out, _ = score("--batch", "batch", judge=judge[1])
    files = sorted((tmp_path / "batch").iterdir())
    lines = [file.read_text(encoding="utf-8").splitlines() for file in files]
    assert len(files) > 2
    assert all(len(found) <= 5 for found in lines)
    assert all(file.stat().st_size <= 20_000 for file in files)
    keys = [json.loads(line)["custom_id"] for found in lines for line in found]
    assert len(set(keys)) == len(keys) == 36
    said = [line for line in out.splitlines() if line.startswith("wrote ")]
    sizes = [
        f"wrote {Path('batch') / one.name} ({len(found):,} requests, {one.stat().st_size / 1e6:.2g} MB)"
        for one, found in zip(files, lines, strict=True)
    ]
    assert said == sizes


def test_several_files_are_requested_together(
    score: Score, judge: tuple[NoisyServer, dict[str, Any]], tmp_path: Path
) -> None:
    written(tmp_path / "other.jsonl", [{**row, "answer": "It is not said."} for row in answers()])
    _, out, _ = score("other.jsonl", "--batch", "batch", judge=judge[1])
    assert out.count("wrote ") == 1
    while "not scored yet" in score("other.jsonl", "--batch", "batch", judge=judge[1])[1]:
        service(tmp_path / "batch")
    assert len(read_evaluations([tmp_path / "results"])) == 2


@pytest.mark.slow
def test_a_call_that_is_killed_while_it_takes_replies_loses_none(
    score: Score, judge: tuple[NoisyServer, dict[str, Any]], tmp_path: Path
) -> None:
    server, named = judge
    score("--batch", "batch", judge=named)
    service(tmp_path / "batch")
    given = ["mine.jsonl", "--setting", "full_rag", "--data", "sample", "--encoder", "none", "--batch", "batch"]
    for delay in (0.5, 1.0, 1.5, 2.0):
        process = subprocess.Popen(
            [sys.executable, "-m", "ragtasks", "score", *given, "--judge", json.dumps(named)],
            env={**os.environ, "RAGTASKS_RUNS": str(tmp_path / "store")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
    while "not scored yet" in score("--batch", "batch", judge=named)[1]:
        service(tmp_path / "batch")
    assert server.n_asked == 0
    assert all(row["judge_coverage"] == 1 for row in values_of("results"))
