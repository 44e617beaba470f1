"""Extractiveness by hand, and against the official function on real answers."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from ragtasks.metrics import extractiveness

FUNCTIONS = ("strip_newline_words", "extractiveness_rouge", "length")


def official(checkout: Path, tmp_path: Path) -> dict[str, Callable[..., float]]:
    """Return the functions of the official script, run from the checkout.

    Stubs replace rouge-score, which the script calls through `evaluate`, and the HTML parser: the script strips HTML
    after all punctuation is removed, so no tags are left.
    """
    path = checkout / "scripts" / "evaluation" / "run_algorithmic.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    chosen = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in FUNCTIONS]
    module = compile(ast.Module(chosen, []), str(path), "exec")
    scorer = RougeScorer(["rougeL"])
    scope: dict[str, Any] = {
        "re": re,
        "clean_html": lambda text: text.lstrip(),
        "rouge_l": lambda left, right: scorer.score(right, left)["rougeL"].fmeasure,
    }
    exec(module, scope)
    return scope


def test_extractiveness_equals_the_official_value_on_real_answers(
    mtrag_checkout: Path, mtrag_root: Path, tmp_path: Path
) -> None:
    functions = official(mtrag_checkout, tmp_path)
    path = mtrag_root / "mtrag-human/evaluations/reference_subset_with_human_evaluations.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    texts = {document["document_id"]: document["text"] for document in content["documents"]}
    shown = {task["task_id"]: [texts[c["document_id"]] for c in task["contexts"]] for task in content["tasks"]}
    n_compared = 0
    for row in content["evaluations"]:
        answer, passages = row["model_response"], shown[row["task_id"]]
        result = extractiveness(answer, passages)
        assert functions["length"](answer, "") == len(answer)
        if passages:
            assert result == max(functions["extractiveness_rouge"](answer, passage) for passage in passages)
            n_compared += 1
    assert n_compared == 450


def test_a_passage_inside_the_answer_gives_1_but_a_sentence_of_a_passage_does_not() -> None:
    passage = "The ferry runs.\nIt is red, mostly."
    assert extractiveness(f'I read: "{passage.upper()}"', [passage]) == 1
    assert extractiveness("The ferry runs.", [passage]) == pytest.approx(2 * 3 / (3 + 7))
    assert extractiveness("Nothing of it", ["other words", passage]) == pytest.approx(2 * 1 / (3 + 7))
    assert extractiveness("x", []) is None
    assert extractiveness("", ["words"]) == 0


@given(st.text(max_size=40), st.lists(st.text(max_size=40), min_size=1, max_size=4))
def test_extractiveness_is_a_share_independent_of_passage_order(answer: str, passages: list[str]) -> None:
    result = extractiveness(answer, passages)
    assert 0 <= result <= 1
    assert extractiveness(answer, passages[::-1]) == result
    assert extractiveness(" ".join([answer, *passages]), passages) == 1
