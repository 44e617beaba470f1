"""Judges as a configuration names them: a model behind a server, or one that the harness loads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_serializer, field_validator

from ragtasks.clients import Endpoint, endpoint_of
from ragtasks.errors import ConfigurationError
from ragtasks.secrets import is_secret_name

JUDGES_EXAMPLE = '["openai/gpt-4o-mini"]'


class HarnessModel(BaseModel):
    """A model that the harness loads in this process, as a judge."""

    # The other namespace is what keeps pydantic from warning of our `model_args`, the harness's word.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, protected_namespaces=())

    lm_eval: str = Field(min_length=1, description="the harness's name of the kind of model, such as `hf` or `vllm`")
    model_args: str = Field(default="{}", description="its arguments, as after `--model_args`; kept as canonical JSON")

    @field_validator("model_args", mode="before")
    @classmethod
    def _canonical(cls, value: Any) -> str:
        if not isinstance(value, Mapping):
            raise ValueError('must be an object, such as {"pretrained": "Qwen/Qwen2.5-7B-Instruct"}')
        secrets = sorted(str(key) for key in value if is_secret_name(key))
        if secrets:
            raise ValueError(f"must hold no {', '.join(secrets)}: keys come from the environment")
        try:
            return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
        except TypeError as error:
            raise ValueError("must hold plain JSON values") from error

    @field_serializer("model_args")
    def _as_object(self, value: str) -> Any:
        return json.loads(value)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments as the harness takes them."""
        found: dict[str, Any] = json.loads(self.model_args)
        return found

    @property
    def model(self) -> str:
        """Name for tables: kind and weights."""
        return f"{self.lm_eval}/{self.arguments.get('pretrained') or self.arguments.get('model') or 'model'}"


Judge = Endpoint | HarnessModel
"""A judge as the configuration names it."""


def judge_of(named: Any, key: str = "judges") -> Judge:
    """Return what names a judge as a record.

    Raises:
        ConfigurationError: an unknown key, or a value that does not fit. No value is shown.
    """
    if isinstance(named, (Endpoint, HarnessModel)):
        return named
    if not isinstance(named, (str, Mapping)):
        raise ConfigurationError(f"{key}: must be names or objects, such as {JUDGES_EXAMPLE}")
    if not isinstance(named, Mapping) or "lm_eval" not in named:
        return endpoint_of(named)
    violations: list[str] = []
    try:
        return HarnessModel.model_validate(dict(named))
    except ValidationError as error:
        violations = [f"{'.'.join(map(str, violation['loc']))}: {violation['msg']}" for violation in error.errors()]
    # Outside the handler, and without the values: the chained error would show what may be a key.
    raise ConfigurationError(f"{key}: " + "; ".join(violations))


def refuse_namesakes(names: Sequence[str]) -> None:
    """Refuse judges of one name: a judge is known by its model's name.

    Raises:
        ConfigurationError: a name stands there twice.
    """
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigurationError(
            f"judges: named twice: {', '.join(twice)}. Next step: leave one out: a judge is known by its model's name, "
            "and the same model says the same again"
        )


__all__ = ["JUDGES_EXAMPLE", "HarnessModel", "Judge", "judge_of", "refuse_namesakes"]
