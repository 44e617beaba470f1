"""The keys of a configuration, and where they are read from."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ragtasks.clients import Endpoint, endpoint_of
from ragtasks.config._judges import JUDGES_EXAMPLE, Judge, judge_of, refuse_namesakes
from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.files import checked_run_name

DEFAULT_ENCODER = "microsoft/deberta-xlarge-mnli"
"""Encoder of BERTScore where none is named: that of the paper."""
SAMPLE_ENCODER = "minilm"
"""The same on a sample: it comes with a package."""
NO_ENCODER = "none"
"""Value of `encoder` that leaves the semantic metrics unscored on purpose."""

_NEAR_MISS = 0.84  # similarity from which a foreign key is taken for a misspelt one of ours
_HARNESS_KEYS = frozenset({"version", "config", "config_source", "think_end_token", "prompt"})
# What stands in results, or lies near, for what is given as one of our keys.
_OTHER_NAMES = {"idk_detector": "idk", "judge_prompts": "prompts", "retrieval_run": "run"}


class EvaluationConfig(BaseModel):
    """What an evaluation depends on, beside the model; every field shows in the results."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str | None = Field(
        default=None, description="`sample`, or a folder with the official files; default: the data folder"
    )
    run: str = Field(
        default="official",
        description="run that gives the retrieved passages, or `closed_book` for none; default: the benchmark's own",
    )
    encoder: str | None = Field(default=None, description="encoder of BERTScore: a name, a path, or `none`")
    encoder_device: str | None = Field(
        default=None, description="torch device of the encoder; default: the GPU if there is one"
    )
    encode_with: str | None = Field(
        default=None,
        description="workers of a Ray cluster that run the encoder, `ray[:ADDRESS]`; default: this process",
    )
    retriever: str = Field(
        default="bm25",
        min_length=1,
        description="retriever that searches for rewritten questions and in live conversations (docs/retrieval.md)",
    )
    queries: str = Field(
        default="last_turn",
        min_length=1,
        description="query form that live full RAG searches with: last_turn, last_3_turns, llm_rewrite",
    )
    rewriter: Endpoint | None = Field(
        default=None, description="model that rewrites questions of live full RAG where `queries` is `llm_rewrite`"
    )
    conversational: bool = Field(
        default=False, description="count conversational tasks too (the paper leaves them out)"
    )
    system_prompt: str | None = Field(default=None, description="path of a Jinja template for the system message")
    plain_prompt: str | None = Field(
        default=None, description="path of a Jinja template for models without a chat template"
    )
    system_role: Literal["system", "user"] = Field(
        default="system",
        description="message that holds the passages: `user` for servers that drop system messages",
    )
    too_long: Literal["refuse", "drop_passages"] = Field(
        default="refuse", description="what to do with prompts that are longer than the model's context"
    )
    context_tokens: int | None = Field(
        default=None, ge=1, description="tokens of the model's context; default: what the model or its server says"
    )
    max_words: int | None = Field(
        default=None, ge=1, description="answer length that the prompt asks for, in words; default: the task's own"
    )
    end_of_thinking: str = Field(default="</think>", min_length=1, description="text after which the answer begins")
    judges: tuple[Judge, ...] = Field(
        default=(),
        description="LLM judges: `openai/NAME`, an object with model, base_url, or one with lm_eval, model_args",
    )
    idk: Literal["rules", "encoder", "judges"] | None = Field(
        default=None,
        description='who decides whether a response is a refusal ("I do not know"); default: judges if there are any, '
        "else rules (docs/metrics.md)",
    )
    prompts: Literal["ours", "official"] = Field(
        default="ours",
        description="judge prompts: shipped, or read at run time from the official checkout in the data folder",
    )
    metrics: tuple[str, ...] = Field(
        default=(), description="metrics added to the task's own, ours and those of other packages (docs/extending.md)"
    )
    best_of: int = Field(
        default=1,
        ge=1,
        le=64,
        description="answers sampled a task, of which `picker` picks one; needs --gen_kwargs",
    )
    picker: Judge | None = Field(
        default=None, description="LLM judge that picks the best of several samples, named as one of `judges`"
    )
    min_judge_coverage: float = Field(
        default=0.95, ge=0, le=1, description="share of verdicts below which an evaluation fails"
    )

    max_implausible: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="share of answers that cannot be answers above which a command ends with status 3",
    )

    @field_validator("run")
    @classmethod
    def _run_is_a_name(cls, value: str) -> str:
        return checked_run_name(value)

    @field_validator("judges", mode="before")
    @classmethod
    def _name_judges(cls, value: Any) -> tuple[Judge, ...]:
        given = [value] if isinstance(value, (str, Mapping)) else [] if value is None else value
        if not isinstance(given, (list, tuple)):
            raise ValueError(f"must be a list of judges, such as {JUDGES_EXAMPLE}")
        judges = tuple(judge_of(item) for item in given)
        refuse_namesakes([judge.model for judge in judges])
        return judges

    @field_validator("picker", mode="before")
    @classmethod
    def _name_picker(cls, value: Any) -> Judge | None:
        return None if value is None else judge_of(value, "picker")

    @model_validator(mode="after")
    def _picker_for_samples(self) -> EvaluationConfig:
        if (self.best_of > 1) != (self.picker is not None):
            raise ValueError("best_of, above 1, and picker go together: name both or none")
        return self

    @field_validator("rewriter", mode="before")
    @classmethod
    def _name_rewriter(cls, value: Any) -> Endpoint | None:
        return None if value is None else endpoint_of(value)

    @model_validator(mode="after")
    def _judges_for_idk(self) -> EvaluationConfig:
        if self.idk == "judges" and not self.judges:
            raise ValueError('idk "judges" needs judges')
        return self

    @property
    def idk_by_judges(self) -> bool:
        """Whether judges decide whether a response says that it does not know."""
        return bool(self.judges) and self.idk in (None, "judges")


KEYS = frozenset(EvaluationConfig.model_fields)


def config_from_metadata(metadata: Mapping[str, Any]) -> EvaluationConfig:
    """Return the configuration in the harness's metadata; keys of the harness and of its models are left alone.

    Raises:
        ConfigurationError: a value that does not fit, or a key that looks like a misspelt one of ours.
    """
    violations = [
        f"{key!r} (did you mean {meant!r}?)" for key in foreign_keys(metadata) if (meant := _key_meant_by(key))
    ]
    if violations:
        raise ConfigurationError(f"unknown metadata key: {', '.join(violations)}")
    return _validated({key: metadata[key] for key in KEYS & metadata.keys()})


def foreign_keys(metadata: Mapping[str, Any]) -> list[str]:
    """Return the keys of the metadata that are neither ours nor the harness's own, sorted."""
    return sorted(str(key) for key in metadata.keys() - KEYS - _HARNESS_KEYS)


def _key_meant_by(key: str) -> str | None:
    """Return the key of ours that a foreign one looks like an error for, or None."""
    near = difflib.get_close_matches(key.lower(), KEYS, n=1, cutoff=_NEAR_MISS)
    return near[0] if near else _OTHER_NAMES.get(key.lower())


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
        violations = [
            f"{'.'.join(map(str, violation['loc']))}: {violation['msg']}, found {violation['input']!r}"
            for violation in error.errors()
        ]
        raise ConfigurationError("evaluation options: " + "; ".join(violations)) from error


__all__ = [
    "DEFAULT_ENCODER",
    "KEYS",
    "NO_ENCODER",
    "SAMPLE_ENCODER",
    "EvaluationConfig",
    "config_from_metadata",
    "config_from_options",
    "foreign_keys",
]
