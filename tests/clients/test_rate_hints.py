"""Parsing of rate limits in every spelling, and the resulting waits."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from ragtasks.clients._limits import NO_HINTS, RateHints, rate_hints, reset_seconds, retry_after_seconds, wait_in

NOW = 1_767_225_600.0
"""2026-01-01, midnight UTC."""


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragtasks.clients._limits.time.time", lambda: NOW)


OPENAI = {
    "x-ratelimit-limit-requests": "60",
    "x-ratelimit-remaining-requests": "59",
    "x-ratelimit-reset-requests": "1s",
    "x-ratelimit-limit-tokens": "150000",
    "x-ratelimit-remaining-tokens": "149984",
    "x-ratelimit-reset-tokens": "6m0s",
}
ANTHROPIC = {
    "anthropic-ratelimit-requests-limit": "60",
    "anthropic-ratelimit-requests-remaining": "59",
    "anthropic-ratelimit-requests-reset": "2026-01-01T00:00:01Z",
    "anthropic-ratelimit-tokens-reset": "2026-01-01T00:06:00Z",
}


@pytest.mark.parametrize("headers", [OPENAI, ANTHROPIC])
def test_limits_on_requests_and_on_tokens_are_distinguished(headers: Mapping[str, str]) -> None:
    assert rate_hints(headers) == RateHints(
        limit=60, remaining=59, reset_seconds=1.0, tokens_reset_seconds=360.0, exhausted_reset_seconds=360.0
    )


def test_a_limit_without_a_unit_counts_requests_if_it_is_the_only_one() -> None:
    plain = {"ratelimit-limit": "10", "ratelimit-remaining": "3", "ratelimit-reset": "7"}
    of_plain = RateHints(limit=10, remaining=3, reset_seconds=7.0, exhausted_reset_seconds=7.0)
    assert rate_hints(plain) == of_plain
    assert rate_hints({**plain, "x-ratelimit-limit-requests": "99"}) == of_plain, "a limit alone says nothing of now"
    assert rate_hints({**plain, "x-ratelimit-remaining-requests": "5"}).remaining == 5
    assert rate_hints({**plain, "x-ratelimit-reset-requests": "2"}).reset_seconds == 2.0
    assert rate_hints({}) == NO_HINTS


@pytest.mark.parametrize(
    ("remaining", "seconds"),
    [
        ({"requests": "0", "tokens": "5"}, 1.0),
        ({"requests": "5", "tokens": "0"}, 360.0),
        ({"requests": "0", "tokens": "0"}, 360.0),
        ({"requests": "5", "tokens": "5"}, 360.0),
        ({}, 360.0),
    ],
)
def test_the_reset_of_the_exhausted_limit_is_used(remaining: Mapping[str, str], seconds: float) -> None:
    resets = {"x-ratelimit-reset-requests": "1", "x-ratelimit-reset-tokens": "360"}
    left = {f"x-ratelimit-remaining-{kind}": number for kind, number in remaining.items()}
    assert rate_hints({**resets, **left}).exhausted_reset_seconds == seconds


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", 12),
        (" 12", 12),
        ("12;w=60", 12),
        ("0", 0),
        ("9" * 15, 10**15 - 1),
        ("9" * 16, None),
        ("-1", None),
        ("many", None),
        ("", None),
    ],
)
def test_counts_are_plausible_whole_numbers(text: str, number: int | None) -> None:
    assert rate_hints({"x-ratelimit-remaining-requests": text}).remaining == number


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1d2h3m4s5ms", 93784.005),
        ("1.5s", 1.5),
        ("6m0s", 360.0),
        ("120ms", 0.12),
        ("7.5", 7.5),
        ("-1", None),
        ("nan", None),
        (" 20 ", 20.0),
        ("0", 0.0),
        (str(366 * 86400), 366 * 86400.0),
        (str(366 * 86400 + 1), None),
        ("1000000000", 0.0),  # from here on it counts from 1970
        ("999999999", None),
        ("1s and more", None),
        ("s", None),
        ("inf", None),
        ("2026-01-01T00:00:30Z", 30.0),
        ("2026-01-01T00:00:30", 30.0),  # UTC if unspecified
        ("2026-01-01T01:00:30+01:00", 30.0),
        ("Thu, 01 Jan 2026 00:00:30 GMT", 30.0),
        ("Thu, 01 Jan 2026 00:00:30 -0000", 30.0),
        ("Wed, 31 Dec 2025 23:59:30 GMT", 0.0),
        ("", None),
        ("tomorrow", None),
    ],
)
def test_times_are_parsed_in_every_spelling(text: str, seconds: float | None) -> None:
    assert reset_seconds(text) == (None if seconds is None else pytest.approx(seconds))
    if text:
        assert retry_after_seconds({"retry-after": text}) == reset_seconds(text)


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="Windows has one time zone a machine")
def test_a_date_without_a_zone_is_utc_on_every_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "JST-9")
        time.tzset()
        assert reset_seconds("2026-01-01T00:00:30") == 30.0
    time.tzset()


@pytest.mark.parametrize("unit", [1, 1000], ids=["seconds", "milliseconds"])
def test_an_epoch_is_parsed_in_seconds_and_in_milliseconds(unit: int) -> None:
    assert reset_seconds(str(int((NOW + 30) * unit))) == 30.0
    assert reset_seconds(str(int((NOW - 30) * unit))) == 0.0, "one that is over is now"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7.0),
        ({"retry-after-ms": "-5", "retry-after": "7"}, 7.0),
        ({"retry-after-ms": "0", "retry-after": "7"}, 0.0),
        ({"retry-after-ms": "nan"}, None),
        ({}, None),
    ],
)
def test_milliseconds_take_precedence_over_seconds(headers: Mapping[str, str], seconds: float | None) -> None:
    assert retry_after_seconds(headers) == seconds
    assert rate_hints(headers).wait_seconds == seconds


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Please try again in 250ms.", 0.25),
        ("Please try again in 1m1.5s.", 61.5),
        ("retry after 20 seconds", 20.0),
        ("try again in 250 milliseconds", 0.25),
        ("Please TRY AGAIN IN 2H", 7200.0),
        ("Come back in about 3 minutes", 180.0),
        ("available in 1 day 2 hours", 93600.0),
        ("the limit resets after 4 secs", 4.0),
        ("retry after 400 days", None),
        ("try again in a while", None),
        ("try again in 5 meters", None),
        ("", None),
    ],
)
def test_the_wait_is_parsed_from_a_message(message: str, seconds: float | None) -> None:
    assert wait_in(message) == seconds
    assert rate_hints({}, message).wait_seconds == seconds
    assert rate_hints({"retry-after": "9"}, message).wait_seconds == 9.0, "headers go before the message"


def test_the_first_two_thousand_characters_of_a_message_are_parsed() -> None:
    words = "try again in 5s"
    assert rate_hints({}, " " * (2000 - len(words)) + words).wait_seconds == 5.0
    assert rate_hints({}, " " * 2000 + words).wait_seconds is None


@pytest.mark.parametrize(
    ("message", "a_minute"),
    [
        ("limit of 500 requests per minute", 500.0),
        ("Limit: 10 requests/second", 600.0),
        ("3 requests a sec", 180.0),
        ("1,200 requests per hour", 20.0),
        ("1 request / min", 1.0),
        ("Rate limit reached on requests per day (RPD): Limit 14,400, Used 14,400", 10.0),
        ("on requests per min: limit: 60; you sent 90 requests per second", 60.0),
        ("0 requests per minute", None),
        ("many requests per minute", None),
        ("", None),
    ],
)
def test_the_request_limit_is_parsed_from_a_message(message: str, a_minute: float | None) -> None:
    hints = rate_hints({}, message)
    assert hints.requests_per_minute == (None if a_minute is None else pytest.approx(a_minute))
    assert hints.rate(60.0) == (None if a_minute is None else pytest.approx(a_minute / 60))
    assert hints.rate(6.0) == (None if a_minute is None else pytest.approx(a_minute / 6))


@pytest.mark.parametrize(
    ("hints", "rate"),
    [
        (RateHints(limit=60, remaining=40, reset_seconds=10.0), 2.0),
        (RateHints(limit=60, remaining=0, reset_seconds=10.0), 6.0),
        (RateHints(limit=60, remaining=60, reset_seconds=10.0), None),
        (RateHints(limit=60, remaining=61, reset_seconds=10.0), None),
        (RateHints(limit=60, remaining=40, reset_seconds=0.0), None),
        (RateHints(limit=60, remaining=40), None),
        (RateHints(limit=60, reset_seconds=10.0), None),
        (RateHints(remaining=40, reset_seconds=10.0), None),
    ],
)
def test_the_fill_rate_of_a_bucket_follows_from_its_reset(hints: RateHints, rate: float | None) -> None:
    assert hints.refill_rate() == rate


@pytest.mark.parametrize(
    ("hints", "is_rolling", "seconds"),
    [
        (RateHints(wait_seconds=3.0, exhausted_reset_seconds=9.0), False, 3.0),
        (RateHints(wait_seconds=3.0, exhausted_reset_seconds=9.0), True, 3.0),
        (RateHints(wait_seconds=0.0, exhausted_reset_seconds=9.0), False, 9.0),
        (RateHints(exhausted_reset_seconds=9.0), False, 9.0),
        (RateHints(exhausted_reset_seconds=9.0), True, None),
        (RateHints(limit=60, remaining=0, reset_seconds=30.0, exhausted_reset_seconds=30.0), True, 0.5),
        (RateHints(limit=60, remaining=30, reset_seconds=30.0, exhausted_reset_seconds=9.0), True, None),
        (NO_HINTS, False, None),
    ],
)
def test_no_request_is_sent_after_a_refusal_until_there_is_room(
    hints: RateHints, is_rolling: bool, seconds: float | None
) -> None:
    assert hints.pause_seconds(is_rolling=is_rolling) == seconds
