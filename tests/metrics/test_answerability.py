from __future__ import annotations

import pytest

from ragtasks.metrics import NO_VERDICT, answerability_accuracy
from ragtasks.metrics._answerability import answerability_correct
from ragtasks.records import Answerability, IdkVerdict

YES, PARTIAL, NO = IdkVerdict.YES, IdkVerdict.PARTIAL, IdkVerdict.NO


@pytest.mark.parametrize("answerability", list(Answerability))
@pytest.mark.parametrize("verdict", [*IdkVerdict, None])
def test_answerability_accuracy_over_the_whole_table(answerability: Answerability, verdict: IdkVerdict | None) -> None:
    right = {
        (Answerability.ANSWERABLE, NO),
        (Answerability.ANSWERABLE, PARTIAL),
        (Answerability.PARTIAL, NO),
        (Answerability.PARTIAL, PARTIAL),
        (Answerability.UNANSWERABLE, YES),
    }
    undefined = answerability in (Answerability.CONVERSATIONAL, Answerability.UNDERSPECIFIED) or verdict is None
    expected = None if undefined else (answerability, verdict) in right
    assert answerability_correct(answerability, verdict) is expected
    score = answerability_accuracy(answerability, verdict)
    assert score.value == (None if expected is None else float(expected))
    assert bool(score.reason) is (expected is None)


def test_reason_without_a_verdict_is_the_shared_one() -> None:
    assert answerability_accuracy(Answerability.UNANSWERABLE, None).reason == NO_VERDICT
