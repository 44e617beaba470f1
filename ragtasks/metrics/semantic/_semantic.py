"""BERTScore and the scores derived from it; every unique text is encoded once.

A response is compared with its target (precision, recall) and with each of its passages, and neighbouring tasks share
passages. Pair by pair, most encodings would be repeats. Here all pairs are collected first. Each text is encoded in a
batch of its length, and a pair then costs one small matrix product. The next model is compared with the same targets
and passages, so a cache keeps their vectors.
"""

from __future__ import annotations

import hashlib
import logging
from array import array
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from ragtasks.errors import CacheError
from ragtasks.metrics.semantic._embedding_cache import EmbeddingCache
from ragtasks.metrics.semantic._encoders import TextEncoder, engine_of, load_encoder, packaged_minilm, require_light
from ragtasks.metrics.semantic._light import LightModel
from ragtasks.metrics.semantic._specs import EncoderSpec

_GROUP_TOKENS = 2**18
"""Tokens encoded before their pairs are scored: 1 GiB of vectors at the width of deberta-xlarge (1024)."""


@dataclass(frozen=True, slots=True)
class BertScore:
    """BERTScore of a candidate against a reference: at most 1, higher is better; rescaled, 0 means unrelated."""

    precision: float
    """How well the reference covers the candidate's tokens."""
    recall: float
    """How well the candidate covers the reference's tokens."""
    f1: float
    """Harmonic mean of the two, rescaled by its own baseline."""


@dataclass(frozen=True, slots=True)
class SemanticScore:
    """BERTScore scores of one response (MTRAG paper, section 6.3.1)."""

    bert_recall: float
    """Recall against the target: completeness."""
    bert_precision: float
    """Precision against the target."""
    bert_k_precision: float | None
    """Best precision against a passage: faithfulness. None without passages; the official aggregate is then 0.

    More passages can only raise it, so only settings with equally many passages are comparable.

    Source: BertK-Prec, after Adlakha et al. 2024; the official `run_algorithmic.py` at cc5b1d4.
    """


class BertScorer:
    """BERTScore with one encoder, loaded on first use.

    Attributes:
        n_texts: unique texts in the latest call of `score`, after stripping whitespace.
        n_truncated: texts of `n_texts` that exceeded the encoder's limit and were truncated.
        n_from_cache: texts of `n_texts` whose vectors were cached.
        progress: called with (texts done, texts in total) after each text.
    """

    def __init__(
        self, spec: EncoderSpec, *, device: str | None = None, progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Load nothing yet. Without a device, a GPU is preferred, then the engine without torch (`prefers_light`)."""
        self.spec = spec
        self.n_texts = 0
        self.n_truncated = 0
        self.n_from_cache = 0
        self._device = device
        self.progress = progress
        self._encoder: TextEncoder | None = None

    @property
    def engine(self) -> str:
        """Engine of the encoder, such as `torch 2.13.0`."""
        return engine_of(self.spec, self._device)

    def loaded(self) -> TextEncoder:
        """Return the encoder, loaded at the first call."""
        self._encoder = self._encoder or load_encoder(self.spec, self._device)
        return self._encoder

    def score(self, pairs: Sequence[tuple[str, str]], cache: EmbeddingCache | None = None) -> list[BertScore]:
        """Return the BERTScore of each (candidate, reference), without idf weights, in order.

        Vectors are single precision. They stay on the encoder's device until their last pair: a group of up to about
        260,000 tokens (1 GiB at width 1024), and vectors that later pairs need. Pairs that share texts should therefore
        be adjacent. The cache stores the vectors of references and does not change any score.

        Agrees with bert-score 0.3.13, called with one pair at a time, to 1e-5: whitespace at both ends is stripped,
        special tokens have weight 0 but can be matched, long texts are truncated if the tokenizer has a limit
        (`ibm_max_tokens`; the official encoder has none), and a text without tokens scores raw 0 (rescaled: below 0).
        Intended differences: a model with absolute positions is limited to them if its tokenizer has no limit. A text
        of special tokens only scores 0, where bert-score returns no number. In batches of several pairs, bert-score's
        padding has similarity 0, which wins if all real similarities are negative; that cannot happen here.

        Source: Zhang et al. 2020, "BERTScore: Evaluating Text Generation with BERT", section 3; MTRAG paper, section
        6.3.1; the official `run_algorithmic.py` at cc5b1d4 (deberta-xlarge-mnli, rescaled).
        """
        if not pairs:
            self.n_texts = self.n_truncated = self.n_from_cache = 0
            return []
        encoder = self.loaded()
        stripped = [(candidate.strip(), reference.strip()) for candidate, reference in pairs]
        texts = list(dict.fromkeys(text for pair in stripped for text in pair))
        token_ids, self.n_truncated = encoder.token_ids(texts)
        self.n_texts = len(texts)
        by_text = dict(zip(texts, token_ids, strict=True))
        with TextVectors(encoder, self.spec.label, cache) as vectors:
            scores = list(_score_groups(encoder, vectors, stripped, by_text, self.progress))
        self.n_from_cache = vectors.n_from_cache
        return [_bert_score(precision, recall, self.spec.baseline) for precision, recall in scores]


def semantic_scores(
    responses: Sequence[str],
    targets: Sequence[str],
    passages: Sequence[Sequence[str]],
    scorer: BertScorer,
    cache: EmbeddingCache | None = None,
) -> list[SemanticScore]:
    """Return the BERTScore scores of all responses, in order, with one pass of the encoder."""
    compared = [(target, *passage_texts) for target, passage_texts in zip(targets, passages, strict=True)]
    pairs = [(text, compared_text) for text, row in zip(responses, compared, strict=True) for compared_text in row]
    scores = iter(scorer.score(pairs, cache))
    rows = [[next(scores) for _ in row] for row in compared]
    return [
        SemanticScore(
            against_target.recall,
            against_target.precision,
            max((score.precision for score in against_passages), default=None),
        )
        for against_target, *against_passages in rows
    ]


def _score_groups(
    encoder: TextEncoder,
    vectors: TextVectors,
    pairs: Sequence[tuple[str, str]],
    token_ids: dict[str, list[int]],
    progress: Callable[[int, int], None] | None,
) -> Iterator[tuple[float, float]]:
    """Yield the raw (precision, recall) of each pair, by groups, dropping a text after its last pair."""
    last_pair = {text: i for i, pair in enumerate(pairs) for text in pair}
    references = {reference for _, reference in pairs}
    encoded: dict[str, tuple[Any, Any]] = {}
    n_encoded = 0
    for start, stop, new_texts in _groups(pairs, token_ids):
        for text, text_vectors in vectors.of({text: token_ids[text] for text in new_texts}, references):
            encoded[text] = (text_vectors, encoder.weights(token_ids[text]))
            n_encoded += 1
            if progress is not None:
                progress(n_encoded, len(token_ids))
        group = pairs[start:stop]
        yield from encoder.match([(encoded[candidate], encoded[reference]) for candidate, reference in group])
        for text in {text for pair in group for text in pair if last_pair[text] < stop}:
            del encoded[text]


def _groups(pairs: Sequence[tuple[str, str]], token_ids: dict[str, list[int]]) -> Iterator[tuple[int, int, list[str]]]:
    """Yield (first pair, end, new texts) of groups of pairs with about `_GROUP_TOKENS` new tokens."""
    counted: set[str] = set()
    start, n_tokens, new_texts = 0, 0, list[str]()
    for i, pair in enumerate(pairs):
        for text in pair:
            if text not in counted:
                counted.add(text)
                new_texts.append(text)
                n_tokens += len(token_ids[text])
        if n_tokens >= _GROUP_TOKENS or i == len(pairs) - 1:
            yield start, i + 1, new_texts
            start, n_tokens, new_texts = i + 1, 0, []


def _bert_score(precision: float, recall: float, baseline: tuple[float, float, float] | None) -> BertScore:
    """Return the BertScore of raw scores, each rescaled by its own baseline (Zhang et al. 2020, section 5)."""
    total = precision + recall
    raw = (precision, recall, 2 * precision * recall / total if total else 0.0)
    if baseline is None:
        return BertScore(*raw)
    return BertScore(*((value - base) / (1 - base) for value, base in zip(raw, baseline, strict=True)))


# Vectors of texts, from the cache or from the encoder, with identical bits.

_LOGGER = logging.getLogger(__name__)
_WRITE_BYTES = 2**25
"""Size from which vectors are written together; a killed process loses at most this much."""
T = TypeVar("T")


class TextVectors(AbstractContextManager["TextVectors"]):
    """Encodes texts and caches the vectors of reused texts; works without a cache, and after a cache fails."""

    def __init__(self, encoder: TextEncoder, name: str, cache: EmbeddingCache | None) -> None:
        """Set the encoder, its name in the cache, and the cache."""
        self.n_from_cache = 0
        """Texts that were not encoded."""
        self._encoder, self._name, self._cache = encoder, name, cache
        self._new: list[tuple[bytes, bytes]] = []

    def __enter__(self) -> TextVectors:
        """Open the cache."""
        self._use_cache(lambda cache: cache.__enter__())
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write()
        if self._cache is not None:
            self._cache.close()

    def of(self, token_ids: Mapping[str, Sequence[int]], reused: Container[str]) -> Iterator[tuple[str, Any]]:
        """Yield each text with its vectors, see `TextEncoder.encode`."""
        keys = {text: self._key(ids) for text, ids in token_ids.items() if text in reused} if self._cache else {}
        cached_keys: list[bytes] = []
        missing: dict[str, Sequence[int]] = {}
        for text, ids in token_ids.items():
            stored = self._stored(keys[text]) if text in keys else None
            if stored is None:
                missing[text] = ids
            else:
                cached_keys.append(keys[text])
                yield text, self._encoder.restored(stored, len(ids))
        self.n_from_cache += len(cached_keys)
        self._use_cache(lambda cache: cache.mark_used(cached_keys))
        yield from self._encoded(missing, keys)

    def _encoded(self, token_ids: Mapping[str, Sequence[int]], keys: Mapping[str, bytes]) -> Iterator[tuple[str, Any]]:
        for text, vectors in self._encoder.encode(token_ids):
            if text in keys and self._cache is not None:
                self._new.append((keys[text], self._encoder.stored(vectors)))
            yield text, vectors
            if sum(len(vectors) for _, vectors in self._new) >= _WRITE_BYTES:
                self._write()

    def _stored(self, key: bytes) -> bytes | None:
        return self._use_cache(lambda cache: cache.get(key))

    def _key(self, ids: Sequence[int]) -> bytes:
        return hashlib.sha256(self._encoder.identity.encode() + array("q", ids).tobytes()).digest()

    def _write(self) -> None:
        new, self._new = self._new, []
        if new:
            self._use_cache(lambda cache: cache.put(new, self._name))

    def _use_cache(self, use: Callable[[EmbeddingCache], T]) -> T | None:
        """Return the result of a cache operation. At the first failure, log a warning and stop using the cache."""
        if self._cache is None:
            return None
        try:
            return use(self._cache)
        except CacheError as error:
            _LOGGER.warning("embeddings are not cached; scores are unaffected, but scoring takes longer: %s", error)
            self._cache.close()
            self._cache = None
            return None


def most_different(texts: Sequence[str], n: int) -> list[int]:
    """Return the positions of the `n` most different texts, in order; all positions if there are at most `n` texts.

    The first is the text farthest from the mean. Each further text is the one whose nearest chosen text is farthest, by
    the cosine of the packaged encoder's mean states. Source: the sampler of TREC-Researchy 2024 (Ragnarök paper,
    section 5), which also selects the topic farthest from those chosen. Known difference: its space is eight attributes
    rated by GPT-4, with the l1 norm; they are not published with the topics.

    Raises:
        MissingExtraError: the packaged encoder is not installed.
    """
    if n >= len(texts):
        return list(range(len(texts)))
    import numpy as np

    purpose = "selecting the most different texts"
    require_light(purpose)
    model = LightModel(Path(packaged_minilm(purpose)))
    ids, _ = model.token_ids(texts)
    means = np.array([states.mean(axis=0) for states in model.all_states(ids)])
    units = means / np.linalg.norm(means, axis=1, keepdims=True)
    chosen = [int(np.argmin(units @ units.mean(axis=0)))]
    nearest = units @ units[chosen[0]]
    while len(chosen) < n:
        nearest[chosen[-1]] = np.inf
        chosen.append(int(np.argmin(nearest)))
        nearest = np.maximum(nearest, units @ units[chosen[-1]])
    return sorted(chosen)
