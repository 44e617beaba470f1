from __future__ import annotations

from typing import Any

import pytest
import torch
from lm_eval.models.huggingface import HFLM
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from ragtasks.clients import CallUsage, ChatMessage, Decoding, Outcome, Prompt, Reply
from ragtasks.harness.judge_model import ModelClient

CONTEXT = 64
TEMPLATE = (
    "{% for m in messages %}{{ m.role }} {{ m.content }} {% endfor %}{% if add_generation_prompt %}bot{% endif %}"
)
WORDS = ["<end>", "<unk>", "user", "system", "assistant", "bot", ":", "a", "b", "c", "User", "Assistant"]


def tokenizer(template: str | None) -> PreTrainedTokenizerFast:
    words = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    made = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<end>", unk_token="<unk>", pad_token="<end>")
    made.chat_template = template
    return made


@pytest.fixture(scope="module")
def network() -> GPT2LMHeadModel:
    """A real model, too small and untrained for meaningful replies."""
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=len(WORDS), n_positions=CONTEXT, n_embd=8, n_layer=1, n_head=1)
    config.eos_token_id = config.bos_token_id = config.pad_token_id = 0
    return GPT2LMHeadModel(config).eval()


def client(network: GPT2LMHeadModel, max_tokens: int = 8, template: str | None = TEMPLATE) -> ModelClient:
    model = HFLM(pretrained=network, tokenizer=tokenizer(template), batch_size=4, max_length=CONTEXT)
    return ModelClient(model, "hf/tiny", Decoding(max_tokens=max_tokens))


def test_no_prompts_give_no_replies(network: GPT2LMHeadModel) -> None:
    assert client(network).answer([]) == []


def test_replies_come_in_order_and_the_same_each_time(network: GPT2LMHeadModel) -> None:
    prompts = [Prompt.of("a " * number) for number in range(1, 7)]
    updates: list[tuple[str, int, int | None]] = []
    replies = client(network).answer(prompts, lambda *call: updates.append(call))
    assert [reply.usage.input_tokens for reply in replies] == [number + 2 for number in range(1, 7)]
    assert replies == client(network).answer(prompts)
    assert replies[::-1] == client(network).answer(prompts[::-1])
    assert updates[-1][1:] == (6, 6)


def test_reply_as_long_as_allowed_is_cut_off(network: GPT2LMHeadModel) -> None:
    (reply,) = client(network, max_tokens=3).answer([Prompt.of("a")])
    assert (reply.outcome, reply.text, reply.usage.output_tokens) == (Outcome.TRUNCATED, None, 3)
    assert reply.raw


def test_prompt_that_does_not_fit_is_failed_and_not_cut(network: GPT2LMHeadModel) -> None:
    fits, does_not = client(network).answer([Prompt.of("a " * 54), Prompt.of("a " * 55)])
    assert fits.outcome is not Outcome.FAILED
    assert does_not == Reply(
        Outcome.FAILED, reason="57 tokens of prompt and 8 of reply exceed the context of 64", usage=CallUsage(57)
    )


@pytest.mark.parametrize(
    ("template", "text"), [(TEMPLATE, "system a user b bot"), (None, "System: a\n\nUser: b\n\nAssistant:")]
)
def test_messages_are_rendered_by_the_chat_template_if_there_is_one(
    network: GPT2LMHeadModel, template: str | None, text: str
) -> None:
    prompt = Prompt((ChatMessage("system", "a"), ChatMessage("user", "b")))
    assert client(network, template=template)._rendered(prompt) == text


def test_the_journal_is_read_first_and_updated_after(network: GPT2LMHeadModel) -> None:
    recalled = Reply(Outcome.ANSWERED, "known")
    collected: dict[int, Reply] = {}

    class Journal:
        def recall(self, index: int) -> Reply | None:
            return recalled if index == 1 else None

        def record(self, index: int, reply: Reply) -> None:
            collected[index] = reply

    replies = client(network).answer([Prompt.of("a"), Prompt.of("b"), Prompt.of("c")], journal=Journal())
    assert replies[1] == recalled
    assert collected == dict(enumerate(replies))


def test_thinking_text_is_separated(network: GPT2LMHeadModel) -> None:
    class Thinker(HFLM):  # type: ignore[misc]
        """The real model with a fixed reply, which an untrained model would not produce."""

        def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
            super().generate_until(requests, disable_tqdm)
            return ["<think> a </think> b"] * len(requests)

    model = Thinker(pretrained=network, tokenizer=tokenizer(TEMPLATE), batch_size=4, max_length=CONTEXT)
    (reply,) = ModelClient(model, "t", Decoding(max_tokens=20)).answer([Prompt.of("a")])
    assert (reply.text, reply.thinking) == ("b", "a")
