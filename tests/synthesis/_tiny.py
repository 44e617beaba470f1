"""Tiny language models with random weights, whose vocabulary is that of the training dialogues."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from ragtasks.benchmarks import Benchmark, open_benchmark


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """For so small a model, threads wait for each other longer than they compute."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    return open_benchmark("custom", write_dialogues(tmp_path_factory.mktemp("dialogues") / "b"))


def write_dialogues(folder: Path, n: int = 12) -> Path:
    """Write a benchmark of dialogues about things in towns; half of the later questions need the previous one."""
    folder.mkdir(parents=True)
    things, towns = ("mill", "school", "harbour"), ("arden", "belmor", "carrow", "dunwich", "elstow", "farrow")
    passages, conversations = [], []
    for number in range(n):
        thing, town = things[number % 3], towns[number % 6]
        name = f"the {thing} of {town}"
        facts = {
            "open": f"{name} is open on day {number}",
            "cost": f"{name} costs {number} crowns",
            "age": f"{name} is {number} years old",
        }
        passages += [{"_id": f"{number}-{key}", "text": text} for key, text in facts.items()]
        questions = [
            (f"when is {name} open", f"when is {name} open", "open"),
            ("what does it cost", f"what does {name} cost", "cost"),
            (f"how old is {name}", f"how old is {name}", "age"),
        ]
        turns = [
            {"question": question, "rewrite": alone, "answer": facts[key], "references": [f"{number}-{key}"]}
            for question, alone, key in questions
        ]
        conversations.append({"conversation_id": f"c{number}", "turns": turns})
    files: dict[str, list[Any]] = {"passages.jsonl": passages, "conversations.jsonl": conversations}
    for name, rows in files.items():
        (folder / name).write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return folder


def words_of(folder: Path) -> list[str]:
    """Return every text of a benchmark, and the fixed parts of a rewriter's source."""
    text = (folder / "conversations.jsonl").read_text("utf-8") + (folder / "passages.jsonl").read_text("utf-8")
    return [text, "question: user: system: query:"]


def tokenizer_of(texts: Iterable[str], **special: str) -> Any:
    """Return a tokenizer of complete words."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.WordLevel(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordLevelTrainer(
        special_tokens=["<pad>", "</s>", "<unk>", *special.values()], show_progress=False
    )
    made.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=128, **special
    )


def write_t5(folder: Path, texts: Iterable[str]) -> Path:
    """Write a T5 of a few thousand weights."""
    from transformers import T5Config, T5ForConditionalGeneration, set_seed

    tokenizer = tokenizer_of(texts)
    set_seed(0)
    config = T5Config(
        vocab_size=len(tokenizer), d_model=48, d_kv=12, d_ff=96, num_layers=1, num_heads=4, dropout_rate=0.0,
        pad_token_id=0, eos_token_id=1, decoder_start_token_id=0,
    )  # fmt: skip
    return _saved(folder, tokenizer, T5ForConditionalGeneration(config))


def write_gpt2(folder: Path, texts: Iterable[str]) -> Path:
    """Write a GPT-2 of a few thousand weights."""
    from transformers import GPT2Config, GPT2LMHeadModel, set_seed

    tokenizer = tokenizer_of(texts)
    set_seed(0)
    config = GPT2Config(
        vocab_size=len(tokenizer), n_positions=128, n_embd=48, n_layer=1, n_head=4, bos_token_id=1, eos_token_id=1
    )
    return _saved(folder, tokenizer, GPT2LMHeadModel(config))


def write_mamba(folder: Path, texts: Iterable[str]) -> Path:
    """Write a Mamba of a few thousand weights."""
    from transformers import MambaConfig, MambaForCausalLM, set_seed

    tokenizer = tokenizer_of(texts)
    set_seed(0)
    config = MambaConfig(
        vocab_size=len(tokenizer), hidden_size=32, state_size=8, num_hidden_layers=1, bos_token_id=1, eos_token_id=1,
        pad_token_id=0,
    )  # fmt: skip
    return _saved(folder, tokenizer, MambaForCausalLM(config))


def write_encoder(folder: Path, texts: Iterable[str]) -> Path:
    """Write a bi-encoder of a few thousand weights."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel, set_seed

    tokenizer = tokenizer_of(texts, cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]")
    set_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=128,
    )  # fmt: skip
    _saved(folder / "bert", tokenizer, BertModel(config))
    inner = Transformer(str(folder / "bert"))
    SentenceTransformer(modules=[inner, Pooling(32)], device="cpu").save_pretrained(str(folder / "encoder"))
    return folder / "encoder"


def _saved(folder: Path, tokenizer: Any, model: Any) -> Path:
    tokenizer.save_pretrained(str(folder))
    model.save_pretrained(str(folder))
    return folder
