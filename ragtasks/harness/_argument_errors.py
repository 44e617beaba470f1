"""One-line errors for common mistakes in the harness's arguments, instead of tracebacks.

Only errors that the harness raises on purpose are caught, at the calls that raise them, and all errors of loading
weights. Any other error may be a bug and keeps its traceback.
"""

from __future__ import annotations

import contextlib
import difflib
import inspect
import json
import logging
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

from lm_eval.api.model import LM
from lm_eval.api.registry import MODEL_REGISTRY
from lm_eval.api.registry import get_model as harness_model
from lm_eval.config.evaluate_config import EvaluatorConfig
from pydantic import ValidationError

from ragtasks.config import KEYS
from ragtasks.errors import ConfigurationError, RagtasksError, excerpt, masked, masked_text, misfits, one_line
from ragtasks.harness.extras import extra_of, install_line
from ragtasks.harness.names import nearest, reject_unknown_model_type

_HARNESS_LOGGER = logging.getLogger("lm_eval")
_MOST = 300  # maximum characters of a library's error
_NEAR = 0.84  # minimum similarity of a misspelt name


@contextlib.contextmanager
def clear_errors(what: str, *kinds: type[Exception]) -> Iterator[None]:
    """Convert errors of the given types to a ConfigurationError. `LMEVAL_LOG_LEVEL=DEBUG` logs the traceback."""
    try:
        yield
    except RagtasksError:
        raise
    except kinds as error:
        _HARNESS_LOGGER.debug(what, exc_info=True)
        text = "; ".join(misfits(error)) if isinstance(error, ValidationError) else str(error)
        raise ConfigurationError(f"{what}: {excerpt(one_line(text), _MOST) or type(error).__name__}") from error


class UnknownOptionError(ConfigurationError):
    """An option of neither the harness nor ragtasks."""

    exit_status = 2


_OURS = ("--data", "--run", "--judge", "--encoder", "--metric", "--full", "--dry-run")


def reject_unknown_options(arguments: Sequence[str], parser: ArgumentParser) -> None:
    """Reject options of neither the harness nor ragtasks, with similar options or the matching `--metadata` key."""
    options = {name for action in parser._actions for name in action.option_strings}
    for argument in arguments:
        name = argument.partition("=")[0]
        if not name.startswith("--") or name == "--" or any(option.startswith(name) for option in options):
            continue
        key = name[2:].replace("-", "_")
        hint = nearest(name, sorted({*options, *_OURS}), "`ragtasks run --help-all`")
        hint = f"--metadata {key}=VALUE" if key in KEYS else hint
        raise UnknownOptionError(f"no option {name}. Next step: {hint}")


def parse_with_clear_errors(parse: Callable[[], Namespace], arguments: Sequence[str]) -> Namespace:
    """Return the parsed arguments of the harness.

    Raises:
        ConfigurationError: if an argument contains invalid JSON.
    """
    try:
        return parse()
    except (ValueError, RecursionError):
        _HARNESS_LOGGER.debug("the harness's arguments", exc_info=True)
        problem = _broken_json(arguments)
        if not problem:
            raise
    # Outside the handler, because the harness's own error contains the text.
    raise ConfigurationError(
        f'{problem}. Next step: double quotes inside, single quotes around, as in \'{{"data": "sample"}}\''
    )


def _broken_json(arguments: Sequence[str]) -> str:
    """Return the option with invalid JSON and the parser's error, or an empty text."""
    option = ""
    for argument in arguments:
        name, _, text = argument.partition("=") if argument.startswith("--") else ("", "", argument)
        option = name or (argument if argument.startswith("-") else option)
        if "{" not in text:
            continue
        try:
            json.loads(text)
        except (ValueError, RecursionError) as error:
            return f"{option} is not JSON: {error}"
    return ""


LoadHook = Callable[[str, LM, dict[str, Any]], Any]
"""(model type, loaded model, its arguments) -> the model that the harness uses."""


class ClearLoading:
    """Replaces the harness's `EvaluatorConfig` and `get_model`: errors are one line, and keys are masked.

    The harness logs, prints and saves the model's arguments. It receives `***` for every key in them, and only the
    model receives the keys.
    """

    def __init__(self, loaded: LoadHook) -> None:
        self._loaded = loaded
        self._model_args: dict[str, Any] = {}

    def from_cli(self, namespace: Namespace) -> EvaluatorConfig:
        """Return the harness's configuration, with keys masked.

        Raises:
            ConfigurationError: if the harness rejects an argument, or no task is named.
        """
        with clear_errors("the harness rejects its arguments", ValueError, TypeError, OSError):
            config = EvaluatorConfig.from_cli(namespace)
        config.use_cache = None  # `AnswerKeeper` saves answers instead
        if not config.tasks:
            raise ConfigurationError("no task is named. Next step: add --tasks, such as --tasks mtrag_full_rag")
        self._model_args = dict(config.model_args or {})
        config.model_args, config.metadata = masked(self._model_args), masked(config.metadata)
        return config

    def get_model(self, name: str) -> SimpleNamespace:
        """Return the model loader in the harness's form."""
        reject_unknown_model_type(name, list(MODEL_REGISTRY))
        with _library_named(name):
            return SimpleNamespace(create_from_arg_obj=partial(self._create, name, harness_model(name)))

    def _create(
        self, name: str, model_class: type[LM], arguments: dict[str, Any], additional: dict[str, Any] | None = None
    ) -> Any:
        if missing := _missing_arguments(model_class, {**arguments, **(additional or {})}):
            listed = ",".join(f"{argument}=..." for argument in missing)
            raise ConfigurationError(f"--model {name}: missing arguments. Next step: add --model_args {listed}")
        problem = f"--model {name} cannot be loaded (check --model_args)"
        given_arguments = {key: self._model_args.get(key, value) for key, value in arguments.items()}
        # The harness also passes its options, such as `device`. With both, it would end with a TypeError.
        options = {key: value for key, value in (additional or {}).items() if key not in given_arguments}
        # Damaged files have errors of ten libraries. vLLM starts an engine, whose own errors are in the log.
        kinds = (Exception,) if extra_of(name) in {"hf", "vllm"} else (OSError,)
        with clear_errors(problem, *kinds), _library_named(name):
            try:
                model: LM = model_class.create_from_arg_obj(given_arguments, options)
            except TypeError as error:  # any other TypeError may be a bug
                if "unexpected keyword argument" not in str(error):
                    raise
                raise ConfigurationError(f"{problem}: {error}") from error
        return self._loaded(name, model, arguments)


def reject_unused_arguments(name: str, arguments: Mapping[str, Any]) -> None:
    """Reject unused arguments of a model behind a server, and a missing model name.

    An unused argument is misspelt or belongs to ragtasks.
    """
    if not name.endswith("completions"):
        return
    if not arguments.keys() & {"model", "pretrained"}:
        raise ConfigurationError(f"--model {name} needs the model's name. Next step: add --model_args model=NAME")
    if "api_key_env" in arguments:
        raise ConfigurationError(
            "--model_args api_key_env: lm_eval has no such argument. Next step: export OPENAI_API_KEY, or name "
            "the variable as the model's `api_key_env` in evaluation.yaml"
        )
    with _library_named(name):
        classes = [model_class for model_class in harness_model(name).__mro__ if model_class is not object]
    argument_names = {parameter for model_class in classes for parameter in inspect.signature(model_class).parameters}
    for key in sorted(arguments.keys() - argument_names):
        if near := difflib.get_close_matches(key, argument_names, n=1, cutoff=_NEAR):
            raise ConfigurationError(f"--model_args {key}: no such argument. Next step: did you mean {near[0]!r}?")


_NUMBERS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")
_SAMPLING: Mapping[str, tuple[Any, str]] = {
    **dict.fromkeys(_NUMBERS, ((int, float), "a number")),
    "do_sample": (bool, "true or false"),
    "until": ((str, list), "a text or a list of texts"),
    "seed": (int, "a whole number"),
    "max_gen_toks": (int, "a whole number of at least 1"),
}
_OTHER_NAMES = ("max_new_tokens", "max_tokens", "max_completion_tokens")  # for max_gen_toks, in lm_eval too


def reject_wrong_sampling(sampling: Mapping[str, Any]) -> None:
    """Reject misspelt sampling arguments and values of the wrong type: servers may ignore them silently.

    Other names of `max_gen_toks` are rejected too, because the value of the task would take precedence.
    """
    for key, value in sampling.items():
        if key in _OTHER_NAMES and "max_gen_toks" not in sampling:
            raise ConfigurationError(
                f"--gen_kwargs {key}: the tasks set max_gen_toks, which takes precedence. Next step: write "
                f"max_gen_toks={value}"
            )
        near = difflib.get_close_matches(key, _SAMPLING, n=1, cutoff=_NEAR)
        if near and near[0] != key:
            raise ConfigurationError(f"--gen_kwargs {key}: did you mean {near[0]!r}?")
        expected_type, expected = _SAMPLING.get(key, (object, ""))
        is_unlike = not isinstance(value, expected_type) or (
            isinstance(value, bool) and expected_type in {int, (int, float)}
        )
        if is_unlike or (key == "max_gen_toks" and value < 1):
            raise ConfigurationError(f"--gen_kwargs {key}: expected {expected}, found {value!r}")


@contextlib.contextmanager
def _library_named(model: str) -> Iterator[None]:
    """Convert an ImportError to an error that names the extra to install."""
    try:
        yield
    except ImportError as error:
        _HARNESS_LOGGER.debug("a model", exc_info=True)
        message = masked_text(str(error).strip()).splitlines()[0]
        extra = extra_of(model)
        step = f". Next step: {install_line(extra)}" if extra else ""
        raise ConfigurationError(f"--model {model}: a library is missing: {message}{step}") from error


def _missing_arguments(model_class: type[LM], arguments: Mapping[str, Any]) -> list[str]:
    """Return the required arguments of a model class that are missing."""
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        name
        for name, parameter in inspect.signature(model_class).parameters.items()
        if parameter.default is parameter.empty and parameter.kind not in variable and name not in arguments
    ]
