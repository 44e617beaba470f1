"""A judge's card on artificial ratings: agreement with people, biases for length and refusals, and the stored card."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ragtasks.benchmarks.mtrag import FANC, RatedResponse
from ragtasks.judges import CardRow, JudgeCard, Verdicts, latest_card, store_card
from ragtasks.records import IdkVerdict
from ragtasks.reports.judge_card import JudgeResults, RatedPair, card_table, judge_card, pairwise_rows, rated_pairs
from tests.judges._scripted import response

N = 30


def rated(number: int, model: str, rating: float, text: str, *, refuses: bool = False) -> RatedResponse:
    made = response(text, task_id=f"c{number}<::>2")
    task = replace(made.task, conversation_id=f"c{number}")
    ratings = {name: {"r": rating} for name in (*FANC, "win_rate")}
    return RatedResponse(model, replace(made, task=task), ratings, {}, idk_is_right=not refuses)


def answers(second: str = "b") -> list[RatedResponse]:
    """Return three answers per task: the reference, `a`, preferred in every second task, and `b`, the longer answer."""
    result = []
    for number in range(N):
        liked = number % 2 == 0
        result += [
            rated(number, "reference", 4, "Reference."),
            rated(number, "a", 4 if liked else 1, "Short.", refuses=number % 10 == 0),
            rated(number, second, 2, "A longer answer in words."),
        ]
    return result


def card_of(score: Callable[[RatedResponse], float | None], judge: str = "j", second: str = "b") -> dict[str, CardRow]:
    rows = answers(second)
    scores = {row.key: score(row) for row in rows}
    idk: dict[tuple[str, str], IdkVerdict | None] = {
        row.key: IdkVerdict.YES if row.refuses else IdkVerdict.NO for row in rows
    }
    judged = JudgeResults(judge, {"rb_llm": scores}, idk, Verdicts([], [], [judge], {}), 1.0, {})
    card = judge_card(rows, judged, time="2026-01-01T00:00:00", data="made", rubrics={"rb_llm": "w"})
    return {row.measure: row for row in card.rows}


def human(row: RatedResponse) -> float:
    return row.ratings["faithfulness"]["r"] / 4


def test_a_judge_that_prefers_like_people_agrees_and_an_opposite_judge_does_not() -> None:
    like, against, even = card_of(human), card_of(lambda row: 1 - human(row)), card_of(lambda _: 0.5)
    assert (like["pairs as people: all"].value, like["pairs as people: all"].n) == (1, N)
    assert against["pairs as people: faithfulness"].value == 0
    assert even["pairs as people: all"].value == 0.5
    assert like["rank: faithfulness"].value == pytest.approx(1)
    assert even["rank: faithfulness"].value is None
    assert "does not distinguish answers" in card_table(JudgeCard("j", "t", "made", {}, tuple(even.values()))).legend[0]
    assert not card_table(JudgeCard("j", "t", "made", {}, tuple(like.values()))).legend
    assert (
        "not significantly above chance"
        in card_table(JudgeCard("j", "t", "made", {}, tuple(against.values()))).legend[0]
    )
    silent = CardRow("rb_llm", "without a verdict", 1.0, n=40)
    assert "no verdict on 100% of 40 answers" in card_table(JudgeCard("j", "t", "made", {}, (silent,))).legend[0]
    assert like["favours longer"].value == 0
    assert like["kappa with the paper's judge"].value == 1


def test_a_judge_that_counts_words_favours_longer_answers() -> None:
    found = card_of(lambda row: len(row.response.text) / 100)
    longer = found["favours longer"]
    assert longer.value == pytest.approx(0.5)
    assert longer.low > 0.2
    assert found["pairs as people: all"].low is not None
    assert found["pairs as people: all"].value == pytest.approx(0.5)
    assert found["favours refusals"].value == -1
    assert found["favours refusals"].n == 3


def test_answers_without_a_verdict_are_in_no_pair() -> None:
    found = card_of(lambda row: None if row.model_id == "a" else 0.5)
    assert (found["pairs as people: all"].value, found["pairs as people: all"].n) == (None, 0)


def test_cards_are_stored_by_time_and_the_newest_with_the_same_prompts_is_read(tmp_path: Path) -> None:
    row = CardRow("rb_llm", "pairs as people: all", 0.7, 0.6, 0.8, 30)
    first = JudgeCard("open/ai:j", "2026-01-01T00:00:00", "made", {"rb_llm": "w"}, (row,))
    second = replace(first, time="2026-02-01T00:00:00")
    for card in (second, first):
        store_card(tmp_path, card)
    (tmp_path / "open-ai-j_junk.json").write_text("{")
    assert latest_card(tmp_path, "open/ai:j", {"rb_llm": "w", "idk": "x"}) == second
    assert latest_card(tmp_path, "open-ai:j", {"rb_llm": "w"}) is None
    assert latest_card(tmp_path / "missing", "open/ai:j", {"rb_llm": "w"}) is None
    assert JudgeCard.of_json(json.loads(json.dumps(first.json_values))) == first
    for broken in (None, {}, {**first.json_values, "version": 1}, {**first.json_values, "rows": [{"value": "x"}]}):
        assert JudgeCard.of_json(broken) is None
    assert card_table(first).rows[0][1] == "pairs as people: all"


def test_a_card_without_cost_has_the_cost_of_the_previous_card() -> None:
    cost = CardRow("", "tokens a prompt", 100.0, n=5)
    before = JudgeCard("j", "t", "made", {}, (cost,))
    assert JudgeCard("j", "u", "made", {}, ()).with_cost_of(before).rows == (cost,)
    dearer = CardRow("", "tokens a prompt", 200.0, n=5)
    assert JudgeCard("j", "u", "made", {}, (dearer,)).with_cost_of(before).rows == (dearer,)


AGREES = CardRow("rb_llm", "pairs as people: all", 0.7, 0.6, 0.8, 30)
COST = CardRow("", "tokens a prompt", 100.0, n=5)


def test_the_newest_card_with_any_of_the_prompts_counts(tmp_path: Path) -> None:
    def stored(time: str, **rubrics: str) -> JudgeCard:
        card = JudgeCard("j", time, "made", rubrics, (AGREES,))
        store_card(tmp_path, card)
        return card

    first, second = stored("2026-01-01T00:00:00", a="w", b="x"), stored("2026-03-01T00:00:00", a="w", b="new")
    other = stored("2026-04-01T00:00:00", a="new", b="new too")
    assert latest_card(tmp_path, "j", {"a": "w", "b": "x"}) == second
    assert latest_card(tmp_path, "j", {"b": "x"}) == first
    assert latest_card(tmp_path, "j", {"b": "new too"}) == other
    assert latest_card(tmp_path, "j", {"b": "w"}) is None
    assert latest_card(tmp_path, "j", {}) is None
    assert latest_card(tmp_path, "J", {"a": "w"}) is None


def test_cards_of_judges_with_similar_file_names_are_kept_apart(tmp_path: Path) -> None:
    names = ["a/b", "a:b", "a-b", "ä-b", "x" * 80, "x" * 81]
    cards = {name: JudgeCard(name, "2026-01-01T00:00:00", "made", {"r": "w"}, ()) for name in names}
    files = {store_card(tmp_path, card) for card in cards.values()}
    assert len(files) == len(names)
    assert all(file.parent == tmp_path and len(file.name) < 100 for file in files)
    assert {name: latest_card(tmp_path, name, {"r": "w"}) for name in names} == cards


def test_a_foreign_file_is_not_a_card(tmp_path: Path) -> None:
    card = JudgeCard("j", "2026-01-01T00:00:00", "made", {"r": "w"}, (AGREES,))
    path = store_card(tmp_path, card)
    newer = path.with_name(path.name.replace("2026", "2027"))
    for content in ("{", "[]", json.dumps({**card.json_values, "judge": "k"}), json.dumps({"version": 1})):
        newer.write_text(content)
        assert latest_card(tmp_path, "j", {"r": "w"}) == card
    newer.unlink()
    newer.mkdir()
    assert latest_card(tmp_path, "j", {"r": "w"}) == card


@pytest.mark.parametrize(
    "change",
    [
        {"more": 1},
        {"rubrics": {"r": 5}},
        {"rows": [{"rubric": "r"}]},
        {"rows": None},
        {"judge": None},
    ],
)
def test_a_card_of_another_format_is_ignored(change: dict[str, object]) -> None:
    card = JudgeCard("j", "t", "made", {"r": "w"}, (AGREES, COST))
    assert JudgeCard.of_json(json.loads(json.dumps(card.json_values))) == card
    assert JudgeCard.of_json({**card.json_values, **change}) is None


def test_a_number_on_a_card_is_finite() -> None:
    card = JudgeCard("j", "t", "made", {"r": "w"}, (replace(AGREES, value=float("nan")),))
    assert JudgeCard.of_json(card.json_values) is None


def test_a_card_is_of_verdicts_if_it_has_an_agreement_with_people() -> None:
    def card(*rows: CardRow) -> JudgeCard:
        return JudgeCard("j", "t", "made", {}, rows)

    assert card(COST, AGREES).is_of_verdicts
    assert not card(COST, replace(AGREES, value=None)).is_of_verdicts
    assert not card(COST, replace(AGREES, measure="rank: faithfulness")).is_of_verdicts
    assert card(replace(AGREES, value=None), replace(AGREES, value=0.0)).is_of_verdicts


def test_only_the_cost_is_copied_from_the_previous_card() -> None:
    now, before = JudgeCard("j", "u", "made", {}, (AGREES,)), JudgeCard("j", "t", "made", {}, (AGREES, COST))
    assert now.with_cost_of(before).rows == (AGREES, COST)
    assert now.with_cost_of(None) == now
    assert now.with_cost_of(replace(before, rows=(AGREES,))) == now


def test_twice_the_length_and_the_own_family_are_favours() -> None:
    found = card_of(lambda row: len(row.response.text.split()) / 100, judge="model-b-llama")
    slope = found["favours twice as long"]
    assert slope.value == pytest.approx(0.5 / math.log2(5))
    assert slope.low > 0
    assert not any(measure.startswith("favours its own") for measure in found), "no system is a Llama by its name"
    kin = card_of(lambda row: float(row.model_id == "llama-b"), judge="meta/Llama-3", second="llama-b")
    assert kin["favours its own family, Llama"].value == pytest.approx(0.5)


def both_orders(judge: Callable[[RatedPair, bool], float]) -> dict[str, CardRow]:
    """Return the rows of a judge by its verdict on the answer shown first: the first of the pair, then the second."""
    pairs = rated_pairs(answers())
    rows = pairwise_rows(pairs, [(judge(pair, True), judge(pair, False)) for pair in pairs], "j")
    return {row.measure: row for row in rows}


def test_pairs_in_both_orders_show_preference_and_effect_of_order() -> None:
    like = both_orders(lambda pair, is_first: float((pair.people["all"] > 0) == is_first))
    assert (like["pairs as people: all"].value, like["another verdict in the other order"].value) == (1, 0)
    assert like["prefers what is shown first"].value == 0.5
    order = both_orders(lambda *_: 1.0)
    assert order["prefers what is shown first"].value == 1
    assert order["another verdict in the other order"].value == 1
    assert order["pairs as people: all"].value == 0.5
    assert both_orders(lambda pair, is_first: 0.5)["another verdict in the other order"].value == 0
