"""Means in which classes of items have equal weight: value, error and comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.statistics import Balance, Column, Estimate, compare, mean_columns

COMMON, RARE = "answerable", "unanswerable"
BOUNDS = (0.0, 1.0)
ITEMS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.5, 1.0, None]), st.integers(0, 14), st.sampled_from([COMMON, RARE])), max_size=60
)


def column(values: Mapping[str, float | None], classes: Mapping[str, str], clusters: Mapping[str, str]) -> Column:
    balance = Balance((COMMON, RARE), classes)
    return Column("data", "full_rag", "balanced", "a", values, clusters, bounds=BOUNDS, balance=balance)


def estimated(values: Mapping[str, float | None], classes: Mapping[str, str], clusters: Mapping[str, str]) -> Estimate:
    (mean,) = mean_columns([column(values, classes, clusters)])
    return mean.estimate


def drawn(
    rng: np.random.Generator, n_conversations: int = 60
) -> tuple[dict[str, float], dict[str, str], dict[str, str]]:
    """Return values, classes and clusters of conversations of eight turns, of which one in ten is unanswerable."""
    values, classes, clusters = {}, {}, {}
    for conversation in range(n_conversations):
        level = rng.normal(0, 0.6)
        for turn in range(8):
            item = f"{conversation}-{turn}"
            classes[item] = RARE if rng.random() < 0.1 else COMMON
            shift = 2.0 if classes[item] == COMMON else -0.5
            values[item], clusters[item] = float(rng.random() < 1 / (1 + math.exp(-shift - level))), str(conversation)
    return values, classes, clusters


@given(ITEMS)
def test_the_mean_is_the_mean_of_the_class_means(items: list[tuple[float | None, int, str]]) -> None:
    values, clusters, classes = ({str(number): item[index] for number, item in enumerate(items)} for index in range(3))
    estimate = estimated(values, classes, {item: str(cluster) for item, cluster in clusters.items()})
    scored = {name: [value for value, _, of in items if of == name and value is not None] for name in (COMMON, RARE)}
    if all(scored.values()):
        assert estimate.value == pytest.approx(sum(np.mean(part) for part in scored.values()) / 2)
        assert estimate.low is None or estimate.low <= estimate.value <= estimate.high
    else:
        assert estimate.value is None
        assert all((name in estimate.reason.split()) is not bool(part) for name, part in scored.items())


def test_the_standard_error_is_that_of_two_means_over_the_same_conversations() -> None:
    values, classes, clusters = drawn(np.random.default_rng(1))
    error = estimated(values, classes, clusters).standard_error
    ids = sorted(set(clusters.values()))
    gaps = np.zeros(len(ids))
    for name in (COMMON, RARE):  # the delta method, class by class
        items = [item for item in values if classes[item] == name]
        of_class = np.mean([values[item] for item in items])
        for item in items:
            gaps[ids.index(clusters[item])] += (values[item] - of_class) / len(items) / 2
    n = len(ids)
    assert error == pytest.approx(math.sqrt(n / (n - 1) * (gaps**2).sum()))


@pytest.mark.parametrize("n_rare", [1, 9, 10])
def test_an_interval_requires_ten_conversations_of_each_class(n_rare: int) -> None:
    items = [str(number) for number in range(60)]
    values = {item: float(int(item) % 4 > 0) for item in items}
    classes = {item: RARE if int(item) < n_rare else COMMON for item in items}
    first = column(values, classes, {item: item for item in items})
    pair = compare(first, replace(first, name="b", values={item: float(int(item) % 3 > 0) for item in items}))
    (mean,) = mean_columns([first])
    for found in (mean.estimate, pair.difference):
        assert (found.low is None) == (n_rare < 10)
        assert found.reason == ("" if n_rare == 10 else "fewer than 10 conversations with unanswerable tasks")
    assert (pair.p is None, pair.detectable is None) == (n_rare < 10, n_rare < 10)


def test_a_comparison_balances_the_items_that_both_scored() -> None:
    values, classes, clusters = drawn(np.random.default_rng(2))
    others = {item: 1.0 - value for item, value in drawn(np.random.default_rng(3))[0].items()}
    skipped = [item for item in values if classes[item] == RARE][:5]
    first = column(values, classes, clusters)
    second = replace(first, name="b", values={**others, **dict.fromkeys(skipped)})
    pair = compare(first, second)
    both = {name: [item for item in values if classes[item] == name and item not in skipped] for name in (COMMON, RARE)}
    means = [np.mean([np.mean([side[item] for item in items]) for items in both.values()]) for side in (values, others)]
    assert (pair.first_mean, pair.second_mean) == pytest.approx(means)
    assert pair.difference.value == pytest.approx(means[1] - means[0])
    assert (pair.difference.n_unscored, pair.difference.low < pair.difference.value < pair.difference.high) == (5, True)


def test_intervals_contain_the_true_mean_in_95_percent_of_samples() -> None:
    rng = np.random.default_rng(4)
    truth = estimated(*drawn(rng, 8_000)).value
    n_inside = 0
    for _ in range(200):
        estimate = estimated(*drawn(rng))
        n_inside += estimate.low <= truth <= estimate.high
    assert 0.92 <= n_inside / 200 <= 0.985
