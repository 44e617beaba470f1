"""TREC iKAT as harness tasks on its sample: the prompt contains the facts, and their selection has a ceiling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ragtasks.harness.conversation_task import ConversationTask

Evaluate = Callable[..., dict[str, Any]]


def test_the_prompt_contains_facts_and_passages(load_task: Callable[..., ConversationTask]) -> None:
    task = load_task("ikat23_reference")
    doc = task.dataset["test"][0]
    prompt = task.doc_to_text(doc)
    for text in ("Fact 1: I have bad knees.", "Passage 1:\nRowing machines", "fewer than 250 words"):
        assert text in prompt
    facts = load_task("ikat23_facts")
    listed = facts.doc_to_text(facts.dataset["test"][0])
    assert "3. I live in a flat with thin walls." in listed
    assert "Rowing machines" not in listed


def test_naming_the_relevant_facts_is_the_ceiling(evaluate: Evaluate) -> None:
    results = evaluate("ragtasks-oracle", "ikat23_facts", "ikat23_reference", limit=None)
    scores = results["results"]["ikat23_facts"]
    assert scores["facts_ndcg_3,sample"] == scores["facts_r_3,sample"] == scores["facts_mrr,sample"] == 1
    assert scores["facts_needless,sample"] == scores["invalid_reply,sample"] == 0
    assert results["results"]["ikat23_reference"]["rouge_l,sample"] == 1
    assert results["n-samples"]["ikat23_reference"]["effective"] == 6
