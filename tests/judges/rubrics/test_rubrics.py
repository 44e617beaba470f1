"""Contents of the prompts, and findings for replies."""

from __future__ import annotations

import json
import os
from itertools import takewhile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Environment, meta

from ragtasks.errors import ConfigurationError
from ragtasks.judges import (
    Finding,
    Question,
    UnparsableReplyError,
    VerdictOutcome,
    read_coded_label,
    rubrics_named,
)
from ragtasks.judges._parsers import read_coded_object, read_coded_rating, read_texts, read_yes_no
from ragtasks.judges.rubrics import RUBRICS, idk, rb_llm, rl_f
from ragtasks.prompts import shipped_template
from ragtasks.records import Answerability
from tests.judges._scripted import code_in, obedient, response

SNAPSHOTS = Path(__file__).parent / "prompts"
PLACEHOLDERS = {
    "again": {"question", "form"},
    "asked_questions": {"answer", "code", "form"},
    "citation_support": {"code", "form", "passage", "sentence"},
    "clarification": {"answer", "code", "conversation", "form", "question"},
    "context_precision": {"code", "conversation", "form", "passages", "question", "reference"},
    "idk": {"answer", "code", "form", "question"},
    "multihop_answer": {"answer", "code", "form", "question", "reference"},
    "nugget_assignment": {"answer", "code", "form", "nuggets", "question"},
    "nugget_creation": {"code", "form", "most", "nuggets", "passages", "question"},
    "nugget_importance": {"code", "form", "nuggets", "question"},
    "own_rubric": {"code", "form", "labels", "prompt"},
    "pairwise": {
        *("answer_a", "answer_b", "code", "conversation", "form", "passages", "question", "shown_a", "shown_b"),
    },
    "question_labels": {"code", "conversation", "form", "labels", "question", "rule"},
    "rb_llm": {"answer", "code", "conversation", "form", "passages", "question", "reference"},
    "relevance": {"code", "conversation", "form", "passage", "question"},
    "rl_mtb": {"answer", "code", "conversation", "form", "passages", "question"},
    "same_question": {"code", "form", "question", "statements"},
    "statements": {"answer", "code", "conversation", "form", "question"},
    "support": {"code", "form", "passages", "statements"},
}
CODE = "0a1b2c3d"


def question_of(question: Question | Finding) -> Question:
    assert isinstance(question, Question)
    return question


def finding_of(step: Question | Finding) -> Finding:
    assert isinstance(step, Finding)
    return step


def test_every_template_has_exactly_its_placeholders() -> None:
    folder = Path(__file__).parents[3] / "ragtasks" / "prompts" / "judges"
    assert {path.stem for path in folder.glob("*.jinja")} == set(PLACEHOLDERS)
    for name, expected in PLACEHOLDERS.items():
        tree = Environment(autoescape=True).parse(shipped_template(f"judges/{name}").source)
        assert meta.find_undeclared_variables(tree) == expected, name


def rendered() -> dict[str, str]:
    asks_back, answered = response(answerability=Answerability.UNDERSPECIFIED), response()
    first = {
        rubric.name: question_of(rubric.open(asks_back if rubric.name == "clarification" else answered))
        for rubric in rubrics_named(tuple(RUBRICS.built_in))
    }
    script = obedient()
    second = {
        f"{name}_support": question_of(first[name].read(str(script(first[name].text, 0))))
        for name in first
        if "rl_f" in name
    }
    second["rl_r_same"] = question_of(first["rl_r"].read(str(script(first["rl_r"].text, 0))))
    texts = {name: question.text for name, question in {**first, **second}.items()}
    return {**texts, "idk_again": first["idk"].again().text}


def test_earlier_turns_are_evidence_for_the_conversation_rubric() -> None:
    with_turns, without = (
        question_of(rubric.open(response())) for rubric in rubrics_named(["rl_f_conversation", "rl_f"])
    )
    assert with_turns.text == without.text, "one reply serves both"
    (turns,) = rubrics_named(["rl_f_conversation"])
    passage = response().passages[0].text
    second = question_of(with_turns.read(str(obedient()(with_turns.text, 0)))).text
    assert second.index(passage) < second.index("Earlier in the conversation, by the user: ")
    assert turns.fingerprint != rl_f().fingerprint
    assert question_of(turns.open(response(passages=()))).text == question_of(rl_f().open(response(passages=()))).text


def test_prompts_about_one_answer_share_their_common_beginning() -> None:
    texts = rendered()
    shared = {
        ("rb_llm", "rl_mtb"): "last message of the user]",
        ("rb_llm", "context_precision"): "reference answer]",
        ("rb_llm", "rl_f_support"): "from April to October.",
        ("rl_f", "clarification"): "The ferry runs from April.",
    }
    for (one, other), part in shared.items():
        assert part in os.path.commonprefix([texts[one], texts[other]])  # noqa: RUF071 (texts, not paths)


@pytest.mark.parametrize("name", sorted(rendered()))
def test_prompts_equal_their_snapshots(name: str) -> None:
    assert rendered()[name] == (SNAPSHOTS / f"{name}.txt").read_text(encoding="utf-8")


def test_every_snapshot_belongs_to_a_prompt() -> None:
    assert {path.stem for path in SNAPSHOTS.glob("*.txt")} == set(rendered())


@pytest.mark.parametrize(
    ("name", "shown", "hidden"),
    [
        ("rb_llm", ["runs from April.", "to October.", "When does it", "Yes, one."], []),
        ("idk", ["runs from April.", "When does it"], ["Yes, one.", "to October."]),
        ("clarification", ["runs from April.", "When does it", "Yes, one."], ["to October."]),
        ("rl_f", ["runs from April.", "When does it", "Yes, one."], ["to October."]),
        (
            "rl_mtb",
            ["runs from April.", "When does it", "Yes, one.", "from April to October."],
            ["From April to October."],
        ),
        ("rl_r", ["runs from April."], ["When does it", "Yes, one.", "to October."]),
    ],
)
def test_a_prompt_shows_only_the_texts_of_its_question(name: str, shown: list[str], hidden: list[str]) -> None:
    (rubric,) = rubrics_named([name])
    text = question_of(rubric.open(response(answerability=Answerability.UNDERSPECIFIED))).text
    assert all(part in text for part in shown)
    assert not any(part in text for part in hidden)


def test_statements_are_checked_against_the_passages_only() -> None:
    first = question_of(rl_f().open(response()))
    text = question_of(first.read(str(obedient()(first.text, 0)))).text
    assert "to October." in text
    assert "Yes, one." not in text


def test_equal_texts_give_equal_prompts_and_another_conversation_another_code() -> None:
    first, again, other = (
        question_of(idk().open(response("one", question=text))) for text in ("when?", "when?", "who?")
    )
    assert first.text == again.text
    assert code_in(first.text) != code_in(other.text)


def test_prompts_about_one_conversation_share_a_prefix_up_to_the_first_difference() -> None:
    rubric = rb_llm()
    one, other = (question_of(rubric.open(response(text))).text for text in ("It is red.", "It is blue."))
    n_alike = sum(takewhile(bool, map(str.__eq__, one, other)))
    assert one.index("It is red.") == other.index("It is blue.") == n_alike - len("It is ")
    first_turn = question_of(rubric.open(response(history=(), question="opening"))).text
    later_turn = question_of(rubric.open(response(history=("opening", "reply"), question="and then?"))).text
    assert code_in(first_turn) == code_in(later_turn)


@pytest.mark.parametrize("rating", range(1, 11))
def test_rb_llm_is_the_rating_over_ten(rating: int) -> None:
    question = question_of(rb_llm().open(response()))
    finding = finding_of(question.read(str(obedient(rating=rating)(question.text, 0))))
    assert (finding.label, finding.value) == (str(rating), rating / 10)


def test_clarification_is_judged_for_underspecified_questions_only() -> None:
    (rubric,) = rubrics_named(["clarification"])
    for answerability in Answerability:
        step = rubric.open(response(answerability=answerability))
        assert isinstance(step, Question) == (answerability is Answerability.UNDERSPECIFIED)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_answer_has_no_statements_and_no_request(text: str) -> None:
    assert finding_of(rl_f().open(response(text))).outcome is VerdictOutcome.NO_STATEMENTS


def test_an_answer_without_statements_is_unscored_with_a_reason() -> None:
    question = question_of(rl_f().open(response("I do not know.")))
    finding = finding_of(question.read(json.dumps({"id": code_in(question.text), "statements": [" "]})))
    assert (finding.value, finding.outcome) == (None, VerdictOutcome.NO_STATEMENTS)
    assert "no statement" in finding.reason


def test_statements_without_passages_are_unsupported() -> None:
    first = question_of(rl_f().open(response(passages=())))
    finding = finding_of(first.read(str(obedient()(first.text, 0))))
    assert (finding.label, finding.value) == ("0/2", 0.0)


def test_a_statement_with_line_ends_stays_one_statement() -> None:
    reply = json.dumps({"id": CODE, "statements": ["one\n2. two", "three"]})
    assert read_texts(reply, CODE, "statements") == ["one 2. two", "three"]


def test_an_unknown_rubric_is_reported_with_close_matches() -> None:
    with pytest.raises(ConfigurationError, match="'rb_llm'"):
        rubrics_named(["rb_lm"])


@pytest.mark.parametrize(
    ("reply", "rating"),
    [
        (f"Rating {CODE}: 7", 7),
        (f"Because.\n\nRating {CODE}: 10\n", 10),
        (f"**Rating {CODE}: 7**", 7),
        (f"**Rating {CODE}:** 7.", 7),
        (f"> rating `{CODE.upper()}` : 7/10", 7),
        (f"Rating {CODE}: [[7]]\r\n", 7),
        (f"Rating {CODE}: 4\nI meant:\nRating {CODE}: 5\nRating: 9", 5),
    ],
)
def test_a_coded_rating_is_parsed(reply: str, rating: int) -> None:
    assert read_coded_rating(reply, CODE) == rating


@pytest.mark.parametrize(
    "rest",
    ["", " N", " 0", " 11", " 7.5", " 7-8", " 7 or 8", " -7", " 7/5", " seven", " ７", " 7 because", " " + "9" * 5000],  # noqa: RUF001
)
def test_invalid_values_with_the_code_are_no_rating(rest: str) -> None:
    with pytest.raises(UnparsableReplyError):
        read_coded_rating(f"Rating {CODE}: 5\nRating {CODE}:{rest}", CODE)


@pytest.mark.parametrize(
    "reply", ["", "Rating: 7", "Rating 0a1b2c3e: 7", f"{CODE}: 7", f"The Rating {CODE}: 7", f"Verdict {CODE}: 7"]
)
def test_a_rating_without_the_code_is_ignored(reply: str) -> None:
    with pytest.raises(UnparsableReplyError, match=f"Rating {CODE}"):
        read_coded_rating(reply, CODE)


@pytest.mark.parametrize("word", ["yes", "YES", " **Yes** ", "`yes`.", '"yes"'])
def test_a_coded_label_is_parsed(word: str) -> None:
    assert read_coded_label(f"Verdict {CODE}: {word}", CODE, ("yes", "no")) == "yes"


@pytest.mark.parametrize("word", ["", "LABEL", "partial", "yes and no", "yes, it does", "unknown", "y"])
def test_unknown_labels_are_refused(word: str) -> None:
    with pytest.raises(UnparsableReplyError, match="not one of yes, no"):
        read_coded_label(f"Verdict {CODE}: {word}", CODE, ("yes", "no"))


@pytest.mark.parametrize(
    "supported",
    [
        {"1": "yes"},
        {"1": "yes", "2": "no", "3": "no"},
        {"1": "yes", "2": "maybe"},
        {"1": "yes", "2": 1},
        {"1": "yes", "2": None},
        {"one": "yes", "two": "no"},
        ["yes", "no"],
        None,
    ],
)
def test_support_must_contain_each_statement_once(supported: object) -> None:
    with pytest.raises(UnparsableReplyError):
        read_yes_no(json.dumps({"id": CODE, "supported": supported}), CODE, "supported", 2)


@pytest.mark.parametrize("statements", ["one", [1], [["one"]], None, {"1": "one"}])
def test_statements_must_be_texts(statements: object) -> None:
    with pytest.raises(UnparsableReplyError, match="not a list of texts"):
        read_texts(json.dumps({"id": CODE, "statements": statements}), CODE, "statements")


def test_the_last_object_with_the_code_counts_and_must_be_complete() -> None:
    one, two = (json.dumps({"id": CODE, "n": number}) for number in (1, 2))
    assert read_coded_object(f"```json\n{one}\n```\nbetter: {two} {{}}", CODE)["n"] == 2
    with pytest.raises(UnparsableReplyError, match="cannot be read"):
        read_coded_object(f'{one} {{"id": "{CODE}", "n":', CODE)


def test_deeply_nested_objects_give_no_verdict() -> None:
    with pytest.raises(UnparsableReplyError):
        read_coded_object(f'{{"id": "{CODE}", "n": ' + "[" * 100_000, CODE)


@given(st.text(), st.integers(1, 10), st.text())
def test_text_around_a_coded_rating_is_ignored(before: str, rating: int, after: str) -> None:
    reply = f"{before}\nRating {CODE}: {rating}\n{after}"
    if CODE not in before + after:
        assert read_coded_rating(reply, CODE) == rating


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.text())
def test_a_support_reply_is_parsed(supported: list[bool], before: str) -> None:
    words = {str(number): "yes" if one else "no" for number, one in enumerate(supported, 1)}
    assert (
        read_yes_no(before + json.dumps({"id": CODE, "supported": words}), CODE, "supported", len(supported))
        == supported
    )
