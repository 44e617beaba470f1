"""Usage of replies: costs, sums and their text."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.clients import (
    CallUsage,
    OpenAIClient,
    Outcome,
    Reply,
    Usage,
    calls_of,
    dollars_of,
    endpoint_of,
    joined_spending,
    priced,
    summed_calls,
    usage_of,
)
from ragtasks.clients._usage import as_cached
from ragtasks.errors import ConfigurationError

MINI = (0.15, 0.60)
COUNTS = st.none() | st.integers(0, 10**6)
REPLIES = st.builds(
    Reply,
    st.sampled_from(Outcome),
    usage=st.builds(CallUsage, COUNTS, COUNTS),
    raw=st.sampled_from(["", "{}"]),
    from_cache=st.booleans(),
)


def test_a_reply_costs_its_tokens_at_the_price() -> None:
    reply = Reply(Outcome.ANSWERED, "8", usage=CallUsage(2_000_000, 500_000), raw="{}")
    assert usage_of(reply, MINI) == Usage(n_asked=1, input_tokens=2_000_000, output_tokens=500_000, cost=0.60)
    assert usage_of(reply).cost is None
    assert usage_of(as_cached(reply), MINI) == Usage(n_cached=1, cost=0.0)


def test_uncounted_tokens_are_reported() -> None:
    uncounted = usage_of(Reply(Outcome.ANSWERED, "8", raw="{}"), MINI)
    assert (uncounted.n_uncounted, uncounted.cost) == (1, 0.0)
    assert uncounted.note(1.0) == "1.0/s  0 failed  0 tokens  1 uncounted  $0.00"
    assert usage_of(Reply(Outcome.FAILED, reason="HTTP 500")).n_uncounted == 0


@given(st.lists(REPLIES, max_size=20))
def test_sums_contain_every_reply_once_and_cached_replies_cost_nothing(replies: list[Reply]) -> None:
    usage = reduce(add, (usage_of(reply, MINI) for reply in replies), Usage(cost=0.0))
    asked = [reply for reply in replies if not reply.from_cache]
    assert usage.n_asked + usage.n_cached == len(replies)
    assert usage.n_asked == len(asked)
    assert usage.n_failed == sum(reply.outcome is not Outcome.ANSWERED for reply in replies)
    assert usage.input_tokens == sum(reply.usage.input_tokens or 0 for reply in asked)
    assert usage.output_tokens == sum(reply.usage.output_tokens or 0 for reply in asked)
    assert usage.cost == pytest.approx((usage.input_tokens * 0.15 + usage.output_tokens * 0.60) / 1e6)


def test_usage_without_a_cost_adds_nothing_to_the_cost_of_a_sum() -> None:
    assert (Usage(cost=0.5) + Usage(n_asked=3)).cost == 0.5
    assert (Usage() + Usage()).cost is None


@pytest.mark.parametrize(
    ("usage", "seconds", "note"),
    [
        (Usage(1204, n_failed=3, input_tokens=811_700, cost=0.314), 29.4, "41/s  3 failed  812k tokens  $0.31"),
        (Usage(), 0.0, "0/s  0 failed  0 tokens"),
        (Usage(6, 1082, 0, 0, 999, 0), 4.0, "1.5/s  1,082 cached  0 failed  999 tokens"),
        (Usage(8000, 0, 0, 0, 1_000_000, 240_000, 0.0123), 2.0, "4,000/s  0 failed  1.2M tokens  $0.0123"),
    ],
)
def test_a_note_shows_the_sums_on_one_line(usage: Usage, seconds: float, note: str) -> None:
    assert usage.note(seconds) == note


def test_the_final_note_has_requested_and_cached_counts() -> None:
    assert Usage(1210, 122, 3, 0, 5, 5, 1234.5).note(30.25, is_final=True) == (
        "1,210 requested at 40/s  122 cached  3 failed  10 tokens  $1,234.50"
    )
    assert Usage().note(1.0, is_final=True) == "0 requested at 0/s  0 cached  0 failed  0 tokens"


def test_a_price_changes_no_cache_key() -> None:
    priced = endpoint_of({"model": "openai/gpt-4o-mini", "price": [0.15, 0.60]})
    assert priced.price == MINI
    assert OpenAIClient(priced).describe() == OpenAIClient("openai/gpt-4o-mini").describe()


@pytest.mark.parametrize("price", [[1.0], [-1.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0], "cheap", [1, 2, 3, 4]])
def test_a_price_is_two_or_three_amounts(price: object) -> None:
    with pytest.raises(ConfigurationError, match="price"):
        endpoint_of({"model": "openai/gpt-4o-mini", "price": price})


COUNTED = {"input_tokens": 2_000_000, "output_tokens": 1_000_000}


def test_a_usage_record_is_priced_unless_it_contains_its_cost() -> None:
    assert priced(COUNTED, MINI) == {**COUNTED, "dollars": 0.90}
    assert priced({**COUNTED, "cached_tokens": 1_000_000}, (2.0, 1.0, 0.5))["dollars"] == 3.5
    for usage, price in (
        (COUNTED, None),
        ({**COUNTED, "dollars": 7.0}, MINI),
        ({"input_tokens": 5}, MINI),
        ({"output_tokens": 5}, MINI),
        ({}, MINI),
    ):
        assert priced(usage, price) == usage
    calls = priced({"seconds": 1.0, "calls": [COUNTED, {"input_tokens": 5}]}, MINI)
    assert calls == {"seconds": 1.0, "calls": [{**COUNTED, "dollars": 0.90}, {"input_tokens": 5}]}


def test_a_call_costs_its_tokens_at_a_price_or_the_cost_in_the_reply() -> None:
    counted = Reply(Outcome.ANSWERED, "8", usage=CallUsage(2_000_000, 1_000_000))
    assert [call.dollars for call in calls_of(counted, MINI)] == [0.90]
    text = replace(counted, usage=replace(counted.usage, dollars=0.1))
    uncounted, unsaid = (replace(one, usage=replace(one.usage, output_tokens=None)) for one in (text, counted))
    assert [call.dollars for call in calls_of(text, MINI)] == [0.90], "the user knows the price better"
    assert [call.dollars for call in calls_of(text)] == [0.1]
    assert [call.dollars for call in calls_of(uncounted, MINI)] == [0.1]
    assert [call.dollars for call in calls_of(unsaid, MINI)] == [None]
    assert [call.dollars for call in calls_of(counted)] == [None]


def test_tokens_cached_by_a_server_have_their_own_price() -> None:
    reply = Reply(Outcome.ANSWERED, "8", usage=CallUsage(3_000_000, 1_000_000, 2_000_000), raw="{}")
    assert usage_of(reply, (2.0, 1.0, 0.5)).cost == 2.0 + 1.0 + 1.0
    assert usage_of(reply, (2.0, 1.0)).cost == 7.0, "as others, where no price of their own is named"
    assert dollars_of((2.0, 1.0, 0.5), 1_000_000, 1_000_000) == 3.0


def test_calls_are_summed_by_time_and_reported_amounts() -> None:
    now, before = {"spent": "now", "seconds": 0.5, "input_tokens": 3}, {"spent": "before", "input_tokens": 4}
    calls = [now, before, now, {**now, "is_used": False}, {"spent": "shared", "input_tokens": 9}, {**before, "n": 5}]
    assert summed_calls(calls) == [
        {"n": 2, "spent": "now", "seconds": 1.0, "input_tokens": 6},
        {"n": 6, "spent": "before", "input_tokens": 8},
        {"n": 1, "spent": "now", "is_used": False, "seconds": 0.5, "input_tokens": 3},
    ]
    assert summed_calls([]) == []


def test_spending_is_summed_by_role() -> None:
    one, other = {"input_tokens": 3}, {"input_tokens": 4}
    found = joined_spending([{"a": [one, one], "b": [other]}, {}, {"a": [other]}, {"c": []}])
    assert found == {"a": [{"n": 3, "input_tokens": 10}], "b": [{"n": 1, "input_tokens": 4}], "c": []}
    assert joined_spending([]) == {}
