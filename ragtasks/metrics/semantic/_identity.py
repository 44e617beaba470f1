"""Hash of everything that determines an encoder's vectors, to the last bit."""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Any

from ragtasks.files import canonical_hash
from ragtasks.metrics.semantic._batches import Batching


def encoder_identity(model: Any, batching: Batching) -> str:
    """Return the sha256 of an encoder's weights and configuration, its batches, libraries and device.

    The weights identify name and revision, and the layer, since higher layers are dropped. Tokenization and truncation
    are not included: the cache key has the tokens.
    """
    config = json.loads(model.config.to_json_string(use_diff=False))
    volatile = ("_name_or_path", "transformers_version")
    return canonical_hash(
        {
            "weights": weights_hash(model),
            "config": {name: value for name, value in config.items() if name not in volatile},
            "vectors": "states of the last layer that is left, length 1, float32",
            "batching": [batching.tokens, batching.step],
            "versions": {name: version(name) for name in ("torch", "transformers")},
            "device": _device_name(model.device),
        }
    )


def weights_hash(model: Any) -> str:
    """Return the sha256 over all weights; tensors are hashed in parallel, since an official encoder has 2.5 GB."""
    with ThreadPoolExecutor() as pool:
        return canonical_hash(list(pool.map(_tensor_hash, sorted(model.state_dict().items()))))


def _tensor_hash(named: tuple[str, Any]) -> str:
    name, tensor = named
    digest = hashlib.sha256(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
    digest.update(tensor.detach().cpu().contiguous().numpy().reshape(-1).view("u1"))
    return digest.hexdigest()


def _device_name(device: Any) -> str:
    """Return the device as far as it determines the last bits; for a CPU this includes the number of threads."""
    import torch

    precision = torch.get_float32_matmul_precision()
    if device.type == "cuda":
        return f"{torch.cuda.get_device_name(device)}, {precision}"
    if device.type == "cpu":
        return f"cpu {torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads, {precision}"
    return f"{device.type}, {precision}"
