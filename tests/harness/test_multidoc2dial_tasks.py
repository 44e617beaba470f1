"""The harness tasks on the Doc2Dial documents, with one command on the sample."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from ragtasks.metrics import corpus_bleu

METEOR = r"0\.9979"
"""METEOR of four answers equal to their targets: the penalty leaves slightly less than 1, depending on length."""


def test_sacrebleu_is_computed_over_all_answers(evaluate: Callable[..., dict[str, Any]]) -> None:
    name = "multidoc2dial_full_rag"
    results = evaluate("ragtasks-extractive", name, limit=None)
    rows = results["samples"][name]
    answerable = [row for row in rows if row["doc"]["answerability"] == "ANSWERABLE"]
    pairs = [(row["filtered_resps"][0], (row["doc"]["target"],)) for row in answerable]
    scores = results["results"][name]
    assert len(answerable) == 31 < len(rows) == 34
    assert scores["sacrebleu,sample"] == pytest.approx(corpus_bleu(pairs))
    assert scores["sacrebleu,sample"] != pytest.approx(scores["sentence_bleu,sample"])


@pytest.mark.parametrize(
    "name", ["multidoc2dial_reference", "multidoc2dial_token_full_rag", "multidoc2dial_propositions_full_rag"]
)
def test_the_ceiling_and_the_floor(name: str, evaluate: Callable[..., dict[str, Any]]) -> None:
    ceiling = evaluate("ragtasks-oracle", name, limit=None)["results"][name]
    floor = evaluate("ragtasks-refuse", name, limit=None)["results"][name]
    assert ceiling["sacrebleu,sample"] == pytest.approx(100)
    assert ceiling["token_f1,sample"] == 1
    assert ceiling["ans_acc,sample"] > floor["ans_acc,sample"] == pytest.approx(3 / 34)
    assert floor["idk_yes,sample"] == 1
    assert floor["sacrebleu,sample"] < 5


def test_the_prompt_names_the_token(load_task: Callable[..., Any]) -> None:
    task = load_task("multidoc2dial_propositions_full_rag")
    doc = task.dataset["test"][0]
    prompt = task.fewshot_context(doc)
    assert "<cannot_answer>" in prompt
    assert "fewer than 100 words" in prompt
    assert len(doc["passages"]) == 20
    assert all(
        f"Text {number}:\n{passage['text']}" in prompt for number, passage in enumerate(doc["passages"], start=1)
    )


@pytest.mark.parametrize("has_wordnet", [True, False])
def test_one_command_runs_it_offline(
    has_wordnet: bool, command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_wordnet:
        monkeypatch.setattr("ragtasks.metrics.lexical.open_wordnet", lambda: None)
    done = command("--model", "ragtasks-oracle", "--tasks", "multidoc2dial_reference", "--limit", "4")
    assert done.status == 0, done.err
    # The harness drops the decimals of a column whose values are all integers or missing.
    assert re.search(r"\|sacrebleu +\|↑ +\| *100(\.0000)?\|", done.out), done.out
    if has_wordnet:
        assert re.search(rf"\|meteor +\|↑ +\| *{METEOR}\|", done.out), done.out
    else:
        missing = "balanced_ans_acc, bert_f1, bert_precision, bert_recall, declined, meteor"
        assert f"without any value, so not in the tables: {missing}" in done.err
