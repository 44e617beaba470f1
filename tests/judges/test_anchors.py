"""Frozen answers: which are chosen, that a file stays as it was written, and when a judge counts as changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.judges import (
    AnchorVerdicts,
    Recalibration,
    baseline_of,
    choose_anchors,
    drift_of,
    read_anchors,
    recalibration_of,
    store_verdicts,
    stored_verdicts,
    write_anchors,
)
from ragtasks.records import Answerability, Response
from tests.judges._scripted import response


def answers(n: int = 60, n_conversations: int = 15) -> list[tuple[Response, str]]:
    """Return answers with labels: nine in ten are `good`."""
    found = []
    for number in range(n):
        made = response(f"Answer {number}.", task_id=f"c{number}<::>2", answerability=Answerability.ANSWERABLE)
        task = replace(made.task, conversation_id=f"c{number % n_conversations}")
        found.append((replace(made, task=task), "bad" if number % 10 == 0 else "good"))
    return found


def test_a_set_is_spread_over_labels_and_conversations_and_is_the_same_each_time() -> None:
    labelled = answers()
    anchors = choose_anchors(labelled, 20, "made")
    labels = {item.text: label for item, label in labelled}
    assert Counter(labels[item.text] for item in anchors.responses) == {"good": 14, "bad": 6}
    assert max(Counter(anchors.conversations).values()) <= 3
    assert choose_anchors(labelled, 20, "made").name == anchors.name
    assert choose_anchors(labelled, 21, "made").name != anchors.name
    assert len(choose_anchors(labelled, 500, "made").responses) == 60


def test_a_set_of_too_few_conversations_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"at least 10 conversations(.|\n)*found: 9"):
        choose_anchors(answers(60, 9), 20, "made")


def test_a_file_gives_the_set_back_and_refuses_an_edited_one(tmp_path: Path) -> None:
    anchors, file = choose_anchors(answers(), 20, "made"), tmp_path / "anchors.jsonl"
    write_anchors(file, anchors)
    again = read_anchors(file)
    assert (again.name, again.source, again.conversations) == (anchors.name, "made", anchors.conversations)
    assert [item.text for item in again.responses] == [item.text for item in anchors.responses]
    file.write_text(file.read_text().replace("Answer 1", "An answer 1"))
    with pytest.raises(BenchmarkFileError, match="it was edited"):
        read_anchors(file)
    file.write_text('{"other": 1}\n')
    with pytest.raises(BenchmarkFileError, match="a set that `ragtasks judges anchors` wrote"):
        read_anchors(file)
    with pytest.raises(BenchmarkFileError, match="No such file"):
        read_anchors(tmp_path / "missing")


def verdicts(values: Sequence[float | None], time: str = "2026-01-01T00:00:00", **changes: object) -> AnchorVerdicts:
    """Return a judge's values on anchors, two a conversation, under one rubric."""
    fields: dict[str, object] = {
        "judge": "j",
        "anchors": "set",
        "time": time,
        "rubrics": {"rb_llm": "words"},
        "conversations": tuple(place // 2 for place in range(len(values))),
        "values": {"rb_llm": tuple(values)},
        "served": {},
    }
    return AnchorVerdicts(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_judge_that_moved_is_found_and_one_with_noise_alone_is_not() -> None:
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


def test_a_judge_that_repeats_itself_exactly_has_not_moved_and_one_that_moved_all_alike_has() -> None:
    values = [0.1 * (place % 7) for place in range(40)]
    (same,) = drift_of(verdicts(values), verdicts(values))
    assert (same.p, same.is_drift) == (1.0, False)
    (all_lower,) = drift_of(verdicts([0.9] * 40), verdicts([0.8] * 40))
    assert all_lower.p is not None
    assert all_lower.is_drift == (all_lower.p <= 0.05)


def test_anchors_without_a_verdict_are_left_out_and_nothing_is_claimed_where_none_is_left() -> None:
    (found,) = drift_of(verdicts([None, *[0.5] * 39]), verdicts([0.1, *[0.5] * 39]))
    assert (found.difference.n_values, found.difference.value) == (39, 0.0)
    (nothing,) = drift_of(verdicts([None] * 40), verdicts([0.5] * 40))
    assert (nothing.p, nothing.is_drift) == (None, False)
    assert "no shared verdict" in nothing.text


def test_other_words_another_set_and_another_judge_are_no_drift_and_begin_another_baseline(tmp_path: Path) -> None:
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
def test_what_others_wrote_is_a_record_or_nothing(saved: object) -> None:
    assert AnchorVerdicts.of_json(saved) is None


def test_a_record_is_the_same_from_its_json() -> None:
    found = verdicts([0.5, None], served={"m": 2})
    assert AnchorVerdicts.of_json(found.json_values) == found


def drifting(constant: float, slope: float, n: int = 60) -> tuple[AnchorVerdicts, AnchorVerdicts]:
    rng = np.random.default_rng(2)
    before = rng.random(n)
    conversations = tuple(place // 3 for place in range(n))
    now = constant + slope * before
    return (
        verdicts(before.tolist(), conversations=conversations),
        verdicts(now.tolist(), "2026-02-01T00:00:00", conversations=conversations),
    )


def test_a_judge_that_moved_is_put_on_its_earlier_scale() -> None:
    before, now = drifting(0.1, 0.5)
    line = recalibration_of(before, now, "rb_llm")
    assert isinstance(line, Recalibration)
    assert (line.constant, line.slope) == pytest.approx((-0.2, 2.0))
    assert line.of(0.4) == pytest.approx(0.6)
    assert max(map(abs, line.moves(0.4))) < 1e-9, "without noise no conversation matters"
    assert len(line.left_out) == 20
    assert line.text == "j: rb_llm -0.200 +2.000 times its value"


def test_no_line_is_drawn_through_one_value_or_few_conversations() -> None:
    flat, other = verdicts([0.5] * 40), verdicts([0.4] * 40)
    assert recalibration_of(flat, other, "rb_llm") == "the judge gives the anchors one value throughout"
    few = [0.1 * place if place < 12 else None for place in range(40)]
    assert "fewer than 10 conversations" in str(recalibration_of(verdicts(few), verdicts(few), "rb_llm"))
