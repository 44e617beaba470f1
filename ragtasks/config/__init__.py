"""The configuration of one evaluation, resolved once and then passed down as an argument.

It arrives as the harness's `--metadata` (or the same keys on our command line). The harness merges `--model_args` into
that dictionary, so keys of others are expected there: they are left alone, unless one looks like an error for ours.
"""

from ragtasks.config._evaluation import (
    DEFAULT_ENCODER,
    KEYS,
    NO_ENCODER,
    SAMPLE_ENCODER,
    EvaluationConfig,
    config_from_metadata,
    config_from_options,
    foreign_keys,
)
from ragtasks.config._judges import HarnessModel, Judge

__all__ = [
    "DEFAULT_ENCODER",
    "KEYS",
    "NO_ENCODER",
    "SAMPLE_ENCODER",
    "EvaluationConfig",
    "HarnessModel",
    "Judge",
    "config_from_metadata",
    "config_from_options",
    "foreign_keys",
]
