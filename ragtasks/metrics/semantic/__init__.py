"""BERTScore: the score, its encoders, their devices, and the cache of vectors."""

from ragtasks.metrics.semantic._embedding_cache import EmbeddingCache, describe_embeddings
from ragtasks.metrics.semantic._encoders import (
    check_encoder,
    encoder_requirement,
    is_light,
    packaged_minilm,
    require_light,
    require_torch,
)
from ragtasks.metrics.semantic._identity import weights_hash
from ragtasks.metrics.semantic._light import LightModel
from ragtasks.metrics.semantic._models import check_device, require_all_weights, without_progress_bars
from ragtasks.metrics.semantic._semantic import BertScore, BertScorer, SemanticScore, most_different, semantic_scores
from ragtasks.metrics.semantic._specs import EncoderSpec, resolve_encoder

__all__ = [
    "BertScore",
    "BertScorer",
    "EmbeddingCache",
    "EncoderSpec",
    "LightModel",
    "SemanticScore",
    "check_device",
    "check_encoder",
    "describe_embeddings",
    "encoder_requirement",
    "is_light",
    "most_different",
    "packaged_minilm",
    "require_all_weights",
    "require_light",
    "require_torch",
    "resolve_encoder",
    "semantic_scores",
    "weights_hash",
    "without_progress_bars",
]
