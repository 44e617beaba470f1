"""BERTScore: the score, its encoders, and where they run."""

from ragtasks.metrics.semantic._semantic import (
    BertScorer,
    SemanticScore,
    check_device,
    check_encoder,
    resolve_encoder,
    semantic_scores,
)

__all__ = ["BertScorer", "SemanticScore", "check_device", "check_encoder", "resolve_encoder", "semantic_scores"]
