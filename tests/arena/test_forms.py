"""Forms of human evaluation: questions, storage, agreement of raters, and the file that calibrate reads."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragtasks.arena.battles import Answer, AnswerPool
from ragtasks.arena.forms import (
    Form,
    FormError,
    RatedForm,
    compared_pairs,
    form_sections,
    order_for,
    read_form,
    read_forms,
    win_rates,
    write_human_evaluation,
)
from ragtasks.benchmarks.mtrag import FANC, HUMAN_EVALUATION_FILE, WIN_RATE, load_human_evaluation
from ragtasks.errors import ConfigurationError
from ragtasks.judges import rubric_of
from ragtasks.records import Answerability
from ragtasks.results import read_labelled_rows
from ragtasks.tables import Value
from tests.arena._made import answer
from tests.arena.web._served import Visitor, serving, small_pool

ITEM = ("mtrag (sample)", "full_rag", "c1<::>1")


def pool() -> AnswerPool:
    return small_pool("a", "b", "c", n=2)


def rated(
    rater: str, ratings: dict[str, int], preferences: list[tuple[str, str, str]], item: tuple[str, str, str] = ITEM
) -> RatedForm:
    form = {
        "ratings": {system: dict.fromkeys(FANC, value) for system, value in ratings.items()},
        "preferences": preferences,
        "versions": {system: rated_answer.version for system, rated_answer in pool().answers_to(item).items()},
        "seconds": 12.0,
    }
    return RatedForm(rater, item, Form.model_validate(form), 1_700_000_000.0)


def three(first: str, second: str, third: str) -> list[tuple[str, str, str]]:
    return [("a", "b", first), ("a", "c", second), ("b", "c", third)]


def test_win_rates_count_a_tie_for_both_as_the_official_file_does() -> None:
    scores = {"a": 4, "b": 3, "c": 2}
    assert win_rates(rated("r", scores, three("first", "first", "first"))) == {"a": 100, "b": 50, "c": 0}
    assert win_rates(rated("r", scores, three("tie", "tie", "tie"))) == {"a": 100, "b": 100, "c": 100}
    assert win_rates(rated("r", scores, three("first", "first", "tie"))) == {"a": 100, "b": 50, "c": 50}


def test_an_incomplete_form_names_the_missing_fields() -> None:
    fields = {f"rating-{index}-{name}": "4" for index in range(3) for name in FANC}
    fields |= {"pair-0-1": "tie", "pair-0-2": "first", "pair-1-2": "best"}
    fields["rating-1-naturalness"] = "5"
    with pytest.raises(FormError, match="naturalness of B, B or C"):
        read_form(pool(), ITEM, ["c", "a", "b"], fields, 1.0)
    fields |= {"pair-1-2": "second", "rating-1-naturalness": "2"}
    form = read_form(pool(), ITEM, ["c", "a", "b"], fields, 1.0)
    assert form.ratings["a"]["naturalness"] == 2
    assert form.preferences == [("c", "a", "tie"), ("c", "b", "first"), ("a", "b", "second")]


def test_each_rater_gets_an_individual_order_of_answers() -> None:
    orders = {tuple(order_for(pool(), ITEM, rater, b"secret")) for rater in "klmnopqrs"}
    assert len(orders) > 2
    assert order_for(pool(), ITEM, "k", b"secret") == order_for(pool(), ITEM, "k", b"secret")


def pool_of_equals(*more: Answer) -> AnswerPool:
    """Return answers of which two are equal, passages included."""
    texts = {"a": "It runs from April.", "b": "It runs from May.", "twin": "It runs from April."}
    return AnswerPool([*(answer(name, text, conversation="c1") for name, text in texts.items()), *more])


def test_equal_answers_are_rated_once_and_are_a_tie() -> None:
    answers, item = pool_of_equals(), ITEM
    orders = {tuple(order_for(answers, item, rater, b"secret")) for rater in "klmnopqrs"}
    assert orders == {("a", "b"), ("b", "a")}
    fields = {f"rating-{index}-{name}": str(4 - 2 * index) for index in range(2) for name in FANC}
    form = read_form(answers, item, ["b", "a"], {**fields, "pair-0-1": "second"}, 1.0)
    assert {system: set(ratings.values()) for system, ratings in form.ratings.items()} == {
        "a": {2},
        "b": {4},
        "twin": {2},
    }
    assert form.preferences == [("b", "a", "second"), ("b", "twin", "second"), ("a", "twin", "tie")]
    assert win_rates(RatedForm("r", item, form, 0.0)) == {"a": 100, "b": 0, "twin": 100}
    rows = [("r", "\t".join(item), form.model_dump_json(), 1.0)]
    assert [rated.form for rated in read_forms(answers, rows)[0]] == [form]


def test_equal_texts_with_other_passages_are_rated_separately_and_not_compared() -> None:
    made = answer("other", "It runs from April.", conversation="c1")
    moved = replace(made, response=replace(made.response, passages=made.response.passages[:1]))
    answers, item = pool_of_equals(moved), ITEM
    systems = sorted(order_for(answers, item, "k", b"secret"))
    assert systems == ["a", "b", "other"]
    assert compared_pairs(answers, item, systems) == [(0, 1), (1, 2)]


def test_agreement_counts_an_answer_of_two_systems_once() -> None:
    answers, item = pool_of_equals(), ITEM
    forms = []
    for rater, first in (("r1", "4"), ("r2", "4"), ("r3", "1")):
        fields = {f"rating-{index}-{name}": first if index else "3" for index in range(2) for name in FANC}
        form = read_form(answers, item, ["b", "a"], {**fields, "pair-0-1": "second"}, 1.0)
        forms.append(RatedForm(rater, item, form, 0.0))
    (section,) = form_sections(answers, forms)
    assert [row[0] for row in section.tables[0].rows] == ["a", "b", "twin"]
    assert {row[-1] for row in section.tables[1].rows} == {2}


def test_equal_texts_are_not_rated_twice(tmp_path: Path) -> None:
    with serving(tmp_path, AnswerPool([answer(name, "It runs from April.") for name in ("one", "two")])) as served:
        visitor = Visitor(served.port)
        visitor.enter("Ann")
        page = visitor.get("/forms")
        assert page.text.count("It runs from April.") == 1
        assert "Which is better?" not in page.text
        fields = {f"rating-0-{name}": "3" for name in FANC}
        item = "\t".join(("mtrag (sample)", "full_rag", "c<::>1"))
        assert visitor.post("/forms", **fields, item=item, form_token=page.form_token).status == 303
        (row,) = served.arena.store.forms()
        assert json.loads(row[2])["preferences"] == [["one", "two", "tie"]]


def test_a_mean_is_over_tasks_of_the_medians_of_raters() -> None:
    """A single dissenting rater does not change the value. With two, it is in the middle."""
    second_item = ("mtrag (sample)", "full_rag", "c2<::>2")
    forms = [
        rated(rater, {"a": value, "b": 3, "c": 3}, three("tie", "tie", "tie"), item)
        for item, values in ((ITEM, (1, 1, 4)), (second_item, (2, 3)))
        for rater, value in zip("xyz", values, strict=False)
    ]
    table = form_sections(pool(), forms)[0].tables[0]
    cell = table.rows[0][2]
    assert isinstance(cell, Value)
    assert cell.value == (1 + 2.5) / 2
    assert (cell.low, cell.high) == (None, None)
    assert "fewer than 10" in table.note


def test_agreement_follows_the_appendix_of_the_paper() -> None:
    forms = [
        rated("r1", {"a": 4, "b": 4, "c": 1}, three("first", "first", "first")),
        rated("r2", {"a": 4, "b": 4, "c": 2}, three("first", "first", "first")),
        rated("r3", {"a": 4, "b": 3, "c": 4}, three("first", "first", "first")),
    ]
    (section,) = form_sections(pool(), forms)
    rows = {row[0]: row[2:] for row in section.tables[1].rows}
    assert rows["faithfulness"] == ("33.3 %", "66.7 %", "66.7 %", 3)
    assert rows[WIN_RATE] == ("100.0 %", "100.0 %", "100.0 %", 3)
    assert section.tables[0].rows[0][:2] == ("a", 1)


def test_calibrate_reads_the_file_of_forms(tmp_path: Path) -> None:
    second_item = ("mtrag (sample)", "full_rag", "c2<::>2")
    forms = [
        rated(f"r{n}", {"a": 4, "b": 3, "c": 1 + n}, three("first", "first", "tie"), item)
        for item in (ITEM, second_item)
        for n in (0, 1, 2)
    ]
    path = write_human_evaluation(tmp_path, pool(), forms)
    answers = load_human_evaluation(tmp_path)
    assert len(answers) == 6
    assert answers[0].model_id == "a"
    assert answers[0].ratings["completeness"] == {"r0": 4, "r1": 4, "r2": 4}
    assert answers[1].ratings[WIN_RATE] == {"r0": 50, "r1": 50, "r2": 50}
    assert answers[0].metrics == {}
    assert [len(row.response.passages) for row in answers] == [2] * 6
    labelled = read_labelled_rows(path, rubric_of("rl_mtb"))
    assert len(labelled.rows) == 6
    assert list(labelled.rows[0].labels.values()) == ["10", "10", "10"]
    assert json.loads(path.read_text(encoding="utf-8"))["models"][0]["model_id"] == "a"


def about(answers: AnswerPool) -> list[RatedForm]:
    """Return equal forms of one rater for each item."""
    forms = []
    for item in answers.items:
        systems = order_for(answers, item, "r", b"secret")
        fields = {f"rating-{index}-{name}": "3" for index in range(len(systems)) for name in FANC}
        fields |= {f"pair-{first}-{second}": "tie" for first, second in compared_pairs(answers, item, systems)}
        forms.append(RatedForm("r", item, read_form(answers, item, systems, fields, 1.0), 1.0))
    return forms


def changed(original: Answer, **task: Any) -> Answer:
    return replace(original, response=replace(original.response, task=replace(original.response.task, **task)))


TWO = tuple(answer(name, f"{name} says so.", conversation="c1") for name in ("a", "b"))


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ((), "no form exists"),
        (
            (*TWO, *(replace(one, setting="reference") for one in TWO)),
            "setting, found forms for full_rag, reference",
        ),
        (
            tuple(changed(one, domain="kitchen") for one in TWO),
            "only supports MTRAG's corpora, and c1<::>1 is from 'kitchen'",
        ),
    ],
)
def test_a_file_contains_one_setting_of_mtrags_corpora(
    tmp_path: Path, answers: tuple[Answer, ...], expected: str
) -> None:
    pool_of_answers = AnswerPool(answers or TWO)
    with pytest.raises(ConfigurationError, match=re.escape(expected)):
        write_human_evaluation(tmp_path, pool_of_answers, about(pool_of_answers) if answers else [])
    assert not list(tmp_path.iterdir())


def test_the_file_contains_refusals_and_only_scores_common_to_all_answers(tmp_path: Path) -> None:
    labels = {"c1": Answerability.ANSWERABLE, "c2": Answerability.UNANSWERABLE, "c3": Answerability.CONVERSATIONAL}
    answers = [
        changed(
            replace(
                answer(name, f"{name} says so.", conversation=conversation),
                refuses=name == "b",
                scores={"rl_f": 0.5} | ({"rb_alg": 0.25} if name == "b" else {}),
            ),
            answerability=label,
        )
        for conversation, label in labels.items()
        for name in ("a", "b")
    ]
    pool_of_answers = AnswerPool(answers)
    write_human_evaluation(tmp_path, pool_of_answers, about(pool_of_answers))
    rated_answers = load_human_evaluation(tmp_path)
    right = {
        (rated_answer.response.task.conversation_id, rated_answer.model_id): rated_answer.idk_is_right
        for rated_answer in rated_answers
    }
    assert right == {
        **{("c1", "a"): True, ("c1", "b"): False, ("c2", "a"): False, ("c2", "b"): True},
        **{("c3", "a"): True, ("c3", "b"): True},
    }
    assert all(rated_answer.metrics == {"rl_f": 0.5} for rated_answer in rated_answers)
    assert [rated_answer.response.task.answerability for rated_answer in rated_answers[::2]] == list(labels.values())


def test_the_file_has_the_official_layout(tmp_path: Path, mtrag_root: Path) -> None:
    """Other tools read the same names: rater, type of values, range, and filters."""
    scored = [replace(scored_answer, scores={"rl_f": 0.5, "rb_alg": 0.25, "rb_llm": 1.0}) for scored_answer in TWO]
    pool_of_answers = AnswerPool(scored)
    content = json.loads(
        write_human_evaluation(tmp_path, pool_of_answers, about(pool_of_answers)).read_text(encoding="utf-8")
    )
    official = json.loads((mtrag_root / HUMAN_EVALUATION_FILE).read_text(encoding="utf-8"))
    assert content.keys() == official.keys()
    assert content["filters"] == official["filters"]
    defined = {metric["name"]: metric for metric in official["metrics"]}
    for metric in content["metrics"]:
        kinds = ("author", "type", "aggregator", "range")
        assert [metric.get(kind) for kind in kinds] == [defined[metric["name"]].get(kind) for kind in kinds]
        for own, other in zip(metric.get("values", ()), defined[metric["name"]].get("values", ()), strict=True):
            assert own == {**other, "display_value": other["display_value"].lower()}
        assert metric.keys() >= {"display_name", "description"}
    assert {"win-rate", "conditional_idk", "rb_agg", *FANC} < {metric["name"] for metric in content["metrics"]}
    for part in ("documents", "tasks", "evaluations"):
        own, other = content[part][0], official[part][0]
        assert own.keys() <= other.keys()
        assert {name: type(value) for name, value in own.items()} == {name: type(other[name]) for name in own}
    assert set(content["filters"]) < content["tasks"][0].keys()
    assert content["evaluations"][0]["annotations"].keys() < official["evaluations"][0]["annotations"].keys()


@pytest.mark.parametrize(("n", "expected"), [(9, "Conversations: 9, fewer than 10"), (10, "Intervals over conv")])
def test_the_note_states_if_intervals_exist(n: int, expected: str) -> None:
    answers = small_pool("a", "b", n=n)
    assert expected in form_sections(answers, about(answers))[0].tables[0].note


def test_raters_fill_in_forms_one_after_the_other(tmp_path: Path) -> None:
    with serving(tmp_path, pool(), raters=2) as served:
        for rater in ("Ann", "Bob", "Cem"):
            visitor = Visitor(served.port)
            visitor.enter(rater)
            for _ in range(2):
                page = visitor.get("/forms")
                if "All done" in page.text:
                    break
                assert not re.search(r">\s*(a|b|c)\s*<", page.text)
                match = re.search(r'name="item" value="([^"]+)"', page.text)
                assert match
                fields = {f"rating-{index}-{name}": "3" for index in range(3) for name in FANC}
                fields |= {"item": match[1].replace("&lt;", "<").replace("&gt;", ">"), "form_token": page.form_token}
                incomplete = visitor.post("/forms", **fields)
                assert incomplete.status == 422
                assert "not answered: A or B, A or C, B or C" in incomplete.text
                assert incomplete.text.count("checked") == 12
                fields |= {"pair-0-1": "tie", "pair-0-2": "first", "pair-1-2": "second"}
                assert visitor.post("/forms", **fields).status == 303
        assert [row[0] for row in served.arena.store.forms()] == ["Ann", "Ann", "Bob", "Bob"]
        assert {event["view"] for event in served.arena.store.events()} == {"form"}
        assert "Agreement of raters" in visitor.get("/forms/results").text


@pytest.mark.parametrize(("systems", "is_asked"), [("abcdef", True), ("abcdefg", False)])
def test_a_form_has_at_most_six_answers(tmp_path: Path, systems: str, *, is_asked: bool) -> None:
    with serving(tmp_path, small_pool(*systems, n=1)) as served:
        visitor = Visitor(served.port)
        visitor.enter()
        page = visitor.get("/forms").text
        assert ("You filled in 0 forms" in page, 'name="item"' in page) == (not is_asked, is_asked)


@pytest.mark.parametrize(("began", "expected"), [("0", 86_400), ("99999999999", 0), ("early", 0)])
def test_the_duration_of_a_form_is_plausible(tmp_path: Path, began: str, expected: float) -> None:
    with serving(tmp_path, AnswerPool([answer(name, "It runs from April.") for name in ("one", "two")])) as served:
        visitor = Visitor(served.port)
        visitor.enter()
        token = visitor.get("/forms").form_token
        fields = {f"rating-0-{name}": "3" for name in FANC} | {"began": began, "item": "\t".join((*ITEM[:2], "c<::>1"))}
        assert visitor.post("/forms", **fields, form_token=token).status == 303
        (row,) = served.arena.store.forms()
    assert json.loads(row[2])["seconds"] == pytest.approx(expected, abs=1)


def test_forms_for_changed_answers_are_omitted(tmp_path: Path) -> None:
    kept = rated("r", {"a": 4, "b": 3, "c": 2}, three("first", "first", "first"))
    row = ("r", "\t".join(ITEM), kept.form.model_dump_json(), 1.0)
    assert read_forms(pool(), [row])[1] == 0
    changed = AnswerPool([answer(system, "Other.", conversation="c1") for system in ("a", "b", "c")])
    assert read_forms(changed, [row]) == ([], 1)
