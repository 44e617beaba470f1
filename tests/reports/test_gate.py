"""The gate reports a system as worse or not worse only if the interval of the change supports it.

Otherwise it cannot say.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragtasks.config import GateConfig
from ragtasks.errors import ConfigurationError
from ragtasks.judges import AnchorVerdicts
from ragtasks.metrics import accuracy_sides
from ragtasks.records import Answerability
from ragtasks.reports.gate import Gate, GateStatus, before_judging, gate, is_powerful, power_of, verdict_of
from ragtasks.reports.gate_sides import GatedSystem, read_side, save_baseline, side_of
from ragtasks.results import JudgeAnchors, ScoredAnswer
from ragtasks.statistics import Race
from tests.reports._cards import card, judged, with_cards
from tests.reports._rows import evaluation, row

N = 60


def side(value: Callable[[int], float | None], *, n: int = N, name: str = "new", **changes: Any) -> GatedSystem:
    """Return a system with a value of rouge_l in each of n conversations."""
    rows: list[ScoredAnswer] = [
        row(number, 0.5, **{"values": {"rouge_l": value(number), "ans_acc": 1.0, "rb_llm": value(number)}} | changes)
        for number in range(n)
    ]
    return side_of(evaluation(rows, model=name))


def noisy(seed: int, shift: float = 0.0) -> Callable[[int], float]:
    chance = random.Random(seed)
    values = [min(1.0, max(0.0, 0.6 + shift + chance.uniform(-0.1, 0.1))) for _ in range(N)]
    return lambda number: values[number]


def gated(now: GatedSystem, before: GatedSystem, **options: Any) -> Gate:
    return gate(now, before, GateConfig(**{"margins": {"rouge_l": 0.05}} | options))


BEFORE = side(noisy(1), name="old")


@pytest.mark.parametrize(
    ("shift", "verdict", "status"),
    [(0.0, "not worse", 0), (0.3, "not worse", 0), (-0.15, "worse", 1), (-0.05, "cannot say", 3)],
)
def test_the_interval_against_the_margin_decides(shift: float, verdict: str, status: int) -> None:
    result = gated(side(noisy(2, shift)), BEFORE)
    (only,) = result.rows
    assert (result.verdict.value, result.verdict.status) == (verdict, status)
    assert (only.change.low > -0.05) == (verdict == "not worse")
    assert (only.change.high < -0.05) == (verdict == "worse")


def test_a_small_real_drop_within_the_margin_passes() -> None:
    result = gated(side(lambda number: noisy(1)(number) - 0.02 - 0.01 * (number % 2)), BEFORE)
    (only,) = result.rows
    assert only.change.high < 0
    assert result.verdict is GateStatus.NOT_WORSE


def test_many_implausible_answers_do_not_pass_and_few_are_noted() -> None:
    def broken(n: int, **configuration: float) -> Gate:
        given = side(noisy(2, 0.3)).rows["reference"]
        rows = [replace(one, implausible={"empty": ""} if number < n else {}) for number, one in enumerate(given)]
        found = evaluation(rows, model="new")
        return gated(side_of(replace(found, provenance={"mtrag_reference": {"configuration": configuration}})), BEFORE)

    found = broken(13)
    assert found.verdict is GateStatus.CANNOT_SAY
    assert found.rows[0].why == f"13 of {N} answers to reference (22%) are implausible (most are empty)"
    assert any("Implausible: new in reference: 13 of" in note for note in found.notes)
    few = broken(12)
    assert few.verdict is GateStatus.NOT_WORSE
    assert any("Implausible: new in reference: 12 of" in note for note in few.notes)
    assert broken(13, max_implausible=0.5).verdict is GateStatus.NOT_WORSE


def test_the_sign_is_reversed_if_lower_values_are_better() -> None:
    now = side(lambda _: 0.5, values={"empty": 1.0})
    before = side(lambda _: 0.5, values={"empty": 0.0})
    worse, better = gated(now, before, margins={"empty": 0.1}), gated(before, now, margins={"empty": 0.1})
    assert (worse.rows[0].change.value, worse.verdict) == (-1.0, GateStatus.WORSE)
    assert better.verdict is GateStatus.NOT_WORSE


def test_each_side_of_the_accuracy_has_its_own_margin(tmp_path: Path) -> None:
    """A system that stops declining loses little accuracy, because few questions are unanswerable."""

    def system(name: str, declined: float) -> GatedSystem:
        labels = ["UNANSWERABLE" if number % 5 == 0 else "ANSWERABLE" for number in range(4 * N)]
        answers = [
            row(number, 0.5, answerability=label, values={"ans_acc": declined if label == "UNANSWERABLE" else 1.0})
            for number, label in enumerate(labels)
        ]
        return side_of(evaluation(answers, model=name))

    before, now = system("old", 1.0), system("new", 0.0)
    save_baseline(before, tmp_path / "before.json")
    for baseline in (before, read_side(tmp_path / "before.json")):
        margins = {"ans_acc": 0.3, "answered": 0.1, "declined": 0.3, "balanced_ans_acc": 0.3}
        result = gated(now, baseline, margins=margins)
        verdicts = {line.metric.name: (line.verdict.value, line.change.value) for line in result.rows}
        assert verdicts == {
            "ans_acc": ("not worse", pytest.approx(-0.2)),
            "answered": ("not worse", 0.0),
            "declined": ("worse", -1.0),
            "balanced_ans_acc": ("worse", -0.5),
        }


def test_turn_errors_are_tested_and_unexamined_turns_are_reported(tmp_path: Path) -> None:
    margins = {"invented": 0.1}
    before, now = (side(lambda _: 0.5, name=str(share), values={"invented": share}) for share in (0.0, 1.0))
    result = gated(now, before, margins=margins)
    assert (result.verdict, result.notes) == (GateStatus.WORSE, ())
    save_baseline(before, tmp_path / "before.json")
    assert gated(now, read_side(tmp_path / "before.json"), margins=margins).notes == ()
    (note,) = gated(BEFORE, before, margins=margins).notes
    assert note.startswith("old: its results have no turn errors yet")


def test_too_few_answers_report_the_required_number() -> None:
    now = side(lambda number: 1.0 if number % 3 else 0.0)
    before = side(lambda number: 1.0 if number % 4 else 0.0)
    result = gated(now, before)
    (only,) = result.rows
    assert result.verdict is GateStatus.CANNOT_SAY
    assert not is_powerful(only)
    takes = int(only.why.split()[-1])
    assert takes == pytest.approx(N * (only.least_margin / 0.05) ** 2, abs=1)


def test_all_tasks_of_fewer_than_ten_conversations_never_pass() -> None:
    result = gated(side(lambda _: 0.9, n=9), side(lambda _: 0.1, n=9))
    assert (result.verdict, result.rows[0].why) == (GateStatus.CANNOT_SAY, "fewer than 10 conversations")


def test_identical_answers_pass_with_any_margin() -> None:
    before = side(lambda number: number % 2, n=12, text="ab")
    result = gated(before, before, margins={"rouge_l": 1e-6})
    assert result.verdict is GateStatus.NOT_WORSE


def test_equal_scores_of_different_answers_pass_only_if_a_rare_loss_would_be_detected() -> None:
    now, before = (side(lambda _: 0.5, text=text) for text in "ab")
    assert gated(now, before, margins={"rouge_l": 0.02}).verdict is GateStatus.CANNOT_SAY
    assert gated(now, before, margins={"rouge_l": 0.2}).verdict is GateStatus.NOT_WORSE


def test_one_worse_slice_fails_the_gate() -> None:
    def rows(model: str, drop: float) -> GatedSystem:
        values = noisy(3 if drop else 4)
        return side_of(
            evaluation(
                [
                    row(n, 0, domain="fiqa" if n % 2 else "govt", values={"rouge_l": values(n) - drop * (n % 2)})
                    for n in range(N)
                ],
                model=model,
            )
        )

    found = gated(rows("new", 0.3), rows("old", 0.0), margins={"rouge_l": 0.2}, slices=("domain",))
    verdicts = {gate_row.slice: gate_row.verdict.value for gate_row in found.rows}
    assert verdicts["domain=fiqa"] == "worse"
    assert verdicts["domain=govt"] == "not worse"
    assert found.verdict is GateStatus.WORSE
    only_govt = gated(rows("new", 0.3), rows("old", 0.0), margins={"rouge_l": 0.2}, slices=("domain=govt",))
    assert [gate_row.slice for gate_row in only_govt.rows] == ["all tasks", "domain=govt"]


def test_worse_is_corrected_for_the_number_of_tests_and_not_worse_is_not() -> None:
    """A drop that is significant alone, at p between 1 and 5 %, is not significant among twelve tests."""
    shift = next(
        shift / 1000
        for shift in range(-60, -140, -1)
        if 0.01 < (gated(side(noisy(2, shift / 1000)), BEFORE).rows[0].change.p or 0) < 0.05
        and gated(side(noisy(2, shift / 1000)), BEFORE).verdict is GateStatus.WORSE
    )
    names = ("ans_acc", "rouge_l")

    def many(values: Callable[[int], float], model: str) -> GatedSystem:
        rows = [
            row(
                n,
                0,
                domain=f"d{n % 5}",
                values={"rouge_l": values(n), "ans_acc": 0.5 + 0.01 * (n % 7 - (model == "new") * (n % 3))},
            )
            for n in range(N)
        ]
        return side_of(evaluation(rows, model=model))

    found = gated(
        many(noisy(2, shift), "new"), many(noisy(1), "old"), margins=dict.fromkeys(names, 0.05), slices=("domain",)
    )
    complete = next(
        gate_row for gate_row in found.rows if gate_row.slice == "all tasks" and gate_row.metric.name == "rouge_l"
    )
    assert complete.verdict is GateStatus.CANNOT_SAY
    assert "12 tests" in complete.why
    alike = next(
        gate_row for gate_row in found.rows if gate_row.slice == "all tasks" and gate_row.metric.name == "ans_acc"
    )
    assert alike.verdict is GateStatus.NOT_WORSE


def test_slices_without_an_interval_do_not_decide_unless_they_are_named() -> None:
    def rows(model: str) -> GatedSystem:
        values = noisy(5 if model == "new" else 6)
        found = [
            row(n, 0, answerability="PARTIAL" if n < 5 else "ANSWERABLE", values={"rouge_l": values(n)})
            for n in range(N)
        ]
        return side_of(evaluation(found, model=model))

    found = gated(rows("new"), rows("old"), slices=("answerability",))
    assert found.verdict is GateStatus.NOT_WORSE
    assert [gate_row.slice for gate_row in found.rows if not gate_row.decides] == ["answerability=PARTIAL"]
    named = gated(rows("new"), rows("old"), slices=("answerability=PARTIAL",))
    assert named.verdict is GateStatus.CANNOT_SAY


def test_a_slice_without_tasks_of_a_metric_has_no_test() -> None:
    def rows(model: str) -> GatedSystem:
        labels = ["UNANSWERABLE" if n % 2 else "ANSWERABLE" for n in range(N)]
        found = [
            row(n, 0, answerability=label, values=accuracy_sides(1.0, Answerability(label)))
            for n, label in enumerate(labels)
        ]
        return side_of(evaluation(found, model=model))

    found = gated(
        rows("new"),
        rows("old"),
        margins={"answered": 0.3, "declined": 0.3},
        slices=("answerability=ANSWERABLE", "answerability=UNANSWERABLE"),
    )
    assert [(gate_row.slice, gate_row.metric.name) for gate_row in found.rows] == [
        ("all tasks", "answered"),
        ("all tasks", "declined"),
        ("answerability=ANSWERABLE", "answered"),
        ("answerability=UNANSWERABLE", "declined"),
    ]


def test_a_slice_with_few_tasks_of_a_class_does_not_decide_by_the_balanced_mean() -> None:
    def rows(model: str) -> GatedSystem:
        values = noisy(5 if model == "new" else 6)
        found = [
            row(
                n,
                0,
                domain="fiqa" if n < N // 2 else "govt",
                answerability=label,
                values={"balanced_ans_acc": values(n)},
            )
            for n in range(N)
            for label in ["UNANSWERABLE" if n % 2 and n > 20 else "ANSWERABLE"]
        ]
        return side_of(evaluation(found, model=model))

    found = gated(rows("new"), rows("old"), margins={"balanced_ans_acc": 0.3}, slices=("domain",))
    assert {gate_row.slice: gate_row.decides for gate_row in found.rows} == {
        "all tasks": True,
        "domain=fiqa": False,
        "domain=govt": True,
    }


def with_fields(system: GatedSystem, **fields: str) -> GatedSystem:
    return replace(system, fields={name: {**found, **fields} for name, found in system.fields.items()})


@pytest.mark.parametrize("field", ["encoder", "data revision", "judge prompts", "idk detector", "harness task version"])
def test_other_fingerprints_are_no_match(field: str) -> None:
    result = gated(with_fields(BEFORE, **{field: "other"}), BEFORE)
    assert result.verdict is GateStatus.CANNOT_SAY
    assert result.rows == ()
    assert result.problems == (f"{field} in reference: - -> other",)


def test_prompts_and_corpus_may_differ_if_they_are_the_change() -> None:
    now = with_fields(side(noisy(2)), **{"system prompt": "terse", "run key": "0011"})
    assert len(gated(now, BEFORE).problems) == 2
    result = gated(now, BEFORE, may_differ=("prompts", "retriever"))
    assert result.verdict is GateStatus.NOT_WORSE
    assert len(result.notes) == 2
    with pytest.raises(ConfigurationError, match="encoder"):
        gated(now, BEFORE, may_differ=("encoder",))


def test_other_tasks_are_no_match() -> None:
    result = gated(side(noisy(1), n=N - 1), BEFORE)
    assert result.verdict is GateStatus.CANNOT_SAY
    assert result.problems[0].startswith("tasks in reference: 60")


def test_a_changed_score_of_an_unchanged_answer_is_drift() -> None:
    before = side(noisy(1), text="ab")
    found = gated(side(lambda number: noisy(1)(number) + 0.01, text="ab"), before)
    assert found.verdict is GateStatus.CANNOT_SAY
    assert found.problems[0].startswith("drift of rouge_l in reference: 60 of 60 unchanged answers")
    assert "+0.010 on average" in found.problems[0]


def test_a_judge_may_be_uneven_but_not_drift() -> None:
    judged = {"margins": {"rb_llm": 0.1}, "anchored_judges": ("gpt",)}
    before = with_fields(side(noisy(1), text="ab"), judges="gpt")
    uneven = side(lambda n: noisy(1)(n) + (0.1 if n % 2 else -0.1), text="ab")
    lenient = side(lambda n: noisy(1)(n) + 0.1, text="ab")
    assert gated(with_fields(uneven, judges="gpt"), before, **judged).problems == ()
    assert gated(with_fields(lenient, judges="gpt"), before, **judged).problems[0].startswith("drift of rb_llm")


def test_judged_metrics_decide_only_if_their_judges_are_anchored() -> None:
    now, before = with_fields(side(noisy(2, -0.3)), judges="gpt"), with_fields(BEFORE, judges="gpt")
    margins = {"rouge_l": 0.5, "rb_llm": 0.05}
    shown = gated(now, before, margins=margins)
    assert [(gate_row.metric.name, gate_row.decides) for gate_row in shown.rows] == [
        ("rouge_l", True),
        ("rb_llm", False),
    ]
    assert shown.rows[1].verdict is GateStatus.WORSE
    assert shown.verdict is GateStatus.NOT_WORSE
    assert gated(now, before, margins=margins, anchored_judges=("gpt",)).verdict is GateStatus.WORSE
    alone = gated(now, before, margins={"rb_llm": 0.05})
    assert (alone.verdict, "gpt, rb_llm: no card" in alone.sentence) == (GateStatus.CANNOT_SAY, True)


def with_anchors(found: GatedSystem, shift: float, time: str) -> GatedSystem:
    """Return a side whose judge has verdicts on 40 anchors."""
    values = tuple(0.5 + 0.01 * (number % 9) + shift + 0.02 * shift * (number % 5) for number in range(40))
    conversations = tuple(number // 2 for number in range(40))
    now = AnchorVerdicts("gpt", "set", time, {"rb_llm": "words"}, conversations, {"rb_llm": values})
    return replace(found, anchors={"gpt": JudgeAnchors(now, None)})


def test_judges_with_a_card_decide_until_they_drift(tmp_path: Path) -> None:
    now, before = judged(side(noisy(2, -0.3)), "rb_llm"), with_cards(judged(BEFORE, "rb_llm"), card())
    margins = {"rb_llm": 0.05}
    then, alike, moved = with_anchors(before, 0, "t1"), with_anchors(now, 0, "t2"), with_anchors(now, -0.1, "t3")
    save_baseline(then, tmp_path / "then.json")
    for baseline in (then, read_side(tmp_path / "then.json")):
        assert gated(alike, baseline, margins=margins).verdict is GateStatus.WORSE
        drifted = gated(moved, baseline, margins=margins)
        assert drifted.verdict is GateStatus.CANNOT_SAY
        assert drifted.notes[0].startswith("judge gpt: drift since t1: rb_llm -0.1")
        declared = gated(moved, baseline, margins=margins, anchored_judges=("gpt",))
        assert declared.problems[0].startswith("judge gpt: drift since t1")
    assert gated(alike, before, margins=margins).verdict is GateStatus.WORSE, "anchors are not required"
    assert gated(alike, replace(then, cards=()), margins=margins).verdict is GateStatus.CANNOT_SAY, "nor enough"


def test_all_metrics_depend_on_judges_that_detect_refusals() -> None:
    fields = {"judges": "gpt", "idk detector": "judge gpt"}
    found = gated(with_fields(side(noisy(2)), **fields), with_fields(BEFORE, **fields))
    assert [gate_row.decides for gate_row in found.rows] == [False]


def test_too_many_scores_on_one_side_only_do_not_pass() -> None:
    result = gated(side(lambda n: None if n < 3 else 1.0), BEFORE)
    assert (result.verdict, result.rows[0].why) == (
        GateStatus.CANNOT_SAY,
        "3 of 60 answers are scored on one side only",
    )
    assert gated(side(lambda n: None if n < 3 else 1.0), BEFORE, most_unscored=0.05).verdict is GateStatus.NOT_WORSE


def test_power_is_known_from_the_baseline_alone_and_exact_with_both() -> None:
    alone = power_of(BEFORE, GateConfig())
    both = power_of(BEFORE, GateConfig(margins={"rouge_l": 0.05}), side(noisy(2)))
    offered = {item.metric.name for item in alone.rows}
    assert {"rouge_l", "ans_acc"} <= offered
    planned = next(item for item in alone.rows if item.metric.name == "rouge_l")
    (paired,) = both.rows
    assert planned.least_margin == pytest.approx(paired.least_margin, rel=0.3)
    assert paired.found_drop > 0.05 + paired.least_margin


def test_the_detectable_drop_is_detected_four_times_out_of_five() -> None:
    """Single answers fail completely in a system that is otherwise as good as the baseline."""
    (promised,) = power_of(BEFORE, GateConfig(margins={"rouge_l": 0.05}), side(noisy(2))).rows
    share, chance = promised.found_drop / 0.6, random.Random(1)
    found = []
    for seed in range(100):
        values = noisy(100 + seed)
        failing = {number for number in range(N) if chance.random() < share}
        now = side(lambda number, values=values, failing=failing: 0.0 if number in failing else values(number))  # type: ignore[misc]
        found.append(gated(now, BEFORE).verdict is GateStatus.WORSE)
    assert 70 <= sum(found) <= 90


def by_domain(model: str, shift: float = 0.0, n: int = N, **changes: Any) -> GatedSystem:
    """Return a system with answers of five domains, the last of which has few."""
    values = noisy(1 if model == "old" else 2, shift)
    rows = [
        row(number, 0, domain="rare" if number < 4 else f"d{number % 4}", values={"rouge_l": values(number)} | changes)
        for number in range(n)
    ]
    return side_of(evaluation(rows, model=model))


def test_slices_may_have_margins_of_their_own() -> None:
    found = gated(by_domain("new"), by_domain("old"), slices=("domain",), slice_margins={"rouge_l": 0.3})
    margins = {gate_row.slice: gate_row.margin for gate_row in found.rows}
    assert margins.pop("all tasks") == 0.05
    assert set(margins.values()) == {0.3}
    assert {gate_row.margin for gate_row in gated(by_domain("new"), by_domain("old"), slices=("domain",)).rows} == {
        0.05
    }


def test_the_sentence_names_its_reasons() -> None:
    assert gated(by_domain("new"), by_domain("old")).sentence == (
        "not worse: 1 test, every interval is above the allowed drop"
    )
    worse = gated(by_domain("new", -0.3), by_domain("old"), slices=("domain",))
    shown = [gate_row for gate_row in worse.rows if gate_row.decides]
    assert len(shown) == 5
    head, *named = worse.sentence.split("; ")
    assert head.startswith("worse: 5 of 5 tests: rouge_l in reference, all tasks: change -0.")
    assert head.endswith(", margin 0.05")
    assert len(named) == 3
    assert named[-1] == "and 2 more"
    unsure = gated(by_domain("new", -0.045, n=12), by_domain("old", n=12))
    assert unsure.sentence.startswith("cannot say: 1 of 1 test: rouge_l in reference, all tasks: change ")
    assert "(too few answers: 12 conversations allow a margin of 0." in unsure.sentence
    nothing = gated(side(lambda _: None), side(lambda _: None), margins={"rouge_l": 0.05})
    assert nothing.sentence == (
        f"cannot say: 1 of 1 test: rouge_l in reference, all tasks: {nothing.rows[0].change.reason}"
    )
    other = gated(with_fields(BEFORE, encoder="x"), BEFORE)
    assert other.sentence == "cannot say: old and old do not match: encoder in reference: - -> x"


def test_a_row_has_the_means_of_the_tasks_that_both_sides_scored() -> None:
    now = side(lambda n: None if n == 0 else 0.4 + 0.001 * n)
    before = side(lambda n: None if n == 1 else 0.5 + 0.001 * n)
    (only,) = gated(now, before, most_unscored=0.5).rows
    shared = [n for n in range(N) if n > 1]
    assert only.baseline == pytest.approx(sum(0.5 + 0.001 * n for n in shared) / len(shared))
    assert only.candidate == pytest.approx(sum(0.4 + 0.001 * n for n in shared) / len(shared))
    assert (only.change.value, only.change.n_values) == (pytest.approx(-0.1), len(shared))


def test_a_slice_without_scores_is_left_out_and_all_tasks_without_scores_are_not() -> None:
    def rows(model: str) -> GatedSystem:
        values = noisy(1 if model == "old" else 2)
        found = [row(n, 0, domain="bare" if n < 20 else "full", values={"rouge_l": None if n < 20 else values(n)})
                 for n in range(N)]  # fmt: skip
        return side_of(evaluation(found, model=model))

    found = gated(rows("new"), rows("old"), slices=("domain",))
    assert [(gate_row.slice, gate_row.decides) for gate_row in found.rows] == [
        ("all tasks", True),
        ("domain=full", True),
    ]


def two_settings(model: str, *settings: str) -> GatedSystem:
    values = noisy(1 if model == "old" else 2)
    rows = [row(n, 0, setting=name, values={"rouge_l": values(n)}) for name in settings for n in range(N)]
    return side_of(evaluation(rows, model=model))


def test_a_missing_setting_of_the_candidate_is_no_match_and_an_additional_one_is_a_note() -> None:
    one, both = (two_settings("new", *names) for names in (("reference",), ("reference", "full_rag")))
    result = gated(one, two_settings("old", "reference", "full_rag"))
    assert (result.verdict, result.problems) == (GateStatus.CANNOT_SAY, ("setting full_rag is in the baseline only",))
    more = gated(both, two_settings("old", "reference"))
    assert (more.verdict, more.problems) == (GateStatus.NOT_WORSE, ())
    assert more.notes == ("not tested: setting full_rag, which the baseline does not have",)
    assert [gate_row.setting for gate_row in gated(both, two_settings("old", "reference", "full_rag")).rows] == [
        "reference",
        "full_rag",
    ]


def test_a_harmless_difference_is_a_note() -> None:
    result = gated(with_fields(side(noisy(2)), **{"generation options": "temperature 1"}), BEFORE)
    assert (result.verdict, result.problems) == (GateStatus.NOT_WORSE, ())
    assert result.notes == ("differs: generation options in reference: - -> temperature 1",)
    hinted = gated(with_fields(BEFORE, **{"system prompt": "terse"}), BEFORE)
    assert hinted.problems == (
        "system prompt in reference: - -> terse (`may_differ: [prompts]` under `gate` if the change intends this)",
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slice_margins": {"rouge": 0.1}}, "margin of an unknown metric 'rouge': did you mean 'rouge_l'"),
        ({"slice_margins": {"rouge_l": 1.5}}, "margin rouge_l=1.5 allows any drop. Next step: below 1"),
        ({"slices": ("domain=fiqa",)}, "unknown slice 'domain=fiqa'"),
        ({"slices": ("domian",)}, "did you mean 'domain'"),
        ({"slice_margins": {"ans_acc": 0.1}}, "add it to margins"),
        ({"margins": {}}, r"--margin rb_llm=0.03.*Metrics: rb_llm, ans_acc, answered, .*rouge_l"),
        ({"may_differ": ("promts",)}, "may_differ 'promts': did you mean 'prompts'"),
    ],
)
def test_an_invalid_option_is_an_error_with_close_matches(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        gated(BEFORE, BEFORE, **options)


def test_power_grows_with_the_square_root_of_the_number_of_conversations() -> None:
    def least(n: int) -> float:
        values = noisy(1)
        before, now = (side(lambda number, k=k: values((7 * number + k) % N), n=n) for k in (0, 3))  # type: ignore[misc]
        (only,) = power_of(before, GateConfig(margins={"rouge_l": 0.05}), now).rows
        assert only.least_margin is not None
        return only.least_margin

    assert least(30) / least(60) == pytest.approx(2**0.5, rel=0.15)


def test_power_without_a_candidate_describes_the_assumed_candidate() -> None:
    result = power_of(BEFORE, GateConfig(margins={"rouge_l": 0.05}))
    (only,) = result.rows
    assert result.candidate == "a system with the baseline's variance and independent answers"
    assert (only.candidate, only.change.value, only.verdict, only.margin) == (None, None, GateStatus.CANNOT_SAY, 0.05)
    assert only.baseline == pytest.approx(sum(map(noisy(1), range(N))) / N)
    assert only.found_drop is not None
    assert power_of(BEFORE, GateConfig()).rows[0].found_drop is None, "no margin, so no drop beyond it"
    assert is_powerful(only) == (only.least_margin is not None and only.least_margin <= 0.05)
    assert not is_powerful(replace(only, least_margin=None))
    assert is_powerful(replace(only, least_margin=0.05))


def test_scores_that_never_differ_need_conversations_in_proportion() -> None:
    now, before = (side(lambda _: 0.5, text=text) for text in "ab")
    (only,) = gated(now, before, margins={"rouge_l": 0.02}).rows
    assert int(only.why.split()[-1]) == pytest.approx(N * only.least_margin / 0.02, abs=1)
    assert gated(now, before, margins={"rouge_l": 1.01 * only.least_margin}).verdict is GateStatus.NOT_WORSE
    assert gated(now, before, margins={"rouge_l": 0.99 * only.least_margin}).verdict is GateStatus.CANNOT_SAY


@pytest.mark.parametrize(
    ("shift", "old_lacks", "new_lacks", "expected"),
    [
        (-0.3, 0, 0, (GateStatus.WORSE, "")),
        (0.0, 0, 0, (GateStatus.NOT_WORSE, "")),
        (0.3, 0, 0, (GateStatus.NOT_WORSE, "")),
        (-0.3, 60, 60, (GateStatus.CANNOT_SAY, "")),
        (-0.3, 3, 3, (GateStatus.WORSE, "")),
        (-0.3, 0, 3, (GateStatus.CANNOT_SAY, "3 of {n} answers are scored on one side only")),
    ],
)
def test_a_race_against_the_baseline_gives_a_gate_verdict(
    shift: float, old_lacks: int, new_lacks: int, expected: tuple[GateStatus, str]
) -> None:
    """Answers without a score on either side favor no system.

    With more than 2 % on one side only, there is no verdict.
    """
    race = Race(("old", "new"), {f"c{n:02}": f"c{n:02}" for n in range(N)}, margin=0.1, bounds=(0.0, 1.0), is_gate=True)
    scored = {"old": (noisy(1), set(race.order[:old_lacks])), "new": (noisy(2, shift), set(race.order[:new_lacks]))}
    while (wave := race.next_wave()) is not None:
        race.add(
            {
                name: {item: None if item in lacks else value(int(item[1:])) for item in wave}
                for name, (value, lacks) in scored.items()
            }
        )
    verdict, why = verdict_of(race, 0.02)
    assert (verdict, why) == (expected[0], expected[1].format(n=race.n_items))


def test_without_judges_equal_answers_pass_and_mismatched_sides_cannot() -> None:
    config = GateConfig(margins={"rb_llm": 0.05})
    before, other = (side(noisy(1), name="old", text=text) for text in "ab")
    assert before_judging(before, before, config) == (
        GateStatus.NOT_WORSE,
        "all answers are identical to the baseline's",
    )
    assert before_judging(other, before, config) is None
    assert before_judging(side(noisy(1)), side(noisy(1)), config) is None
    found = before_judging(side(noisy(1), n=30), before, config)
    assert found[0] is GateStatus.CANNOT_SAY
    assert found[1].startswith("new and old do not match: ")
