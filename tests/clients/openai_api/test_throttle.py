"""A server that limits requests gives every answer in about the time that its limit needs, however it says so."""

from __future__ import annotations

import pytest

from ragtasks.clients.openai_api._rate_hints import rate_hints, reset_seconds, wait_in
from tests.clients._simulation import KINDS, simulated

LIMIT, N_PROMPTS = 500, 1000
STYLES_TESTED = [
    "none",
    "message",
    "retry-after",
    "retry-after, whole seconds",
    "retry-after-ms",
    "x-ratelimit, durations",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("style", STYLES_TESTED)
def test_every_prompt_is_answered_in_time(kind: str, style: str) -> None:
    found = simulated(kind, style, limit=LIMIT, n_prompts=N_PROMPTS)
    assert found.times_ideal <= 1.15
    assert found.requests_a_prompt <= 1.1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("style", ["none", "retry-after", "x-ratelimit, durations"])
def test_processes_share_a_limit_they_know_nothing_of(kind: str, style: str) -> None:
    found = simulated(kind, style, n_processes=2, limit=LIMIT, n_prompts=N_PROMPTS)
    assert found.times_ideal <= 1.15
    assert found.requests_a_prompt <= 1.1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "style", ["none", "retry-after", "x-ratelimit, tokens", "x-ratelimit, tokens and ample requests"]
)
def test_a_limit_on_tokens_is_kept_to_as_well(kind: str, style: str) -> None:
    found = simulated(kind, style, limit=LIMIT, n_prompts=950, tokens=True)
    assert found.times_ideal <= 1.15
    assert found.requests_a_prompt <= 1.1


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1.0), ("6m0s", 360.0), ("120ms", 0.12), ("7.5", 7.5), ("soon", None), ("-1", None), ("nan", None)],
)
def test_resets_are_read_in_every_spelling(text: str, seconds: float | None) -> None:
    assert reset_seconds(text) == seconds


def test_messages_say_when_to_come_back_and_how_many_are_granted() -> None:
    assert wait_in("Please try again in 1m1.5s.") == 61.5
    assert wait_in("retry after 20 seconds") == 20.0
    assert rate_hints({}, "limit of 500 requests per minute").requests_a_minute == 500
