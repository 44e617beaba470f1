"""Verdicts after failures of a judge's server, the disk or the process."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ragtasks.clients import Endpoint, endpoint_of
from ragtasks.errors import JudgeError
from ragtasks.judges import VerdictOutcome, Verdicts, judge_responses
from ragtasks.records import Response
from ragtasks.suites import suite_named
from tests._messages import raises
from tests._shared import KILLS
from tests.clients._server import Action, ChatServer, Script, chat_server, completion, refusal
from tests.judges._demo import DemoServer
from tests.judges._killing import judge_sample
from tests.judges._scripted import obedient, response

ROOT = Path(__file__).resolve().parents[2]
QUICK = {
    "backoff_seconds": 0.01,
    "longest_backoff_seconds": 0.02,
    "timeout_seconds": 10.0,
    "attempts": 3,
    "rate_limit_patience_seconds": 1.0,
}
KEY = "a-long-key-4711"
RESPONSES = [response(f"Answer {number}.", task_id=f"c<::>{number + 1}") for number in range(6)]
BAD = 3  # the response whose questions meet the failure
N_SLOTS, DELAY_SECONDS = 4, 0.15


def judge_at(server: ChatServer, name: str = "m", **options: Any) -> Endpoint:
    return endpoint_of({"model": name, "base_url": server.base_url, "api_key_env": "JUDGE_KEY", **QUICK, **options})


def judged(cache: Path, *judges: Endpoint, responses: list[Response] = RESPONSES) -> Verdicts:
    return judge_responses(
        responses, judges, secrets={"JUDGE_KEY": KEY}.get, cache_file=cache, rubrics=suite_named("mtrag").rubrics()
    )


def well(prompt: str, n_before: int) -> Action:
    return completion(obedient(rating=6)(prompt, n_before))


def faulty(failure: Action) -> Script:
    """Answer correctly except for the questions about one response."""
    return lambda prompt, n_before: failure if f"Answer {BAD}." in prompt else well(prompt, n_before)


HALF = Action(completion("Rating").body, sent_bytes=20)
WORD = VerdictOutcome
FAILURES = [
    pytest.param(refusal(500, "storm"), WORD.FAILED, "HTTP 500: .*storm.*no attempt left", id="500"),
    pytest.param(refusal(429, "slower"), WORD.FAILED, "HTTP 429: .*slower", id="429", marks=pytest.mark.slow),
    pytest.param(
        refusal(429, "slower", retry_after="0"),
        WORD.FAILED,
        "HTTP 429",
        id="429 with Retry-After",
        marks=pytest.mark.slow,
    ),
    pytest.param(Action(delay_seconds=0.6), WORD.FAILED, "no reply in time", id="hang"),
    pytest.param(Action(reset=True), WORD.FAILED, "the connection broke", id="reset"),
    pytest.param(HALF, WORD.FAILED, "the connection broke|the reply is incomplete", id="half a body"),
    pytest.param(Action(b'{"choices": [{'), WORD.FAILED, "not JSON", id="invalid JSON"),
    pytest.param(refusal(400, "too long"), WORD.FAILED, "HTTP 400: .*too long", id="400"),
    pytest.param(Action(b'{"verdict": 7}'), WORD.MALFORMED, "choices", id="wrong schema"),
    pytest.param(Action(b'{"choices": []}'), WORD.MALFORMED, "its choices are empty", id="empty choices"),
    pytest.param(completion(None), WORD.EMPTY, "no content", id="null content"),
    pytest.param(completion("Rat", finish_reason="length"), WORD.TRUNCATED, "token limit", id="length"),
    pytest.param(completion("", finish_reason="content_filter"), WORD.FILTERED, "filter", id="content filter"),
    pytest.param(completion("Rating 1", finish_reason="SAFETY"), WORD.FILTERED, "filter", id="safety"),
    pytest.param(completion("Rating 1", finish_reason="error"), WORD.FAILED, "finish_reason error", id="broken off"),
    pytest.param(refusal(400, "policy", "content_filter"), WORD.FILTERED, "filter", id="filtered prompt"),
]


@pytest.mark.parametrize(("failure", "outcome", "reason"), FAILURES)
def test_a_failure_loses_only_its_own_verdicts(
    tmp_path: Path, failure: Action, outcome: VerdictOutcome, reason: str
) -> None:
    cache = tmp_path / "replies.sqlite"
    with chat_server(faulty(failure)) as server:
        judge = judge_at(server, timeout_seconds=0.3 if failure.delay_seconds else 10.0)
        verdicts = judged(cache, judge)
        asked = [verdict for verdict in verdicts.all() if verdict.outcome is not WORD.NOT_ASKED]
        lost = [verdict for verdict in asked if verdict.task_id == RESPONSES[BAD].task.task_id]
        kept = [verdict for verdict in asked if verdict not in lost]
        assert len(kept) == 5 * len(lost) > 0
        assert {verdict.outcome for verdict in kept} == {WORD.GIVEN}
        assert {(verdict.outcome, verdict.value) for verdict in lost} == {(outcome, None)}
        counts = {coverage.rubric: coverage.missing for coverage in verdicts.coverage() if coverage.n_asked}
        assert counts == {verdict.rubric: {outcome.value: 1} for verdict in lost}
        with raises(JudgeError):
            verdicts.require_coverage(is_scoring=True)
        server.script = well
        n_asked = len(server.asked)
        fixed = judged(cache, judge)
        again = server.asked[n_asked:]
    if failure.status == 400 and outcome is WORD.FILTERED:  # prompt and filter are unchanged
        assert (again, fixed.all()) == ([], verdicts.all())
    else:
        fixed.require_coverage(1.0)
        assert len(again) == len(lost)
        assert all(f"Answer {BAD}." in prompt for prompt in again)


FATAL = [
    pytest.param(refusal(401, f"bad key {KEY}"), "does not accept the key", id="401"),
    pytest.param(refusal(404, "no such model"), "no such model or address", id="404"),
    pytest.param(refusal(429, "pay", "insufficient_quota"), "no credit left", id="no credit"),
    pytest.param(refusal(429, "tomorrow", retry_after="86400"), "a wait of 86400 seconds", id="long Retry-After"),
]


@pytest.mark.parametrize(("failure", "reason"), FATAL)
def test_a_judge_that_ends_keeps_its_verdicts_and_affects_no_other(
    tmp_path: Path, failure: Action, reason: str
) -> None:
    cache = tmp_path / "replies.sqlite"
    with chat_server(well) as steady, chat_server(well) as ending:
        ending.script = lambda prompt, n_before: failure if len(ending.asked) > 4 else well(prompt, n_before)
        judges = [judge_at(steady, "steady"), judge_at(ending, "ending", slots=1)]
        verdicts = judged(cache, *judges)
        outcomes = [verdict.outcome for verdict in verdicts.all() if verdict.judge == "ending"]
        assert outcomes.count(WORD.GIVEN) + outcomes.count(WORD.JUDGE_LOST) + outcomes.count(WORD.NOT_ASKED) == len(
            outcomes
        )
        assert outcomes.count(WORD.JUDGE_LOST) > 0
        assert all(score.value is not None for score in verdicts.scores("rb_llm"))
        assert all(coverage.share == 1 for coverage in verdicts.coverage() if coverage.judge == "steady")
        with pytest.raises(JudgeError, match=reason) as caught:
            verdicts.require_coverage(is_scoring=True)
        assert KEY not in str(caught.value)
        with pytest.raises(JudgeError, match=rf"{reason}[\s\S]*run the same command: the 4 replies are kept"):
            judged(cache, judges[1])
        ending.script = well
        n_asked = len(ending.asked)
        judged(cache, *judges).require_coverage(1.0)
        assert len(ending.asked) - n_asked == len(steady.asked) - 4  # its first four replies were stored
        assert len(set(steady.asked)) == len(steady.asked)


@pytest.mark.slow
def test_an_interrupted_run_keeps_its_replies(tmp_path: Path) -> None:
    cache = tmp_path / "replies.sqlite"
    with DemoServer(DELAY_SECONDS) as server:
        judge = server.judge("m", slots=N_SLOTS)
        with driver(judge, cache) as begin:
            interrupted = begin()
            wait_for(lambda: len(stored_in(cache)) >= 2 * N_SLOTS)
            n_asked = len(server.asked)
            os.kill(interrupted, signal.SIGINT)
            os.kill(begin(), signal.SIGKILL)  # it begins when the first has ended
            n_before, stored = len(server.asked), set(stored_in(cache))
        assert n_before - n_asked <= 2 * N_SLOTS, "it went on"
        assert n_before - len(stored) <= N_SLOTS
        server.delay_seconds = 0.0
        judge_sample(judge, cache).require_coverage(1.0)
        again = [body["messages"][-1]["content"] for body in server.asked[n_before:]]
    assert again
    assert not stored & set(again)


def stored_in(cache: Path) -> list[str]:
    """Return the prompts whose replies are in a cache."""
    if not cache.is_file():
        return []
    with closing(sqlite3.connect(cache)) as connection:
        found = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        rows = connection.execute("SELECT request FROM replies").fetchall() if found else []
    return [json.loads(request)["messages"][-1]["content"] for (request,) in rows]


@KILLS
def test_kills_lose_no_verdict_and_pay_for_none_twice(tmp_path: Path, n_kills: int) -> None:
    cache, moments = tmp_path / "replies.sqlite", random.Random(20)
    with DemoServer(DELAY_SECONDS) as server:
        judge = server.judge("m", slots=N_SLOTS)
        kills: list[tuple[int, set[str]]] = []  # (requests so far, prompts answered successfully)
        with driver(judge, cache) as begin:
            for _ in range(n_kills):
                n_before = len(server.asked)
                pid = begin()
                # Counted from its first request: the start-up time depends on the machine.
                wait_for(lambda n=n_before: len(server.asked) > n)
                if len(kills) == n_kills - 1:  # the last kill leaves some requests
                    wait_for(lambda: bool(stored_in(cache)))
                time.sleep(moments.uniform(0.0, 0.3))
                os.kill(pid, signal.SIGKILL)
                kills.append((len(server.asked), set(stored_in(cache))))
        n_before = len(server.asked)
        server.delay_seconds = 0.0
        verdicts = judge_sample(judge, cache)
        prompts = [body["messages"][-1]["content"] for body in server.asked]
        n_after = len(prompts)
        judge_sample(judge, cache)
        assert len(server.asked) == n_after
    assert 0 < len(kills[-1][1]) < len(set(prompts)), "the kills came too early or too late to say anything"
    assert all(earlier <= later for (_, earlier), (_, later) in pairwise(kills))
    for n_asked, stored in kills:
        assert not stored & set(prompts[n_asked:])
    # Requests sent more than once were in flight at a kill, and a kill can lose at most the open slots.
    n_twice = len(prompts) - len(set(prompts))
    assert 0 < n_twice <= n_kills * N_SLOTS
    assert len(prompts) - n_before == len(set(prompts) - kills[-1][1])
    with DemoServer() as undisturbed:
        assert judge_sample(undisturbed.judge("m"), tmp_path / "other.sqlite").all() == verdicts.all()


def wait_for(happened: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait until a condition is true."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.002)


@contextmanager
def driver(judge: dict[str, Any], cache: Path) -> Iterator[Any]:
    """Yield a function that starts a judging run in a new process and returns its id; all are ended afterwards."""
    command = [sys.executable, "-m", "tests.judges._killing", json.dumps(judge), str(cache)]
    with subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout.readline() == "ready\n"
        calls, collected, begun = process.stdin, process.stdout, [False]

        def begin() -> int:
            calls.write("dead\nbegin\n" if begun[0] else "begin\n")
            calls.flush()
            begun[0] = True
            return int(collected.readline())

        yield begin
        calls.close()
