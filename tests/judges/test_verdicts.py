"""Medians, labels, coverage, and the IDK labels from verdicts."""

from __future__ import annotations

from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.errors import JudgeError
from ragtasks.judges import Verdict, VerdictOutcome, Verdicts
from ragtasks.judges.rubrics import LABEL_VALUES
from ragtasks.records import IdkVerdict
from tests.judges._scripted import response

LABELS = st.sampled_from(["yes", "partial", "no", None])


def verdicts_of(rubric: str, *labels: str | None) -> Verdicts:
    """Return the verdicts of several judges on one response, one per label; None is a missing verdict."""
    judges = [f"judge {number}" for number in range(len(labels))]
    table = {}
    for name, label in zip(judges, labels, strict=True):
        value = None if label is None else LABEL_VALUES.get(label, -1.0)
        outcome = VerdictOutcome.FAILED if label is None else VerdictOutcome.GIVEN
        reason = "HTTP 500" if label is None else ""
        table[0, rubric, name] = Verdict("c<::>1", rubric, name, outcome, label, value, reason)
    return Verdicts([response()], [rubric], judges, table)


@pytest.mark.parametrize(
    ("labels", "label"),
    [
        (["yes"], "yes"),
        (["yes", "no", "no"], "no"),
        (["yes", "partial", "no"], "partial"),
        (["yes", "yes"], "yes"),
        (["yes", "no"], None),
        (["partial", "no"], None),
        (["yes", None, "yes"], "yes"),
        (["no", "no", "yes", "yes"], None),
        (["no", "partial", "partial", "yes"], "partial"),
        ([None, None], None),
    ],
)
def test_the_label_is_the_median_of_the_judges_labels(labels: list[str | None], label: str | None) -> None:
    ((found, reason),) = verdicts_of("idk", *labels).labels("idk")
    assert found == label
    assert reason
    assert ("split" in reason) == (label is None and any(labels))


@given(st.lists(LABELS, min_size=1, max_size=6), st.randoms())
def test_the_median_ignores_order_and_judges_without_a_verdict(labels: list[str | None], random: object) -> None:
    (score,) = verdicts_of("idk", *labels).scores("idk")
    (turned,) = verdicts_of("idk", *reversed(labels)).scores("idk")
    values = [LABEL_VALUES[label] for label in labels if label]
    assert score.value == turned.value == (median(values) if values else None)
    assert bool(score.reason) == (score.value is None)
    ((label, _),) = verdicts_of("idk", *labels).labels("idk")
    assert label is None or label in labels


def test_without_any_verdict_the_score_has_the_reason_of_each_judge() -> None:
    (score,) = verdicts_of("rb_llm", None, None).scores("rb_llm")
    assert (score.value, score.reason) == (None, "judge 0: HTTP 500; judge 1: HTTP 500")


def test_scores_of_each_judge_are_kept() -> None:
    verdicts = verdicts_of("idk", "yes", None)
    assert verdicts.judge_scores("idk", "judge 0")[0].value == 1.0
    assert verdicts.judge_scores("idk", "judge 1")[0].reason == "HTTP 500"


def test_coverage_excludes_unrequested_verdicts_and_includes_answers_without_statements() -> None:
    outcomes = [VerdictOutcome.NO_STATEMENTS, VerdictOutcome.NOT_ASKED, VerdictOutcome.UNPARSABLE]
    table = {
        (i, "rl_f", "j"): Verdict("c<::>1", "rl_f", "j", outcome, reason="x") for i, outcome in enumerate(outcomes)
    }
    (item,) = Verdicts([response(str(i)) for i in range(3)], ["rl_f"], ["j"], table).coverage()
    assert (item.n_asked, item.n_answered, item.share, item.missing) == (2, 1, 0.5, {"unparsable": 1})


def test_coverage_without_requests_is_complete() -> None:
    Verdicts([], ["rl_f"], ["j"], {}).require_coverage(1.0)


def test_steps_for_an_evaluation_are_for_evaluations_only() -> None:
    verdicts = verdicts_of("idk", None)
    with pytest.raises(JudgeError) as error:
        verdicts.require_coverage()
    assert "ragtasks score" not in str(error.value)
    with pytest.raises(JudgeError) as error:
        verdicts.require_coverage(is_scoring=True)
    assert "ragtasks score" in str(error.value)


def test_clarifications() -> None:
    found = [verdicts_of("clarification", label).clarifications() for label in ("yes", "no", None)]
    assert found == [[True], [False], [None]]


def test_an_idk_label_is_the_median_label() -> None:
    (label,) = verdicts_of("idk", "yes", "yes", "no").idk_labels()
    assert (label.verdict, label.reason) == (IdkVerdict.YES, "judge 0: yes, judge 1: yes, judge 2: no")
    (missing,) = verdicts_of("idk", None).idk_labels()
    assert missing.verdict is None
