"""Judges and free scores together: what is fitted on whom, what is predicted of whom, and which files are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.judges import (
    INPUTS,
    TARGETS,
    Combination,
    left_out_predictions,
    read_combination,
    weights_of,
    write_combination,
)
from ragtasks.metrics import Scores
from ragtasks.records import Score

WEIGHTS = {"constant": 1.0, "rb_llm": 1.0, "rl_f": 1.0, "ans_acc": 0.0, "k_precision": 2.0, "length": 0.0}
SCORES: Scores = {"rb_llm": Score(0.5), "rl_f": Score(0.5), "ans_acc": Score(1.0), "k_precision": Score(0.25)}
SCORES |= {"length": Score(50.0)}


def combination(**changes: object) -> Combination:
    ranges = {**dict.fromkeys(INPUTS, (0.0, 1.0)), "length": (10.0, 100.0)}
    without = {"win_rate": "no better than by chance"}
    fields = {"weights": {name: WEIGHTS for name in TARGETS if name not in without}, "without": without} | changes
    return Combination.model_validate(
        {
            **{"time": "t", "data": "made", "fingerprint": "f", "judges": ["j"], "rubrics": {"rb_llm": "w"}},
            **{"ranges": ranges, "card": {}},
            **fields,
        }
    )


def made(n: int = 60) -> tuple[dict[str, list[float]], list[float], list[str]]:
    rng = np.random.default_rng(0)
    inputs = {name: rng.random(n).tolist() for name in INPUTS}
    people = [1 + 2 * inputs["rl_f"][place] + 0.1 * float(rng.normal()) for place in range(n)]
    return inputs, people, [f"c{place // 4}" for place in range(n)]


def test_a_conversation_is_predicted_by_the_others_alone() -> None:
    inputs, people, conversations = made()
    before = left_out_predictions(inputs, people, conversations)
    other = [value + 10 * (name == "c3") for value, name in zip(people, conversations, strict=True)]
    after = left_out_predictions(inputs, other, conversations)
    own = [place for place, name in enumerate(conversations) if name == "c3"]
    assert [before[place] for place in own] == [after[place] for place in own]
    assert before != after
    assert np.corrcoef(before, people)[0, 1] > 0.9


def test_weights_are_those_of_ridge_regression() -> None:
    inputs, people, _ = made()
    weights = weights_of(inputs, people)
    assert weights["rl_f"] == pytest.approx(2 * 60 / 70, abs=0.1), "the penalty counts as ten answers"
    assert abs(weights["ans_acc"]) < 0.2
    constant = {**inputs, "ans_acc": [1.0] * 60}
    assert weights_of(constant, people)["ans_acc"] == 0


def test_an_answer_with_all_scores_is_predicted_and_one_without_says_why() -> None:
    found = combination().predictions(SCORES)
    assert found["predicted_all"].value == pytest.approx(2.5)
    assert found["predicted_win_rate"] == Score(None, "no better than by chance")
    for scores, why in (
        ({**SCORES, "rl_f": Score(None, "states nothing")}, "rl_f: states nothing"),
        ({name: score for name, score in SCORES.items() if name != "ans_acc"}, "ans_acc: these answers have none"),
    ):
        assert set(combination().predictions(scores).values()) == {Score(None, why)}
    assert combination().predictions({**SCORES, "k_precision": Score(None, "no passages")})["predicted_all"].value == 2


def test_nothing_is_extrapolated_and_no_prediction_leaves_the_scale() -> None:
    steep = combination(weights={"all": {**WEIGHTS, "length": 0.1}})
    long, longest = (steep.predictions({**SCORES, "length": Score(n)})["predicted_all"] for n in (100.0, 9000.0))
    assert long == longest
    high = combination(weights={"all": {**WEIGHTS, "constant": 9.0}})
    assert high.predictions(SCORES)["predicted_all"].value == 4


def test_a_combination_holds_for_its_judges_and_words_only() -> None:
    combination().require(["j"], {"rb_llm": "w", "idk": "x"}, "c.json")
    for judges, words in ((["other"], "w"), (["j", "other"], "w"), ([], "w"), (["j"], "new")):
        with pytest.raises(ConfigurationError, match="judges calibrate"):
            combination().require(judges, {"rb_llm": words}, "c.json")


def test_a_file_is_read_back_and_an_edited_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    write_combination(path, combination())
    assert read_combination(path) == combination()
    text = path.read_text()
    for broken in ("{", "[]", text.replace('"rl_f"', '"rl_g"'), text.replace('"version": 1', '"version": 7')):
        path.write_text(broken)
        with pytest.raises(BenchmarkFileError, match="next step: make it with"):
            read_combination(path)
    with pytest.raises(BenchmarkFileError, match="can be read"):
        read_combination(tmp_path / "missing")
