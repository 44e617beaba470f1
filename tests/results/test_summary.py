"""Means without samples: sums over parts are those over all, and a saved summary is used for its own samples only."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.results import ScoredAnswer, Summary, saved_summary, summaries_of
from ragtasks.results._summary import MetricSummary, merged_summaries, read_summary
from tests.reports._rows import row

SCORES = st.lists(
    st.tuples(st.sampled_from(["reference", "full_rag"]), st.none() | st.floats(0, 1), st.booleans()), max_size=12
)


def rows_of(scores: list[tuple[str, float | None, bool]]) -> list[ScoredAnswer]:
    """Return rows of these settings and scores, some of which have a second metric."""
    return [
        row(
            number,
            0,
            setting=setting,
            values={"rouge_l": value, **({"rb_llm": 1.0} if more else {})},
            unscored={} if value is not None else {"rouge_l": f"why {number % 2}"},
        )
        for number, (setting, value, more) in enumerate(scores)
    ]


@given(SCORES, st.integers(0, 12))
def test_summaries_of_parts_are_the_summary_of_all(scores: list[tuple[str, float | None, bool]], cut: int) -> None:
    rows = rows_of(scores)
    complete = summaries_of(rows)
    parts = [summary for part in (rows[:cut], rows[cut:]) for summary in summaries_of(part).values()]
    joined = merged_summaries(parts)
    assert {name: (found.setting, found.n, found.tasks) for name, found in joined.items()} == {
        name: (found.setting, found.n, found.tasks) for name, found in complete.items()
    }
    for setting, summary in complete.items():
        assert joined[setting].metrics.keys() == summary.metrics.keys()
        for name, metric in summary.metrics.items():
            other = joined[setting].metrics[name]
            assert (other.n_scored, other.unscored) == (metric.n_scored, metric.unscored)
            assert other.total == pytest.approx(metric.total)


def test_a_summary_counts_scores_and_reasons_for_missing_scores() -> None:
    rows = [
        row(1, 0, values={"a": 0.25, "b": None}, unscored={"b": "no judge"}),
        row(2, 0, values={"a": 0.75, "b": None}, unscored={"b": "no judge"}),
        row(3, 0, values={"a": None, "c": 1.0}, unscored={}),
    ]
    (found,) = summaries_of(rows).values()
    assert (found.setting, found.n) == ("reference", 3)
    assert dict(found.metrics) == {
        "a": MetricSummary(1.0, 2, {"-": 1}),
        "b": MetricSummary(0.0, 0, {"no judge": 2}),
        "c": MetricSummary(1.0, 1, {}),
    }
    assert [(metric.n, metric.mean) for metric in found.metrics.values()] == [(3, 0.5), (2, None), (1, 1.0)]


def test_tasks_have_one_hash_in_any_order_and_another_if_a_task_differs() -> None:
    def tasks(*numbers: int) -> str:
        (found,) = summaries_of([row(number, 0) for number in numbers]).values()
        return found.tasks

    assert tasks(1, 2, 3) == tasks(3, 1, 2)
    assert len(tasks(1)) == 64
    assert len({tasks(1, 2), tasks(1, 3), tasks(1), tasks(1, 1, 2)}) == 4


def test_settings_are_in_the_order_of_their_first_row() -> None:
    rows = [row(1, 0, setting="full_rag"), row(2, 0, setting="reference"), row(3, 0, setting="full_rag")]
    assert [(name, found.n) for name, found in summaries_of(rows).items()] == [("full_rag", 2), ("reference", 1)]


def test_a_saved_summary_is_used_for_its_own_samples_only() -> None:
    rows = [row(1, 0.5), row(2, None)]
    saved: dict[str, Any] = json.loads(json.dumps(saved_summary(rows)))
    (expected,) = summaries_of(rows).values()
    assert read_summary(saved, 2) == expected
    assert isinstance(read_summary(saved, 2), Summary)
    assert read_summary(saved, 1) is None
    assert read_summary({}, 2) is None


def test_rows_of_two_settings_or_none_have_no_summary_to_save() -> None:
    assert saved_summary([row(1, 0), row(2, 0, setting="full_rag")]) == {}
    assert saved_summary([]) == {}
