"""With a throttle, a rate-limited server answers everything in about the minimum time, for every style of headers."""

from __future__ import annotations

import itertools
import random
from types import SimpleNamespace
from typing import cast

import pytest

from ragtasks.clients._limits import NO_HINTS, RateHints, Throttle
from tests.clients._simulation import KINDS, MINUTE, simulated

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
    outcome = simulated(kind, style, limit=LIMIT, n_prompts=N_PROMPTS)
    assert outcome.times_ideal <= 1.15
    assert outcome.requests_a_prompt <= 1.1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("style", ["none", "retry-after", "x-ratelimit, durations"])
def test_processes_share_an_unknown_limit(kind: str, style: str) -> None:
    outcome = simulated(kind, style, n_processes=2, limit=LIMIT, n_prompts=N_PROMPTS)
    assert outcome.times_ideal <= 1.15
    assert outcome.requests_a_prompt <= 1.1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "style", ["none", "retry-after", "x-ratelimit, tokens", "x-ratelimit, tokens and ample requests"]
)
def test_a_limit_on_tokens_is_respected(kind: str, style: str) -> None:
    outcome = simulated(kind, style, limit=LIMIT, n_prompts=950, tokens=True)
    assert outcome.times_ideal <= 1.15
    assert outcome.requests_a_prompt <= 1.1


NO_JITTER = SimpleNamespace(random=lambda: 0.0, uniform=lambda low, _: low)
SETTLE = MINUTE / 3000
"""Minimum time that a throttle waits for refusals in flight."""


def throttle() -> Throttle:
    return Throttle(MINUTE, cast("random.Random", NO_JITTER))


def exhausted(at: Throttle, now: float) -> None:
    """Send a request that is refused at once, and a second request that is accepted."""
    at.refused(at.send(now), now, RateHints(wait_seconds=SETTLE))
    while (wait := at.wait(now)) > 0:
        now += wait
    at.passed(at.send(now), now, NO_HINTS)


def test_requests_of_a_minute_ago_count_half() -> None:
    learning = throttle()
    exhausted(learning, 0.0)
    # Each account includes the probe, but not the refused request.
    for minute, n_more in ((0, 59), (1, 29), (2, 29)):
        for _ in range(n_more):
            learning.send(minute * MINUTE + 1.0)
        exhausted(learning, (minute + 1) * MINUTE)
        expected = {0: 60 / 60, 1: (0.5 * 60 + 30) / 90, 2: (0.5 * (0.5 * 60 + 30) + 30) / 105}[minute]
        assert learning.rate == pytest.approx(expected, rel=1e-3)


def test_a_late_refusal_of_a_request_before_a_pause_starts_no_other_pause() -> None:
    learning = throttle()
    first, late = learning.send(0.0), learning.send(0.0)
    learning.refused(first, 0.0, RateHints(wait_seconds=SETTLE))
    now = learning.pause(0.0)
    learning.passed(learning.send(now), now, NO_HINTS)
    learning.refused(late, now, RateHints(wait_seconds=MINUTE))
    assert learning.pause(now) == 0


def test_the_weight_of_past_requests_halves_each_minute() -> None:
    learning = throttle()
    exhausted(learning, 0.0)
    for _ in range(59):
        learning.send(1.0)
    exhausted(learning, MINUTE)
    exhausted(learning, 4 * MINUTE)  # one request in three minutes: earlier ones count an eighth
    assert learning.rate == pytest.approx((60 / 8 + 1) / (MINUTE / 8 + 3 * MINUTE), rel=1e-2)


def test_the_rate_in_a_refusal_is_remembered() -> None:
    learning = throttle()
    learning.refused(learning.send(0.0), 0.0, RateHints(requests_per_minute=120.0, wait_seconds=SETTLE))
    assert learning.rate == 120.0 / MINUTE
    learning.refused(learning.send(1.0), 1.0, RateHints(wait_seconds=SETTLE))
    assert learning.rate == 120.0 / MINUTE


def test_each_step_after_a_pause_doubles_the_requests() -> None:
    learning = throttle()
    exhausted(learning, 0.0)
    now, steps = 1.0, []
    for _ in range(5):
        n_sent = 0
        while learning.wait(now) == 0:
            learning.send(now)
            n_sent += 1
        steps.append(n_sent)
        assert learning.wait(now) == pytest.approx(SETTLE), "between two steps a refusal has time to come"
        now += learning.wait(now)
    assert steps == [2, 4, 8, 16, 32]


def test_without_hints_the_wait_doubles_up_to_half_of_the_last_pause() -> None:
    learning = throttle()
    learning.refused(learning.send(0.0), 0.0, RateHints(wait_seconds=40.0))
    ticket = learning.send(learning.pause(0.0))
    learning.passed(ticket, 40.0, NO_HINTS)  # a pause of forty seconds, the basis of the next one
    now = begun_at = 100.0
    learning.refused(learning.send(now), now, NO_HINTS)
    waited = []
    while now < begun_at + 30:
        now += learning.pause(now)
        waited.append(now - begun_at)
        learning.refused(learning.send(now), now, NO_HINTS)
    assert waited[:7] == pytest.approx([0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 20.0], rel=0.01)
    rest = [after / before for before, after in itertools.pairwise(waited[6:])]
    assert len(rest) > 3
    assert rest == pytest.approx([1.1] * len(rest), rel=0.02)


@pytest.mark.parametrize(
    ("sixths", "times"), [(0.5, 1 + 1 / 8), (1.0, 2.0), (2.0, 9.0)], ids=["half of it", "all of it", "twice"]
)
def test_a_sixth_of_a_minute_without_a_refusal_doubles_the_credit_which_then_grows_cubically(
    sixths: float, times: float
) -> None:
    learning = throttle()
    exhausted(learning, 0.0)
    for _ in range(59):
        learning.send(1.0)
    exhausted(learning, MINUTE)
    assert learning.rate == pytest.approx(1.0, rel=1e-3)
    now = MINUTE + SETTLE + sixths * MINUTE / 6
    n_sent = 0
    while learning.wait(now) <= 2 * SETTLE:
        learning.send(now)
        n_sent += 1
    # The probe counts, and each accepted request increases the credit by a five-hundredth.
    due = sixths * 10 * times
    assert due - 2 <= n_sent <= 1.01 * due / (1 - due / 500)


def test_processes_with_the_same_wait_do_not_return_together() -> None:
    def pauses(hints: RateHints) -> list[float]:
        found = []
        for seed in range(200):
            one = Throttle(MINUTE, random.Random(seed))
            one.refused(one.send(0.0), 0.0, hints)
            found.append(one.pause(0.0))
        return found

    calls = pauses(RateHints(wait_seconds=20.0))
    assert min(calls) >= 20.0, "nobody comes back too early"
    assert max(calls) <= 20.0 * 1.01 + SETTLE / 2
    assert max(calls) - min(calls) > 0.1
    guessed = pauses(NO_HINTS)
    assert 0.5 <= min(guessed) < 0.502
    assert 0.523 < max(guessed) <= 0.525


def bucket() -> Throttle:
    """Return a throttle that has classified its limit as a bucket by its moving reset."""
    learning = throttle()
    for now in (0.0, 5.0):
        learning.passed(learning.send(now), now, RateHints(limit=60, remaining=50, reset_seconds=10.0))
    return learning


def test_an_empty_bucket_is_used_as_it_fills() -> None:
    learning = bucket()
    assert learning.rate is None
    learning.passed(learning.send(6.0), 6.0, RateHints(limit=60, remaining=0, reset_seconds=12.0))
    assert learning.rate == 5.0, "sixty in twelve seconds"
    assert learning.pause(6.0) == pytest.approx(0.2)
    window = throttle()
    window.passed(window.send(6.0), 6.0, RateHints(limit=60, remaining=0, reset_seconds=12.0))
    assert window.rate is None
    assert window.pause(6.0) == pytest.approx(12.0 + 0.1 * SETTLE), "a window opens all at once"


def test_a_wrong_estimated_pause_grows_with_the_time_waited() -> None:
    learning = bucket()
    hints = RateHints(limit=60, remaining=0, reset_seconds=12.0)
    now = 6.0
    learning.refused(learning.send(now), now, hints)
    assert learning.pause(now) == pytest.approx(0.2 + 0.1 * SETTLE)
    while now < 36.0:
        now += learning.pause(now)
        learning.refused(learning.send(now), now, hints)
    assert learning.pause(now) == pytest.approx(0.1 * (now - 6.0), rel=0.02), "a tenth of the time waited"
