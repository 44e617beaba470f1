"""The configuration of one evaluation, resolved once and then passed down as an argument.

It arrives as the harness's `--metadata` (or the same keys on our command line). The harness merges `--model_args` into
that dictionary, so keys of others are expected there: they are left alone, unless one looks like a slip for ours.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragtasks.errors import ConfigurationError, close_matches

_SLIP = 0.84  # similarity from which a foreign key is taken for a misspelt one of ours
_HARNESS_KEYS = frozenset({"version", "config", "config_source", "think_end_token", "prompt"})


class EvaluationConfig(BaseModel):
    """What an evaluation depends on, beside the model; every field shows in the results."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str | None = Field(
        default=None, description="`sample`, or a folder with the official files; default: the data folder"
    )
    run: str = Field(
        default="official", description="run that gives the retrieved passages; default: the benchmark's own"
    )
    encoder: str | None = Field(default=None, description="encoder of BERTScore: a name, a path, or `none`")
    encoder_device: str | None = Field(
        default=None, description="torch device of the encoder; default: the GPU if there is one"
    )
    conversational: bool = Field(
        default=False, description="count conversational tasks too (the paper leaves them out)"
    )
    system_prompt: str | None = Field(default=None, description="path of a Jinja template for the system message")
    plain_prompt: str | None = Field(
        default=None, description="path of a Jinja template for models without a chat template"
    )
    max_words: int = Field(default=150, ge=1, description="answer length that the prompt asks for, in words")
    end_of_thinking: str = Field(default="</think>", min_length=1, description="text after which the answer begins")
    idk: Literal["rules"] = Field(
        default="rules", description="who decides whether a response says that it does not know"
    )


KEYS = frozenset(EvaluationConfig.model_fields)


def config_from_metadata(metadata: Mapping[str, Any]) -> EvaluationConfig:
    """Return the configuration in the harness's metadata; keys of the harness and of its models are left alone.

    Raises:
        ConfigurationError: a value that does not fit, or a key that looks like a misspelt one of ours.
    """
    foreign = sorted(str(key) for key in metadata.keys() - KEYS - _HARNESS_KEYS)
    nearest = {key: difflib.get_close_matches(key, KEYS, n=1, cutoff=_SLIP) for key in foreign}
    slips = [f"{key!r} (did you mean {near[0]!r}?)" for key, near in nearest.items() if near]
    if slips:
        raise ConfigurationError(f"unknown metadata key: {', '.join(slips)}")
    return _validated({key: metadata[key] for key in KEYS & metadata.keys()})


def config_from_options(options: Mapping[str, Any]) -> EvaluationConfig:
    """Return the configuration in options of our own, where every key must be known.

    Raises:
        ConfigurationError: an unknown key, or a value that does not fit.
    """
    unknown = sorted(str(key) for key in options.keys() - KEYS)
    if unknown:
        hints = "; ".join(f"{key!r}, {close_matches(key, KEYS)}" for key in unknown)
        raise ConfigurationError(f"unknown option: {hints}")
    return _validated(options)


def _validated(options: Mapping[str, Any]) -> EvaluationConfig:
    try:
        return EvaluationConfig.model_validate(dict(options))
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}, found {fault['input']!r}" for fault in error.errors()
        ]
        raise ConfigurationError("evaluation options: " + "; ".join(faults)) from error


__all__ = ["KEYS", "EvaluationConfig", "config_from_metadata", "config_from_options"]
