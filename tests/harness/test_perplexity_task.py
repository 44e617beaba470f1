"""Perplexity of reference answers: the harness with a tiny model, compared with direct calls of the model."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from lm_eval.models.huggingface import HFLM
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from ragtasks.harness.conversation_task import ConversationTask
from ragtasks.harness.perplexity_task import ReferencePerplexityTask

CONTEXT = 4096
ANSWERS, CONDITIONED = "multidoc2dial_answer_perplexity", "multidoc2dial_reference_likelihood"
TEMPLATE = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]"


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """One token per byte, so that no word is unknown."""
    alphabet = ["<end>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    made = Tokenizer(models.BPE(vocab={sign: index for index, sign in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>", pad_token="<end>")
    tokenizer.chat_template = TEMPLATE
    return tokenizer


@pytest.fixture(scope="module")
def network() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=257, n_positions=CONTEXT, n_embd=8, n_layer=1, n_head=1, initializer_range=0.4)
    config.eos_token_id = config.bos_token_id = config.pad_token_id = 0
    return GPT2LMHeadModel(config).eval()


@pytest.fixture
def model(network: GPT2LMHeadModel) -> HFLM:
    return HFLM(pretrained=network, tokenizer=byte_tokenizer(), batch_size=4, max_length=CONTEXT)


def likelihood(network: GPT2LMHeadModel, context: str, answer: str) -> float:
    """Return the natural log of the probability of the answer's bytes, each given all previous bytes."""
    cut = byte_tokenizer()
    before = cut(context).input_ids or [0]
    after = cut(answer).input_ids
    with torch.no_grad():
        logits = network(torch.tensor([before + after])).logits[0]
    chances = torch.log_softmax(logits, dim=-1)
    return sum(float(chances[len(before) + index - 1, token]) for index, token in enumerate(after))


def answered(task: ConversationTask) -> Iterator[dict[str, Any]]:
    assert isinstance(task, ReferencePerplexityTask)
    return iter(task.dataset["test"])


def expected(pairs: list[tuple[float, str]]) -> dict[str, float]:
    total = sum(value for value, _ in pairs)
    n_words = sum(len(re.findall(r"\S+", text)) for _, text in pairs)
    n_bytes = sum(len(text.encode()) for _, text in pairs)
    return {
        "word_perplexity": math.exp(-total / n_words),
        "byte_perplexity": math.exp(-total / n_bytes),
        "bits_per_byte": -total / n_bytes / math.log(2),
    }


def scores(results: dict[str, Any], name: str) -> dict[str, float]:
    row = results["results"][name]
    return {key: row[f"{key},sample"] for key in ("word_perplexity", "byte_perplexity", "bits_per_byte")}


def test_likelihoods_equal_those_of_the_model(
    network: GPT2LMHeadModel,
    model: HFLM,
    evaluate: Callable[..., dict[str, Any]],
    load_task: Callable[..., ConversationTask],
) -> None:
    results = evaluate(model, ANSWERS, limit=6)
    targets = [doc["target"] for doc in list(answered(load_task(ANSWERS)))[:6]]
    wanted = expected([(likelihood(network, "", target), target) for target in targets])
    assert scores(results, ANSWERS) == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("with_template", [False, True])
def test_the_prompt_conditions_the_answers(
    with_template: bool,
    network: GPT2LMHeadModel,
    model: HFLM,
    evaluate: Callable[..., dict[str, Any]],
    load_task: Callable[..., ConversationTask],
) -> None:
    results = evaluate(model, CONDITIONED, limit=4, apply_chat_template=with_template)
    task = load_task(CONDITIONED)
    pairs = []
    for doc in list(answered(task))[:4]:
        prompt = task.fewshot_context(
            doc, apply_chat_template=with_template, chat_template=model.apply_chat_template if with_template else None
        )
        blank = "" if with_template else " "
        pairs.append((likelihood(network, prompt, blank + doc["target"]), doc["target"]))
    assert scores(results, CONDITIONED) == pytest.approx(expected(pairs), rel=1e-4)
    assert prompt.endswith("[assistant]" if with_template else "Assistant:")


def test_unanswerable_questions_are_left_out(load_task: Callable[..., ConversationTask]) -> None:
    for name in (ANSWERS, CONDITIONED, "multidoc2dial_propositions_likelihood"):
        labels = [doc["answerability"] for doc in answered(load_task(name))]
        assert labels
        assert set(labels) == {"ANSWERABLE"}


def test_likelihoods_and_answers_can_be_requested_together(
    model: HFLM, evaluate: Callable[..., dict[str, Any]]
) -> None:
    results = evaluate(
        model, "doc2dial_reference", ANSWERS, limit=2, gen_kwargs="max_gen_toks=4", metadata={"data": "sample"}
    )
    assert scores(results, ANSWERS)["word_perplexity"] > 1
    assert results["results"]["doc2dial_reference"]["empty,sample"] >= 0


def test_one_command_gives_perplexity_of_a_saved_model(
    network: GPT2LMHeadModel, tmp_path: Path, command: Callable[..., Any]
) -> None:
    pytest.importorskip("accelerate", reason="the harness's hf model needs accelerate (extra: dev)")
    network.save_pretrained(tmp_path / "tiny")
    byte_tokenizer().save_pretrained(tmp_path / "tiny")
    done = command(
        "--model", "hf", "--model_args", f"pretrained={tmp_path / 'tiny'}", "--device", "cpu", "--tasks", ANSWERS,
        "--limit", "2", "--output_path", str(tmp_path / "out"),
    )  # fmt: skip
    assert done.status == 0, done.err
    (file,) = (tmp_path / "out").rglob("results_*.json")
    saved = json.loads(file.read_text(encoding="utf-8"))
    assert saved["results"][ANSWERS]["byte_perplexity,sample"] > 1
