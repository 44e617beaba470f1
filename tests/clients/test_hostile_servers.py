"""Hostile headers and bodies affect only their own reply."""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.clients import Credentials, OpenAIClient, Outcome, Prompt, Reply, read_completion
from ragtasks.clients._failures import Failure, failure_in_body, failure_of
from ragtasks.clients._limits import Throttle, rate_hints
from ragtasks.clients._system_client import chat_contexts, plain_contexts, read_chat, read_plain
from ragtasks.clients._transport import _http_library
from ragtasks.errors import JudgeError
from tests.clients._server import Action, chat_server, completion, refusal

DIGITS = "9" * 4301
DEEP = 2_000
KEY = Credentials("sk-test-0123456789abcdef")
YEAR = 366 * 86400
NAMES = [
    f"{prefix}-{words}"
    for prefix in ("x-ratelimit", "ratelimit", "anthropic-ratelimit")
    for field in ("limit", "remaining", "reset")
    for words in (field, f"{field}-requests", f"requests-{field}", f"{field}-tokens")
]
NUMBERS = st.sampled_from(["0", "00", "1", "-1", "²", "٣", "1e400", "nan", "inf", "0x1", "1_0", DIGITS, f"0.{DIGITS}"])
UNITS = st.sampled_from(["", "s", "ms", "m0s", " s", " ſ", " seconds", " days", ", 3", "\x00", "é"])  # noqa: RUF001
DATES = st.sampled_from(
    [
        "0001-01-01T00:00:00",
        "9999-12-31T23:59:59-23:59",
        "Mon, 01 Jan 2030 00:00:00 +999999999999999",
        "Mon, 99 Foo -1 99:99:99 GMT",
        ", , ,",
    ]
)
VALUES = st.builds(str.__add__, NUMBERS, UNITS) | st.integers().map(str) | st.floats().map(str) | DATES | st.text()
HEADERS = st.dictionaries(st.sampled_from([*NAMES, "retry-after", "retry-after-ms", "location"]), VALUES, max_size=6)
SENTENCES = st.sampled_from(["try again in ", "retry after ", "requests per minute limit: ", "rate limit of ", ""])
MESSAGES = st.builds("".join, st.lists(st.one_of(SENTENCES, VALUES, st.just(" requests per day")), max_size=5))
KEYS = ["choices", "message", "content", "usage", "prompt_tokens", "completion_tokens", "error", "code", "status"]
KEYS += ["type", "param", "refusal", "model", "finish_reason", "contexts", "context", "citations", "text", "id"]
KEYS += ["document", "answer", "title", "reasoning", "logprobs"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | NUMBERS | MESSAGES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=15,
)
BODIES = st.binary(max_size=40) | st.builds(lambda value: json.dumps(value).encode(), JSON)
READERS: list[Callable[[bytes], Any]] = [
    read_completion,
    read_plain,
    read_chat,
    lambda body: chat_contexts(body.decode()),
    lambda body: plain_contexts(body.decode()),
]


@given(HEADERS, MESSAGES)
def test_any_headers_and_message_give_a_finite_wait(headers: dict[str, str], message: str) -> None:
    hints = rate_hints(headers, message)
    times = (hints.wait_seconds, hints.reset_seconds, hints.tokens_reset_seconds, hints.exhausted_reset_seconds)
    assert all(0 <= seconds <= YEAR for seconds in times if seconds is not None)
    for is_rolling in (True, False):
        pause = hints.pause_seconds(is_rolling=is_rolling)
        assert pause is None or 0 <= pause < math.inf
    assert hints.requests_per_minute is None or 0 < hints.requests_per_minute < math.inf


@given(st.lists(st.tuples(st.booleans(), HEADERS, MESSAGES), max_size=6))
def test_no_sequence_of_replies_stops_the_requests_for_good(replies: list[tuple[bool, dict[str, str], str]]) -> None:
    throttle, now = Throttle(60.0, random.Random(1)), 0.0
    for is_refused, headers, message in replies:
        n_looks = 0
        while (wait := throttle.wait(now)) > 0:
            assert 0 < wait < 2 * YEAR
            now, n_looks = now + max(wait, 0.001), n_looks + 1
            assert n_looks < 100
        ticket = throttle.send(now)
        (throttle.refused if is_refused else throttle.passed)(ticket, now + 0.1, rate_hints(headers, message))
        now += 0.1


def test_an_exhausted_server_gets_the_next_request_within_minutes() -> None:
    throttle = Throttle(60.0, random.Random(1))
    spent = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "300d"}
    throttle.passed(throttle.send(0.0), 0.1, rate_hints(spent))
    assert throttle.wait(0.1) <= 601


@given(BODIES, HEADERS)
def test_any_body_is_parsed_or_invalid_json(body: bytes, headers: dict[str, str]) -> None:
    for read in READERS:
        try:
            read(body)
        except ValueError:
            continue
    assert isinstance(failure_in_body(body, headers, KEY), Failure | None)


@given(st.integers(300, 999), JSON | st.text(), HEADERS)
def test_any_error_of_a_server_is_a_failure(status: int, body: Any, headers: dict[str, str]) -> None:
    import openai

    library = _http_library()
    response = library.Response(status, request=library.Request("POST", "http://localhost"))
    response.headers = library.Headers({name: value.encode() for name, value in headers.items() if value.isprintable()})
    error = openai.APIStatusError(f"Error code: {status}", response=response, body=body)
    assert isinstance(failure_of(error, KEY), Failure)


def nested(opening: str, closing: str, inner: str, depth: int = DEEP) -> bytes:
    return f"{opening * depth}{inner}{closing * depth}".encode()


HOSTILE = {
    "digits in a header": Action(completion().body, headers={"x-ratelimit-remaining-requests": DIGITS}),
    "time without end": Action(
        completion().body,
        headers={
            "x-ratelimit-limit-requests": "9",
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-reset-requests": f"{'9' * 400}s",
        },
    ),
    "digits in a refusal": refusal(429, "slower", retry_after=DIGITS),
    "unit that is none": refusal(429, "try again in 5 \u017f"),
    "date out of reach": refusal(429, "slower", retry_after="Mon, 01 Jan 2030 00:00:00 +999999999999999"),
    "many digits in a message": refusal(429, "9" * 1_000_000),
    "code of many digits": Action(json.dumps({"error": {"code": DIGITS, "message": "no"}}).encode()),
    "deep error": Action(nested("[", "]", "").join([b'{"error": {"message": ', b"}}"]), 500),
    "deep error of status 200": Action(nested("[", "]", "", 900).join([b'{"error": {"code": ', b"}}"])),
    "deep completion": Action(nested('{"choices": [', "]}", "")),
    "counts beyond a machine word": completion("fine", usage={"prompt_tokens": 2**63, "completion_tokens": -(2**63)}),
    "bytes that are no text": Action(b'{"choices": [{"message": {"content": "\xff\xfe"}}]}'),
    "half a surrogate": Action(b'{"choices": [{"message": {"content": "\\ud800"}}]}'),
    "address that is none": Action(b"", 302, {"location": "http://[::1"}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_reply_affects_one_prompt(name: str) -> None:
    hostile = HOSTILE[name]

    def script(text: str, _before: int) -> Action:
        return hostile if text == "hostile" else completion("fine")

    options = {"backoff_seconds": 0.01, "longest_backoff_seconds": 0.02, "attempts": 2, "slots": 4}
    replies: dict[int, Reply] = {}
    # A redirect ends the whole call. Python 3.10 already refuses the address, which fails this prompt only.
    is_end = hostile.status == 302 and not (name == "address that is none" and sys.version_info < (3, 11))
    ends = pytest.raises(JudgeError) if is_end else nullcontext()

    class Journal:
        def recall(self, index: int) -> None:
            return None

        def record(self, index: int, reply: Reply) -> None:
            replies[index] = reply

    with chat_server(script) as server:
        client = OpenAIClient(
            {"model": "m", "base_url": server.base_url, "rate_limit_patience_seconds": 0.5, **options}, KEY.key
        )
        prompts = [Prompt.of(text) for text in ("1", "2", "3", "hostile")]
        with ends:
            client.answer(prompts, journal=Journal())
    # A redirect ends the whole call: other replies in flight may be lost.
    awaited = replies.keys() & range(3) if hostile.status == 302 else range(3)
    assert [replies[index].text for index in awaited] == ["fine"] * len(awaited)
    assert hostile.status == 302 or replies[3].outcome is Outcome.ANSWERED or replies[3].reason
