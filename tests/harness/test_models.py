from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from lm_eval.api.registry import get_model

from ragtasks.errors import ConfigurationError
from ragtasks.harness.conversation_task import ConversationTask
from ragtasks.harness.models import Extractive, Oracle, Refuse, RefuseOnEmpty
from ragtasks.harness.prompts import REFUSAL

NAMES = ("ragtasks-extractive", "ragtasks-oracle", "ragtasks-refuse", "ragtasks-refuse-on-empty")


@pytest.fixture(scope="module")
def docs(load_task: Callable[..., ConversationTask]) -> list[dict[str, Any]]:
    return list(load_task("mtrag_reference_clapnq").dataset["test"])


def test_each_baseline_is_registered_and_answers_from_the_doc(docs: list[dict[str, Any]]) -> None:
    assert tuple(map(get_model, NAMES)) == (Extractive, Oracle, Refuse, RefuseOnEmpty)
    for doc in docs:
        refusal = Refuse()._answer(doc)
        assert refusal.startswith(REFUSAL)
        assert Oracle()._answer(doc) == doc["target"]
        assert RefuseOnEmpty()._answer(doc) == (doc["target"] if doc["passages"] else refusal)


def test_the_extractive_baseline_quotes_or_refuses(docs: list[dict[str, Any]]) -> None:
    n_quotes = 0
    for doc in docs:
        answer = Extractive()._answer(doc)
        words = {word for passage in doc["passages"] for word in passage["text"].split()}
        quotes = set(answer.split()) <= words
        assert quotes or answer == Refuse()._answer(doc)
        n_quotes += quotes
    assert n_quotes > len(docs) / 2


@pytest.mark.parametrize("method", ["loglikelihood", "loglikelihood_rolling"])
def test_a_baseline_gives_no_likelihoods(method: str) -> None:
    with pytest.raises(ConfigurationError, match="no likelihoods"):
        getattr(Oracle(), method)([])


@pytest.mark.slow
def test_the_harness_still_registers_its_own_models() -> None:
    # In a new process, because the harness fills its registry only while it is empty.
    code = (
        "from ragtasks.harness import models; from lm_eval.api.registry import get_model; "
        "print(get_model('dummy').__name__, get_model('ragtasks-oracle').__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["DummyLM", "Oracle"]
