"""A small DeBERTa of random weights, with the official encoder's configuration except for width and depth.

Relative positions only, both kinds of disentangled attention, 512 positions, a byte-level tokenizer without a limit.
Its scores are meaningless; the length of text that it reads is that of the official encoder.
"""

from __future__ import annotations

import json
from pathlib import Path

_SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]")


def write_deberta(folder: Path, *, model_max_length: int | None = None) -> Path:
    """Write model and tokenizer into `folder`; the tokenizer has a limit only if given."""
    import torch
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import DebertaConfig, DebertaModel

    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = [*_SPECIAL, *sorted(ByteLevel.alphabet())]
    limit = {} if model_max_length is None else {"model_max_length": model_max_length}
    tokeniser = {"tokenizer_class": "DebertaTokenizer", "do_lower_case": False, "vocab_type": "gpt2", **limit}
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(vocabulary)}), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(tokeniser), encoding="utf-8")
    config = DebertaConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=512,
        relative_attention=True,
        max_relative_positions=-1,
        position_biased_input=False,
        pos_att_type=["c2p", "p2c"],
        type_vocab_size=0,
        # Much larger than in a trained model, so that layers, and with them positions, affect the result.
        initializer_range=0.2,
    )
    torch.manual_seed(0)
    DebertaModel(config).eval().save_pretrained(folder)
    return folder


__all__ = ["write_deberta"]
