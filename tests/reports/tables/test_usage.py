"""Quality against cost: amounts, quantile, ratio, front."""

from __future__ import annotations

import random

import pytest

from ragtasks.reports.tables import ON_FRONT, front_of
from ragtasks.statistics import Column, estimate_quantile, estimate_ratio

N_CONVERSATIONS, N_TURNS = 120, 5
ITEMS = [(f"c{c}-{t}", f"c{c}") for c in range(N_CONVERSATIONS) for t in range(N_TURNS)]
CLUSTERS = [name for _, name in ITEMS]


def column(metric: str, name: str, values: list[float], *, higher_is_better: bool = True) -> Column:
    named = dict(zip([item for item, _ in ITEMS], values, strict=True))
    return Column("", "", metric, name, dict(named), dict(ITEMS), higher_is_better=higher_is_better)


def noisy(seed: int, mean: float, spread: float) -> list[float]:
    chance = random.Random(seed)
    return [mean + chance.gauss(0, spread) for _ in ITEMS]


def test_a_quantile_is_the_smallest_value_that_covers_its_share() -> None:
    values = [float(number) for number in range(1, 101)]
    assert estimate_quantile(values, [f"c{number}" for number in range(100)], 0.95).value == 95.0
    assert estimate_quantile([3.0], ["c"], 0.95).value == 3.0
    assert estimate_quantile([None, None], ["c", "d"], 0.95).value is None


def test_the_interval_of_a_quantile_has_its_nominal_coverage() -> None:
    true, hits, n = 1.6449, 0, 60
    for seed in range(n):
        result = estimate_quantile(noisy(seed, 0.0, 1.0), CLUSTERS, 0.95)
        hits += result.low <= true <= result.high
    assert hits / n >= 0.9


def test_few_conversations_give_a_high_quantile_no_interval() -> None:
    result = estimate_quantile([float(n) for n in range(60)], [f"c{n // 3}" for n in range(60)], 0.95)
    assert (result.value, result.low, result.high) == (56.0, None, None)


def test_a_ratio_is_that_of_the_sums_and_inside_its_interval() -> None:
    values, amounts = noisy(1, 0.5, 0.2), noisy(2, 4.0, 1.0)
    result = estimate_ratio(values, amounts, CLUSTERS)
    assert result.value == pytest.approx(sum(values) / sum(amounts))
    assert result.low < 0.125 < result.high
    assert result.high - result.low < 0.02
    assert estimate_ratio([0.5], [0.0], ["c"]).value is None
    part = estimate_ratio([1.0, None], [2.0, 5.0], ["c", "d"])
    assert (part.value, part.n_scored, part.n) == (0.5, 1, 2)


def test_the_front_names_significantly_beaten_systems() -> None:
    quality = [("good", 0.8), ("cheap", 0.5), ("bad", 0.4), ("close", 0.797)]
    costs = [("good", 10.0), ("cheap", 1.0), ("bad", 12.0), ("close", 10.05)]
    scores = [column("rl_f", name, noisy(number, mean, 0.1)) for number, (name, mean) in enumerate(quality)]
    scores[-1] = column("rl_f", "close", noisy(8, 0.797, 0.1))
    taken = [
        column("tokens", name, noisy(number, mean, 0.5), higher_is_better=False)
        for number, (name, mean) in enumerate(costs, start=20)
    ]
    places = front_of(scores, taken)
    assert places[:2] == [ON_FRONT, ON_FRONT]
    assert places[2] == "beaten by good, cheap, close"
    assert places[3] in {ON_FRONT, "not significantly beaten"}


def test_equal_systems_beat_no_system() -> None:
    same = noisy(1, 0.5, 0.1)
    pair = [column("rl_f", name, same) for name in "ab"], [column("tokens", name, same) for name in "ab"]
    assert front_of(*pair) == [ON_FRONT, ON_FRONT]
