"""RB_alg: golden values with their origin, range, and differences between the two profiles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtasks.metrics import _answers as rb_alg
from ragtasks.metrics._answers import rb_agg_ibm, rb_alg_raw

GOLDEN = json.loads((Path(__file__).parent / "golden_rb_alg.json").read_text(encoding="utf-8"))
BERT = st.floats(-1.5, 1)  # rescaled BERTScore can be below -1
SHARE = st.floats(0, 1)
QUICK = settings(derandomize=True, database=None, deadline=None)


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case['metric']}: {case['origin'][:40]}")
def test_golden_values(case: dict[str, Any]) -> None:
    metric = getattr(rb_alg, str(case["metric"]))  # a removed metric fails
    assert metric(**case["input"]) == pytest.approx(case["expected"], abs=1e-6)
    assert case["origin"]


def test_golden_values_cover_every_metric() -> None:
    assert {case["metric"] for case in GOLDEN} == {"rb_agg_ibm", "rb_alg_raw"}


@QUICK
@given(BERT, SHARE, st.none() | BERT)
def test_the_score_is_in_range_and_at_most_its_largest_factor(
    recall: float, rouge: float, precision: float | None
) -> None:
    value = rb_alg_raw(recall, rouge, precision)
    factors = ((recall + 1) / 2, rouge, 0 if precision is None else (precision + 1) / 2)
    assert 0 <= value <= 1
    assert min(factors) - 1e-12 <= value <= max(factors) + 1e-12 if min(factors) > 0 else value == 0


@QUICK
@given(BERT, SHARE, BERT, st.floats(0, 0.5))
def test_the_score_grows_with_each_factor(recall: float, rouge: float, precision: float, more: float) -> None:
    value = rb_alg_raw(recall, rouge, precision)
    assert rb_alg_raw(recall + more, rouge, precision) >= value - 1e-12
    assert rb_alg_raw(recall, rouge + more, precision) >= value - 1e-12
    assert rb_alg_raw(recall, rouge, precision + more) >= value - 1e-12


@QUICK
@given(st.floats(-1, 1), SHARE, st.none() | st.floats(-1, 1))
def test_the_profiles_agree_without_negative_factors(recall: float, rouge: float, precision: float | None) -> None:
    assert rb_alg_raw(recall, rouge, precision) == rb_agg_ibm(recall, rouge, precision)
