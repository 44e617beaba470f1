"""People's mean with a judge as proxy: what is saved, what is not claimed, and how often the interval covers."""

from __future__ import annotations

import numpy as np
import pytest

from ragtasks.statistics import MIN_CLUSTERS, assisted_mean
from ragtasks.statistics._judges import NO_PROXY, AssistedMean

TRUTH = 2.8


def benchmark(
    follows: float, seed: int, n_rated: int = 20, n: int = 80
) -> tuple[list[float | None], list[float], list[str]]:
    """Return ratings of the first conversations, a judge's scores of all, and the conversations."""
    rng = np.random.default_rng(seed)
    index = np.repeat(np.arange(n), rng.integers(2, 8, n))
    one, other = (0.3 * rng.normal(size=n)[index] + 0.6 * rng.normal(size=len(index)) for _ in range(2))
    judge = follows * one + np.sqrt(1 - follows**2) * other
    people = [TRUTH + float(value) if place < n_rated else None for value, place in zip(one, index, strict=True)]
    return people, judge.tolist(), [f"c{place}" for place in index]


def width(found: AssistedMean) -> float:
    assert found.low is not None
    assert found.high is not None
    return found.high - found.low


def test_a_judge_that_follows_people_narrows_the_interval_whatever_its_scale() -> None:
    people, judge, names = benchmark(0.9, 1)
    found = assisted_mean(people, judge, names)
    assert found.reason == ""
    assert found.weight == pytest.approx(0.9 / (1 + 20 / 60), abs=0.1), (
        "less than the slope: the judge's mean has noise"
    )
    assert found.alone.low is not None
    assert found.alone.high is not None
    assert width(found) < 0.75 * (found.alone.high - found.alone.low)
    assert 0.4 < found.saved < 0.9
    scaled = assisted_mean(people, [50 + 10 * score for score in judge], names)
    assert (scaled.value, scaled.low, scaled.high) == pytest.approx((found.value, found.low, found.high))
    assert scaled.weight == pytest.approx(found.weight / 10)


@pytest.mark.parametrize("judge", ["noise", "against", "constant"])
def test_a_judge_that_says_nothing_of_people_is_left_out(judge: str) -> None:
    people, scores, names = benchmark(0.0 if judge == "noise" else 0.9, 2)
    scores = {"noise": scores, "against": [-score for score in scores], "constant": [1.0] * len(scores)}[judge]
    found = assisted_mean(people, scores, names)
    assert (found.weight, found.saved, found.reason) == (0, 0, NO_PROXY)
    assert (found.value, found.low, found.high) == (found.alone.value, found.alone.low, found.alone.high)


def test_few_conversations_have_a_mean_and_no_interval() -> None:
    people, judge, names = benchmark(0.9, 3, n_rated=MIN_CLUSTERS - 1)
    found = assisted_mean(people, judge, names)
    assert found.value == found.alone.value
    assert (found.low, found.high, found.weight) == (None, None, 0)
    assert "fewer than 10 conversations" in found.reason
    nothing = assisted_mean([None] * len(people), judge, names)
    assert (nothing.value, nothing.reason) == (None, "nothing is scored")
    known = [0.0 if value is None else value for value in people]
    assert assisted_mean(known, judge, names).reason == "every answer is rated"


def test_the_interval_stays_on_the_scale() -> None:
    people, judge, names = benchmark(0.9, 4)
    found = assisted_mean(
        [None if value is None else 4.0 - 0.01 * (value < TRUTH) for value in people], judge, names, (1, 4)
    )
    assert found.high is not None
    assert found.high <= 4


def test_intervals_cover_the_mean_nineteen_times_in_twenty() -> None:
    for follows in (0.0, 0.6):
        found = [assisted_mean(*benchmark(follows, seed)) for seed in range(200)]
        covered = sum((item.low or 9) <= TRUTH <= (item.high or 0) for item in found)
        assert 182 <= covered <= 199, follows
