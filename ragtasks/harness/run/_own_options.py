"""The keys of our configuration as options of `ragtasks run`: both come from the fields of `EvaluationConfig`.

`--data sample` is `--metadata '{"data": "sample"}'`, and wins over the same key there. A list takes one value at
a time: `--judge A --judge B`. Numbers, lists and objects are written as JSON.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any, get_origin

from lm_eval.api.registry import MODEL_REGISTRY

from ragtasks.config import EvaluationConfig
from ragtasks.errors import ConfigurationError

_OUTPUT = "--output_path"
_OUTPUT_NAMES = ("--output", "--output-path")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise ConfigurationError(f"ragtasks run: {message}. Next step: see ragtasks run --help")


def take_own(arguments: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Return the harness's arguments, and our keys with the values that options give them.

    Raises:
        ConfigurationError: an option without a value.
    """
    given, rest = _parser().parse_known_args([_renamed(argument) for argument in arguments])
    return rest, {key: value for key, value in vars(given).items() if value is not None}


def own_help() -> str:
    """Return what the help of `ragtasks run` says before the harness's own."""
    baselines = ", ".join(sorted(name for name in MODEL_REGISTRY if name.startswith("ragtasks-")))
    return (
        "Evaluate a model on tasks of ragtasks: takes the arguments of lm_eval, which follow below, and these.\n\n"
        f"models that need no weights: {baselines}\n\n{_parser().format_help()}\n"
        f"each of these is also a key of --metadata; --output is another name of {_OUTPUT}, and logs samples.\n"
        "--for-submission B (or C) asks for all tasks that `ragtasks submit --task B` (or C) hands in.\n"
        "example: ragtasks run --model ragtasks-extractive --tasks mtrag --data sample --output results\n"
    )


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(add_help=False, allow_abbrev=False, usage=argparse.SUPPRESS)
    group = parser.add_argument_group("options of ragtasks")
    for key, field in EvaluationConfig.model_fields.items():
        is_list = get_origin(field.annotation) is tuple
        how: dict[str, Any] = {"action": "append" if is_list else "store", "metavar": "VALUE", "type": _value}
        if field.annotation is bool:
            how = {"action": argparse.BooleanOptionalAction}
        elif field.annotation in {str, str | None}:
            how["type"] = str
        said = (field.description or "").replace("%", "%%")
        group.add_argument(*_names(key, is_list=is_list), dest=key, help=said, **how)
    return parser


def _names(key: str, *, is_list: bool) -> list[str]:
    """Return the names of a key's option; of a list also that of one item."""
    return [f"--{name}" for name in dict.fromkeys([key.removesuffix("s") if is_list else key, key])]


def _renamed(argument: str) -> str:
    """Return an argument as the harness would write it, where it is a name with hyphens of one of our options."""
    name, *value = argument.split("=", 1)
    known = _OUTPUT if name in _OUTPUT_NAMES else f"--{name[2:].replace('-', '_')}"
    is_own = known == _OUTPUT or known.removeprefix("--") in EvaluationConfig.model_fields
    return "=".join([known, *value]) if name.startswith("--") and is_own else argument


def _value(text: str) -> Any:
    """Return what a text is as JSON, else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
    except RecursionError:
        raise ConfigurationError("an option is not JSON: lists and objects that are nested too deeply") from None


__all__ = ["own_help", "take_own"]
