"""Scores as 32-bit floats, compared with numpy: written scores preserve the order."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.submissions.mtrageval._line_rules import falls_strictly, official_scores, rank_scores, single

FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@given(st.one_of(st.floats(), st.integers(-(10**30), 10**30)))
def test_a_score_equals_its_numpy_32_bit_float(score: float) -> None:
    with np.errstate(over="ignore"):
        expected = float(np.float32(score))
    assert single(score) == expected or (math.isnan(expected) and math.isnan(single(score)))


def test_a_number_beyond_every_float_is_infinite() -> None:
    assert (single(10**400), single(-(10**400))) == (math.inf, -math.inf)


@given(st.lists(st.one_of(FLOATS, st.sampled_from([1.0, 1.0 + 1e-9, 1e39, -0.0, 0.0])), max_size=10))
def test_written_scores_decrease_strictly_in_numpy(scores: list[float]) -> None:
    ordered = sorted(scores, reverse=True)
    written = official_scores(ordered)
    with np.errstate(over="ignore"):
        kept = np.array(ordered, dtype=np.float32)
        read = np.array(written, dtype=np.float32)
    assert np.all(np.diff(read) < 0)
    assert np.all(np.isfinite(read))
    untouched = bool(np.all(kept[1:] < kept[:-1]) and np.all(np.isfinite(kept)))
    assert (written == tuple(ordered)) == (untouched or tuple(ordered) == rank_scores(len(ordered)))


@pytest.mark.parametrize(
    ("scores", "expected"),
    [([], True), ([0.0], True), ([2, 1], True), ([1.0, 1.0], False), ([1.0 + 1e-9, 1.0], False), ([math.nan], False)],
)
def test_strictly_decreasing_scores(scores: list[float], expected: bool) -> None:
    assert falls_strictly(scores) is expected


def test_rank_scores_count_down_to_one() -> None:
    assert rank_scores(3) == (3.0, 2.0, 1.0)
    assert rank_scores(0) == ()
