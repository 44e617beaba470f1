"""Scores of a changed judge on its earlier scale: mapped scores, unchanged scores, and wider intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ragtasks.config import GateConfig
from ragtasks.errors import ConfigurationError
from ragtasks.judges import AnchorVerdicts
from ragtasks.reports.comparison import compare_evaluations
from ragtasks.reports.gate import gate
from ragtasks.reports.gate_sides import side_of
from ragtasks.reports.tables import report_sections
from ragtasks.results import Evaluation, ScoredAnswer, recalibrated
from tests.reports._rows import KIND, evaluation, row

N, DRIFT, NOISE = 80, -0.1, 0.03
REFUSED = 7
"""Every seventh answer is a refusal, whose score does not depend on a verdict."""


def anchors(time: str, drift: float, rubric: str = "rb_llm", seed: int = 0) -> dict[str, Any]:
    truth = np.random.default_rng(5).uniform(0.3, 0.9, 40)
    noise = np.random.default_rng(seed).normal(0, NOISE, 40)
    values = np.clip(truth + drift + noise, 0, 1).tolist()
    result = AnchorVerdicts("j", "set", time, {rubric: "w"}, tuple(range(40)), {rubric: tuple(values)})
    return {**result.json_values, "baseline": None}


def judged(model: str, drift: float, better: float = 0.0, **anchored: Any) -> Evaluation:
    """Return a system whose answers were scored by a judge with this drift."""
    rng = np.random.default_rng(len(model))
    rows = []
    for number in range(N):
        verdict = 0.5 + 0.3 * ((number * 7) % 10 - 5) / 10 + better + drift + float(rng.normal(0, NOISE))
        score = 1.0 if number % REFUSED == 0 else verdict
        values = {"rb_llm": score, "rb_llm_raw": verdict, "ans_acc": 1.0}
        rows.append(row(number, None, values=values, verdicts={("rb_llm", "j"): verdict}))
    given = anchors(f"2026-01-0{1 if drift == 0 else 2}T00:00:00", drift, seed=len(model), **anchored)
    provenance = {"mtrag_reference": {"scoring": {"judges": "j", "anchors": {"judges": [given]}}}}
    kind = (*KIND[:2], "ngrams-2; judges: j")
    return replace(evaluation(rows, model, kind), provenance=provenance)  # type: ignore[arg-type]


def by_task(found: Evaluation) -> Mapping[str, ScoredAnswer]:
    return {answer.task.task_id: answer for answer in found.rows}


def test_verdicts_are_mapped_and_scores_of_refusals_stay() -> None:
    before, after = judged("a", 0.0), judged("bb", DRIFT)
    same, mapped = recalibrated([before, after])
    assert same == before
    assert (mapped.judge_drift, len(mapped.recalibrated)) == ("", 1)
    assert mapped.recalibrated[0].startswith("j: rb_llm +0.")
    for old, new in zip(after.rows, mapped.rows, strict=True):
        raw, was = new.values["rb_llm_raw"], old.values["rb_llm_raw"]
        assert raw - was == pytest.approx(-DRIFT, abs=0.05)
        assert new.values["ans_acc"] == 1
        assert new.values["rb_llm"] == (1.0 if old.task.turn % REFUSED == 0 else raw)
        assert ("rb_llm" in new.moves) == (old.task.turn % REFUSED != 0)


def test_without_drift_nothing_is_mapped() -> None:
    pair = [judged("a", 0.0), judged("bb", -0.0)]
    assert recalibrated(pair) == pair


def test_mapped_scores_are_comparable_and_their_intervals_include_the_error_of_the_mapping() -> None:
    before, after = judged("a", 0.0), judged("bb", DRIFT, 0.05)
    with pytest.raises(ConfigurationError, match="--recalibrate"):
        compare_evaluations([before, after], metrics=["rb_llm_raw"])
    (pair,) = compare_evaluations(recalibrated([before, after]), metrics=["rb_llm_raw"]).pairs
    gap = pair.difference
    assert gap.low < 0.05 < gap.high
    known = [
        replace(item, rows=tuple(replace(one, moves={}) for one in item.rows)) for item in recalibrated([before, after])
    ]
    (narrow,) = compare_evaluations(known, metrics=["rb_llm_raw"]).pairs
    assert gap.high - gap.low > 1.1 * (narrow.difference.high - narrow.difference.low)
    assert gap.p > narrow.p


def test_the_report_offers_the_mapping_and_reports_its_use() -> None:
    before, after = judged("a", 0.0), judged("bb", DRIFT)
    apart = report_sections([before, after])
    assert len(apart) == 2
    assert any("`--recalibrate` maps" in line for one in apart if one.conclusion for line in one.conclusion.legend)
    (together,) = report_sections(recalibrated([before, after]))
    assert any(line.startswith("Recalibrated: scores of bb") for line in together.conclusion.legend)


def test_refusals_and_a_judge_of_one_value_are_not_mapped() -> None:
    with pytest.raises(ConfigurationError, match="refusals have no scale"):
        recalibrated([judged("a", 0.0, rubric="idk"), judged("bb", DRIFT, rubric="idk")])
    before, after = judged("a", 0.0), judged("bb", DRIFT)
    flat = anchors("2026-01-03T00:00:00", 0.0)
    flat["values"] = {"rb_llm": [0.5] * 40}
    provenance = {"mtrag_reference": {"scoring": {"anchors": {"judges": [flat]}}}}
    with pytest.raises(ConfigurationError, match="all anchors the same value"):
        recalibrated([before, replace(after, provenance=provenance)])


def test_the_gate_tests_mapped_scores_with_a_note() -> None:
    before, after = side_of(judged("a", 0.0)), side_of(judged("bb", DRIFT, 0.05))
    wanted = GateConfig(margins={"rb_llm_raw": 0.05}, anchored_judges=("j",))
    refused = gate(after, before, wanted)
    assert not refused.rows
    assert any("drift since" in line for line in refused.problems)
    tested = gate(after, before, wanted.model_copy(update={"recalibrate": True}))
    assert tested.problems == ()
    assert any(line.startswith("recalibrated by the anchors: j: rb_llm") for line in tested.notes)
    (found,) = tested.rows
    assert found.change.low < 0.05 < found.change.high
