from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.metrics import (
    NUGGET_SCORES,
    nugget_scores,
    nugget_scores_official,
    scores_by_part,
    sub_narrative_scores,
)
from ragtasks.records import Grade, Importance, Nugget

V, K = Importance.VITAL, Importance.OKAY
S, P, N = Grade.SUPPORT, Grade.PARTIAL_SUPPORT, Grade.NOT_SUPPORT
ITEMS = st.lists(st.tuples(st.sampled_from(Importance), st.sampled_from(Grade)), min_size=1, max_size=12)


def values(importance: list[Importance], grades: list[Grade | None]) -> dict[str, float | None]:
    return {name: score.value for name, score in nugget_scores(importance, grades).items()}


@given(ITEMS)
def test_the_scores_equal_a_count(items: list[tuple[Importance, Grade]]) -> None:
    """An independent count with exact fractions, after the published definitions."""
    importance, grades = [value for value, _ in items], [grade for _, grade in items]
    counts = {(i, g): sum(value == (i, g) for value in items) for i in Importance for g in Grade}
    n_vital, n_okay = importance.count(V), importance.count(K)
    strict = {i: Fraction(counts[i, S]) for i in Importance}
    half = {i: counts[i, S] + Fraction(counts[i, P], 2) for i in Importance}
    weight = n_vital + Fraction(n_okay, 2)
    expected = {
        "strict_vital_score": strict[V] / n_vital if n_vital else None,
        "strict_all_score": (strict[V] + strict[K]) / len(items),
        "vital_score": half[V] / n_vital if n_vital else None,
        "all_score": (half[V] + half[K]) / len(items),
        "weighted_score": (half[V] + half[K] / 2) / weight,
        "strict_weighted_score": (strict[V] + strict[K] / 2) / weight,
    }
    result = values(importance, grades)
    assert list(result) == list(NUGGET_SCORES)
    for name, value in expected.items():
        assert result[name] == (None if value is None else pytest.approx(float(value)))


def test_a_nugget_without_a_grade_leaves_all_scores_unscored() -> None:
    scores = nugget_scores([V, K, V], [S, None, N])
    assert {score.value for score in scores.values()} == {None}
    assert {score.reason for score in scores.values()} == {"1 of 3 nuggets have no grade"}


def test_the_official_convention_counts_a_missing_grade_as_zero() -> None:
    assert nugget_scores_official([V, K, V], [S, None, N]) == {
        "strict_vital_score": 0.5,
        "strict_all_score": pytest.approx(1 / 3),
        "vital_score": 0.5,
        "all_score": pytest.approx(1 / 3),
    }
    assert nugget_scores_official([K], [S])["vital_score"] == 0
    assert set(nugget_scores_official([], []).values()) == {0}


def test_without_vital_nuggets_the_vital_scores_are_unscored() -> None:
    scores = nugget_scores([K, K], [S, N])
    assert (scores["vital_score"].value, scores["vital_score"].reason) == (None, "the topic has no such nuggets")
    assert scores["all_score"].value == 0.5
    assert {score.value for score in nugget_scores([], []).values()} == {None}


def test_every_part_of_a_narrative_has_the_same_weight() -> None:
    parts = ["cost", "cost", "cost", "use", "", "noise"]
    nuggets = [Nugget(str(n), V if n % 2 else K, part) for n, part in enumerate(parts)]
    grades = [S, P, N, N, S, S]
    by_part = scores_by_part(nuggets, grades)
    assert {name: (n, scores["all_score"].value) for name, (n, scores) in by_part.items()} == {
        "cost": (3, 0.5),
        "use": (1, 0),
        "noise": (1, 1),
    }
    result = {name: score.value for name, score in sub_narrative_scores(nuggets, grades).items()}
    assert result == {"sub_narrative_score": 0.5, "sub_narratives_answered": pytest.approx(2 / 3)}


def test_scores_over_parts_require_parts_and_all_grades() -> None:
    bare = sub_narrative_scores([Nugget("a", V)], [S])["sub_narrative_score"]
    assert (bare.value, bare.reason) == (None, "no nugget names a sub-narrative")
    failed = sub_narrative_scores([Nugget("a", V, "x"), Nugget("b", V, "y")], [S, None])["sub_narratives_answered"]
    assert (failed.value, failed.reason) == (None, "1 of 2 nuggets have no grade")
