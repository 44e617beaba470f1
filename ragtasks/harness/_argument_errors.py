"""Common errors in the harness's arguments, as one line where the harness ends in a traceback.

Only what it refuses on purpose is caught, and only where it does so: anything else may be a bug and stays a traceback.
"""

from __future__ import annotations

import contextlib
import difflib
import inspect
import json
import logging
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lm_eval.api.model import LM
from lm_eval.api.registry import MODEL_REGISTRY
from lm_eval.api.registry import get_model as harness_model
from lm_eval.config.evaluate_config import EvaluatorConfig

from ragtasks.config import KEYS
from ragtasks.errors import ConfigurationError, masked, masked_text
from ragtasks.harness.extras import extra_of, install_line
from ragtasks.harness.names import nearest, refuse_unknown_kind

_HARNESS_LOGGER = logging.getLogger("lm_eval")
_NEAR = 0.84  # similarity from which a name is taken for a misspelt one


@contextlib.contextmanager
def in_one_line(what: str, *kinds: type[Exception]) -> Iterator[None]:
    """Turn some kinds of errors into a clear one; `LMEVAL_LOG_LEVEL=DEBUG` logs the traceback."""
    try:
        yield
    except kinds as error:
        _HARNESS_LOGGER.debug(what, exc_info=True)
        message = masked_text(str(error).strip()) or type(error).__name__
        raise ConfigurationError(f"{what}: {message.splitlines()[0]}") from error


class UnknownOptionError(ConfigurationError):
    """An option that neither the harness nor ragtasks has."""

    exit_status = 2


_OURS = ("--data", "--run", "--judge", "--encoder", "--metric", "--full", "--dry-run")


def refuse_unknown_options(arguments: Sequence[str], parser: ArgumentParser) -> None:
    """Raise where an option is neither the harness's nor ours, with the nearest options, or its key of `--metadata`."""
    known = {name for action in parser._actions for name in action.option_strings}
    for argument in arguments:
        name = argument.partition("=")[0]
        if not name.startswith("--") or name == "--" or any(option.startswith(name) for option in known):
            continue
        key = name[2:].replace("-", "_")
        hint = nearest(name, sorted({*known, *_OURS}), "`ragtasks run --help-all`")
        hint = f"--metadata {key}=VALUE" if key in KEYS else hint
        raise UnknownOptionError(f"no option {name}. Next step: {hint}")


def parse_in_one_line(parse: Callable[[], Namespace], arguments: Sequence[str]) -> Namespace:
    """Return what the harness parses."""
    try:
        return parse()
    except (ValueError, RecursionError):
        _HARNESS_LOGGER.debug("the harness's arguments", exc_info=True)
        problem = _broken_json(arguments)
        if not problem:
            raise
    # Outside the handler: the harness's own error shows the text.
    raise ConfigurationError(
        f'{problem}. Next step: double quotes inside, single quotes around, as in \'{{"data": "sample"}}\''
    )


def _broken_json(arguments: Sequence[str]) -> str:
    """Return the option with broken JSON and where it breaks, empty where there is none."""
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


class ClearConfig:
    """Stands for the harness's `EvaluatorConfig` where its command line looks that up, and keeps the model's secrets.

    The harness logs, prints and saves a model's arguments. It is handed `***` for every key in them; the model alone is
    given them as they are.
    """

    def __init__(self) -> None:
        self.model_args: dict[str, Any] = {}
        """The model's arguments as they were given."""

    def from_cli(self, namespace: Namespace) -> EvaluatorConfig:
        """Return the harness's own."""
        with in_one_line("the harness refuses its arguments", ValueError, TypeError, OSError):
            config = EvaluatorConfig.from_cli(namespace)
        config.use_cache = None  # our own keeping of answers takes its place
        if not config.tasks:
            raise ConfigurationError("no task is named. Next step: add --tasks, such as --tasks mtrag_full_rag")
        self.model_args = dict(config.model_args or {})
        config.model_args, config.metadata = masked(self.model_args), masked(config.metadata)
        return config


def refuse_misspelt_arguments(name: str, arguments: Mapping[str, Any]) -> None:
    """Refuse arguments of a model behind a server that are nearly one of its own: it leaves unknown ones unread."""
    if not name.endswith("completions"):
        return
    with _library_named(name):
        kinds = [kind for kind in harness_model(name).__mro__ if kind is not object]
    known = {parameter for kind in kinds for parameter in inspect.signature(kind).parameters}
    for key in sorted(arguments.keys() - known):
        if near := difflib.get_close_matches(key, known, n=1, cutoff=_NEAR):
            raise ConfigurationError(f"--model_args {key}: no such argument. Next step: did you mean {near[0]!r}?")


_NUMBERS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")
_SAMPLING: dict[str, Any] = {
    **dict.fromkeys(_NUMBERS, (int, float)),
    "do_sample": bool,
    "until": (str, list),
    "seed": int,
}


def refuse_wrong_sampling(given: Mapping[str, Any]) -> None:
    """Refuse sampling whose name is nearly a known one, or whose value is of another type: servers may say nothing."""
    for key, value in given.items():
        near = difflib.get_close_matches(key, [*_SAMPLING, "max_gen_toks"], n=1, cutoff=_NEAR)
        if near and near[0] != key:
            raise ConfigurationError(f"--gen_kwargs {key}: did you mean {near[0]!r}?")
        kind = _SAMPLING.get(key)
        is_number = key in _NUMBERS and isinstance(value, bool)
        if kind is not None and (is_number or not isinstance(value, kind)):
            expected = "a number" if key in _NUMBERS else _EXPECTED[key]
            raise ConfigurationError(f"--gen_kwargs {key}: expected {expected}, found {value!r}")


_EXPECTED = {"do_sample": "true or false", "until": "a text or a list of texts", "seed": "a whole number"}


Loaded = Callable[[str, LM, dict[str, Any]], Any]
"""(kind, loaded model, its arguments) -> what the harness is handed in its place."""


def clear_model(name: str, loaded: Loaded, config: ClearConfig) -> _ClearModel:
    """Return what loads the models of a kind; means the harness's `get_model`."""
    refuse_unknown_kind(name, list(MODEL_REGISTRY))
    with _library_named(name):
        return _ClearModel(name, harness_model(name), loaded, config)


class _ClearModel:
    """The class of a model, whose loading fails in one line."""

    def __init__(self, name: str, kind: type[LM], loaded: Loaded, config: ClearConfig) -> None:
        self._name, self._kind, self._loaded, self._config = name, kind, loaded, config

    def create_from_arg_obj(self, arguments: dict[str, Any], additional: dict[str, Any] | None = None) -> Any:
        """Return what is made of the loaded model."""
        missing = _missing(self._kind, {**arguments, **(additional or {})})
        if missing:
            listed = ",".join(f"{argument}=..." for argument in missing)
            raise ConfigurationError(f"--model {self._name} needs more. Next step: add --model_args {listed}")
        what = f"--model {self._name} cannot be loaded (check --model_args)"
        with _library_named(self._name), in_one_line(what, OSError, _UnknownArgumentError), _argument_named():
            given = {key: self._config.model_args.get(key, value) for key, value in arguments.items()}
            model: LM = self._kind.create_from_arg_obj(given, additional)
        return self._loaded(self._name, model, arguments)


class _UnknownArgumentError(Exception):
    """A model's library knows no argument of that name."""


@contextlib.contextmanager
def _argument_named() -> Iterator[None]:
    """Tell an argument that nobody knows from every other TypeError, which may be a bug."""
    try:
        yield
    except TypeError as error:
        if "unexpected keyword argument" in str(error):
            raise _UnknownArgumentError(str(error)) from error
        raise


@contextlib.contextmanager
def _library_named(model: str) -> Iterator[None]:
    """Turn the absence of a library into an error that names the extra which brings it."""
    try:
        yield
    except ImportError as error:
        _HARNESS_LOGGER.debug("a model", exc_info=True)
        message = masked_text(str(error).strip()).splitlines()[0]
        extra = extra_of(model)
        step = f". Next step: {install_line(extra)}" if extra else ""
        raise ConfigurationError(f"--model {model} lacks a library: {message}{step}") from error


def _missing(kind: type[LM], arguments: Mapping[str, Any]) -> list[str]:
    """Return the arguments that a model cannot do without and was not given."""
    parameters = list(inspect.signature(kind).parameters.values())
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [item.name for item in parameters if item.default is item.empty and item.kind not in variable]
    return [name for name in needed if name not in arguments]
