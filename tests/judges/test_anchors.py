"""Frozen answers: their selection, unchanged files, and detection of a changed judge."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.judges import (
    Anchors,
    AnchorVerdicts,
    Recalibration,
    Verdict,
    Verdicts,
    anchor_verdicts,
    baseline_of,
    choose_anchors,
    comparable,
    drift_of,
    read_anchors,
    recalibration_of,
    store_verdicts,
    stored_verdicts,
    write_anchors,
)
from ragtasks.records import Answerability, Response
from tests._messages import raises
from tests.judges._scripted import response


def answers(n: int = 60, n_conversations: int = 15) -> list[tuple[Response, str]]:
    """Return answers with labels: nine in ten are `good`."""
    labelled = []
    for number in range(n):
        answer = response(f"Answer {number}.", task_id=f"c{number}<::>2", answerability=Answerability.ANSWERABLE)
        task = replace(answer.task, conversation_id=f"c{number % n_conversations}")
        labelled.append((replace(answer, task=task), "bad" if number % 10 == 0 else "good"))
    return labelled


def test_a_set_is_spread_over_labels_and_conversations_and_reproducible() -> None:
    labelled = answers()
    anchors = choose_anchors(labelled, 20, "made")
    labels = {answer.text: label for answer, label in labelled}
    assert Counter(labels[answer.text] for answer in anchors.responses) == {"good": 14, "bad": 6}
    assert max(Counter(anchors.conversations).values()) <= 3
    assert choose_anchors(labelled, 20, "made").name == anchors.name
    assert choose_anchors(labelled, 21, "made").name != anchors.name
    assert len(choose_anchors(labelled, 500, "made").responses) == 60


def test_a_set_of_too_few_conversations_is_refused() -> None:
    with raises(ConfigurationError):
        choose_anchors(answers(60, 9), 20, "made")


def test_a_file_returns_its_set_and_an_edited_file_is_refused(tmp_path: Path) -> None:
    anchors, file = choose_anchors(answers(), 20, "made"), tmp_path / "anchors.jsonl"
    write_anchors(file, anchors)
    again = read_anchors(file)
    assert (again.name, again.source, again.conversations) == (anchors.name, "made", anchors.conversations)
    assert [answer.text for answer in again.responses] == [answer.text for answer in anchors.responses]
    file.write_text(file.read_text().replace("Answer 1", "An answer 1"))
    with pytest.raises(BenchmarkFileError, match="edited answers"):
        read_anchors(file)
    file.write_text('{"other": 1}\n')
    with raises(BenchmarkFileError):
        read_anchors(file)
    with pytest.raises(BenchmarkFileError, match="No such file"):
        read_anchors(tmp_path / "missing")


def verdicts(values: Sequence[float | None], time: str = "2026-01-01T00:00:00", **changes: object) -> AnchorVerdicts:
    """Return a judge's values on anchors, two per conversation, under one rubric."""
    fields: dict[str, object] = {
        "judge": "j",
        "anchors": "set",
        "time": time,
        "rubrics": {"rb_llm": "words"},
        "conversations": tuple(index // 2 for index in range(len(values))),
        "values": {"rb_llm": tuple(values)},
        "served": {},
    }
    return AnchorVerdicts(**{**fields, **changes})  # type: ignore[arg-type]


def test_drift_is_detected_and_noise_alone_is_not() -> None:
    rng = np.random.default_rng(1)
    first = rng.uniform(0.3, 0.8, 40)
    noise = rng.normal(0, 0.05, 40)
    (still,) = drift_of(verdicts(list(first)), verdicts(list(first + noise - noise.mean() / 2)))
    (moved,) = drift_of(verdicts(list(first)), verdicts(list(first + noise - noise.mean() - 0.08)))
    assert not still.is_drift
    assert moved.is_drift
    assert moved.difference.value == pytest.approx(-0.08)
    assert moved.difference.n_clusters == 20
    assert "rb_llm -0.080 (p <0.001)" in moved.text or "rb_llm -0.080 (p 0.00" in moved.text


def test_an_exact_repetition_is_no_drift_and_an_equal_shift_is_drift() -> None:
    values = [0.1 * (index % 7) for index in range(40)]
    (same,) = drift_of(verdicts(values), verdicts(values))
    assert (same.p, same.is_drift) == (1.0, False)
    (all_lower,) = drift_of(verdicts([0.9] * 40), verdicts([0.8] * 40))
    assert (all_lower.p, all_lower.is_drift) == (2.0**-19, True)
    (few,) = drift_of(verdicts([0.9] * 8), verdicts([0.8] * 8))
    assert (few.p, few.is_drift) == (None, False)


def test_anchors_without_a_verdict_are_left_out_and_without_any_verdict_drift_is_not_tested() -> None:
    (found,) = drift_of(verdicts([None, *[0.5] * 39]), verdicts([0.1, *[0.5] * 39]))
    assert (found.difference.n_values, found.difference.value) == (39, 0.0)
    (nothing,) = drift_of(verdicts([None] * 40), verdicts([0.5] * 40))
    assert (nothing.p, nothing.is_drift) == (None, False)
    assert "no shared verdict" in nothing.text


def test_other_prompts_sets_or_judges_are_no_drift_and_have_their_own_baseline(tmp_path: Path) -> None:
    file = tmp_path / "store" / "anchors.jsonl"
    assert stored_verdicts(file) == []
    first, second = verdicts([0.5] * 40), verdicts([0.4] * 40, "2026-02-01T00:00:00")
    store_verdicts(file, [first])
    store_verdicts(file, [second])
    with file.open("ab") as out:
        out.write(b'{"judge": "cut')
    stored = stored_verdicts(file)
    assert stored == [first, second]
    assert baseline_of(stored, second) == first
    others = [{"judge": "k"}, {"anchors": "edited"}, {"rubrics": {"rb_llm": "new words"}}, {"conversations": (0,) * 40}]
    for change in others:
        assert baseline_of(stored, verdicts([0.4] * 40, **change)) is None
    assert drift_of(first, verdicts([0.4] * 40, rubrics={"rb_llm": "new words"})) == []


@pytest.mark.parametrize(
    "saved",
    [
        None,
        [],
        {},
        {"judge": "j"},
        {**verdicts([0.5] * 4).json_values, "values": {"rb_llm": [0.5]}},
        {**verdicts([0.5] * 4).json_values, "values": {"rb_llm": [2, 0, 0, 0]}},
        {**verdicts([0.5] * 4).json_values, "values": {"rb_llm": ["x", 0, 0, 0]}},
        {**verdicts([0.5] * 4).json_values, "conversations": None},
        {**verdicts([0.5] * 4).json_values, "served": []},
    ],
)
def test_invalid_records_are_ignored(saved: object) -> None:
    assert AnchorVerdicts.of_json(saved) is None


def test_a_record_is_equal_after_json() -> None:
    found = verdicts([0.5, None], served={"m": 2})
    assert AnchorVerdicts.of_json(found.json_values) == found


def drifting(constant: float, slope: float, n: int = 60) -> tuple[AnchorVerdicts, AnchorVerdicts]:
    rng = np.random.default_rng(2)
    before = rng.random(n)
    conversations = tuple(index // 3 for index in range(n))
    now = constant + slope * before
    return (
        verdicts(before.tolist(), conversations=conversations),
        verdicts(now.tolist(), "2026-02-01T00:00:00", conversations=conversations),
    )


def test_a_drifted_judge_is_recalibrated_to_its_earlier_scale() -> None:
    before, now = drifting(0.1, 0.5)
    line = recalibration_of(before, now, "rb_llm")
    assert isinstance(line, Recalibration)
    assert (line.constant, line.slope) == pytest.approx((-0.2, 2.0))
    assert line.of(0.4) == pytest.approx(0.6)
    assert max(map(abs, line.moves(0.4))) < 1e-9, "without noise no conversation matters"
    assert len(line.left_out) == 20
    assert line.text == "j: rb_llm -0.200 +2.000 times its value"


def test_a_constant_judge_or_few_conversations_give_no_recalibration() -> None:
    flat, other = verdicts([0.5] * 40), verdicts([0.4] * 40)
    assert recalibration_of(flat, other, "rb_llm") == "the judge gives all anchors the same value"
    few = [0.1 * index if index < 12 else None for index in range(40)]
    assert "fewer than 10 conversations" in str(recalibration_of(verdicts(few), verdicts(few), "rb_llm"))


def test_a_file_contains_all_fields_that_a_judge_is_shown(tmp_path: Path) -> None:
    shown = [
        replace(
            response(
                f"Answer {number}.",
                task_id=f"c{number}<::>2",
                answerability=list(Answerability)[number % len(Answerability)],
                passages=("One.", "Two.")[: number % 3],
                question=f"Why {number}?",
            ),
        )
        for number in range(12)
    ]
    shown = [replace(answer, task=replace(answer.task, conversation_id=answer.task.task_id[:3])) for answer in shown]
    file = tmp_path / "anchors.jsonl"
    write_anchors(file, choose_anchors([(answer, "all") for answer in shown], 12, "made"))
    again = {answer.task.task_id: answer for answer in read_anchors(file).responses}
    for answer in shown:
        restored = again[answer.task.task_id]
        names = ("task_id", "conversation_id", "turn", "domain", "messages", "target", "answerability")
        assert [getattr(restored.task, name) for name in names] == [getattr(answer.task, name) for name in names]
        assert (restored.text, restored.passages) == (answer.text, answer.passages)
    head = json.loads(file.read_text().splitlines()[0])
    assert head == {"anchors": read_anchors(file).name, "source": "made", "n": 12}
    assert len(head["anchors"]) == 16


def test_conversations_are_numbered_in_the_order_of_the_set() -> None:
    anchors = choose_anchors(answers(), 20, "made")
    numbers = anchors.conversations
    assert numbers[0] == 0
    assert sorted(set(numbers)) == list(range(max(numbers) + 1))
    names = [answer.task.conversation_id for answer in anchors.responses]
    assert [names.index(name) for name in names] == [numbers.index(number) for number in numbers]


def test_verdicts_are_recorded_by_rubric_and_served_model() -> None:
    anchors = Anchors("made", tuple(answer for answer, _ in answers(3, 2)))
    values = {"rb_llm": [0.1234567, None, 1.0], "rl_f": [0.0, 0.5, 0.25]}
    table = {
        (index, rubric, judge): Verdict(
            task_id=anchors.responses[index].task.task_id,
            judge=judge,
            rubric=rubric,
            value=value if judge == "j" else 0.9,
            outcome="given" if value is not None else "unparsable",
            served_model="" if index == 2 else f"{judge}-{index}",
        )
        for rubric, record in values.items()
        for index, value in enumerate(record)
        for judge in ("j", "k")
    }
    verdicts_of_both = Verdicts(anchors.responses, list(values), ["j", "k"], table)
    record = anchor_verdicts(verdicts_of_both, "j", anchors, {"rb_llm": "w", "rl_f": "x", "other": "y"}, "t")
    assert record == AnchorVerdicts(
        "j",
        anchors.name,
        "t",
        {"rb_llm": "w", "rl_f": "x"},
        (0, 1, 0),
        {"rb_llm": (0.123457, None, 1.0), "rl_f": (0.0, 0.5, 0.25)},
        {"j-0": 2, "j-1": 2},
    )


def test_drift_is_corrected_for_the_number_of_rubrics() -> None:
    rng = np.random.default_rng(1)
    first, noise = rng.uniform(0.3, 0.8, 40), rng.normal(0, 0.05, 40)

    def both(values: Sequence[float], time: str) -> AnchorVerdicts:
        found = verdicts(list(values), time)
        still = tuple(float(value) for value in first)
        rubrics = {"rb_llm": "words", "rl_f": "other", "idk": time}
        return replace(found, rubrics=rubrics, values={"rb_llm": found.values["rb_llm"], "rl_f": still, "idk": still})

    before, after = both(first, "t1"), both(first + noise - 0.03, "t2")
    moved, still = drift_of(before, after)
    (alone,) = drift_of(verdicts(list(first)), verdicts(list(first + noise - 0.03)))
    assert (moved.rubric, still.rubric) == ("rb_llm", "rl_f"), "words that changed are no drift"
    assert (moved.judge, moved.before, moved.after) == ("j", "t1", "t2")
    assert moved.p == pytest.approx(2 * alone.p)
    assert still.text == "rl_f +0.000 (p 1.000)"
    (nothing,) = drift_of(verdicts([None] * 40), verdicts([0.5] * 40))
    assert nothing.text == "rb_llm no shared verdict (not tested)"


def test_two_records_are_compared_by_their_common_prompts() -> None:
    first = verdicts([0.5] * 4, rubrics={"a": "w", "b": "x"})
    assert comparable(first, verdicts([0.5] * 4, rubrics={"a": "w", "b": "new"}))
    assert not comparable(first, verdicts([0.5] * 4, rubrics={"a": "new", "b": "new"}))
    assert not comparable(first, verdicts([0.5] * 4, rubrics={}))
    for change in ({"judge": "k"}, {"anchors": "x"}, {"conversations": (0, 0, 0, 1)}):
        assert not comparable(first, replace(first, **change))


def test_the_first_record_is_the_baseline_of_later_ones(tmp_path: Path) -> None:
    file = tmp_path / "anchors.jsonl"
    times = [verdicts([0.5] * 4, f"2026-0{month}-01") for month in (1, 2, 3)]
    older_prompts = replace(times[0], rubrics={"rb_llm": "old words"}, time="2025-01-01")
    store_verdicts(file, [older_prompts, times[0]])
    for record in times[1:]:
        store_verdicts(file, [record])
    assert baseline_of(stored_verdicts(file), times[2]) == times[0]
    more = replace(times[0], rubrics={"rb_llm": "words", "idk": "w"})
    assert baseline_of(stored_verdicts(file), more) is None


def test_verdicts_are_numbers_from_0_to_1_inclusive() -> None:
    for values in ((0.0, 1.0), (None, 0.5)):
        found = verdicts(list(values))
        assert AnchorVerdicts.of_json(found.json_values) == found
    for values in ((-0.001, 0.5), (1.001, 0.5), (float("nan"), 0.5)):
        assert AnchorVerdicts.of_json(verdicts(list(values)).json_values) is None
