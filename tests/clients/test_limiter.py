from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from ragtasks.clients._limits import WINDOW_SECONDS, Limiter, RateHints, Throttle


class Clock:
    """Time that passes only during a sleep."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


def admitted(tokens: list[int], requests: int | None, limit: int | None) -> list[float]:
    clock = Clock()
    times: list[float] = []

    async def run() -> None:
        limiter = Limiter(requests, limit, clock=clock, sleep=clock.sleep)
        for n_tokens in tokens:
            await limiter.admit(n_tokens)
            times.append(clock.now)

    asyncio.run(run())
    return times


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 7), st.integers(50, 120))
def test_no_window_exceeds_the_limits(tokens: list[int], requests: int, limit: int) -> None:
    times = admitted(tokens, requests, limit)
    for begin in times:
        window = [n for time, n in zip(times, tokens, strict=True) if begin <= time < begin + WINDOW_SECONDS]
        assert len(window) <= requests
        assert sum(window) <= limit


def test_requests_within_the_limits_pass_at_once() -> None:
    assert admitted([10] * 5, 5, 50) == [0.0] * 5
    assert admitted([10] * 100, None, None) == [0.0] * 100


def test_requests_older_than_a_minute_free_the_limit() -> None:
    assert admitted([50] * 5, None, 100) == [0.0, 0.0, WINDOW_SECONDS, WINDOW_SECONDS, 2 * WINDOW_SECONDS]
    assert admitted([0] * 5, 2, None) == [0.0, 0.0, WINDOW_SECONDS, WINDOW_SECONDS, 2 * WINDOW_SECONDS]


def test_an_exhausted_server_gets_no_request_until_its_reset() -> None:
    clock = Clock()

    async def run() -> tuple[float, float]:
        limiter = Limiter(clock=clock, sleep=clock.sleep)
        limiter.passed(await limiter.admit(1), RateHints(remaining=0, reset_seconds=7.0))
        pause = limiter.pause_seconds()
        await limiter.admit(1)
        return pause, limiter.pause_seconds()

    pause, after = asyncio.run(run())
    assert 7.0 <= pause < 7.2
    assert clock.now == pause
    assert after == 0.0


def test_a_short_wait_is_short() -> None:
    clock = Clock()

    async def run() -> None:
        limiter = Limiter(1, clock=clock, sleep=clock.sleep)
        await limiter.admit(1)
        clock.now = WINDOW_SECONDS - 0.5
        await limiter.admit(1)
        assert clock.now == WINDOW_SECONDS
        limiter = Limiter(clock=clock, sleep=clock.sleep)
        limiter.refused(await limiter.admit(1), RateHints(wait_seconds=0.2))
        await limiter.admit(1)

    asyncio.run(run())
    assert 0.2 <= clock.now - WINDOW_SECONDS < 0.3


def test_a_request_above_the_whole_limit_passes_alone() -> None:
    assert admitted([5, 500, 5], None, 100) == [0.0, WINDOW_SECONDS, 2 * WINDOW_SECONDS]


def test_a_refusal_delays_every_request() -> None:
    clock = Clock()

    async def run() -> None:
        limiter = Limiter(clock=clock, sleep=clock.sleep)
        ticket = await limiter.admit(1)
        limiter.refused(ticket, RateHints(wait_seconds=7.0))
        limiter.refused(ticket, RateHints(wait_seconds=3.0))  # a shorter pause does not end a longer one
        await limiter.admit(1)

    asyncio.run(run())
    assert 7.0 <= clock.now < 7.2


def test_each_request_is_written_before_the_next_is_built() -> None:
    happened: list[str] = []

    async def run() -> None:
        limiter = Limiter()

        async def request(name: str) -> None:
            await limiter.admit(1)
            happened.append(f"made {name}")
            asyncio.get_running_loop().call_soon(happened.append, f"written {name}")  # as aiohttp's writing task does

        await asyncio.gather(*map(request, "abc"))

    asyncio.run(run())
    assert happened == ["made a", "written a", "made b", "written b", "made c", "written c"]


def test_a_cancelled_request_lets_the_next_one_pass() -> None:
    async def run() -> None:
        limiter = Limiter()
        limiter.refused(await limiter.admit(1), RateHints(wait_seconds=3600.0))
        sleeping, waiting = (asyncio.ensure_future(limiter.admit(1)) for _ in range(2))
        await asyncio.sleep(0)
        limiter._throttle = Throttle()
        sleeping.cancel()
        await asyncio.wait_for(waiting, 5)
        assert sleeping.cancelled()

    asyncio.run(run())
