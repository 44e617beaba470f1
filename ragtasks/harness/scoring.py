"""Scoring a list of responses with the detector and the encoder that the configuration names."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtasks.benchmarks.benchmark import Benchmark
from ragtasks.benchmarks.registry import open_benchmark
from ragtasks.config import EvaluationConfig
from ragtasks.errors import RagtasksError
from ragtasks.metrics.answerability import IdkDetector, IdkLabel, RuleBasedIdk
from ragtasks.metrics.conditioning import ibm_visible_answerability
from ragtasks.metrics.semantic import BertScorer, check_encoder, resolve_encoder, semantic_scores
from ragtasks.metrics.suite import Scores, Semantics, score_responses
from ragtasks.records import Response

_LOGGER = logging.getLogger(__name__)

NO_ENCODER = "none"
"""Value of `encoder` that leaves the semantic metrics unscored on purpose."""

_DEFAULT_ENCODER = "microsoft/deberta-xlarge-mnli"
_SAMPLE_ENCODER = "minilm"


@dataclass(frozen=True, slots=True)
class ScoredResponse:
    """All figures of one response, and what a reader of the logs wants beside them."""

    scores: Scores
    """Metric name -> score."""
    notes: dict[str, Any]
    """IDK verdict with its reason; metric name -> reason for what is unscored."""


class ResponseScorer:
    """Scores responses to one benchmark under one configuration."""

    def __init__(self, benchmark: Benchmark, config: EvaluationConfig) -> None:
        """Choose detector and encoder, and check that both can be had.

        An encoder that was asked for and cannot be had is an error. The default one is not: without it the figures
        that rest on it are unscored, which a warning says now and the coverage says in every table.

        Raises:
            RagtasksError: the encoder that the configuration names is unknown, not there, or lacks a library.
        """
        default = _SAMPLE_ENCODER if benchmark.is_sample else _DEFAULT_ENCODER
        self.encoder = config.encoder or default
        self.detector: IdkDetector = RuleBasedIdk()
        self._benchmark = benchmark
        self._n_texts = 0
        self._n_truncated = 0
        self._bert: BertScorer | None = None
        self._missing = "encoder: none"
        if self.encoder == NO_ENCODER:
            return
        try:
            self._bert = _shared_bert(self.encoder, config.encoder_device)
        except RagtasksError as error:
            if config.encoder is not None:
                raise
            self._missing = f"encoder {self.encoder} cannot be had"
            _LOGGER.warning("BERTScore and rb_alg will be unscored. %s", error)

    def score(self, responses: Sequence[Response]) -> list[ScoredResponse]:
        """Return scores and notes of each response, in order; nothing is lost where the encoder fails."""
        labels = self.detector.detect(responses)
        key = self._benchmark.answerability_key
        visible = [ibm_visible_answerability(r.task.answerability, key) for r in responses]
        all_scores = score_responses(responses, labels, self._semantics(responses), ibm_answerability=visible)
        return [ScoredResponse(scores, _notes(scores, label)) for scores, label in zip(all_scores, labels, strict=True)]

    def _semantics(self, responses: Sequence[Response]) -> Semantics:
        if self._bert is None:
            return Semantics(None, self._missing)
        # Settings of one task share its target and passages: side by side they are encoded once and then let go.
        order = sorted(range(len(responses)), key=lambda index: responses[index].task.task_id)
        chosen = [responses[index] for index in order]
        try:
            scores = semantic_scores(
                [response.text for response in chosen],
                [response.task.target for response in chosen],
                [[passage.text for passage in response.passages] for response in chosen],
                self._bert,
            )
        except (RagtasksError, RuntimeError, OSError, LookupError, ValueError) as error:
            # The answers are paid for by now: the other figures are kept, and these say why they are missing.
            # A token that the encoder has no vector for is an IndexError on a processor, a RuntimeError on a GPU.
            _LOGGER.error("BERTScore failed, what rests on it is unscored: %s", error)
            return Semantics(None, f"encoder failed: {type(error).__name__}: {error}")
        self._count_texts(self._bert)
        by_index = dict(zip(order, scores, strict=True))
        return Semantics([by_index[index] for index in range(len(responses))])

    def _count_texts(self, bert: BertScorer) -> None:
        self._n_texts += bert.n_texts
        self._n_truncated += bert.n_truncated
        if bert.n_truncated:
            _LOGGER.warning("%d of %d texts are longer than the encoder reads", bert.n_truncated, bert.n_texts)

    def provenance(self) -> dict[str, Any]:
        """Return what the figures rest on: encoder, detector, and how many texts the encoder cut."""
        return {
            "encoder": self.encoder if self._bert is not None else NO_ENCODER,
            "rescaled": self._bert is not None and self._bert.spec.baseline is not None,
            "idk_detector": self.detector.name,
            "n_texts": self._n_texts,
            "n_truncated": self._n_truncated,
            "profiles": ["paper", "ibm"],
        }


@functools.lru_cache(maxsize=8)
def shared_scorer(benchmark: str, root: Path, config: EvaluationConfig) -> ResponseScorer:
    """Return the one scorer of all harness tasks that share benchmark, files and configuration.

    Raises:
        RagtasksError: as `ResponseScorer`.
    """
    return ResponseScorer(open_benchmark(benchmark, root), config)


def _notes(scores: Scores, label: IdkLabel) -> dict[str, Any]:
    return {
        "idk": label.verdict.value if label.verdict else None,
        "idk_reason": label.reason,
        "unscored": {name: score.reason for name, score in scores.items() if score.value is None},
    }


@functools.lru_cache(maxsize=2)
def _shared_bert(name: str, device: str | None) -> BertScorer:
    """Return the scorer on an encoder that is there; its weights are loaded at first use."""
    spec = resolve_encoder(name)
    check_encoder(spec)
    return BertScorer(spec, device=device)


__all__ = ["NO_ENCODER", "ResponseScorer", "ScoredResponse", "shared_scorer"]
