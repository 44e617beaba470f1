"""The single pass over all metrics: exactly the declared metrics, and no invented value."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtasks.metrics import (
    METRICS,
    IbmJudged,
    IdkLabel,
    Judged,
    Scores,
    Semantics,
    SemanticScore,
    answerability_accuracy,
    condition_paper,
    score_responses,
)
from ragtasks.metrics._answerability import condition_ibm
from ragtasks.records import Answerability, IdkVerdict, Message, Passage, Response, Role, Score, Task

NAMES = [metric.name for metric in METRICS]
SEMANTIC = SemanticScore(bert_recall=0.6, bert_precision=0.4, bert_k_precision=0.2)
NO_ENCODER = Semantics(None, "encoder: none")
NEEDS_ENCODER = {"rb_alg", "rb_alg_raw", "rb_alg_ibm", "bert_recall", "bert_precision", "bert_k_precision"}
TASK = Task(
    task_id="c<::>1",
    conversation_id="c",
    turn=1,
    domain="govt",
    messages=(Message(Role.USER, "How long is the bridge?"),),
    target="The bridge is 90 metres long.",
    answerability=Answerability.ANSWERABLE,
    question_types=("Factoid",),
    multi_turn="N/A",
    references=(Passage("p", "The bridge has a length of 90 metres."),),
)
VERDICTS = [*IdkVerdict, None]


def respond(text: str, answerability: Answerability) -> Response:
    return Response(replace(TASK, answerability=answerability), TASK.references, text)


def score_one(
    text: str,
    verdict: IdkVerdict | None,
    semantics: Semantics | None = None,
    answerability: Answerability = Answerability.ANSWERABLE,
    visible: Answerability | None = None,
) -> Scores:
    response = respond(text, answerability)
    label = IdkLabel(verdict, "phrase" if verdict else "not Latin script")
    (scores,) = score_responses([response], [label], semantics or Semantics([SEMANTIC]), ibm_answerability=[visible])
    return scores


@pytest.mark.parametrize("semantics", [Semantics([SEMANTIC]), NO_ENCODER], ids=["encoder", "none"])
@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("answerability", Answerability)
def test_exactly_the_declared_metrics_are_returned(
    semantics: Semantics, verdict: IdkVerdict | None, answerability: Answerability
) -> None:
    scores = score_one("90 metres", verdict, semantics, answerability)
    assert sorted(scores) == sorted(metric.name for metric in METRICS if not metric.needs_judges)
    for score in scores.values():
        assert (score.value is None) == bool(score.reason)  # an unscored metric always has a reason
        assert score.value is None or -1 <= score.value <= 1


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("answerability", Answerability)
def test_judged_scores_are_conditioned_like_rb_alg(answerability: Answerability, verdict: IdkVerdict | None) -> None:
    response = respond("90 metres", answerability)
    judged = Judged([Score(0.7)], [Score(None, "nothing stated")], [None], [0.75])
    (scores,) = score_responses(
        [response], [IdkLabel(verdict, "test")], Semantics([SEMANTIC]), ibm_answerability=[None], judged=judged
    )
    assert sorted(scores) == sorted(metric.name for metric in METRICS if not metric.needs_official_prompts)
    assert scores["rb_llm"] == condition_paper(Score(0.7), answerability, verdict)
    assert scores["rl_f"] == condition_paper(Score(None, "nothing stated"), answerability, verdict)
    assert scores["rb_alg"] == condition_paper(scores["rb_alg_raw"], answerability, verdict)
    accuracy = answerability_accuracy(answerability, verdict)
    assert scores["ans_acc"].value == accuracy.value
    assert scores["coverage"].value == float(scores["rb_alg"].value is not None)
    assert (scores["rb_llm_raw"], scores["judge_coverage"]) == (Score(0.7), Score(0.75))


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("answerability", Answerability)
def test_official_verdicts_condition_all_scores_of_the_ibm_profile(
    answerability: Answerability, verdict: IdkVerdict | None
) -> None:
    ibm = IbmJudged(Score(0.3), Score(None, "nothing stated"), verdict, clarification=True)
    judged = Judged([Score(0.7)], [Score(0.7)], [None], [1.0], [ibm])
    (scores,) = score_responses(
        [respond("90 metres", answerability)],
        [IdkLabel(IdkVerdict.PARTIAL, "another reading")],
        Semantics([SEMANTIC]),
        ibm_answerability=[answerability],
        judged=judged,
    )
    assert sorted(scores) == sorted(NAMES)
    expected = condition_ibm(0.3, answerability, verdict, clarification=True)
    assert scores["rb_llm_ibm"] == expected
    assert scores["rl_f_ibm"].value == condition_ibm(None, answerability, verdict, clarification=True).value
    if answerability in (Answerability.UNANSWERABLE, Answerability.UNDERSPECIFIED) and verdict is not None:
        assert scores["rb_llm_ibm"] == scores["rl_f_ibm"] == scores["rb_alg_ibm"]


def test_the_ibm_profile_is_unscored_without_the_official_judges_reply() -> None:
    ibm = IbmJudged(Score(0.3), Score(0.3), None, clarification=False, missing="a: no reply came")
    judged = Judged([Score(0.7)], [Score(0.7)], [None], [1.0], [ibm])
    (scores,) = score_responses(
        [respond("90 metres", Answerability.UNANSWERABLE)],
        [IdkLabel(IdkVerdict.NO, "test")],
        Semantics([SEMANTIC]),
        ibm_answerability=[Answerability.UNANSWERABLE],
        judged=judged,
    )
    assert {scores[name] for name in ("rb_llm_ibm", "rl_f_ibm", "rb_alg_ibm")} == {Score(None, "a: no reply came")}
    assert scores["rb_llm"] == Score(0.0)


def test_clarification_decides_on_underspecified_tasks_only() -> None:
    for answerability in Answerability:
        judged = Judged([Score(0.7)], [Score(0.7)], [True], [1.0])
        (scores,) = score_responses(
            [respond("Which bridge do you mean?", answerability)],
            [IdkLabel(IdkVerdict.NO, "test")],
            Semantics([SEMANTIC]),
            ibm_answerability=[answerability],
            judged=judged,
        )
        is_right = answerability is Answerability.UNDERSPECIFIED
        assert (scores["rb_llm"].value == scores["rl_f"].value == scores["rb_alg"].value == 1) is is_right


def test_metrics_are_defined_once_and_described() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert all(metric.description for metric in METRICS)
    assert {metric.name for metric in METRICS if metric.higher_is_better is False} == {"empty"}
    # A refusal is correct if the question cannot be answered.
    assert {metric.name for metric in METRICS if metric.higher_is_better is None} == {"idk_yes", "idk_partial"}


def test_scores_of_an_answer() -> None:
    scores = score_one("The bridge is 90 metres wide.", IdkVerdict.NO, visible=Answerability.ANSWERABLE)
    values = {name: score.value for name, score in scores.items()}
    assert values["rouge_l"] == pytest.approx(5 / 6)
    assert values["token_recall"] == pytest.approx(4 / 5)
    expected = 3 / (1 / 0.8 + 1 / (5 / 6) + 1 / 0.6)
    assert values["rb_alg"] == values["rb_alg_raw"] == values["rb_alg_ibm"] == pytest.approx(expected)
    assert (values["bert_recall"], values["bert_precision"], values["bert_k_precision"]) == (0.6, 0.4, 0.2)
    assert (values["ans_acc"], values["idk_yes"], values["idk_partial"]) == (1, 0, 0)
    assert (values["empty"], values["coverage"]) == (0, 1)


def test_the_ibm_profile_uses_only_the_visible_label() -> None:
    refusal: dict[str, Any] = {"verdict": IdkVerdict.YES, "answerability": Answerability.UNANSWERABLE}
    assert score_one("I do not know.", **refusal, visible=Answerability.UNANSWERABLE)["rb_alg_ibm"] == Score(1.0)
    # MTRAG's files hide the label from the official scripts: a correct refusal scores 0.
    assert score_one("I do not know.", **refusal, visible=None)["rb_alg_ibm"] == Score(0.0)


def test_scores_that_depend_on_a_missing_verdict_are_unscored() -> None:
    scores = score_one("90 metres", None)
    unscored = {name for name, score in scores.items() if score.value is None}
    assert unscored == {"rb_alg", "ans_acc", "answered", "declined", "balanced_ans_acc", "idk_yes", "idk_partial"}
    assert scores["coverage"].value == 0
    assert "not Latin script" in scores["idk_yes"].reason


@pytest.mark.parametrize("verdict", IdkVerdict)
@pytest.mark.parametrize("answerability", [Answerability.ANSWERABLE, Answerability.UNANSWERABLE])
def test_without_an_encoder_refusals_alone_give_no_score(verdict: IdkVerdict, answerability: Answerability) -> None:
    scores = score_one("90 metres", verdict, NO_ENCODER, answerability)
    other_side = "declined" if answerability is Answerability.ANSWERABLE else "answered"
    assert {name for name, score in scores.items() if score.value is None} == {*NEEDS_ENCODER, other_side}
    assert {scores[name].reason for name in NEEDS_ENCODER} == {"encoder: none"}


def test_without_passages_faithfulness_is_unscored_and_rb_alg_zero() -> None:
    semantics = Semantics([SemanticScore(0.6, 0.4, None)])
    scores = score_one("90 metres", IdkVerdict.NO, semantics)
    assert scores["bert_k_precision"] == Score(None, "no passages")
    assert scores["rb_alg_raw"] == scores["rb_alg"] == Score(0.0)


@pytest.mark.parametrize(("text", "empty"), [("", 1), (" \n", 1), ("a", 0)])
def test_empty_answers_are_counted(text: str, empty: float) -> None:
    scores = score_one(text, IdkVerdict.NO)
    assert scores["empty"] == Score(float(empty))
    assert scores["rouge_l"] == Score(0.0)


def test_no_responses_give_no_scores() -> None:
    for semantics in (Semantics([]), NO_ENCODER):
        assert score_responses([], [], semantics, ibm_answerability=[]) == []


def test_lists_of_different_length_are_an_error() -> None:
    response = Response(TASK, (), "x")
    with pytest.raises(ValueError, match="argument"):
        score_responses([response], [], NO_ENCODER, ibm_answerability=[None])
    with pytest.raises(ValueError, match="argument"):
        score_responses([response], [IdkLabel(None, "")], Semantics([SEMANTIC] * 2), ibm_answerability=[None])


@settings(derandomize=True, database=None, deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.text(max_size=20), st.sampled_from(VERDICTS), st.sampled_from(Answerability)), max_size=5))
def test_the_score_of_a_response_is_independent_of_other_responses(
    cases: list[tuple[str, IdkVerdict | None, Answerability]],
) -> None:
    responses = [Response(replace(TASK, answerability=label), (), text) for text, _, label in cases]
    labels = [IdkLabel(verdict, "phrase" if verdict else "not Latin script") for _, verdict, _ in cases]
    together = score_responses(
        responses, labels, Semantics([SEMANTIC] * len(cases)), ibm_answerability=[None] * len(cases)
    )
    assert together == [score_one(text, verdict, answerability=label) for text, verdict, label in cases]
