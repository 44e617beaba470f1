"""MultiHop-RAG and MTRAG-S as harness tasks on their samples, with baselines and with judges."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragtasks.harness.conversation_task import ConversationTask
from tests.judges._demo import DemoServer

RETRIEVED, GOLD = "multihop_rag_retrieved", "multihop_rag_gold"
Evaluate = Callable[..., dict[str, Any]]


def scores_of(results: dict[str, Any], task: str) -> dict[str, Any]:
    return {key.partition(",")[0]: value for key, value in results["results"][task].items() if "_stderr" not in key}


@pytest.fixture
def evaluated(evaluate: Evaluate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Evaluate:
    """Evaluate complete tasks, with replies cached in a folder of this test."""
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    return lambda *arguments, **options: evaluate(*arguments, **{"limit": None, **options})


def test_the_oracle_is_always_right_and_gold_excludes_null_queries(evaluated: Evaluate) -> None:
    results = evaluated("ragtasks-oracle", RETRIEVED, GOLD)
    retrieved, gold = scores_of(results, RETRIEVED), scores_of(results, GOLD)
    assert retrieved["accuracy"] == retrieved["accuracy_official"] == retrieved["accuracy_null"] == 1
    assert gold["accuracy"] == gold["accuracy_temporal"] == gold["coverage"] == 1
    assert math.isnan(gold["accuracy_null"])
    assert (results["n-samples"][RETRIEVED]["effective"], results["n-samples"][GOLD]["effective"]) == (24, 20)


def test_refusing_is_right_on_null_queries_alone(evaluated: Evaluate) -> None:
    retrieved = scores_of(evaluated("ragtasks-refuse", RETRIEVED), RETRIEVED)
    assert (retrieved["accuracy"], retrieved["accuracy_null"]) == (pytest.approx(4 / 24), 1)
    # Its phrase shares a word with "Insufficient information.", which suffices for the official script.
    assert retrieved["accuracy_official"] == pytest.approx(4 / 24)
    assert [retrieved[f"accuracy_{label}"] for label in ("inference", "comparison", "temporal")] == [0, 0, 0]


@pytest.mark.parametrize(("task", "metrics"), [
    (GOLD, {"accuracy_judged": (0, 0), "judge_coverage": (1, 1)}),
    ("mtrag_s", {"rl_f_raw": (0.1, 1), "rl_f": (0.1, 1), "judge_coverage": (0.9, 1)}),
])  # fmt: skip
def test_judges_add_judged_scores(evaluated: Evaluate, task: str, metrics: dict[str, tuple[float, float]]) -> None:
    with DemoServer() as server:
        results = evaluated("ragtasks-oracle", task, metadata={"judges": [server.judge("steady")]})
        assert server.asked
    scores = scores_of(results, task)
    for name, (low, high) in metrics.items():
        assert low <= scores[name] <= high, name


def test_the_prompt_requests_only_the_answer_and_has_dates(load_task: Callable[..., ConversationTask]) -> None:
    task = load_task(RETRIEVED)
    doc = task.dataset["test"][0]
    prompt = task.fewshot_context(doc)
    assert "reply with: Insufficient information." in prompt
    # Real gold answers that are not names.
    assert all(word in prompt for word in ("true or false", "agree", "consistent or inconsistent", "similar", "before"))
    assert "Excerpt 6:\n" in prompt
    assert "Excerpt 7" not in prompt
    assert "\nSource: Quorvane Wire\nPublished: 2023-" in prompt
    assert prompt.endswith(f"User: {doc['question']}\nAssistant:")


def test_mtrag_s_uses_the_passages_of_the_task_file(load_task: Callable[..., ConversationTask]) -> None:
    docs = list(load_task("mtrag_s").dataset["test"])
    assert len(docs) == 25
    assert all([passage["passage_id"] for passage in doc["passages"]] == doc["references"] for doc in docs)
