"""Answers for people to label: more of those on which judges are unsure, without a trace of their verdicts."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ragtasks.errors import ConfigurationError
from ragtasks.results import DrawnAnswer, ScoredAnswer, draw_answers, label_file, rubrics_with_verdicts
from ragtasks.results._label_draw import DRAW, masked_weight, unmasked_weight
from tests.reports._rows import changed, row

N, N_CONVERSATIONS = 400, 80


def answers(**changes: Any) -> list[ScoredAnswer]:
    """Return answers of which 5 % refuse. Two judges agree on 80 % of the others, mostly on a high rating."""
    made = []
    for number in range(N):
        first = 0.2 if number % 10 == 1 else 0.9
        second = first if number % 5 else 1.1 - first
        given = {
            "conversation_id": f"c{number % N_CONVERSATIONS}",
            "text": f"answer {number} " + "word " * (number % 37),
            "verdicts": {("rb_llm", "judge-x"): first, ("rb_llm", "judge-y"): second, ("idk", "judge-x"): 0.0},
            "idk": "yes" if number % 20 == 7 else "no",
        }
        made.append(changed(row(number, 0.5), **given | changes))
    return made


def is_contested(answer: ScoredAnswer) -> bool:
    first, second = (answer.verdict_values["rb_llm", f"judge-{name}"] or 0.0 for name in "xy")
    return abs(first - second) > 0.1


def test_contested_answers_and_rare_labels_get_more_than_their_share() -> None:
    drawn = draw_answers(answers(), "rb_llm", 50)
    assert len(drawn) == len({one.row["id"] for one in drawn}) == 50
    contested = [one for one in drawn if is_contested(one.answer)]
    assert len(contested) >= 2 * 0.2 * 50, "a fifth of the answers is contested"
    agreed_low = [one for one in drawn if one.answer.verdict_values["rb_llm", "judge-y"] == 0.2]
    assert len(agreed_low) >= 5
    assert sum(one.answer.idk == "yes" for one in drawn) >= 5
    assert len({one.answer.task.conversation_id for one in drawn}) >= 35
    lengths = [len(one.answer.response.text.split()) for one in drawn]
    assert min(Counter(length // 13 for length in lengths).values()) >= 8


def test_weights_restore_the_shares_of_all_answers() -> None:
    drawn = draw_answers(answers(), "rb_llm", 50)
    assert sum(one.weight for one in drawn) == N
    assert sum(one.weight for one in drawn if is_contested(one.answer)) == sum(map(is_contested, answers()))
    assert sum(one.weight for one in drawn if one.answer.idk == "yes") == N / 20
    estimates, all_answers = [], answers()
    for start in range(30):
        part = [changed(one, text=f"{start} {one.response.text}") for one in all_answers]
        drawn = draw_answers(part, "rb_llm", 50)
        estimates.append(sum(one.weight for one in drawn if one.answer.task.turn % 3 == 0) / N)
    assert sum(estimates) / len(estimates) == pytest.approx(1 / 3, abs=0.04), "a property that no stratum knows"


def test_the_draw_depends_on_the_answers_only_and_takes_all_of_a_few() -> None:
    first, again = (draw_answers(answers(), "rb_llm", 50) for _ in range(2))
    assert [one.row["messages"] for one in first] == [one.row["messages"] for one in again]
    few = answers()[:30]
    assert Counter(one.weight for one in draw_answers([*few, *few], "rb_llm", 50)) == {1: 30}, "equal answers once"
    assert draw_answers([changed(one, text=" ") for one in few], "rb_llm", 50) == []


def test_without_verdicts_refusals_and_answerability_are_covered() -> None:
    made = [
        changed(one, verdicts={}, answerability="UNANSWERABLE" if number % 40 == 3 else "ANSWERABLE")
        for number, one in enumerate(answers())
    ]
    drawn = draw_answers(made, "", 40)
    assert sum(one.answer.task.answerability.value == "UNANSWERABLE" for one in drawn) >= 4
    assert sum(one.answer.idk == "yes" for one in drawn) >= 4
    assert rubrics_with_verdicts(made) == []
    assert rubrics_with_verdicts(answers()) == ["rb_llm", "idk"]


def test_repeats_that_differ_make_an_answer_contested() -> None:
    verdicts = {("rb_llm", "judge-x"): 0.9}
    steady = [changed(one, verdicts=verdicts, idk="no") for one in answers()]
    again = {"rubric": "rb_llm", "judge": "judge-x", "value": 0.2}
    unsteady = [changed(one, repeats=({"values": {}, "verdicts": [again]},)) for one in steady[:20]]
    drawn = draw_answers([*unsteady, *steady[20:]], "rb_llm", 50)
    assert sum(bool(one.answer.repeats) for one in drawn) > 10


def test_people_see_neither_verdicts_nor_systems() -> None:
    drawn = draw_answers(answers(), "rb_llm", 50)
    for one in drawn:
        content = json.dumps({key: value for key, value in one.row.items() if key != DRAW})
        assert not {"judge-x", "rb_llm", "verdict", "score", "idk", "weight"} & set(content.replace('"', " ").split())
        assert one.row["label"] == ""
    tokens = [one.row[DRAW] for one in drawn]
    assert len(set(tokens)) == len(tokens), "equal weights look different"
    contested = [is_contested(one.answer) for one in drawn]
    changes = sum(before != after for before, after in itertools.pairwise(contested))
    assert changes > 10, "the order does not follow the strata"


def test_a_masked_weight_is_read_back_and_an_edited_one_is_not() -> None:
    for weight in (1, 17, 123_456):
        assert unmasked_weight(masked_weight(weight, "a"), "a") == weight
        assert unmasked_weight(masked_weight(weight, "a"), "b") is None
    for text in ("", "17", "xyzxyzxyzxyz", masked_weight(17, "a")[:-1], masked_weight(17, "a")[1:]):
        assert unmasked_weight(text, "a") is None


def test_a_table_disarms_formulas_and_contains_lists_as_json(tmp_path: Path) -> None:
    drawn = [DrawnAnswer(changed(row(1, 0.5), text="=HYPERLINK(1)"), 1)]
    (cells,) = csv.DictReader(io.StringIO(label_file(drawn, tmp_path / "a.csv").decode()))
    assert cells["answer"] == "'=HYPERLINK(1)"
    assert json.loads(cells["messages"]) == drawn[0].row["messages"]
    assert json.loads(label_file(drawn, tmp_path / "a.jsonl")) == drawn[0].row
    long = [DrawnAnswer(changed(row(1, 0.5), text="word " * 8_000), 1)]
    with pytest.raises(ConfigurationError, match=r"40,000 characters.*--output .*a\.jsonl"):
        label_file(long, tmp_path / "a.csv")
    with pytest.raises(ConfigurationError, match=r"\.jsonl or \.csv"):
        label_file(drawn, tmp_path / "a.xlsx")
