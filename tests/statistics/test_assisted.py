"""Mean of human ratings with a judge as proxy: savings, fallbacks, and coverage of the interval."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ragtasks.statistics import MIN_CLUSTERS, assisted_mean
from ragtasks.statistics._judges import NO_PROXY, AssistedMean

TRUTH = 2.8


def benchmark(
    follows: float, seed: int, n_rated: int = 20, n: int = 80
) -> tuple[list[float | None], list[float], list[str]]:
    """Return ratings of the first conversations, a judge's scores of all, and the conversations."""
    rng = np.random.default_rng(seed)
    index = np.repeat(np.arange(n), rng.integers(2, 8, n))
    followed, independent = (0.3 * rng.normal(size=n)[index] + 0.6 * rng.normal(size=len(index)) for _ in range(2))
    judge = follows * followed + np.sqrt(1 - follows**2) * independent
    people = [
        TRUTH + float(value) if conversation < n_rated else None
        for value, conversation in zip(followed, index, strict=True)
    ]
    return people, judge.tolist(), [f"c{conversation}" for conversation in index]


def width(mean: AssistedMean) -> float:
    return mean.high - mean.low


def test_a_judge_that_agrees_with_people_narrows_the_interval_on_any_scale() -> None:
    people, judge, names = benchmark(0.9, 1)
    result = assisted_mean(people, judge, names)
    assert result.reason == ""
    assert result.weight == pytest.approx(0.9 / (1 + 20 / 60), abs=0.1), (
        "less than the slope: the judge's mean has noise"
    )
    assert width(result) < 0.75 * (result.alone.high - result.alone.low)
    assert 0.4 < result.saved < 0.9
    scaled = assisted_mean(people, [50 + 10 * score for score in judge], names)
    assert (scaled.value, scaled.low, scaled.high) == pytest.approx((result.value, result.low, result.high))
    assert scaled.weight == pytest.approx(result.weight / 10)


@pytest.mark.parametrize("judge", ["noise", "against", "constant"])
def test_an_unrelated_judge_is_not_used(judge: str) -> None:
    people, scores, names = benchmark(0.0 if judge == "noise" else 0.9, 2)
    scores = {"noise": scores, "against": [-score for score in scores], "constant": [1.0] * len(scores)}[judge]
    result = assisted_mean(people, scores, names)
    assert (result.weight, result.saved, result.reason) == (0, 0, NO_PROXY)
    assert (result.value, result.low, result.high) == (result.alone.value, result.alone.low, result.alone.high)


def test_few_conversations_have_a_mean_without_interval() -> None:
    people, judge, names = benchmark(0.9, 3, n_rated=MIN_CLUSTERS - 1)
    result = assisted_mean(people, judge, names)
    assert result.value == result.alone.value
    assert (result.low, result.high, result.weight) == (None, None, 0)
    assert "fewer than 10 conversations" in result.reason
    nothing = assisted_mean([None] * len(people), judge, names)
    assert (nothing.value, nothing.reason) == (None, "nothing is scored")
    ratings = [0.0 if value is None else value for value in people]
    assert assisted_mean(ratings, judge, names).reason == "every answer is rated"


def test_the_interval_stays_on_the_scale() -> None:
    people, judge, names = benchmark(0.9, 4)
    result = assisted_mean(
        [None if value is None else 4.0 - 0.01 * (value < TRUTH) for value in people], judge, names, (1, 4)
    )
    assert result.high <= 4


def test_intervals_cover_the_mean_in_95_percent_of_cases() -> None:
    for follows in (0.0, 0.3, 0.6, 0.9):
        result = [assisted_mean(*benchmark(follows, seed)) for seed in range(200)]
        covered = sum((mean.low or 9) <= TRUTH <= (mean.high or 0) for mean in result)
        assert 182 <= covered <= 199, follows


def by_hand(people: list[float | None], judge: list[float], names: list[str]) -> tuple[float, float]:
    """Return the power-tuned mean and its jackknife error over conversations, by least squares in plain loops."""

    def mean(left_out: str) -> float:
        kept = [row for row in zip(people, judge, names, strict=True) if row[2] != left_out]
        rated = [(value, score) for value, score, _ in kept if value is not None]
        unrated = [score for value, score, _ in kept if value is None]
        level, proxy, beyond = (np.mean([v for v, _ in rated]), np.mean([s for _, s in rated]), np.mean(unrated))
        gaps, moves = [], []
        for name in dict.fromkeys(row[2] for row in kept):
            own = [(value, score) for value, score, of in kept if of == name]
            gaps.append(sum(v - level for v, _ in own if v is not None) / len(rated))
            moves.append(
                sum(s - proxy for v, s in own if v is not None) / len(rated)
                - sum(s - beyond for v, s in own if v is None) / len(unrated)
            )
        weight = np.linalg.lstsq(np.array(moves)[:, None], np.array(gaps), rcond=None)[0][0]
        return float(level - weight * (proxy - beyond))

    conversations = list(dict.fromkeys(names))
    without = np.array([mean(name) for name in conversations])
    n = len(without)
    return mean(""), float(np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum()))


@pytest.mark.parametrize("n_rated", [10, 12, 30])
def test_the_interval_has_two_degrees_of_freedom_fewer_than_rated_conversations(n_rated: int) -> None:
    """The rated conversations estimate two numbers, the mean and the judge's weight; the others add none."""
    people, judge, names = benchmark(0.9, 7, n_rated=n_rated)
    result = assisted_mean(people, judge, names)
    value, error = by_hand(people, judge, names)
    assert result.value == pytest.approx(value)
    reach = stats.t.ppf(0.975, n_rated - 2) * error
    assert (result.low, result.high) == (pytest.approx(value - reach), pytest.approx(value + reach))
