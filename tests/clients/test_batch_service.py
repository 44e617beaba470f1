"""`ragtasks score --batch FOLDER --send`: request files to a service, and its replies back, each question once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ragtasks.clients import _batch, _batch_service
from ragtasks.results import read_evaluations
from tests._commands import run_command
from tests.clients._batch_api import KEY, BatchService, verdict
from tests.clients.test_batch import answers, values_of
from tests.scoring.test_judge import written

Score = Callable[..., tuple[int, str, str]]
GIVEN = ["mine.jsonl", "--setting", "full_rag", "--data", "sample", "--encoder", "none", "--batch", "batch", "--send"]


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchService]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    monkeypatch.setenv("BATCH_KEY", KEY)
    monkeypatch.setattr(_batch_service, "_FIRST_LOOK_SECONDS", 0.01)
    written(tmp_path / "mine.jsonl", answers())
    with BatchService() as running:
        yield running


@pytest.fixture
def score(service: BatchService) -> Score:
    def ended(*further: str, **judge: Any) -> tuple[int, str, str]:
        done = run_command("score", *GIVEN, "--no-probe", "--judge", json.dumps(service.judge(**judge)), *further)
        return done.status, done.out, done.err

    return ended


def is_scored() -> bool:
    (evaluation,) = read_evaluations([Path("results")])
    return all(row.values["judge_coverage"] == 1 for row in evaluation.rows)


def test_one_command_sends_waits_fetches_and_scores_as_live_judging_does(
    service: BatchService, score: Score, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    status, out, err = score()
    assert status == 0, err
    assert "sent batch/noisy-001.requests.jsonl as batch_0 (36 requests)" in out
    assert "batch_0 completed: 36 replies" in out
    assert "| rb_llm" in out
    assert len(service.batches) == 2  # the second steps of rl_f are a batch of their own
    assert max(Counter(service.sent).values()) == 1
    assert service.n_asked_live == 0
    batched = values_of("results")
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "other"))
    given = [word for word in GIVEN if word not in {"--batch", "batch", "--send"}]
    run_command("score", *given, "--no-probe", "--judge", json.dumps(service.judge()), "--output", "live")
    assert service.n_asked_live > 0
    assert batched == values_of("live")
    assert all(KEY not in file.read_text(encoding="utf-8") for file in (tmp_path / "batch").glob("*.json*"))


def test_lines_that_failed_are_sent_again_once(service: BatchService, score: Score) -> None:
    numbers = iter(range(10_000))

    def flaky(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        slow = {"error": {"code": "rate_limit_exceeded", "message": "slow"}}
        return verdict(body) if next(numbers) >= 3 else (429, slow)

    service.answer = flaky
    status, out, err = score()
    assert status == 0, err
    assert "3 came back without a reply, and are asked again:" in out
    assert "noisy-001.errors.jsonl, line 1: HTTP 429 rate_limit_exceeded slow" in out
    assert is_scored()
    assert sorted(Counter(service.sent).values())[-4:] == [1, 2, 2, 2]


def test_lines_that_fail_twice_end_the_command_with_their_reason(service: BatchService, score: Score) -> None:
    service.answer = lambda _: (400, {"error": {"code": None, "message": f"temperature is not supported, {KEY}"}})
    status, _, err = score()
    assert status == 1
    assert "36 that failed twice: 36 times HTTP 400 temperature is not supported" in err
    assert "leave it out in the judge's object" in err
    assert KEY not in err
    assert len(service.batches) == 2
    service.answer = verdict
    assert score()[0] == 0
    assert is_scored()


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        ("expired", "expired after 24 hours with 16 of its requests unanswered; the 20 replies that came"),
        ("cancelled", "was cancelled with 16 of its requests unanswered; the 20 replies that came"),
    ],
)
def test_a_batch_that_ended_early_leaves_its_replies_and_the_rest_is_sent_by_the_next_call(
    service: BatchService, score: Score, ending: str, words: str
) -> None:
    numbers = iter(range(10_000))
    service.answer = lambda body: verdict(body) if not 20 <= next(numbers) < 36 else None
    service.ends = (ending, "completed")
    status, _, err = score()
    assert (status, len(service.batches)) == (1, 1)
    assert words in err
    assert "the same command again" in err
    assert score()[0] == 0
    assert is_scored()
    assert Counter(Counter(service.sent).values())[2] == 16


def test_a_file_that_the_service_refuses_is_reported_by_line_and_sent_anew(service: BatchService, score: Score) -> None:
    service.ends = ("failed", "completed")
    service.refusal = [{"code": "token_limit_exceeded", "message": f"Enqueued tokens of {KEY}.", "line": 3}]
    status, _, err = score()
    assert status == 1
    assert "failed, as the service refused the file: line 3: token_limit_exceeded Enqueued tokens of ***. Next" in err
    assert score()[0] == 0
    assert max(Counter(service.sent).values()) == 1


@pytest.mark.parametrize("seen", [True, False])
def test_a_creation_without_a_reply_is_looked_up_before_another_is_sent(
    service: BatchService, score: Score, monkeypatch: pytest.MonkeyPatch, seen: bool
) -> None:
    """The service has taken the batch on, or not, and its reply was lost."""
    monkeypatch.setattr(_batch_service, "_SEEN_SECONDS", 0.05)
    service.page = 1  # and lists other batches before it
    lost = iter([True])

    def hook(event: str) -> tuple[int, str] | None:
        if event != "POST /v1/batches" or not next(lost, False):
            return None
        if seen:
            other = service._keep("other", b"", "batch")["id"]
            service._create({"input_file_id": other, "endpoint": "/v1/chat/completions", "completion_window": "24h"})
        else:
            service.batches.clear()
        return 502, "gateway"

    service.hook = hook
    status, _, err = score()
    assert status == 0, err
    assert max(Counter(service.sent).values()) == 1
    assert service.events.count("POST /v1/batches") == 2 + (not seen)


@pytest.mark.parametrize(
    ("event", "status", "words"),
    [
        ("POST /v1/files", 404, "does not know the model, or the address (HTTP 404: no batches here)"),
        ("POST /v1/batches", 400, "HTTP 400: no batches here"),
        ("GET /v1/batches/ID", 404, "batch batch_0 goes on there"),
        ("GET /v1/files/ID/content", 403, "HTTP 403: no batches here"),
    ],
)
def test_a_service_that_refuses_a_step_is_one_error_and_nothing_is_lost(
    service: BatchService, score: Score, event: str, status: int, words: str
) -> None:
    service.hook = lambda found: (status, "no batches here") if found == event else None
    ended, _, err = score()
    assert ended == 1
    assert words in err
    assert "nothing is sent twice" in err
    service.hook = lambda _: None
    assert score()[0] == 0
    assert max(Counter(service.sent).values()) == 1


def test_a_service_that_is_away_for_a_moment_is_waited_for(service: BatchService, score: Score) -> None:
    away = iter([500, 503, 429])
    service.hook = lambda event: (next(away, 0), "away") if "batch" in event and event.startswith("GET") else None
    gone = service.hook
    service.hook = lambda event: found if (found := gone(event)) and found[0] else None
    status, _, err = score()
    assert status == 0, err


def test_a_step_that_fails_for_now_is_tried_as_often_as_is_allowed(service: BatchService, score: Score) -> None:
    service.hook = lambda event: (500, "away") if event == "POST /v1/files" else None
    status, _, err = score(attempts=3, backoff_seconds=0.01)
    assert (status, service.events.count("POST /v1/files")) == (1, 3)
    assert "HTTP 500: away" in err


@pytest.mark.parametrize(
    ("judge", "options", "words"),
    [
        ({"api_key_env": "NOT_SET"}, [], "NOT_SET, which is not set"),
        ({"api_key_env": None, "base_url": None, "model": "openai/m"}, [], "OPENAI_API_KEY is not set"),
        ({"api_version": "2025-01-01"}, [], "a deployment of Azure"),
        ({"api_key_env": None}, [], "the endpoint does not accept the key (HTTP 401"),
    ],
)
def test_a_service_that_cannot_be_used_is_refused_before_anything_is_sent(
    service: BatchService, score: Score, judge: dict[str, Any], options: list[str], words: str
) -> None:
    status, _, err = score(*options, **judge)
    assert status == 1
    assert words in err
    assert not service.files


def test_sending_needs_a_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text('{"id": "a", "answer": "b"}\n', encoding="utf-8")
    done = run_command("score", str(tmp_path / "mine.jsonl"), "--send", "--judge", "openai/m")
    assert (done.status, "name their folder with --batch" in done.err) == (1, True)


def test_requests_that_were_answered_by_hand_are_not_sent(service: BatchService, score: Score) -> None:
    service.hook = lambda _: (404, "not yet")
    score()
    requests = [json.loads(line) for line in Path("batch/noisy-001.requests.jsonl").read_text("utf-8").splitlines()]
    rows = [(row["custom_id"], *verdict(row["body"])) for row in requests]
    lines = [{"custom_id": key, "response": {"status_code": code, "body": body}} for key, code, body in rows]
    service.hook = lambda _: None
    written(Path("batch/by-hand.jsonl"), lines[:5])
    status, _, err = score()
    assert (status, len(service.batches)) == (1, 0)
    assert "replies to 5 of its 36 requests, which came by another way" in err
    written(Path("batch/by-hand.jsonl"), lines)
    assert score()[0] == 0
    assert not {row["custom_id"] for row in requests} & set(service.sent)


def test_what_was_written_down_of_another_file_or_service_is_not_used(service: BatchService, score: Score) -> None:
    service.hook = lambda event: (404, "gone") if event == "GET /v1/batches/ID" else None
    score()
    record = Path("batch/noisy-001.batch.json")
    content = json.loads(record.read_text(encoding="utf-8"))
    for key, words in (("sha256", "one of another content"), ("address", "one of elsewhere"), ("file", "is missing")):
        changed = {name: "elsewhere" if name == key else value for name, value in content.items() if key != "file"}
        record.write_text(json.dumps(changed), encoding="utf-8")
        status, _, err = score()
        assert (status, words in err) == (1, True), err
        assert "sent, and paid, again" in err
    assert len(service.batches) == 1


def test_every_file_of_several_is_sent_and_taken(
    service: BatchService, score: Score, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_batch, "MOST_REQUESTS", 10)
    status, _, err = score()
    assert status == 0, err
    assert len(service.batches) >= 4
    assert max(Counter(service.sent).values()) == 1
    assert is_scored()


@pytest.mark.slow
@pytest.mark.parametrize(
    "event",
    ["POST /v1/files", "POST /v1/batches", "GET /v1/batches/ID", "GET /v1/files/ID/content", "second POST /v1/batches"],
)
def test_a_call_that_is_killed_at_any_request_is_resumed_and_sends_nothing_twice(
    service: BatchService, score: Score, event: str, tmp_path: Path
) -> None:
    process: subprocess.Popen[bytes] | None = None
    left = iter(range(event.startswith("second"), -1, -1))

    def hook(found: str) -> None:
        if event.endswith(found) and next(left, 1) == 0:
            assert process is not None
            process.send_signal(signal.SIGKILL)  # the service has done it, and its reply finds nobody
            process.wait()

    service.hook = hook
    process = subprocess.Popen(
        [sys.executable, "-m", "ragtasks", "score", *GIVEN, "--no-probe", "--judge", json.dumps(service.judge())],
        env={**os.environ, "RAGTASKS_RUNS": str(tmp_path / "store")},
        stdout=subprocess.DEVNULL,
    )
    assert process.wait() == -signal.SIGKILL
    status, _, err = score()
    assert status == 0, err
    assert is_scored()
    assert max(Counter(service.sent).values()) == 1
    assert len(service.batches) == 2


@pytest.mark.slow
def test_two_commands_at_one_folder_do_not_send_together(service: BatchService, score: Score, tmp_path: Path) -> None:
    found = []

    def hook(event: str) -> None:
        if event == "POST /v1/batches" and not found:
            line = [sys.executable, "-m", "ragtasks", "score", *GIVEN, "--no-probe", "--judge"]
            environment = {**os.environ, "RAGTASKS_RUNS": str(tmp_path / "store")}
            judge = json.dumps(service.judge())
            found.append(subprocess.run([*line, judge], env=environment, capture_output=True, text=True, check=False))

    service.hook = hook
    assert score()[0] == 0
    assert found[0].returncode == 1
    assert "another command sends the requests of this folder" in found[0].stderr
    assert len(service.batches) == 2
