from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.metrics import LEFT_OUT, NO_VERDICT, condition_paper, ibm_visible_answerability, is_settled
from ragtasks.metrics._answerability import NO_CLARIFICATION, condition_ibm
from ragtasks.records import Answerability, IdkVerdict, Score

YES, PARTIAL, NO = IdkVerdict.YES, IdkVerdict.PARTIAL, IdkVerdict.NO
RAW = "raw"

# (answerability, verdict) -> the score, RAW where the raw one stands, or the reason why there is none.
PAPER: dict[tuple[Answerability, IdkVerdict | None], float | str] = {
    (Answerability.ANSWERABLE, YES): 0.0,
    (Answerability.ANSWERABLE, PARTIAL): RAW,
    (Answerability.ANSWERABLE, NO): RAW,
    (Answerability.ANSWERABLE, None): NO_VERDICT,
    (Answerability.PARTIAL, YES): 0.0,
    (Answerability.PARTIAL, PARTIAL): RAW,
    (Answerability.PARTIAL, NO): RAW,
    (Answerability.PARTIAL, None): NO_VERDICT,
    (Answerability.UNANSWERABLE, YES): 1.0,
    (Answerability.UNANSWERABLE, PARTIAL): 0.0,
    (Answerability.UNANSWERABLE, NO): 0.0,
    (Answerability.UNANSWERABLE, None): NO_VERDICT,
    (Answerability.CONVERSATIONAL, YES): LEFT_OUT,
    (Answerability.CONVERSATIONAL, PARTIAL): LEFT_OUT,
    (Answerability.CONVERSATIONAL, NO): LEFT_OUT,
    (Answerability.CONVERSATIONAL, None): LEFT_OUT,
    (Answerability.UNDERSPECIFIED, YES): NO_CLARIFICATION,
    (Answerability.UNDERSPECIFIED, PARTIAL): NO_CLARIFICATION,
    (Answerability.UNDERSPECIFIED, NO): NO_CLARIFICATION,
    (Answerability.UNDERSPECIFIED, None): NO_CLARIFICATION,
}
IBM: dict[tuple[Answerability | None, IdkVerdict | None], float | str] = {
    (Answerability.ANSWERABLE, YES): 0.0,
    (Answerability.ANSWERABLE, PARTIAL): RAW,
    (Answerability.ANSWERABLE, NO): RAW,
    (Answerability.ANSWERABLE, None): RAW,
    (Answerability.PARTIAL, YES): 0.0,
    (Answerability.PARTIAL, PARTIAL): RAW,
    (Answerability.PARTIAL, NO): RAW,
    (Answerability.PARTIAL, None): RAW,
    (Answerability.UNANSWERABLE, YES): 1.0,
    (Answerability.UNANSWERABLE, PARTIAL): 0.0,
    (Answerability.UNANSWERABLE, NO): 0.0,
    (Answerability.UNANSWERABLE, None): RAW,
    (Answerability.CONVERSATIONAL, YES): 1.0,
    (Answerability.CONVERSATIONAL, PARTIAL): 0.0,
    (Answerability.CONVERSATIONAL, NO): 0.0,
    (Answerability.CONVERSATIONAL, None): RAW,
    (Answerability.UNDERSPECIFIED, YES): 0.0,
    (Answerability.UNDERSPECIFIED, PARTIAL): 0.0,
    (Answerability.UNDERSPECIFIED, NO): 0.0,
    (Answerability.UNDERSPECIFIED, None): 0.0,
    (None, YES): 0.0,
    (None, PARTIAL): RAW,
    (None, NO): RAW,
    (None, None): RAW,
}
RAW_SCORES = st.one_of(st.none(), st.sampled_from([0.0, 1.0, -0.01, 1.5, 7.0]), st.floats(allow_nan=False))


def _scored(raw: float | None) -> Score:
    return Score(raw) if raw is not None else Score(None, "the raw metric failed")


def test_the_tables_have_every_cell() -> None:
    verdicts = [*IdkVerdict, None]
    assert set(PAPER) == {(answerability, verdict) for answerability in Answerability for verdict in verdicts}
    assert set(IBM) == {(label, verdict) for label in [*Answerability, None] for verdict in verdicts}


@pytest.mark.parametrize(("cell", "expected"), PAPER.items())
@given(raw=RAW_SCORES)
def test_paper(cell: tuple[Answerability, IdkVerdict | None], expected: float | str, raw: float | None) -> None:
    conditioned = condition_paper(_scored(raw), *cell)
    if expected == RAW:
        assert conditioned == _scored(raw)
    elif isinstance(expected, str):
        assert conditioned == Score(None, expected)
    else:
        assert conditioned == Score(expected)


@pytest.mark.parametrize(("cell", "expected"), IBM.items())
@given(raw=RAW_SCORES)
def test_ibm(cell: tuple[Answerability | None, IdkVerdict | None], expected: float | str, raw: float | None) -> None:
    conditioned = condition_ibm(raw, *cell)
    assert conditioned.value == (raw if expected == RAW else expected)
    assert bool(conditioned.reason) is (conditioned.value is None)


@given(
    st.sampled_from([*IdkVerdict, None]),
    RAW_SCORES,
    RAW_SCORES,
)
def test_unanswerable_does_not_depend_on_the_raw_metric(
    verdict: IdkVerdict | None, one: float | None, other: float | None
) -> None:
    label = Answerability.UNANSWERABLE
    assert condition_paper(_scored(one), label, verdict) == condition_paper(_scored(other), label, verdict)
    if verdict is not None:  # the script lets the raw score through where its judge gave no label
        assert condition_ibm(one, label, verdict) == condition_ibm(other, label, verdict)


@given(st.sampled_from([*IdkVerdict, None]), RAW_SCORES, st.booleans())
def test_underspecified_follows_the_clarification_alone(
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
def test_clarification_counts_nowhere_else(
    label: Answerability, verdict: IdkVerdict | None, raw: float | None, clarification: bool
) -> None:
    with_it = condition_paper(_scored(raw), label, verdict, clarification=clarification)
    assert with_it == condition_paper(_scored(raw), label, verdict)
    assert condition_ibm(raw, label, verdict, clarification=clarification) == condition_ibm(raw, label, verdict)


@given(
    st.sampled_from([Answerability.ANSWERABLE, Answerability.PARTIAL, Answerability.UNANSWERABLE]),
    st.sampled_from(list(IdkVerdict)),
    RAW_SCORES,
)
def test_the_profiles_agree_where_the_paper_has_a_cell(
    label: Answerability, verdict: IdkVerdict, raw: float | None
) -> None:
    assert condition_paper(_scored(raw), label, verdict).value == condition_ibm(raw, label, verdict).value


def test_ibm_leaves_nan_without_a_value() -> None:
    assert condition_ibm(math.nan, Answerability.ANSWERABLE, NO).value is None
    assert condition_ibm(math.nan, Answerability.UNANSWERABLE, YES) == Score(1.0)


@pytest.mark.parametrize("label", list(Answerability))
def test_the_script_sees_only_the_key_in_lower_case(label: Answerability) -> None:
    assert ibm_visible_answerability(label, "answerability") is label
    assert ibm_visible_answerability(label, "Answerability") is None


def test_on_files_with_the_other_spelling_a_right_refusal_scores_zero() -> None:
    seen = ibm_visible_answerability(Answerability.UNANSWERABLE, "Answerability")
    assert condition_ibm(0.7, seen, YES) == Score(0.0)
    assert condition_ibm(0.7, seen, NO) == Score(0.7)


@pytest.mark.parametrize("clarification", [None, True, False])
@pytest.mark.parametrize(("answerability", "verdict"), PAPER)
def test_settled_is_what_no_raw_score_can_move(
    answerability: Answerability, verdict: IdkVerdict | None, clarification: bool | None
) -> None:
    scores = {
        condition_paper(Score(raw), answerability, verdict, clarification=clarification) for raw in (0.0, 0.5, 1.0)
    }
    if verdict is None and answerability not in (Answerability.CONVERSATIONAL, Answerability.UNDERSPECIFIED):
        assert not is_settled(answerability, verdict)  # nobody knows yet
    else:
        assert is_settled(answerability, verdict) == (len(scores) == 1)
