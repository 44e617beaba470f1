"""A BERT with random weights over twelve words: the real classes, at minimal size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

WORDS = ["mars", "moon", "bee", "flower", "court", "appeal", "cell", "energy", "loan", "rate", "kernel", "host"]


def save_bert(folder: Path, kind: str, *, longest: int, name: str = "model", **options: Any) -> Path:
    """Write model and tokenizer to a new folder inside `folder`.

    Args:
        folder: parent folder.
        kind: name of the model's class in transformers.
        longest: maximum tokens of the tokenizer.
        name: name of the new folder.
        options: further fields of the model's configuration.
    """
    import torch
    import transformers

    numbers = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])}
    transformers.BertTokenizerFast(numbers, model_max_length=longest).save_pretrained(folder / name)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=17,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
        initializer_range=0.5,
        **options,
    )
    getattr(transformers, kind)(config).save_pretrained(folder / name)
    return folder / name
