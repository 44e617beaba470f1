"""Scoring a list of responses with the detector and the encoder that the configuration names."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ragtasks.benchmarks.benchmark import Benchmark
from ragtasks.config import EvaluationConfig
from ragtasks.errors import RagtasksError
from ragtasks.metrics.answerability import IdkDetector, IdkLabel, RuleBasedIdk
from ragtasks.metrics.conditioning import ibm_visible_answerability
from ragtasks.metrics.semantic import BertScorer, resolve_encoder, semantic_scores
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
    """Scores responses to one benchmark; the encoder is shared by all tasks of a process."""

    def __init__(self, benchmark: Benchmark, config: EvaluationConfig) -> None:
        """Choose detector and encoder, and check that both can be had.

        Raises:
            RagtasksError: the encoder is unknown, not there, or needs a library that is not installed.
        """
        default = _SAMPLE_ENCODER if benchmark.is_sample else _DEFAULT_ENCODER
        self.encoder = config.encoder or default
        self.detector: IdkDetector = RuleBasedIdk()
        self._benchmark = benchmark
        self._bert = None if self.encoder == NO_ENCODER else _shared_bert(self.encoder, config.encoder_device)
        self._n_texts = 0
        self._n_truncated = 0

    def score(self, responses: Sequence[Response]) -> list[ScoredResponse]:
        """Return scores and notes of each response, in order; nothing is lost where the encoder fails."""
        labels = self.detector.detect(responses)
        key = self._benchmark.answerability_key
        visible = [ibm_visible_answerability(r.task.answerability, key) for r in responses]
        all_scores = score_responses(responses, labels, self._semantics(responses), ibm_answerability=visible)
        return [ScoredResponse(scores, _notes(scores, label)) for scores, label in zip(all_scores, labels, strict=True)]

    def _semantics(self, responses: Sequence[Response]) -> Semantics:
        if self._bert is None:
            return Semantics(None, "encoder: none")
        try:
            scores = semantic_scores(
                [response.text for response in responses],
                [response.task.target for response in responses],
                [[passage.text for passage in response.passages] for response in responses],
                self._bert,
            )
        except (RagtasksError, RuntimeError, OSError) as error:
            # The answers are paid for by now: the other figures are kept, and these say why they are missing.
            _LOGGER.error("BERTScore failed, what rests on it is unscored: %s", error)
            return Semantics(None, f"encoder failed: {type(error).__name__}")
        self._n_texts += self._bert.n_texts
        self._n_truncated += self._bert.n_truncated
        if self._bert.n_truncated:
            _LOGGER.warning(
                "%d of %d texts are longer than the encoder reads", self._bert.n_truncated, self._bert.n_texts
            )
        return Semantics(scores)

    def provenance(self) -> dict[str, Any]:
        """Return what the figures rest on: encoder, detector, and how many texts the encoder cut."""
        return {
            "encoder": self.encoder,
            "rescaled": self._bert is not None and self._bert.spec.baseline is not None,
            "idk_detector": self.detector.name,
            "n_texts": self._n_texts,
            "n_truncated": self._n_truncated,
            "profiles": ["paper", "ibm"],
        }


def _notes(scores: Scores, label: IdkLabel) -> dict[str, Any]:
    return {
        "idk": label.verdict.value if label.verdict else None,
        "idk_reason": label.reason,
        "unscored": {name: score.reason for name, score in scores.items() if score.value is None},
    }


@functools.lru_cache(maxsize=2)
def _shared_bert(name: str, device: str | None) -> BertScorer:
    return BertScorer(resolve_encoder(name), device=device)


__all__ = ["NO_ENCODER", "ResponseScorer", "ScoredResponse"]
