from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.metrics import (
    LEFT_OUT,
    NO_VERDICT,
    OTHER_SIDE,
    answerability_accuracy,
    answerability_scores,
    condition_paper,
    ibm_visible_answerability,
    is_settled,
)
from ragtasks.metrics._answerability import NO_CLARIFICATION, condition_ibm
from ragtasks.records import Answerability, IdkVerdict, Score

YES, PARTIAL, NO = IdkVerdict.YES, IdkVerdict.PARTIAL, IdkVerdict.NO
RAW = "raw"

VERDICTS = (YES, PARTIAL, NO, None)
LABELS = Answerability
# The score for each verdict, RAW for the raw score, or the reason if it is unscored.
PAPER: dict[Answerability, tuple[float | str, ...]] = {
    LABELS.ANSWERABLE: (0.0, RAW, RAW, NO_VERDICT),
    LABELS.PARTIAL: (0.0, RAW, RAW, NO_VERDICT),
    LABELS.UNANSWERABLE: (1.0, 0.0, 0.0, NO_VERDICT),
    LABELS.CONVERSATIONAL: (LEFT_OUT,) * 4,
    LABELS.UNDERSPECIFIED: (NO_CLARIFICATION,) * 4,
}
IBM: dict[Answerability | None, tuple[float | str, ...]] = {
    LABELS.ANSWERABLE: (0.0, RAW, RAW, RAW),
    LABELS.PARTIAL: (0.0, RAW, RAW, RAW),
    LABELS.UNANSWERABLE: (1.0, 0.0, 0.0, RAW),
    LABELS.CONVERSATIONAL: (1.0, 0.0, 0.0, RAW),
    LABELS.UNDERSPECIFIED: (0.0,) * 4,
    None: (0.0, RAW, RAW, RAW),
}
POSITIONS = st.integers(0, 3)
RAW_SCORES = st.one_of(st.none(), st.sampled_from([0.0, 1.0, -0.01, 1.5, 7.0]), st.floats(allow_nan=False))


def _scored(raw: float | None) -> Score:
    return Score(raw) if raw is not None else Score(None, "the raw metric failed")


@pytest.mark.parametrize("label", Answerability)
@given(position=POSITIONS, raw=RAW_SCORES)
def test_conditioning_of_the_paper(label: Answerability, position: int, raw: float | None) -> None:
    conditioned, expected = condition_paper(_scored(raw), label, VERDICTS[position]), PAPER[label][position]
    if expected == RAW:
        assert conditioned == _scored(raw)
    elif isinstance(expected, str):
        assert conditioned == Score(None, expected)
    else:
        assert conditioned == Score(expected)


@pytest.mark.parametrize("label", [*Answerability, None])
@given(position=POSITIONS, raw=RAW_SCORES)
def test_conditioning_of_the_official_script(label: Answerability | None, position: int, raw: float | None) -> None:
    conditioned, expected = condition_ibm(raw, label, VERDICTS[position]), IBM[label][position]
    assert conditioned.value == (raw if expected == RAW else expected)
    assert bool(conditioned.reason) is (conditioned.value is None)


@given(st.sampled_from([*IdkVerdict, None]), RAW_SCORES, st.booleans())
def test_underspecified_tasks_depend_on_clarification_alone(
    verdict: IdkVerdict | None, raw: float | None, clarification: bool
) -> None:
    expected = Score(1.0 if clarification else 0.0)
    label = Answerability.UNDERSPECIFIED
    assert condition_paper(_scored(raw), label, verdict, clarification=clarification) == expected
    assert condition_ibm(raw, label, verdict, clarification=clarification) == expected


@given(
    st.sampled_from([label for label in Answerability if label is not Answerability.UNDERSPECIFIED]),
    st.sampled_from([*IdkVerdict, None]),
    RAW_SCORES,
    st.booleans(),
)
def test_clarification_does_not_affect_other_tasks(
    label: Answerability, verdict: IdkVerdict | None, raw: float | None, clarification: bool
) -> None:
    with_it = condition_paper(_scored(raw), label, verdict, clarification=clarification)
    assert with_it == condition_paper(_scored(raw), label, verdict)
    assert condition_ibm(raw, label, verdict, clarification=clarification) == condition_ibm(raw, label, verdict)


def test_the_official_script_leaves_nan_unscored() -> None:
    assert condition_ibm(math.nan, Answerability.ANSWERABLE, NO).value is None
    assert condition_ibm(math.nan, Answerability.UNANSWERABLE, YES) == Score(1.0)


@pytest.mark.parametrize("label", list(Answerability))
def test_the_script_sees_only_the_key_in_lower_case(label: Answerability) -> None:
    assert ibm_visible_answerability(label, "answerability") is label
    assert ibm_visible_answerability(label, "Answerability") is None


@pytest.mark.parametrize("clarification", [None, True, False])
@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("answerability", Answerability)
def test_settled_tasks_do_not_depend_on_the_raw_score(
    answerability: Answerability, verdict: IdkVerdict | None, clarification: bool | None
) -> None:
    scores = {
        condition_paper(Score(raw), answerability, verdict, clarification=clarification) for raw in (0.0, 0.5, 1.0)
    }
    if verdict is None and answerability not in (Answerability.CONVERSATIONAL, Answerability.UNDERSPECIFIED):
        assert not is_settled(answerability, verdict)  # not known yet
    else:
        assert is_settled(answerability, verdict) == (len(scores) == 1)


@pytest.mark.parametrize("label", Answerability)
@pytest.mark.parametrize("verdict", VERDICTS)
def test_accuracy_requires_refusals_on_unanswerable_tasks_only(
    label: Answerability, verdict: IdkVerdict | None
) -> None:
    score = answerability_accuracy(label, verdict)
    if label in (Answerability.CONVERSATIONAL, Answerability.UNDERSPECIFIED):
        assert score.value is None
        assert score.reason
    elif verdict is None:
        assert score == Score(None, NO_VERDICT)
    else:
        assert score == Score(float((verdict is YES) == (label is Answerability.UNANSWERABLE)))


@pytest.mark.parametrize("label", Answerability)
@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("is_answer", [True, False])
def test_a_response_is_scored_on_the_side_of_its_task_only(
    label: Answerability, verdict: IdkVerdict | None, *, is_answer: bool
) -> None:
    scores = answerability_scores(label, verdict, is_answer=is_answer)
    accuracy = answerability_accuracy(label, verdict, is_answer=is_answer)
    answerable = {Answerability.ANSWERABLE, Answerability.PARTIAL}
    assert scores["ans_acc"] == scores["balanced_ans_acc"] == accuracy
    assert scores["answered"] == (accuracy if label in answerable else Score(None, OTHER_SIDE))
    assert scores["declined"] == (accuracy if label is Answerability.UNANSWERABLE else Score(None, OTHER_SIDE))
