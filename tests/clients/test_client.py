from __future__ import annotations

import asyncio
import logging
import re
import sys
import threading
import time
import traceback
from dataclasses import replace
from typing import Any

import pytest

from ragtasks.clients import Decoding, Endpoint, OpenAIClient, Outcome, Prompt, Reply
from ragtasks.clients._cached_client import ServedModels
from ragtasks.errors import JudgeError, MissingExtraError
from tests.clients._server import Action, ChatServer, Script, chat_server, closed_port, completion, refusal

KEY = "sk-test-0123456789abcdef"
QUICK = {
    "backoff_seconds": 0.01,
    "longest_backoff_seconds": 0.05,
    "timeout_seconds": 5.0,
    "attempts": 4,
    "rate_limit_patience_seconds": 1.5,
}


def client_for(server: ChatServer, **options: Any) -> OpenAIClient:
    return OpenAIClient({"model": "m", "base_url": server.base_url, **QUICK, **options}, KEY)


def ask_one(action: Action | Script, **options: Any) -> tuple[Reply, ChatServer]:
    script = action if callable(action) else lambda _text, _before: action
    with chat_server(script) as server:
        (reply,) = client_for(server, **options).answer([Prompt.of("q")])
    return reply, server


def then_fine(action: Action) -> Script:
    """Return a script: first the given action, then completions."""
    return lambda _text, n_before: action if n_before == 0 else completion()


def test_replies_come_in_the_order_of_the_prompts() -> None:
    def script(text: str, _: int) -> Action:
        body = completion(f"echo {text}")
        return Action(body.body, delay_seconds=0.05 if text == "0" else 0.0)

    with chat_server(script) as server:
        replies = client_for(server).answer([Prompt.of(str(number)) for number in range(40)])
    assert [reply.text for reply in replies] == [f"echo {number}" for number in range(40)]
    assert {reply.usage.input_tokens for reply in replies} == {7}


def test_no_prompts_send_no_request() -> None:
    assert OpenAIClient("openai/any").answer([]) == []


@pytest.mark.parametrize("library", ["openai", "aiohttp"])
def test_a_missing_library_is_reported_with_its_install_command(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError) as caught:
        OpenAIClient("openai/any").answer([Prompt.of("q")])
    assert library in str(caught.value)
    assert "an OpenAI-compatible endpoint" in str(caught.value)
    assert "ragtasks[judge]" in str(caught.value)


def test_a_request_contains_model_messages_and_decoding() -> None:
    with chat_server(lambda *_: completion()) as server:
        endpoint = {"model": "m", "base_url": server.base_url}
        OpenAIClient(endpoint, KEY, Decoding(None, 5, 9)).answer([Prompt.of("q", system="s")])
    assert server.bodies == [
        {
            "model": "m",
            "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}],
            "seed": 5,
            "max_tokens": 9,
        }
    ]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


def test_azure_requests_address_the_deployment() -> None:
    with chat_server(lambda *_: completion()) as server:
        endpoint = {"model": "dep", "base_url": server.base_url.removesuffix("/v1"), "api_version": "2024-10-21"}
        (reply,) = OpenAIClient(endpoint, KEY).answer([Prompt.of("q")])
    assert reply.text == "fine"
    assert server.paths == ["/openai/deployments/dep/chat/completions?api-version=2024-10-21"]
    assert server.headers[0]["api-key"] == KEY


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(refusal(500), id="500"),
        pytest.param(refusal(503), id="503"),
        pytest.param(refusal(429), id="429 without Retry-After"),
        pytest.param(refusal(503, retry_after="0.1"), id="503 with Retry-After"),
        pytest.param(refusal(429, retry_after="0.1"), id="429 with Retry-After"),
        pytest.param(Action(b'{"error": {"code": 429, "message": "slower"}}'), id="429 in a body"),
        pytest.param(Action(b'{"error": {"type": "overloaded_error", "message": ""}}'), id="overloaded in a body"),
        pytest.param(Action(reset=True), id="reset"),
        pytest.param(Action(completion().body, sent_bytes=20), id="half a body"),
        pytest.param(Action(b'{"choices": [{'), id="invalid JSON"),
        pytest.param(Action(b"<html>busy</html>", headers={"Content-Type": "text/html"}), id="a proxy's page"),
        pytest.param(Action(b""), id="empty body"),
    ],
)
def test_transport_errors_are_retried(failure: Action) -> None:
    reply, server = ask_one(then_fine(failure))
    assert (reply.outcome, reply.text) == (Outcome.ANSWERED, "fine")
    assert len(server.asked) == 2


def test_a_hanging_request_ends_at_the_timeout_and_is_retried() -> None:
    hang = Action(completion().body, delay_seconds=1.0)
    reply, server = ask_one(then_fine(hang), timeout_seconds=0.2)
    assert (reply.text, len(server.asked)) == ("fine", 2)


def test_a_dripping_body_ends_at_the_timeout() -> None:
    # Every byte arrives within the timeout, the complete body far beyond it.
    drip = Action(completion().body, drip_seconds=0.05)
    reply, server = ask_one(then_fine(drip), timeout_seconds=0.3)
    assert (reply.text, len(server.asked)) == ("fine", 2)


def test_a_slow_reply_within_the_timeout_is_accepted() -> None:
    reply, server = ask_one(Action(completion("late").body, delay_seconds=0.3))
    assert (reply.text, len(server.asked)) == ("late", 1)


@pytest.mark.parametrize(("failure", "n_requests"), [(refusal(500, "boom"), 4), (Action(reset=True), 4)])
def test_a_storm_of_errors_ends_after_the_attempts_with_a_reason(failure: Action, n_requests: int) -> None:
    reply, server = ask_one(failure)
    assert (reply.outcome, reply.text) == (Outcome.FAILED, None)
    assert "no attempt left" in reply.reason
    assert len(server.asked) == n_requests


PAGE = Action(b"<html>sign in first</html>", headers={"Content-Type": "text/html"})


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (refusal(500, "boom"), "HTTP 500: .*boom"),
        (refusal(429, "slower"), "HTTP 429: .*slower"),
        (Action(PAGE.body, 502, PAGE.headers), "HTTP 502: .*sign in first"),
        (Action(b'{"detail": "no such deployment"}', 503), "HTTP 503: .*no such deployment"),
        (PAGE, "not JSON but the web page 'sign in first'"),
        (Action(reset=True), "the connection broke"),
    ],
)
def test_a_server_that_only_fails_ends_the_call_with_the_last_failure(failure: Action, message: str) -> None:
    with chat_server(lambda *_: failure) as server, pytest.raises(JudgeError, match=message) as caught:
        client_for(server, slots=4).answer([Prompt.of(str(number)) for number in range(200)])
    # Three of four slots have used up the attempts of their prompts; two of them are at their next prompt.
    assert len(server.asked) <= 4 * 4 + 2 * 4
    assert "next step: " in str(caught.value)


def test_few_failing_prompts_lose_no_other_reply() -> None:
    """A repeated call often sends only prompts that the server cannot handle: it ends without an error."""
    with chat_server(lambda *_: refusal(500)) as server:
        replies = client_for(server, slots=8).answer([Prompt.of(str(number)) for number in range(8)])
    assert {reply.outcome for reply in replies} == {Outcome.FAILED}


@pytest.mark.parametrize("word", [completion(), refusal(400, "too long"), refusal(400, "policy", "content_filter")])
def test_a_server_that_replied_once_gets_further_requests(word: Action) -> None:
    script = lambda text, _: word if text == "0" else refusal(500)  # noqa: E731
    with chat_server(script) as server:
        replies = client_for(server, slots=2).answer([Prompt.of(str(number)) for number in range(9)])
    assert [reply.outcome is Outcome.FAILED for reply in replies[1:]] == [True] * 8


def test_a_first_prompt_that_always_fails_affects_no_other() -> None:
    script = lambda text, _: refusal(500) if text == "0" else completion()  # noqa: E731
    with chat_server(script) as server:
        replies = client_for(server, slots=1).answer([Prompt.of(str(number)) for number in range(5)])
    assert [reply.outcome is Outcome.ANSWERED for reply in replies] == [False, True, True, True, True]


def test_a_hanging_server_reaches_the_time_limit_before_the_attempts() -> None:
    reply, server = ask_one(Action(delay_seconds=1.0), timeout_seconds=0.1)
    assert (reply.outcome, len(server.asked)) == (Outcome.FAILED, 2)  # its patience is twice the timeout
    assert "no reply in time" in reply.reason


def test_waits_between_attempts_count_towards_the_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragtasks.clients._openai_client.random.uniform", lambda _low, high: high)
    waiting = {"backoff_seconds": 0.3, "longest_backoff_seconds": 0.3, "attempts": 50}
    reply, server = ask_one(refusal(500), patience_seconds=1.0, **waiting)
    assert (reply.outcome, len(server.asked)) == (Outcome.FAILED, 4), "three waits of 0.3 seconds, and no fourth"


def test_retry_after_is_waited_for() -> None:
    _, server = ask_one(then_fine(refusal(429, retry_after="0.4")))
    assert server.times[1] - server.times[0] >= 0.4


def test_retry_after_delays_every_request() -> None:
    def script(text: str, n_before: int) -> Action:
        if text == "0" and n_before == 0:
            return refusal(429, retry_after="0.6")
        return Action(completion().body, delay_seconds=0.1)

    with chat_server(script) as server:
        client_for(server, slots=2).answer([Prompt.of(str(number)) for number in range(3)])
    # `2` has a free slot as soon as `1` is answered, but still waits.
    assert server.times[server.asked.index("2")] - server.times[0] >= 0.6


@pytest.mark.parametrize(
    ("action", "outcome", "in_reason"),
    [
        (completion(None), Outcome.EMPTY, "no content"),
        (completion("  "), Outcome.EMPTY, "no content"),
        (completion("", reasoning_content="hm"), Outcome.EMPTY, "thinking"),
        (completion("<think>never ends"), Outcome.EMPTY, "thinking"),
        (completion("cut o", finish_reason="length"), Outcome.TRUNCATED, "token limit"),
        (completion("x", finish_reason="content_filter"), Outcome.FILTERED, "filter"),
        (completion(None, refusal="I will not"), Outcome.REFUSED, "I will not"),
        (refusal(400, "policy", "content_filter"), Outcome.FILTERED, "filter"),
        (refusal(400, "prompt is too long"), Outcome.FAILED, "too long"),
        (refusal(403, "not for you"), Outcome.FAILED, "403"),
        (Action(b'{"choices": []}'), Outcome.MALFORMED, "its choices are empty"),
        (Action(b"[1]"), Outcome.MALFORMED, "list"),
        (completion(["parts"]), Outcome.MALFORMED, "content"),
    ],
)
def test_decisions_of_the_server_are_final_and_have_separate_outcomes(
    action: Action, outcome: Outcome, in_reason: str
) -> None:
    reply, server = ask_one(action)
    assert (reply.outcome, reply.text) == (outcome, None)
    assert in_reason in reply.reason
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (completion("Rating: 1", finish_reason="error"), "the server broke the reply off (finish_reason error)"),
        (Action(b'{"error": "odd"}'), "an error in place of a reply: odd"),
    ],
)
def test_a_reply_aborted_by_the_server_is_requested_once_more(broken: Action, reason: str) -> None:
    with chat_server(lambda _, n_before: completion() if n_before else broken) as server:
        (reply,) = client_for(server).answer([Prompt.of("q")])
    assert (reply.text, len(server.asked)) == ("fine", 2)
    reply, server = ask_one(broken)
    assert (reply.outcome, reply.text, reply.reason) == (Outcome.FAILED, None, reason)
    assert len(server.asked) == 2
    _, server = ask_one(broken, attempts=1)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "action",
    [
        refusal(401, f"Incorrect API key provided: {KEY}"),
        refusal(404, "model m not found"),
        refusal(429, "pay", "insufficient_quota"),
        refusal(429, "tomorrow", retry_after="86400"),
    ],
)
def test_fatal_errors_end_the_call_once(action: Action) -> None:
    with chat_server(lambda *_: action) as server, pytest.raises(JudgeError) as caught:
        client_for(server, slots=4).answer([Prompt.of(str(number)) for number in range(50)])
    assert len(server.asked) <= 4
    assert "next step" in str(caught.value)
    assert KEY not in "".join(traceback.format_exception(caught.value))


def test_replies_in_flight_at_the_end_of_a_call_are_kept_and_no_request_follows() -> None:
    kept: dict[int, Reply] = {}
    all_open = threading.Barrier(3)

    class Journal:
        def recall(self, index: int) -> None:
            return None

        def record(self, index: int, reply: Reply) -> None:
            kept[index] = reply

    def script(text: str, _: int) -> Action:
        all_open.wait(20)
        return refusal(401) if text == "2" else replace(completion(), delay_seconds=0.3)

    with chat_server(script) as server:
        with pytest.raises(JudgeError, match="HTTP 401"):
            client_for(server, slots=3).answer([Prompt.of(str(number)) for number in range(9)], journal=Journal())
        assert sorted(server.asked) == ["0", "1", "2"]
    assert {index: reply.text for index, reply in kept.items()} == {0: "fine", 1: "fine"}


def test_an_unreachable_address_is_reported_once() -> None:
    endpoint = {"model": "m", "base_url": f"http://127.0.0.1:{closed_port()}/v1", **QUICK}
    with pytest.raises(JudgeError, match="no server answers"):
        OpenAIClient(endpoint, KEY).answer([Prompt.of(str(number)) for number in range(200)])


def test_a_server_without_tls_at_an_https_address_is_reported_once() -> None:
    with chat_server(lambda *_: completion()) as server:
        endpoint = {"model": "m", "base_url": server.base_url.replace("http://", "https://"), **QUICK}
        with pytest.raises(JudgeError, match="found: no secure connection to the address"):
            OpenAIClient(endpoint, KEY).answer([Prompt.of(str(number)) for number in range(200)])
    assert not server.asked


def test_an_unreachable_address_is_reported_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    shares: list[float] = []  # of the longest wait before another attempt; this test never waits

    def without_waiting(_low: float, high: float) -> float:
        shares.append(high)
        return 0.0

    monkeypatch.setattr("ragtasks.clients._openai_client.random.uniform", without_waiting)
    first = Endpoint(model="openai/m").backoff_seconds
    with pytest.raises(JudgeError, match="no server answers"):
        OpenAIClient({"model": "m", "base_url": f"http://127.0.0.1:{closed_port()}/v1"}, KEY).answer([Prompt.of("q")])
    assert 3 < sum(first * 2**place * share for place, share in enumerate(shares)) < 10


def test_a_starting_server_is_waited_for() -> None:
    port = closed_port()
    client = OpenAIClient({"model": "m", "base_url": f"http://127.0.0.1:{port}/v1", "backoff_seconds": 0.2}, KEY)
    replies: list[Reply] = []
    asking = threading.Thread(target=lambda: replies.extend(client.answer([Prompt.of("q")])))
    asking.start()
    time.sleep(0.2)
    with ChatServer(lambda *_: completion(), port).running():
        asking.join(timeout=20)
    assert [reply.text for reply in replies] == ["fine"]


def test_a_restarting_server_loses_no_reply() -> None:
    replies: list[Reply] = []
    first = ChatServer(lambda *_: Action(completion().body, delay_seconds=0.02))
    port = int(first.base_url.removesuffix("/v1").rsplit(":", 1)[1])
    client = client_for(first, slots=4, attempts=200)
    prompts = [Prompt.of(str(number)) for number in range(12)]
    asking = threading.Thread(target=lambda: replies.extend(client.answer(prompts)))
    with first.running():
        asking.start()
        while len(first.asked) < 6:
            time.sleep(0.002)
        first.script = lambda *_: Action(reset=True)  # open connections end with it
    time.sleep(0.3)
    with ChatServer(lambda *_: completion(), port).running():
        asking.join()
    assert [reply.text for reply in replies] == ["fine"] * 12


def test_an_outage_of_a_minute_is_survived_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    with chat_server(lambda *_: completion()) as server:
        client = OpenAIClient({"model": "m", "base_url": server.base_url}, KEY)
        client.answer([Prompt.of("p")])
    waits: list[float] = []
    sleep = asyncio.sleep

    async def without_waiting(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)

    monkeypatch.setattr("ragtasks.clients._openai_client.asyncio.sleep", without_waiting)
    monkeypatch.setattr("ragtasks.clients._openai_client.random.uniform", lambda low, _high: low)
    with pytest.raises(JudgeError, match="no server answers"):
        client.answer([Prompt.of("q")])
    assert sum(waits) >= 60


def test_slots_limit_the_open_requests() -> None:
    with chat_server(lambda *_: Action(completion().body, delay_seconds=0.02)) as server:
        client_for(server, slots=3).answer([Prompt.of(str(number)) for number in range(12)])
    assert server.most_open == 3


def test_progress_counts_to_the_total_without_failed_requests() -> None:
    calls: list[tuple[str, int, int | None]] = []
    script = lambda text, _: refusal(400) if text == "1" else completion()  # noqa: E731
    with chat_server(script) as server:
        prompts = [Prompt.of(str(number)) for number in range(3)]
        client_for(server).answer(prompts, lambda *call: calls.append(call))
    assert (len(calls), calls[-1][1:]) == (3, (2, 3))
    name, _, note = calls[-1][0].partition("\t")
    assert name == "m"
    assert re.fullmatch(r"[\d,.]+/s  1 failed  20 tokens", note)


def test_a_call_works_inside_a_running_event_loop() -> None:
    async def notebook(server: ChatServer) -> list[Reply]:
        return client_for(server).answer([Prompt.of("q")])

    with chat_server(lambda *_: completion()) as server:
        assert asyncio.run(notebook(server))[0].text == "fine"


def test_the_key_appears_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    echo = completion(f"your key is {KEY}")
    with (
        caplog.at_level(logging.DEBUG),
        chat_server(lambda text, _: echo if text == "a" else refusal(400, KEY)) as server,
    ):
        client = client_for(server)
        replies = client.answer([Prompt.of("a"), Prompt.of("b")])
    shown = f"{client!r} {client.describe()} {client.name} {replies!r} {caplog.text}"
    assert KEY not in shown


def test_requests_per_minute_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragtasks.clients._limits.WINDOW_SECONDS", 1.0)
    with chat_server(lambda *_: completion()) as server:
        client_for(server, requests_per_minute=2).answer([Prompt.of(str(number)) for number in range(5)])
    begin = server.times[0]
    assert server.times[2] - begin >= 0.7
    assert server.times[4] - begin >= 1.7
    assert time.monotonic() - begin < 10


def notes_while(monkeypatch: pytest.MonkeyPatch, script: Script, **options: Any) -> list[str]:
    """Return the progress notes while a server delays a call."""
    monkeypatch.setattr("ragtasks.clients._openai_client._POLL_SECONDS", 0.05)
    monkeypatch.setattr("ragtasks.clients._openai_client._QUIET_SECONDS", 0.1)
    notes: list[str] = []
    with chat_server(script) as server:
        client_for(server, **options).answer([Prompt.of("q")], lambda name, *_: notes.append(name))
    return [note.split("\t")[2] for note in notes if note.count("\t") == 2]


def test_a_pause_for_a_rate_limit_appears_in_the_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = notes_while(monkeypatch, then_fine(refusal(429, retry_after="0.6")), rate_limit_patience_seconds=60.0)
    pause = re.compile(r"rate limit, next request in \d s; no reply for \d+ of 60 s")
    assert any(map(pause.fullmatch, notes)), notes


def test_a_silent_server_appears_in_the_progress_with_the_last_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    actions = [refusal(500, "boom"), Action(completion().body, delay_seconds=0.5)]
    notes = notes_while(monkeypatch, lambda _, n_before: actions[n_before])
    assert re.fullmatch(r"no reply for \d+ s \(HTTP 500: .*boom\), 1 open, at most 10 s a prompt", notes[-1])


def test_describe_returns_only_settings_that_determine_replies() -> None:
    def described(**options: Any) -> dict[str, Any]:
        endpoint = {"model": "m", "base_url": "http://h:1/v1", **options}
        return OpenAIClient(endpoint, KEY, Decoding(0.5, 7, 9)).describe()

    plain = {"model": "m", "decoding": {"temperature": 0.5, "seed": 7, "max_tokens": 9}}
    assert described() == plain
    for silent in (
        {"slots": 3},
        {"timeout_seconds": 3.0},
        {"price": [1, 2]},
        {"base_url": "http://i"},
        {"attempts": 2},
    ):
        assert described(**silent) == plain
    for name, value in (
        ("reasoning_effort", "low"),
        ("extra_body", {"top_p": 0.9}),
        ("thinking_tokens", 100),
        ("structured", True),
    ):
        assert described(**{name: value}) == {**plain, name: value}
    assert described(max_tokens=50, temperature=0.1)["decoding"] == {"temperature": 0.1, "seed": 7, "max_tokens": 50}
    assert described(temperature="server")["decoding"]["temperature"] is None


def test_recalled_replies_are_not_requested_and_others_are_recorded_at_once() -> None:
    class Journal:
        def __init__(self) -> None:
            self.written: dict[int, Reply] = {}

        def recall(self, index: int) -> Reply | None:
            return Reply(Outcome.ANSWERED, "known", from_cache=True) if index == 1 else None

        def record(self, index: int, reply: Reply) -> None:
            self.written[index] = reply

    counts: list[tuple[int, int | None]] = []
    with chat_server(lambda text, _: completion(f"echo {text}")) as server:
        journal = Journal()
        replies = client_for(server, slots=1).answer(
            [Prompt.of(str(number)) for number in range(3)],
            lambda _, done, total: counts.append((done, total)),
            journal,
        )
    assert [reply.text for reply in replies] == ["echo 0", "known", "echo 2"]
    assert sorted(server.asked) == ["0", "2"]
    assert {index: reply.text for index, reply in journal.written.items()} == {0: "echo 0", 2: "echo 2"}
    assert counts == [(1, 3), (2, 3), (3, 3)]


def test_a_rate_limit_without_end_is_abandoned_after_the_patience() -> None:
    (reply,), server = asked_for_a_while(refusal(429, "slower", retry_after="0.1"))
    assert (reply.outcome, reply.text) == (Outcome.FAILED, None)
    assert "HTTP 429" in reply.reason
    assert len(server.asked) <= 15
    (reply,), server = asked_for_a_while(refusal(429, "slower", retry_after="5"))
    assert (reply.outcome, len(server.asked)) == (Outcome.FAILED, 1), "it says that it wants more than is given"


def asked_for_a_while(action: Action) -> tuple[list[Reply], ChatServer]:
    with chat_server(lambda *_: action) as server:
        return client_for(server, rate_limit_patience_seconds=0.5).answer([Prompt.of("q")]), server


def test_a_rate_limit_beyond_the_patience_ends_a_call_with_prompts_left() -> None:
    with (
        chat_server(lambda *_: refusal(429, "slower", retry_after="50")) as server,
        pytest.raises(JudgeError) as caught,
    ):
        client_for(server, slots=1).answer([Prompt.of(str(number)) for number in range(3)])
    assert re.search(
        r"the endpoint requests a wait of 50 seconds, and has not replied for \d+, more than "
        r"rate_limit_patience_seconds=2 \(HTTP 429: .*slower",
        str(caught.value),
    )
    assert len(server.asked) == 1


def test_the_first_change_of_the_served_model_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    served = ServedModels("m")
    for name in ("", "a", "a", "b", "a", "c", "b"):
        served.note(Reply(Outcome.ANSWERED, "x", served_model=name))
    (message,) = caplog.messages
    assert message.startswith("m: the server replied with 'a' before and replies with 'b' now: ")


def test_a_server_that_restarts_is_waited_for_until_the_patience_ends() -> None:
    """A large model loads longer than ten attempts take. Without a first reply, the address may be wrong."""
    port = closed_port()
    waits = {"slots": 1, "backoff_seconds": 0.02, "longest_backoff_seconds": 0.02}
    client = OpenAIClient({"model": "m", "base_url": f"http://127.0.0.1:{port}/v1", **waits}, KEY)
    with ChatServer(lambda *_: completion(), port).running():
        client.answer([Prompt.of("before")])
    replies: list[Reply] = []
    asking = threading.Thread(target=lambda: replies.extend(client.answer([Prompt.of("after")])))
    asking.start()
    time.sleep(0.8)
    with ChatServer(lambda *_: completion(), port).running():
        asking.join(timeout=20)
    assert [reply.text for reply in replies] == ["fine"]
