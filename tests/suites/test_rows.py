"""The suite of a user's own rows: scores that question, answer and passages allow, and no others."""

from __future__ import annotations

import pytest

from ragtasks.judges import IDK, RB_LLM, RL_F, RL_R, Finding
from ragtasks.metrics import IdkLabel, Semantics, k_precision
from ragtasks.records import IdkVerdict, Response
from ragtasks.results import own_rows
from ragtasks.suites import ScoringInputs, suite_named

FULL = {"question": "q", "answer": "Three weeks.", "contexts": ["Lent for three weeks."], "reference": "Three weeks"}


def responses(*rows: dict[str, object]) -> list[Response]:
    answers = own_rows(enumerate(rows, start=1), lambda *problem: pytest.fail(str(problem)))
    passages = answers.contexts.passages
    return [
        Response(task, passages[task.task_id], answers.answers[task.task_id].text) for task in answers.benchmark.tasks
    ]


def scores(*rows: dict[str, object]) -> list[dict[str, tuple[float | None, str]]]:
    answered = responses(*rows)
    labels = [IdkLabel(IdkVerdict.NO, "") for _ in answered]
    computed = suite_named("rows").score(
        ScoringInputs(None, answered, labels, Semantics(None, "encoder: none"))  # type: ignore[arg-type]
    )
    return [{name: (score.value, score.reason) for name, score in row.items()} for row in computed]


def test_grounding_is_the_share_of_words_in_the_passages() -> None:
    assert k_precision("Three weeks, and the fee is small.", ["Lent for three weeks.", "No fee."]) == 3 / 6
    assert k_precision("fee fee", ["one fee"]) == 1 / 2  # counts the smaller number of occurrences on both sides
    assert k_precision("fee", []) is None
    assert k_precision(" the a ", ["the fee"]) is None


def test_missing_fields_of_a_row_are_unscored_with_a_reason() -> None:
    full, bare, empty = scores(FULL, {"question": "q", "answer": "a"}, {**FULL, "answer": "", "contexts": []})
    assert full["k_precision"] == (1.0, "")
    assert full["rouge_l"] == (1.0, "")
    assert full["bert_recall"] == (None, "encoder: none")
    assert bare["k_precision"] == bare["bert_k_precision"] == (None, "no contexts in the row")
    assert bare["rouge_l"] == bare["bert_recall"] == (None, "no reference in the row")
    assert empty["k_precision"] == (None, "no passages")
    assert [row["coverage"][0] for row in (full, bare, empty)] == [1.0, 0.0, 0.0]
    assert (empty["empty"][0], full["length"][0]) == (1.0, 12.0)


def test_a_score_that_no_row_can_have_is_left_out() -> None:
    (row,) = scores({"question": "q", "answer": "a", "contexts": ["a"]})
    assert not {"rouge_l", "token_recall", "bert_recall", "bert_precision"} & row.keys()


def test_judges_receive_only_applicable_rubrics() -> None:
    full, bare, nothing = responses(
        FULL, {"question": "q", "answer": "a"}, {**FULL, "contexts": [], "answer": "It is."}
    )
    rubrics = {rubric.name: rubric for rubric in suite_named("rows").rubrics()}
    assert list(rubrics) == [RL_F, RL_R, RB_LLM, IDK]
    skipped = {name: isinstance(rubric.open(bare), Finding) for name, rubric in rubrics.items()}
    assert skipped == {RL_F: True, RL_R: False, RB_LLM: True, IDK: False}
    assert not any(isinstance(rubric.open(full), Finding) for rubric in rubrics.values())
    assert not isinstance(rubrics[RL_F].open(nothing), Finding)  # no passages: no statement is supported
