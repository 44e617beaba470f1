"""INSCIT as harness tasks on its sample, with baselines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Evaluate = Callable[..., dict[str, Any]]


@pytest.mark.slow
def test_the_ceiling_and_the_floor(evaluate: Evaluate) -> None:
    name = "inscit_reference"
    ceiling = evaluate("ragtasks-oracle", name, limit=None)
    floor = evaluate("ragtasks-refuse", name, limit=None)["results"][name]
    scores = ceiling["results"][name]
    assert ceiling["n-samples"][name]["effective"] == 22
    assert scores["sacrebleu,sample"] == pytest.approx(100)
    assert scores["token_f1,sample"] == scores["rouge_l,sample"] == 1
    assert scores["response_type,sample"] > 0.85
    assert floor["sacrebleu,sample"] < 5
    # Three turns have a label of type `noAnswerNoRelevantInfo`, one of them as its second label.
    assert floor["response_type,sample"] == pytest.approx(3 / 22)
