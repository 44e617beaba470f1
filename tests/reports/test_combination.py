"""A combination of scores on the real human evaluation: how often it prefers what people prefer."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtasks.benchmarks.mtrag import RatedResponse, load_human_evaluation
from ragtasks.errors import ConfigurationError
from ragtasks.judges import JUDGED_INPUTS, Combination, JudgeCard
from ragtasks.metrics import NgramIdk
from ragtasks.reports.judge_card import combination_inputs, combine, weights_table
from ragtasks.tables import Table, Value

BARS = {"all": 0.74, "faithfulness": 0.90, "completeness": 0.81, "win_rate": 0.67}


@pytest.fixture(scope="module")
def answers(mtrag_root: Path) -> tuple[RatedResponse, ...]:
    return load_human_evaluation(mtrag_root)


def fitted(answers: tuple[RatedResponse, ...]) -> tuple[Combination, Table]:
    labels = NgramIdk().detect([row.response for row in answers])
    idk = {row.key: label.verdict for row, label in zip(answers, labels, strict=True)}
    judged = {name: {row.key: row.metrics.get(name) for row in answers} for name in JUDGED_INPUTS}
    inputs = combination_inputs(answers, judged, idk)
    return combine(answers, inputs, judges=["j"], rubrics={"rb_llm": "w"}, data="rated", time="2026-01-01T00:00:00")


def test_the_combination_prefers_what_people_prefer_more_often_than_each_score(
    answers: tuple[RatedResponse, ...],
) -> None:
    found, table = fitted(answers)
    for name, n, combined, *singles in table.rows:
        assert isinstance(combined, Value)
        assert combined.value is not None
        assert combined.value >= BARS[str(name)]
        assert combined.low is not None
        assert combined.low > 0.5
        best = max(value.value for value in singles if isinstance(value, Value) and value.value is not None)
        assert combined.value > best, name
        assert n == combined.n_scored
    assert not found.without
    assert set(found.weights) == set(BARS)
    card = JudgeCard.of_json(found.card)
    assert card is not None
    assert card.judge == "combination of j and free scores"
    assert [row.rubric for row in card.rows] == [f"predicted_{name}" for name in BARS]


def test_what_chance_would_predict_as_well_is_not_predicted(answers: tuple[RatedResponse, ...]) -> None:
    shuffled = [row.ratings for row in answers[7:]] + [row.ratings for row in answers[:7]]
    rated = tuple(
        RatedResponse(row.model_id, row.response, ratings, row.metrics, row.idk_is_right)
        for row, ratings in zip(answers, shuffled, strict=True)
    )
    found, _ = fitted(rated)
    assert found.without
    assert all("no better than by chance" in why for why in found.without.values())
    assert len(weights_table(found).legend) == len(found.without)


def test_ratings_of_few_conversations_are_refused(answers: tuple[RatedResponse, ...]) -> None:
    names = sorted({row.response.task.conversation_id for row in answers})[:9]
    few = tuple(row for row in answers if row.response.task.conversation_id in names)
    with pytest.raises(ConfigurationError, match=r"at least 10 conversations, found \d+ such answers of 9"):
        fitted(few)
