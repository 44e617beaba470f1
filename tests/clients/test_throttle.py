"""A server that limits requests gives every answer in about the time that its limit needs, however it says so."""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Callable

import pytest

from ragtasks.clients._rate_hints import rate_hints, reset_seconds, wait_in
from ragtasks.clients._throttle import Throttle, Ticket
from tests.clients._limits import STYLES, Bucket, FixedWindow, Limit, SlidingWindow, State, refusal_body

LIMIT, MINUTE, N_PROMPTS, N_SLOTS = 500, 60.0, 1000, 64
IDEAL = {"window": 68.0, "sliding": 68.0, "bucket": 61.0}  # seconds, with slots that are busy for a second
KINDS: dict[str, Callable[[], Limit]] = {
    "window": lambda: FixedWindow(LIMIT, MINUTE),
    "sliding": lambda: SlidingWindow(LIMIT, MINUTE),
    "bucket": lambda: Bucket(LIMIT, MINUTE),
}


def simulated(limit: Limit, style: str) -> tuple[float, int]:
    """Return the seconds and requests that all prompts take, by a clock of its own."""
    throttle, chance = Throttle(MINUTE, random.Random(1)), random.Random(2)
    ends: list[tuple[float, int, Ticket, State]] = []
    now, n_left, n_done, n_requests = 0.0, N_PROMPTS, 0, 0
    while n_done < N_PROMPTS:
        wait = throttle.wait(now) if n_left and len(ends) < N_SLOTS else float("inf")
        if wait <= 0:
            ticket, state = throttle.send(now), limit.take(now)
            took = chance.uniform(0.7, 1.3) * (1.0 if state.granted else 0.05)
            heapq.heappush(ends, (now + took, ticket.number, ticket, state))
            n_left, n_requests = n_left - 1, n_requests + 1
        elif not ends or now + wait < ends[0][0]:
            now += wait + 1e-9
        else:
            now, _, ticket, state = heapq.heappop(ends)
            headers = STYLES[style](state)
            if state.granted:
                n_done += 1
                throttle.passed(ticket, now, rate_hints(headers))
            else:
                n_left += 1
                message = json.loads(refusal_body(state, style, f"Limit {LIMIT}"))["error"]["message"]
                throttle.refused(ticket, now, rate_hints(headers, message))
    return now, n_requests


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "style",
    ["none", "message", "retry-after", "retry-after, whole seconds", "retry-after-ms", "x-ratelimit, durations"],
)
def test_every_prompt_is_answered_in_time(kind: str, style: str) -> None:
    seconds, n_requests = simulated(KINDS[kind](), style)
    assert seconds <= 1.15 * IDEAL[kind]
    assert n_requests <= 1.1 * N_PROMPTS


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
