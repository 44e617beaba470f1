"""Runs the harness: its arguments, its output and its errors."""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import logging
import signal
import sys
import threading
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lm_eval.api.registry
import lm_eval.config.evaluate_config
import lm_eval.evaluator
import lm_eval.loggers.evaluation_tracker
import lm_eval.tasks
import yaml
from lm_eval._cli import HarnessCLI
from lm_eval.config.evaluate_config import EvaluatorConfig
from lm_eval.loggers.evaluation_tracker import GeneralConfigTracker
from lm_eval.tasks import TaskManager

from ragtasks.config import KEYS, config_from_metadata, foreign_keys, parsed_metadata
from ragtasks.errors import ConfigurationError, RagtasksError, masked_text
from ragtasks.files import read_yaml, yaml_text
from ragtasks.harness import endpoint_model, models
from ragtasks.harness._argument_errors import (
    ClearLoading,
    LoadHook,
    clear_errors,
    parse_with_clear_errors,
    reject_unknown_options,
    reject_unused_arguments,
    reject_wrong_sampling,
)
from ragtasks.harness._run_output import add_environment, filtered, git_commit, replaced, report_stages, split_verbose
from ragtasks.harness.answering import AnswerKeeper, served_model_in_use
from ragtasks.harness.names import reject_unknown_model_type, reject_unknown_tasks, unknown_task
from ragtasks.harness.served_model import ServedModel
from ragtasks.harness.tasks import task_folder, task_folders
from ragtasks.scoring import require_plausible, take_checked, take_failures
from ragtasks.thoughts import END_OF_THOUGHT

# `ragtasks run`: the harness's command line with the models and tasks of ragtasks. The harness does the work, so every
# option has the same meaning. Four parts are replaced during a run. The task manager reads our YAMLs first, and the
# harness's 14,000 only for a name that we do not have. Torch is not imported merely to seed it. The environment is
# described from package metadata. Common errors are one line.

_LOGGER = logging.getLogger(__name__)
_VLLM_BATCH = 256
"""Prompts per vLLM call, if no batch size is given. vLLM processes this many concurrently by default, and a killed
process can lose this many answers. The harness's default of 1 would process prompts one after the other.
"""
_WHAT_TO_TYPE = """\
run: name a model and its tasks, or let `ragtasks init` write a file for `ragtasks eval`.
On the sample inside the package, offline and without weights:

  ragtasks run --model ragtasks-extractive --tasks mtrag_reference --data sample --encoder none --output results

  --model NAME          ragtasks-extractive, -oracle and -refuse need no weights; hf, vllm and local-chat-completions
                        are the harness's own, with --model_args pretrained=... or base_url=... and, for chat models,
                        --apply_chat_template
  --tasks NAME,...      such as mtrag, mtrag_full_rag, multihop_rag; `ragtasks tasks list` lists them
  --data sample         or the folder that `ragtasks data fetch` wrote
  --judge JUDGE         such as openai/gpt-4o-mini, for judged scores (docs/endpoints.md)
  --output FOLDER       folder for results and samples, for `ragtasks report FOLDER`

Next step: type the line above, or `ragtasks run --help` for every option"""


@dataclass(frozen=True, slots=True)
class Request:
    """An evaluation, as the harness's arguments describe it."""

    model: str
    model_args: Mapping[str, Any] = field(repr=False)
    """Arguments of the model, which may contain a key."""
    tasks: Sequence[str]
    metadata: Mapping[str, Any]
    """Metadata, including our configuration's keys."""
    output: Path | None
    limit: float | None = None
    """Maximum number or share of prompts per harness task."""
    reply_tokens: int | None = None
    """Maximum length of a reply, if it differs from the tasks' own."""


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Functions of a caller that replace the harness's final table of all values."""

    begin: Callable[[Request], bool] = lambda _: True
    """Called before loading; returns whether to evaluate."""
    default_output: Callable[[str, Sequence[str]], Path] | None = None
    """(model name, harness tasks) -> output folder, if the arguments name none."""
    finished: Callable[[Path, Sequence[Path], bool], None] = lambda *_: None
    """Called with the output path, the results files and whether an error follows, after everything is saved."""
    with_tables: bool = True
    """Print the harness's table too."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """Additional entries of the results."""


def run_harness(
    arguments: Sequence[str], options: Mapping[str, Any] | None = None, callbacks: Callbacks = Callbacks()
) -> None:
    """Run the harness with the arguments of `lm_eval run`, `--for-submission`, and our own options.

    Args:
        arguments: the command line. `-v` enables the harness's log.
        options: configuration keys, which take precedence over `--metadata`.
        callbacks: functions of the caller.

    Raises:
        RagtasksError: if the evaluation or saving its results failed.
    """
    assert models
    assert endpoint_model  # imported because they register models
    take_failures()  # failures of an earlier evaluation in this process, or of the stock harness
    take_checked()
    arguments, verbose = split_verbose(expand_submission(arguments))
    if not arguments:
        raise ConfigurationError(_WHAT_TO_TYPE)
    with report_stages(verbose=verbose, with_tables=callbacks.with_tables):
        _run(arguments, options or {}, callbacks)


def _run(arguments: Sequence[str], options: Mapping[str, Any], callbacks: Callbacks) -> None:
    parsed = parse_with_clear_errors(lambda: _parse(arguments), arguments)
    settings = _settings(parsed, options)
    model, metadata, model_args = settings["model"], settings["metadata"], settings["model_args"]
    # The harness gives a model without a name a random one. The name is also that of the results folder.
    name = GeneralConfigTracker._get_model_name(model_args) or model
    if callbacks.default_output is not None and not settings.get("output_path"):
        settings["output_path"] = str(callbacks.default_output(name, settings["tasks"]))
    output = Path(settings["output_path"]) if settings.get("output_path") else None
    folder = output.parent if output is not None and output.suffix == ".json" else output
    if not callbacks.begin(_request(settings, folder)):
        return
    earlier_files: set[Path] = set()
    if output is not None and folder is not None:
        with clear_errors(f"--output_path {output}", OSError):  # the harness would report it after the model has run
            folder.mkdir(parents=True, exist_ok=True)
        earlier_files = set(_results_files(output))
        # Reports, comparisons and submissions read samples, and running a model again is expensive.
        vars(parsed).update(output_path=settings["output_path"], log_samples=True)
    if model.startswith("vllm") and "batch_size" not in settings and "batch_size" not in model_args:
        parsed.batch_size = _VLLM_BATCH
    with contextlib.ExitStack() as during:
        during.callback(_remove_if_empty, output)
        unsaved = during.enter_context(_collect_save_errors())
        end_of_thinking = str(metadata.get("end_of_thinking") or END_OF_THOUGHT)
        keeper = during.enter_context(AnswerKeeper(folder, settings.get("use_cache"), end_of_thinking))
        tests_system_role = settings.get("apply_chat_template") and metadata.get("system_role") != "user"
        loaded = _with_role_test(keeper.keep) if tests_system_role else keeper.keep
        during.enter_context(_replacements(model, name, loaded, callbacks.notes))
        if model.startswith("vllm"):
            during.enter_context(_exit_at_termination())
        parsed.func(parsed)
        problems = take_failures()
        if not problems and not unsaved:
            keeper.finish()
    written = sorted(set(_results_files(output)) - earlier_files) if output is not None else []
    if unsaved and folder is not None:
        raise RagtasksError("\n".join([_unsaved_message(output, folder, unsaved, written), *problems]))
    checked = take_checked()
    if output is not None and written:
        is_implausible = any(checked_answers.estimated_share > limit for checked_answers, limit in checked)
        callbacks.finished(output, written, bool(problems) or is_implausible)
    saved = f"everything is saved in {output}" if output is not None else "nothing is saved (no --output_path)"
    if problems:
        raise RagtasksError(f"{saved}, and the evaluation failed:\n" + "\n".join(problems))
    for checked_answers, limit in checked:
        require_plausible([checked_answers], limit, saved)


@contextlib.contextmanager
def _exit_at_termination() -> Iterator[None]:
    """Exit normally at SIGTERM, which ends vLLM's engine. Otherwise, the engine, its own process, keeps running."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals have handlers in the main thread only
        return
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _replacements(model: str, name: str, loaded: LoadHook, notes: Mapping[str, Any]) -> Iterator[None]:
    """Replace parts of the harness while the block runs."""
    loading = ClearLoading(loaded)
    with contextlib.ExitStack() as during:
        for module, replaced_name, value in (
            (lm_eval.tasks, "TaskManager", _RagtasksFirst),
            (lm_eval.config.evaluate_config, "EvaluatorConfig", loading),
            (lm_eval.evaluator, "add_env_info", functools.partial(add_environment, notes=notes)),
            (lm_eval.evaluator, "get_git_commit_hash", git_commit),
            (GeneralConfigTracker, "_get_model_name", staticmethod(lambda _: name)),
            (lm_eval.api.registry, "get_model", loading.get_model),
        ):
            during.enter_context(replaced(module, replaced_name, value))
        # Models that answer from the doc or over HTTP use no random numbers of torch.
        if model == "dummy" or model.startswith("ragtasks-") or model.endswith("completions"):
            # Importing torch only to seed it would take longer than the rest of the start.
            during.enter_context(replaced(lm_eval.evaluator, "set_torch_seed", lambda _: None))
        else:
            _LOGGER.info("loading %s: %s", model, masked_text(name))
        yield


def load_tasks(names: Sequence[str], metadata: Mapping[str, Any]) -> list[Any]:
    """Return the harness's task objects for names of tasks and groups, each task once."""
    manager = _RagtasksFirst(metadata=dict(metadata))
    matches = [match for name in names for match in manager.match_tasks([name])]
    return list(manager.load(matches)["tasks"].values())


def _with_role_test(keep: LoadHook) -> LoadHook:
    """Return a loading hook that also tests the system role of a chat server."""

    def tested(model_type: str, model: Any, arguments: dict[str, Any]) -> Any:
        wrapped = keep(model_type, model, arguments)
        if (served := served_model_in_use()) is not None and served.is_chat:
            check_system_role(served)
        return wrapped

    return tested


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the arguments parsed by the harness, which reads them only from `sys.argv`."""
    before = sys.argv
    sys.argv = ["ragtasks", "run", *arguments]
    try:
        harness = HarnessCLI()
        (commands,) = (action for action in harness._parser._actions if isinstance(action, argparse._SubParsersAction))
        run = commands.choices["run"]
        reject_unknown_options(arguments, run)
        if run._option_string_actions["--metadata"].type is json.loads:
            run._option_string_actions["--metadata"] = _MergedMetadata(["--metadata"], "metadata", nargs="+")
        parsed: argparse.Namespace = harness.parse_args()
        return parsed
    finally:
        sys.argv = before


class _MergedMetadata(argparse.Action):
    """`--metadata` as in lm_eval 0.4.13. Version 0.4.12 accepts JSON once, and prints the text of invalid JSON."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, *_: Any, **__: Any) -> None:
        given = [json.loads(text) if text.startswith("{") else parsed_metadata(text) for text in values]
        namespace.metadata = dict(ChainMap(*reversed(given), namespace.metadata or {}))


def _settings(parsed: argparse.Namespace, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the command line, merged over those of a configuration file.

    `options` are our own keys.

    Raises:
        ConfigurationError: if the model type is unknown, or its arguments are invalid.
    """
    settings = {key: value for key, value in vars(parsed).items() if value}
    if "config" in settings:
        with clear_errors("--config", ValueError, TypeError, OSError, RecursionError):
            with contextlib.suppress(yaml.YAMLError):  # lm_eval reports the line
                read_yaml(yaml_text(Path(settings["config"])))  # limits size and aliases, unlike lm_eval's reader
            settings = EvaluatorConfig.load_yaml_config(settings["config"]) | settings
    model = str(settings.get("model") or "hf")
    metadata, model_args = (
        dict(given) if isinstance(given := settings.get(key), Mapping) else {} for key in ("metadata", "model_args")
    )
    if options:
        metadata |= options
        parsed.metadata = metadata
    reject_unknown_model_type(model, list(lm_eval.api.registry.MODEL_REGISTRY))
    reject_unused_arguments(model, model_args)
    if "chat" in model and not settings.get("apply_chat_template"):
        raise ConfigurationError(f"--model {model} requires chat messages; next step: add --apply_chat_template")
    config_from_metadata(metadata)  # rejects misspelt keys
    # Keys among the model's arguments belong to the model.
    if unread := [repr(key) for key in foreign_keys(metadata) if key not in model_args]:
        _LOGGER.warning("--metadata: ragtasks does not use %s, only %s", ", ".join(unread), ", ".join(sorted(KEYS)))
    named = settings.get("tasks") or []
    texts = [named] if isinstance(named, str) else named
    tasks = [name for text in texts for name in str(text).split(",") if name]
    return {**settings, "model": model, "metadata": metadata, "model_args": model_args, "tasks": tasks}


def _request(settings: Mapping[str, Any], folder: Path | None) -> Request:
    if not settings.get("include_path"):
        reject_unknown_tasks(settings["tasks"])
    sampling = value if isinstance(value := settings.get("gen_kwargs"), Mapping) else {}
    reject_wrong_sampling(sampling)
    return Request(
        model=settings["model"],
        model_args=settings["model_args"],
        tasks=settings["tasks"],
        metadata=settings["metadata"],
        output=folder,
        limit=settings.get("limit"),
        reply_tokens=sampling.get("max_gen_toks"),
    )


def _results_files(output: Path) -> list[Path]:
    """Return the results files at the harness's output path."""
    if output.suffix == ".json":
        return list(output.parent.glob(f"{output.stem}_*.json"))
    return list(output.glob("*/results_*.json"))


def _remove_if_empty(output: Path | None) -> None:
    """Remove an empty results folder of an evaluation that ended early."""
    if output is not None and output.is_dir():
        with contextlib.suppress(OSError):
            output.rmdir()


@contextlib.contextmanager
def _collect_save_errors() -> Iterator[list[str]]:
    """Yield a list that collects the errors of saving, which the harness only logs."""
    unsaved: list[str] = []

    def note(record: logging.LogRecord) -> bool:
        if not record.getMessage().startswith("Could not save"):
            return True
        error = sys.exc_info()[1]  # the harness logs while it handles the error
        unsaved.append(masked_text(getattr(error, "strerror", None) or repr(error)))
        return False

    with filtered(logging.getLogger(lm_eval.loggers.evaluation_tracker.__name__), note):
        yield unsaved


def _unsaved_message(output: Path | None, folder: Path, reasons: Sequence[str], written: Sequence[Path]) -> str:
    """Return the message for unsaved files, and delete empty files, which no reader accepts."""
    for results in written:
        for file in results.parent.glob(f"*_{results.stem.removeprefix('results_')}.json*"):
            if not file.stat().st_size:
                file.unlink()
    kept_note = "; the answers so far are saved there and are not requested again" * any(folder.rglob("unfinished_*"))
    return (
        f"not everything could be saved in {output}: {', '.join(dict.fromkeys(reasons))}. Next step: free some space "
        f"or use another folder, and run the same command again{kept_note}"
    )


class _RagtasksFirst(TaskManager):
    """A task manager that reads our tasks and those of packages first, and the harness's own on demand."""

    def __init__(self, *_: Any, include_path: Any = None, metadata: Any = None, **__: Any) -> None:
        include_paths = (
            include_path if isinstance(include_path, (list, tuple)) else [include_path] if include_path else []
        )
        folders = [folder for _, folder in task_folders()]
        self._has_built_in = False
        super().__init__(
            include_path=[task_folder(), *folders, *include_paths], include_defaults=False, metadata=metadata
        )

    def match_tasks(self, task_list: list[str]) -> list[str]:
        matches: list[str] = super().match_tasks(task_list)
        if not matches and not self._has_built_in:
            self._has_built_in = True
            super().__init__(include_path=self.include_path, metadata=self.metadata)
            matches = super().match_tasks(task_list)
        # The harness calls this with one name. The name of a folder with YAML files may match nothing.
        if not matches and not Path(task_list[0]).is_dir():
            raise unknown_task(task_list[0], self.all_tasks)
        return matches


# `ragtasks run --for-submission B`: the tasks that MTRAGEval requires, selected before the model runs. A submission
# answers every task, including conversational ones that the paper does not score, and is built from logged samples. An
# evaluation without them would require a second run of the model.

OPTION = "--for-submission"
_TASKS = {"B": "mtrag_reference", "C": "mtrag_full_rag"}
_OTHER_SETTINGS = {"B": ("_reference_rag", "_full_rag"), "C": ("_reference",)}


def expand_submission(arguments: Sequence[str]) -> list[str]:
    """Return harness arguments with `--for-submission` expanded; unchanged without the option.

    The expansion adds the tasks of MTRAG's setting if none are named, conversational tasks, and logged samples.
    """
    split_arguments = [part for text in arguments for part in (text.split("=", 1) if text.startswith("--") else [text])]
    if OPTION not in split_arguments:
        return list(arguments)
    index = split_arguments.index(OPTION)
    remaining = split_arguments[:index] + split_arguments[index + 2 :]
    value = "".join(split_arguments[index + 1 : index + 2])
    task = value.upper()
    if task not in _TASKS:
        raise ConfigurationError(f"{OPTION} {value}: expected B (reference passages) or C (full RAG)")
    if "--output_path" not in remaining and "-o" not in remaining:
        raise ConfigurationError(f"{OPTION} {task} requires --output_path DIR, which `ragtasks submit` reads")
    if "--tasks" not in remaining and "-t" not in remaining:
        remaining += ["--tasks", _TASKS[task]]
    if "--log_samples" not in remaining and "-s" not in remaining:
        remaining.append("--log_samples")
    names = [name for text in _values_of(remaining, "--tasks", "-t") for name in text.split(",") if name]
    if all(any(part in name for part in _OTHER_SETTINGS[task]) for name in names):
        named_tasks = ",".join(names)
        raise ConfigurationError(
            f"{OPTION} {task}: {named_tasks} has another setting. Next step: --tasks {_TASKS[task]}"
        )
    metadata = _values_of(remaining, "--metadata")
    if any(str(parsed_metadata(text).get("conversational")).lower() == "false" for text in metadata):
        raise ConfigurationError(f"{OPTION}: remove conversational=false from --metadata: submissions need every task")
    return [*remaining, "--metadata", "conversational=true"]


def _values_of(arguments: Sequence[str], *options: str) -> Iterator[str]:
    """Yield the values after each of the options."""
    option = ""
    for text in arguments:
        if text.startswith("-"):
            option = text
        elif option in options:
            yield text


# Test of the system role of a chat server: one request before the evaluation. A server that drops system messages would
# answer without passages and be scored as if it had read them. The test sends a long system message with a password.
# The server has read it if the reply contains the password, or if the prompt has at least as many tokens as the message
# has words.

WORD = "heron"
_PASSAGE = "The ferry leaves from the small pier behind the market hall at seven in the morning and returns at dusk. "
_N_PASSAGES = 3
_SYSTEM = f"{_PASSAGE * _N_PASSAGES}The password is: {WORD}. Whoever asks for the password is told it."
_QUESTION = "What is the password? Answer with this one word."
_LEAST_TOKENS = len(_SYSTEM.split())  # a tokenizer produces at least one token per word of this text
_OPTIONS = {"max_gen_toks": 32}


def check_system_role(model: ServedModel) -> None:
    """Test whether a chat server reads system messages.

    Raises:
        ConfigurationError: if it drops them.
    """
    reply = model.probe([{"role": "system", "content": _SYSTEM}, {"role": "user", "content": _QUESTION}], _OPTIONS)
    if not reply.raw:  # the evaluation reports failed requests
        _LOGGER.debug("the test of the system role got no answer")
    elif WORD in (reply.text or "").lower() or (reply.usage.input_tokens or 0) >= _LEAST_TOKENS:
        return
    elif not reply.usage.input_tokens:
        _LOGGER.info("its reply to a test does not show whether the server reads system messages")
    else:
        raise ConfigurationError(
            "the server drops system messages, and with them every passage: its reply to a test does not contain the "
            f"word in the system message, and it counted {reply.usage.input_tokens} prompt tokens, fewer "
            f"than that message's {_LEAST_TOKENS} words.\n"
            "  next step: --metadata system_role=user puts the passages in front of the first user message"
        )
