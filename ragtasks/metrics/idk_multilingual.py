"""Refusals in other languages than English, read by a multilingual model that the user names.

Nothing of such a model ships with the package. What tells a refusal is one linear layer over the states of the model's
lower half, and what the tables (`idk_languages`) say of the response, at half their weight. The layer is learned once a
model from the package's labelled sentences (`refusals/sentences.jsonl`), in minutes on two cores, and kept. Rounds of
sentences that are left out of learning then tell which languages the model reads by itself: one that it reads badly is
left to the tables, and a model that reads none, such as an English one, is refused.
"""

from __future__ import annotations

import json
import logging
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ragtasks.errors import CacheError, ConfigurationError
from ragtasks.files import NO_CODE, canonical_hash, from_cache, loading, write_atomically
from ragtasks.metrics.idk_encoder import VERDICTS, probabilities_in_words, softmax
from ragtasks.metrics.idk_languages import (
    HELD_BACK,
    LANGUAGES,
    Sentence,
    certain_language,
    clauses_in,
    is_word_or_two,
    labelled_sentences,
    left_out,
    weights_of,
)
from ragtasks.metrics.semantic import require_torch, weights_hash, whole_weights
from ragtasks.records import IdkVerdict

LEAST_RIGHT = 0.9
"""Share of left-out sentences of a language that a model has to read right by itself; else the tables alone read it."""
TABLES_WEIGHT = 0.5
"""What the tables' logarithm of odds counts beside the model's; of 0 to 2, the best on the rounds that are left out."""
MAX_TOKENS = 512
"""What a response has beyond so many tokens, or beyond those of the model, is not read."""
_VERSION = 1
"""Raised when anything changes that a kept layer depends on beside model and sentences."""
_MOST_OF_A_ROUND = 2_400
_N_MADE = 20
_STRENGTH = 0.017  # of the penalty on squared weights, which a tenth to ten times as much changes by a point
_STEPS = 200
_NOISE = 1e-4  # of a value, below which its spread is rounding
_BATCH_TOKENS = 4_096
_LEAST = 1e-9  # probability, so that odds are finite
_LAYERS = ("layers", "layer", "h", "block")
_SUCH_AS = "google/gemma-3-270m"
_PURPOSE = "the multilingual model that reads refusals"
_LOGGER = logging.getLogger(__name__)

Progress = Callable[[str, int, int | None], None]
"""Called with (what, done so far, total or None)."""


@dataclass(frozen=True, slots=True)
class MultilingualReader:
    """A model with the layer that was learned for it."""

    name: str
    """The model's name without its organisation, or its folder's, and what tells the learned layer from others."""
    right: Mapping[str, float]
    """Language -> share of left-out sentences that it reads right by itself, as a refusal or as none."""
    states: StateEncoder
    weight: Any
    """Verdicts by width."""
    bias: Any

    @property
    def languages(self) -> frozenset[str]:
        """The languages that it reads well enough."""
        return frozenset(code for code, share in self.right.items() if share >= LEAST_RIGHT)

    def language_of(self, text: str) -> str | None:
        """Return the language of a response that it reads, None for another one and for a word or two."""
        code = certain_language(text) if text.strip() else None
        if code is None or code not in self.languages or is_word_or_two(clauses_in(text, code)):
            return None
        return code

    def check_languages(self) -> None:
        """Refuse a model that reads no language, and warn of those that are left to the tables."""
        shares = ", ".join(f"{code} {share:.2f}" for code, share in sorted(self.right.items()))
        if not self.languages:
            raise ConfigurationError(
                _PURPOSE,
                where=f"idk_model {self.name}",
                expected=f"a multilingual model: right by itself on {LEAST_RIGHT:.0%} and more of the sentences of a "
                "language that it did not learn from",
                found=shares,
                next_step=f"name a multilingual model, such as {_SUCH_AS}, or leave idk_model out: tables read these "
                "languages then",
            )
        if left := sorted(self.right.keys() - self.languages):
            _LOGGER.warning(
                "idk_model %s: %s left to the tables, as it reads too few sentences right there (%s)",
                self.name,
                ", ".join(left),
                shares,
            )

    def read(self, texts: Sequence[str], languages: Sequence[str]) -> list[tuple[IdkVerdict, str]]:
        """Return (verdict, reason) of each response in its language, in order."""
        if not texts:
            return []
        rows = softmax(self.states.vectors(texts) @ self.weight.T + self.bias)
        found = []
        for text, code, row in zip(texts, languages, rows, strict=True):
            both = _with_tables(row, weights_of(code).evidence(clauses_in(text, code), code))
            found.append((_verdict_of(both), f"{probabilities_in_words(both)} ({code})"))
        return found


def _with_tables(probabilities: Sequence[float], evidence: float) -> list[float]:
    """Return the probability of each of `VERDICTS` with what the tables say for a refusal."""
    yes, partial, no = (max(float(one), _LEAST) for one in probabilities)
    odds = yes / (partial + no) * math.exp(TABLES_WEIGHT * evidence)
    refuses = odds / (1 + odds)
    return [refuses, (1 - refuses) * partial / (partial + no), (1 - refuses) * no / (partial + no)]


def _verdict_of(probabilities: Any) -> IdkVerdict:
    yes, partial, no = probabilities
    if yes >= partial + no:
        return IdkVerdict.YES
    return IdkVerdict.PARTIAL if partial > no else IdkVerdict.NO


def load_multilingual(
    model: str, device: str | None = None, folder: Path | None = None, progress: Progress | None = None
) -> MultilingualReader:
    """Return what reads refusals with a model; it is learned where that has not been done yet.

    Args:
        model: a model of transformers, by its name on the hub or its folder: an encoder, or a language model.
        device: torch device; None takes the GPU where there is one.
        folder: where learned layers are kept; None keeps it in this process alone.
        progress: shown the learning.

    Raises:
        ConfigurationError: a model that cannot be loaded, or reads no language well enough.
        CacheError: a kept layer that cannot be read.
    """
    named = (model, device, folder)
    if named not in _LOADED:
        _LOADED[named] = _loaded(model, device, folder, progress)
    return _LOADED[named]


_LOADED: dict[tuple[str, str | None, Path | None], MultilingualReader] = {}


def _loaded(model: str, device: str | None, folder: Path | None, progress: Progress | None) -> MultilingualReader:
    require_torch(_PURPOSE)
    states = StateEncoder(model, device)
    sentences = labelled_sentences()
    rows = [[row.round, row.language, row.idk, row.text] for row in sentences]
    key = canonical_hash({"version": _VERSION, "weights": states.identity, "sentences": rows})
    file = None if folder is None else folder / f"{key[:16]}.safetensors"
    name = f"{Path(model).name} ({key[:6]})"
    if file is not None and file.is_file():
        return _read_layer(file, name, states)
    reader = _learned(name, states, sentences, progress)
    if file is not None:
        _write_layer(file, reader)
    return reader


def _learned(
    name: str, states: StateEncoder, sentences: Sequence[Sentence], progress: Progress | None
) -> MultilingualReader:
    """Return the reader that the sentences teach, with how it does on those left out."""
    taught, measured = _chosen(sentences), left_out(sentences)
    texts = [text for text, _ in taught] + [row.text for row in measured]
    vectors = states.vectors(texts, None if progress is None else partial(progress, "learning to read refusals"))
    weight, bias = _fit(vectors[: len(taught)], [VERDICTS.index(verdict) for _, verdict in taught])
    right: dict[str, list[bool]] = defaultdict(list)
    for row, probabilities in zip(measured, softmax(vectors[len(taught) :] @ weight.T + bias), strict=True):
        refuses = _verdict_of(probabilities) is IdkVerdict.YES
        right[row.language].append(refuses == (row.idk == IdkVerdict.YES.value))
    shares = {code: sum(found) / len(found) for code, found in right.items()}
    return MultilingualReader(name, shares, states, weight, bias)


def _chosen(sentences: Sequence[Sentence]) -> list[tuple[str, IdkVerdict]]:
    """Return what is learned from: sentences spread over each round, and longer responses made of them."""
    rounds: dict[int, list[Sentence]] = defaultdict(list)
    for row in sentences:
        if row.round not in HELD_BACK:
            rounds[row.round].append(row)
    chosen = [row for of_one in rounds.values() for row in of_one[:: -(-len(of_one) // _MOST_OF_A_ROUND)]]
    return [(row.text, IdkVerdict(row.idk)) for row in chosen] + list(_made(chosen))


def _made(sentences: Sequence[Sentence]) -> Iterator[tuple[str, IdkVerdict]]:
    """Yield longer and shorter responses: plain answers, refusals, answers with a refusal among them, a few words."""
    chance = random.Random(0)
    for code in LANGUAGES:
        plain, refusals = (
            [row.text for row in sentences if (row.language, row.idk) == (code, idk)] for idk in ("no", "yes")
        )
        for _ in range(_N_MADE):
            mixed = chance.sample(plain, chance.randint(1, 6))
            mixed.insert(chance.randint(0, len(mixed)), chance.choice(refusals))
            yield " ".join(mixed), IdkVerdict.PARTIAL
            yield " ".join(chance.sample(plain, chance.randint(3, 8))), IdkVerdict.NO
            yield " ".join(chance.sample(refusals, chance.randint(2, 3))), IdkVerdict.YES
            yield _beginning(chance.choice(plain), chance.randint(1, 4)), IdkVerdict.NO


def _beginning(text: str, n_words: int) -> str:
    """Return the first words of a response, as short answers have them; two characters where there are no blanks."""
    words = text.split()
    return (" ".join(words[:n_words]) if len(words) > 2 else text[: 2 * n_words]).rstrip(",;:.!?") + "."


def _fit(vectors: Any, classes: Sequence[int]) -> tuple[Any, Any]:
    """Return weight and bias of a multinomial logistic regression over states brought to one scale."""
    import torch

    mean, spread = vectors.mean(axis=0), vectors.std(axis=0)
    spread[spread <= _NOISE * np.abs(mean)] = np.inf  # the same for every text, such as the state of a first token
    scaled, wanted = torch.from_numpy((vectors - mean) / spread), torch.tensor(classes)
    weight = torch.zeros(len(VERDICTS), vectors.shape[1], requires_grad=True)
    bias = torch.zeros(len(VERDICTS), requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=_STEPS, line_search_fn="strong_wolfe")

    def loss() -> Any:
        optimizer.zero_grad()
        found = torch.nn.functional.cross_entropy(scaled @ weight.T + bias, wanted) + _STRENGTH * (weight**2).sum()
        found.backward()
        return found

    optimizer.step(loss)
    scale = weight.detach().numpy() / spread
    return scale.astype(np.float32), (bias.detach().numpy() - scale @ mean).astype(np.float32)


def _write_layer(file: Path, reader: MultilingualReader) -> None:
    from safetensors.numpy import save

    words = {"model": reader.name, "right": json.dumps(reader.right)}
    write_atomically(file, save({"weight": reader.weight, "bias": reader.bias}, words))


def _read_layer(file: Path, name: str, states: StateEncoder) -> MultilingualReader:
    from safetensors import safe_open

    try:
        with safe_open(file, "np") as opened:
            right = json.loads(opened.metadata()["right"])
            weight, bias = opened.get_tensor("weight"), opened.get_tensor("bias")
    except Exception as error:
        raise CacheError(
            "learned layer",
            where=str(file),
            expected="what an earlier call learned to read refusals with",
            found=f"a file that cannot be read: {error}",
            next_step="delete it: it is learned again",
        ) from error
    return MultilingualReader(name, right, states, weight, bias)


class StateEncoder:
    """The lower half of a model, and the states that it gives texts."""

    def __init__(self, model: str, device: str | None = None) -> None:
        """Load tokeniser and model, and drop the layers of the upper half."""
        import torch
        from transformers import AutoModel, AutoTokenizer

        next_step = "name a model of transformers, by its name on the hub or its folder, with weights as safetensors"
        with (
            loading(_PURPOSE, model, expected="a model within reach, on the hub or as a folder", next_step=next_step),
            whole_weights(_PURPOSE, model, "take a complete copy"),
        ):
            how = from_cache(model)
            loaded = AutoModel.from_pretrained(model, **NO_CODE, **how)  # first: it says best what a folder lacks
            self._tokenizer = AutoTokenizer.from_pretrained(model, **NO_CODE, **how)
        _keep_lower_half(loaded, model)
        if self._tokenizer.pad_token is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token
        self._tokenizer.padding_side = "right"
        self._device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self._model = loaded.float().to(self._device).eval()

    @property
    def identity(self) -> str:
        """The hash of the weights that are left."""
        return weights_hash(self._model)

    def vectors(self, texts: Sequence[str], progress: Callable[[int, int], None] | None = None) -> Any:
        """Return the mean, first and last state of each text in a row of float32; texts by three widths."""
        import torch

        longest = min(MAX_TOKENS, self._tokenizer.model_max_length)
        tokens = self._tokenizer(list(texts), truncation=True, max_length=longest, verbose=False)["input_ids"]
        found: list[Any] = [None] * len(texts)
        n_done = 0
        with torch.inference_mode():
            for places in _batches([len(ids) for ids in tokens]):
                padded = self._tokenizer.pad({"input_ids": [tokens[place] for place in places]}, return_tensors="pt")
                on_device = padded.to(self._device)
                states = self._model(**on_device).last_hidden_state.float()
                mask = on_device["attention_mask"].unsqueeze(-1)
                means = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
                rows = torch.arange(len(places), device=states.device)
                last = states[rows, mask.squeeze(-1).sum(1).clamp(min=1) - 1]
                for place, row in zip(places, torch.cat([means, states[:, 0], last], 1).cpu().numpy(), strict=True):
                    found[place] = row
                n_done += len(places)
                if progress is not None:
                    progress(n_done, len(texts))
        return np.stack(found) if found else np.zeros((0, 0), np.float32)


def _keep_lower_half(model: Any, name: str) -> None:
    """Drop the layers above the middle, where what a text says is told best by one linear layer."""
    n_layers = model.config.get_text_config().num_hidden_layers
    for module in () if model.config.is_encoder_decoder else model.modules():
        for attribute in _LAYERS:
            layers: Any = getattr(module, attribute, None)
            if type(layers).__name__ == "ModuleList" and len(layers) == n_layers:
                setattr(module, attribute, layers[: (n_layers + 1) // 2])
                return
    raise ConfigurationError(
        _PURPOSE,
        where=f"model {name!r}",
        expected="an encoder or a language model, with its layers in one list",
        found=f"{type(model).__name__} with {n_layers} layers",
        next_step=f"name another one, such as {_SUCH_AS}",
    )


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield the places of texts of like lengths together, within a number of tokens."""
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[place] > _BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch
