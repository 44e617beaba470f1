"""Columns compared in pairs: pairs, common items, and the correction over all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from ragtasks.errors import ConfigurationError
from ragtasks.statistics import NOTHING_SCORED, NOTHING_VARIES, Column, compare_columns, holm
from tests._messages import raises

ITEMS = {f"c{n:02}<::>{turn}": f"c{n:02}" for n in range(20) for turn in (1, 2, 3)}


def column(name: str, values: dict[str, float | None] | None = None, **changes: Any) -> Column:
    if values is None:
        # Deterministic, with different values for each name.
        chance = np.random.default_rng([ord(letter) for letter in name])
        values = dict(zip(ITEMS, chance.random(len(ITEMS)).tolist(), strict=True))
    return Column(
        context=changes.get("context", "data"),
        group=changes.get("group", "full_rag"),
        metric=changes.get("metric", "rouge_l"),
        name=name,
        values=values,
        cluster_of=ITEMS | {"only here": "c99"},
    )


def names(columns: list[Column], baseline: str | None = None) -> list[tuple[str, str]]:
    return [(pair.first.name, pair.second.name) for pair in compare_columns(columns, baseline).pairs]


def test_pairs_are_all_or_those_with_the_baseline() -> None:
    columns = [column("a"), column("b"), column("c")]
    assert names(columns) == [("a", "b"), ("a", "c"), ("b", "c")]
    assert names(columns, "b") == [("b", "a"), ("b", "c")]


@pytest.mark.parametrize("changed", ["context", "group", "metric"])
def test_columns_of_different_context_or_metric_are_not_compared(changed: str) -> None:
    columns = [column("a"), column("b"), column("a", **{changed: "other"}), column("c", **{changed: "other"})]
    assert names(columns) == [("a", "b"), ("a", "c")]
    with raises(ConfigurationError):
        compare_columns([columns[0], columns[3]])


def test_only_items_scored_by_both_are_compared() -> None:
    keys = list(ITEMS)
    first = dict.fromkeys(keys[:50], 0.5) | {keys[0]: None, keys[1]: None}
    second = dict.fromkeys(keys[10:], 0.75) | {keys[12]: None, keys[13]: 0.25}
    second[keys[0]] = 0.75
    (pair,) = compare_columns([column("a", first), column("b", second)]).pairs
    # Shared: 10 to 49 and 0. Of these, 0 and 12 are unscored in one column, which leaves 39.
    assert (pair.difference.n_values, pair.difference.n_unscored, pair.n_unshared) == (39, 2, 19)
    assert pair.first_mean == 0.5
    assert pair.second_mean == pytest.approx((38 * 0.75 + 0.25) / 39)
    assert pair.difference.value == pytest.approx(pair.second_mean - 0.5)
    assert pair.difference.n_clusters == 14


def test_a_pair_is_nearly_a_paired_t_test_of_conversations() -> None:
    first, second = column("a"), column("b")
    (pair,) = compare_columns([first, second]).pairs
    gaps = np.array([second.values[i] - first.values[i] for i in ITEMS]).reshape(20, 3).mean(axis=1)  # type: ignore[operator]
    oracle = stats.ttest_1samp(gaps, 0)
    assert pair.difference.standard_error == pytest.approx(stats.sem(gaps))
    assert pair.p == pytest.approx(oracle.pvalue, abs=0.02)
    low, high = oracle.confidence_interval()
    assert (pair.difference.low, pair.difference.high) == pytest.approx((low, high), abs=0.15 * (high - low))


def test_swapping_the_columns_reverses_the_sign() -> None:
    (forward,) = compare_columns([column("a"), column("b")]).pairs
    (backward,) = compare_columns([column("b"), column("a")]).pairs
    assert forward.difference.low == pytest.approx(-(backward.difference.high or 0))
    assert (forward.p, forward.detectable) == pytest.approx((backward.p, backward.detectable))


def test_the_correction_covers_all_comparisons() -> None:
    columns = [column(name, metric=metric) for metric in ("x", "y") for name in ("a", "b", "cc")]
    result = compare_columns(columns)
    assert [mean.column for mean in result.means] == columns
    pairs = result.pairs
    assert len(pairs) == 6
    assert [pair.adjusted_p for pair in pairs] == holm([pair.p for pair in pairs])


def test_a_comparison_without_common_scores_has_a_reason() -> None:
    unscored = column("b", dict.fromkeys(ITEMS))
    result = compare_columns([column("a"), unscored, column("c", {"only here": 1.0} | dict.fromkeys(ITEMS, 0.5))])
    nothing, apart = result.pairs[0], result.pairs[1]
    assert (nothing.p, nothing.adjusted_p, nothing.first_mean, nothing.detectable) == (None, None, None, None)
    assert (nothing.difference.reason, nothing.difference.n_unscored) == (NOTHING_SCORED, 60)
    assert result.means[1].estimate.reason == NOTHING_SCORED
    assert apart.n_unshared == 1
    assert apart.p == apart.adjusted_p  # the only testable comparison


def test_equal_columns_have_no_difference_and_no_interval() -> None:
    (pair,) = compare_columns([column("a"), column("b", dict(column("a").values))]).pairs
    assert (pair.difference.value, pair.p, pair.detectable) == (0, 1, None)
    assert (pair.difference.low, pair.difference.reason) == (None, NOTHING_VARIES)


def test_errors_name_the_problem() -> None:
    columns = [column("model-a"), column("model-b")]
    with raises(ConfigurationError):
        compare_columns(columns, "model_a")
    with pytest.raises(ConfigurationError, match="same name 'model-a'"):
        compare_columns([columns[0], columns[0]])
    with pytest.raises(ConfigurationError, match="found: none"):
        compare_columns([])
