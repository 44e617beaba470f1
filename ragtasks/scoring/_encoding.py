"""BERTScore of a batch of responses."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from typing import Any

from ragtasks.config import NO_ENCODER, SAMPLE_ENCODER, EvaluationConfig
from ragtasks.config.environment import embedding_cache_bytes, embedding_cache_file
from ragtasks.errors import RagtasksError
from ragtasks.metrics import (
    BertScorer,
    EmbeddingCache,
    Semantics,
    check_device,
    check_encoder,
    encoder_requirement,
    resolve_encoder,
    semantic_scores,
)
from ragtasks.progress import progress_bars, step
from ragtasks.records import Response
from ragtasks.requirements import Requirement
from ragtasks.scoring._failures import survive
from ragtasks.suites import Suite

_LOGGER = logging.getLogger(__name__)


class Encoding:
    """The encoder of one configuration; counts the texts it encodes."""

    def __init__(self, suite: Suite, config: EvaluationConfig, *, is_sample: bool) -> None:
        """Choose the encoder: the configured one, else the default of the sample or the suite."""
        named = config.encoder or (SAMPLE_ENCODER if is_sample else suite.encoder)
        self.name = named if suite.uses_encoder else NO_ENCODER
        """Name of the encoder, `none` for a suite without BERTScore."""
        self._is_named, self._device = config.encoder is not None, config.encoder_device
        self._lost = "BERTScore and rb_alg" if "rb_alg" in {metric.name for metric in suite.metrics} else "BERTScore"
        self._bert: BertScorer | None = None
        self._embeddings: EmbeddingCache | None = None
        self._missing = "encoder: none"
        self._n_texts = self._n_truncated = 0

    def requirements(self, lost: str) -> list[Requirement]:
        """Return the requirement of the encoder, if there is one; `lost` names the scores that depend on it."""
        return [] if self.name == NO_ENCODER else [encoder_requirement(self.name, self._device, lost)]

    def prepare(self) -> None:
        """Check that the encoder can be loaded.

        If the configuration names the encoder, a failure is an error. Without the default encoder, the dependent scores
        are unscored: a warning is logged, and tables show the coverage.

        Raises:
            RagtasksError: the configured encoder cannot be loaded.
        """
        if self.name == NO_ENCODER:
            return
        check_device(self._device)
        max_bytes = embedding_cache_bytes()
        self._embeddings = EmbeddingCache(embedding_cache_file(), max_bytes) if max_bytes else None
        try:
            self._bert = _shared_bert(self.name, self._device)
        except RagtasksError as error:
            if self._is_named:
                raise
            self._missing = f"encoder {self.name} is not available"
            _LOGGER.warning("%s will be unscored. %s", self._lost, error)

    def score(self, responses: Sequence[Response]) -> Semantics:
        """Return the scores of each response, or the reason for having none.

        Any failure of the encoder (memory, a device, a token without a vector) leaves all other scores unaffected.
        """
        if self._bert is None:
            return Semantics(None, self._missing)
        bert = self._bert
        return survive("encoder", lambda: self._scores(bert, responses), lambda why: Semantics(None, why))

    def _scores(self, bert: BertScorer, responses: Sequence[Response]) -> Semantics:
        with step(f"loading the encoder {self.name}"):
            bert.loaded()
        # Settings of one task share its target and passages: in adjacent positions, each text is encoded once and then
        # released.
        order = sorted(range(len(responses)), key=lambda index: responses[index].task.task_id)
        chosen = [responses[index] for index in order]
        with progress_bars() as show:
            bert.progress = lambda done, total: show("BERTScore: texts", done, total)
            try:
                scores = semantic_scores(
                    [response.text for response in chosen],
                    [response.task.target for response in chosen],
                    [[passage.text for passage in response.passages] for response in chosen],
                    bert,
                    self._embeddings,
                )
            finally:
                bert.progress = None
        self._n_texts += bert.n_texts
        self._n_truncated += bert.n_truncated
        if bert.n_truncated:
            _LOGGER.warning("%d of %d texts are longer than the encoder reads", bert.n_truncated, bert.n_texts)
        by_index = dict(zip(order, scores, strict=True))
        return Semantics([by_index[index] for index in range(len(responses))])

    def provenance(self) -> dict[str, Any]:
        """Return the encoder and its engine, and the numbers of encoded and truncated texts."""
        bert = self._bert
        return {
            "encoder": NO_ENCODER if bert is None else self.name,
            **({} if bert is None else {"encoder_engine": bert.engine}),
            "rescaled": bert is not None and bert.spec.baseline is not None,
            "n_texts": self._n_texts,
            "n_truncated": self._n_truncated,
        }


@functools.lru_cache(maxsize=2)
def _shared_bert(name: str, device: str | None) -> BertScorer:
    """Return the scorer on an installed encoder; its weights are loaded at first use."""
    spec = resolve_encoder(name)
    check_encoder(spec, device)
    return BertScorer(spec, device=device)
