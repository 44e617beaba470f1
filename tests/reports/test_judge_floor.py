"""A judge decides in the gate only if its card is above the floor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragtasks.config import EvaluationConfig, GateConfig, JudgeFloor
from ragtasks.judges import IDK, JudgeCard, store_card
from ragtasks.records import Answerability
from ragtasks.reports.gate import GateStatus, before_judging, gate
from ragtasks.reports.gate_sides import read_side, save_baseline, side_of, with_stored_cards
from ragtasks.suites import suite_named
from tests.reports._cards import card, judged, with_cards
from tests.reports._rows import evaluation
from tests.reports.test_gate import noisy, side, with_anchors

WORSE, BEFORE = (judged(side(noisy(2, shift), name=name), "rb_llm") for shift, name in ((-0.3, "new"), (0.0, "old")))


def objections(*cards: JudgeCard, **options: Any) -> tuple[str, ...]:
    found = gate(with_cards(WORSE, *cards), BEFORE, GateConfig(margins={"rb_llm": 0.05}, **options))
    assert (found.verdict is GateStatus.WORSE) == (not found.objections)
    assert found.verdict is not GateStatus.NOT_WORSE
    return found.objections


def test_a_judge_above_the_floor_decides() -> None:
    assert objections(card()) == ()
    passing = gate(judged(side(noisy(3)), "rb_llm"), with_cards(BEFORE, card()), GateConfig(margins={"rb_llm": 0.05}))
    assert passing.verdict is GateStatus.NOT_WORSE, "the baseline's card counts too"


@pytest.mark.parametrize(
    ("shown", "missing"),
    [
        ([], "no card"),
        ([card(n=42)], "42 labels of 50"),
        ([card(n=50)], ""),
        ([card(low=0.31)], "kappa 0.31 to 0.70, must be above 0.4"),
        ([card(low=0.4)], "kappa 0.40 to 0.70, must be above 0.4"),
        ([card(low=None)], "no interval of kappa"),
        ([card(undecided=None)], "no repeats (--repeats 2)"),
        ([replace(card(), rows=(card().rows[0], card(n=12).rows[1]))], "12 repeated rows of 50"),
        ([card(undecided=0.1)], "10% of 80 rows undecided, must be below 10%"),
        ([card(n=10, low=0.1, undecided=None)], "10 labels of 50, kappa 0.10 to 0.70, must be above 0.4, no repeats"),
        ([card(rubrics={"rb_llm": "other prompts"})], "no card"),
        ([card(judge="other")], "no card"),
        ([card(IDK)], "no card"),
        ([card(n=10), card(time="2026-02-01T00:00:00")], ""),
        ([card(n=10, time="2026-02-01T00:00:00"), card()], "10 labels of 50"),
    ],
)
def test_a_judge_below_the_floor_does_not_decide_and_what_is_missing_is_named(
    shown: list[JudgeCard], missing: str
) -> None:
    found = objections(*shown)
    assert len(found) == bool(missing)
    assert all(text.startswith(f"gpt, rb_llm: {missing}") for text in found)


def test_the_floor_is_an_option() -> None:
    low = card(n=12, low=0.2, undecided=0.3)
    assert objections(low)
    assert objections(low, judge_floor=JudgeFloor(kappa=0.1, labels=10, undecided=0.4)) == ()
    assert objections(card(), judge_floor=JudgeFloor(kappa=0.5)) != ()
    assert objections(anchored_judges=("gpt",)) == (), "a named judge needs no card"


def test_free_metrics_decide_and_judged_ones_are_listed_with_the_reason() -> None:
    found = gate(WORSE, BEFORE, GateConfig(margins={"rouge_l": 0.5, "rb_llm": 0.05}))
    assert found.verdict is GateStatus.NOT_WORSE
    assert [(row.metric.name, row.decides, row.verdict) for row in found.rows] == [
        ("rouge_l", True, GateStatus.NOT_WORSE),
        ("rb_llm", False, GateStatus.WORSE),
    ]
    assert "judges do not decide: gpt, rb_llm: no card" in found.notes
    alone = gate(WORSE, BEFORE, GateConfig(margins={"rb_llm": 0.05}))
    assert alone.verdict is GateStatus.CANNOT_SAY
    assert alone.sentence.startswith("cannot say: no judge may decide: gpt, rb_llm: no card. Next step: ")


def test_every_rubric_behind_a_score_needs_a_card() -> None:
    now, before = (judged(found, "rb_llm", IDK, "clarification") for found in (side(noisy(2, -0.3)), BEFORE))
    config = GateConfig(margins={"rb_llm": 0.05, "rouge_l": 0.9})
    found = gate(with_cards(now, card()), before, config)
    assert found.objections == ("gpt, idk: no card",), "a judge that detects refusals decides on all metrics"
    assert [row.decides for row in found.rows] == [False, False]
    assert gate(with_cards(now, card(), card(IDK)), before, config).objections == ()
    unclear = {"answerability": Answerability.UNDERSPECIFIED}
    now, before = (judged(side(noisy(2), text=text, **unclear), "rb_llm", "clarification") for text in "ab")
    found = gate(with_cards(now, card()), before, GateConfig(margins={"rb_llm": 0.05}))
    assert found.objections == ("gpt, clarification: no card",)


def test_a_judge_that_drifted_does_not_decide_by_its_card() -> None:
    before, same, moved = (
        with_anchors(found, shift, time)
        for found, shift, time in ((BEFORE, 0, "t1"), (WORSE, 0, "t2"), (WORSE, -0.1, "t3"))
    )
    config = GateConfig(margins={"rb_llm": 0.05})
    assert gate(with_cards(same, card()), before, config).verdict is GateStatus.WORSE
    drifted = gate(with_cards(moved, card()), before, config)
    assert (drifted.verdict, drifted.problems) == (GateStatus.CANNOT_SAY, ())
    assert drifted.objections[0].startswith("gpt, rb_llm: drift since t1")


def test_cards_are_read_from_results_a_baseline_and_the_folder_of_cards(tmp_path: Path) -> None:
    scoring = {"scoring": {"judges": "gpt", "judge_cards": [card().json_values, {"version": 0}]}}
    rows = side(noisy(1)).rows["reference"]
    of_results = side_of(replace(evaluation(rows), provenance={"mtrag_reference": scoring}))
    assert of_results.cards == (card().json_values,)
    save_baseline(of_results, tmp_path / "old.json")
    saved = read_side(tmp_path / "old.json")
    assert [JudgeCard.of_json(one) for one in saved.cards] == [card()]
    store_card(tmp_path, card())
    store_card(tmp_path, card(judge="other"))
    assert with_stored_cards(WORSE, tmp_path).cards == (card().json_values,)
    assert len(with_stored_cards(WORSE, tmp_path, ["other"]).cards) == 2


def test_a_gate_that_judges_sends_no_request_to_a_judge_below_the_floor() -> None:
    before, now = (side(noisy(1), name=name, text=name) for name in ("old", "new"))
    prompts = {rubric.name: rubric.fingerprint for rubric in suite_named("mtrag").rubrics()}
    carded = with_cards(now, card(rubrics=prompts))
    config = GateConfig(margins={"rb_llm": 0.05})
    judge = {"model": "gpt", "base_url": "http://localhost:1/v1"}
    ngrams = EvaluationConfig(judges=[judge], idk="ngrams")
    status, reason = before_judging(now, before, config, ngrams) or (None, "")
    assert (status, reason.partition(". ")[0]) == (
        GateStatus.CANNOT_SAY,
        "no judge may decide: gpt, rb_llm: no card",
    )
    assert before_judging(carded, before, config, ngrams) is None
    assert before_judging(carded, before, config, EvaluationConfig(judges=[judge])), "refusals require a card too"
    assert before_judging(now, before, config.model_copy(update={"anchored_judges": ("gpt",)}), ngrams) is None
    official = EvaluationConfig(judges=[judge], idk="ngrams", prompts="official")
    assert before_judging(carded, before, config, official), "cards are made with the shipped prompts"
