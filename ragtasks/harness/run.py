"""The harness as a call of ours: its arguments, its output, and what it fails of."""

from __future__ import annotations

import argparse
import contextlib
import functools
import logging
import sys
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
    Loaded,
    in_one_line,
    parse_in_one_line,
    refuse_unknown_options,
    refuse_unread_arguments,
    refuse_wrong_sampling,
)
from ragtasks.harness._run_output import add_environment, filtered, git_commit, replaced, report_stages, take_verbose
from ragtasks.harness.answering import AnswerKeeper, served_model_in_use
from ragtasks.harness.names import refuse_unknown_kind, refuse_unknown_tasks, unknown_task
from ragtasks.harness.served_model import ServedModel
from ragtasks.harness.tasks import task_folder, task_folders
from ragtasks.scoring import require_plausible, take_checked, take_failures
from ragtasks.thoughts import END_OF_THOUGHT

# `ragtasks run`: the harness's own command line, with our models known and only our tasks indexed.
# The harness's code does the work, so that every one of its options means the same here. Four things are put in its
# place while it runs. Its task manager, which reads 14,000 YAML files at each start, reads ours first and its own
# only where a name is asked for that we do not have. Torch is not imported for its seed alone. The environment is
# described from package metadata. And common errors end in one line.

_LOGGER = logging.getLogger(__name__)
_VLLM_BATCH = 256
"""Prompts that vLLM is handed at once where nobody says: as many as it answers side by side by default, and what a
killed process may lose. The harness's own default is 1, which has it answer one after the other.
"""
_WHAT_TO_TYPE = """\
run: name a model and what it shall answer, or let `ragtasks init` ask for both and write a file for
`ragtasks eval`. On the sample inside the package, offline and without weights:

  ragtasks run --model ragtasks-extractive --tasks mtrag_reference --data sample --encoder none --output results

  --model NAME          ragtasks-extractive, -oracle and -refuse need no weights; hf, vllm and local-chat-completions
                        are the harness's own, with --model_args pretrained=... or base_url=... and, for chat models,
                        --apply_chat_template
  --tasks NAME,...      such as mtrag, mtrag_full_rag, multihop_rag; `ragtasks tasks list` lists them
  --data sample         or the folder that `ragtasks data fetch` filled
  --judge JUDGE         such as openai/gpt-4o-mini, for the scores that a judge gives (docs/endpoints.md)
  --output FOLDER       where results and samples go: then `ragtasks report FOLDER`

Next step: type the line above, or `ragtasks run --help` for every option"""


@dataclass(frozen=True, slots=True)
class Request:
    """What the harness's arguments ask for."""

    model: str
    model_args: Mapping[str, Any] = field(repr=False)
    """Its arguments; they may hold a key."""
    tasks: Sequence[str]
    metadata: Mapping[str, Any]
    """Our configuration's keys among others."""
    output: Path | None
    limit: float | None = None
    """Prompts of each harness task, where not all are wanted."""
    reply_tokens: int | None = None
    """The longest reply, where that is not the tasks' own."""


@dataclass(frozen=True, slots=True)
class Callbacks:
    """What a caller does in place of the harness's last step, which prints a table of every value of every task."""

    begin: Callable[[Request], bool] = lambda _: True
    """Called before anything is loaded; returns whether to evaluate."""
    default_output: Callable[[str, Sequence[str]], Path] | None = None
    """(name of the model, harness tasks) -> folder for the results where the arguments name none."""
    finished: Callable[[Path, Sequence[Path], bool], None] = lambda *_: None
    """Called with the output path, the results files, and whether an error follows, once everything is saved."""
    with_tables: bool = True
    """Whether the harness prints its table all the same."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """What the results hold beside the harness's own, by key."""


def run_harness(
    arguments: Sequence[str], options: Mapping[str, Any] | None = None, callbacks: Callbacks = Callbacks()
) -> None:
    """Run the harness with its own arguments, as after `lm_eval run`, and `--for-submission`, and with keys of ours.

    The keys win over those of `--metadata`. The harness's log is quiet unless `-v` is among the arguments.
    """
    assert models
    assert endpoint_model  # imported for the names that they register
    take_failures()  # what an evaluation that ended early, or the stock harness, left in this process
    take_checked()
    arguments, verbose = take_verbose(submission_arguments(arguments))
    if not arguments:
        raise ConfigurationError(_WHAT_TO_TYPE)
    with report_stages(verbose=verbose, with_tables=callbacks.with_tables):
        _run(arguments, options or {}, callbacks)


def _run(arguments: Sequence[str], options: Mapping[str, Any], callbacks: Callbacks) -> None:
    parsed = parse_in_one_line(lambda: _parse(arguments), arguments)
    settings = _settings(parsed, options)
    model, metadata, model_args = settings["model"], settings["metadata"], settings["model_args"]
    # The harness makes a name up for models without weights; it names the folder.
    name = GeneralConfigTracker._get_model_name(model_args) or model
    if callbacks.default_output is not None and not settings.get("output_path"):
        settings["output_path"] = str(callbacks.default_output(name, settings["tasks"]))
    output = Path(settings["output_path"]) if settings.get("output_path") else None
    folder = output.parent if output is not None and output.suffix == ".json" else output
    if not callbacks.begin(_request(settings, folder)):
        return
    there_before: set[Path] = set()
    if output is not None and folder is not None:
        with in_one_line(f"--output_path {output}", OSError):  # the harness would find out once the model has run
            folder.mkdir(parents=True, exist_ok=True)
        there_before = set(_results_files(output))
        # Reports, comparisons and submissions read samples, and a model that ran is dear.
        vars(parsed).update(output_path=settings["output_path"], log_samples=True)
    if model.startswith("vllm") and "batch_size" not in settings and "batch_size" not in model_args:
        parsed.batch_size = _VLLM_BATCH
    with contextlib.ExitStack() as during:
        during.callback(_remove_if_empty, output)
        unsaved = during.enter_context(_what_is_not_saved())
        end_of_thinking = str(metadata.get("end_of_thinking") or END_OF_THOUGHT)
        keeper = during.enter_context(AnswerKeeper(folder, settings.get("use_cache"), end_of_thinking))
        tests_system_role = settings.get("apply_chat_template") and metadata.get("system_role") != "user"
        loaded = _tested(keeper.keep) if tests_system_role else keeper.keep
        during.enter_context(_replacements(model, name, loaded, callbacks.notes))
        parsed.func(parsed)
        problems = take_failures()
        if not problems and not unsaved:
            keeper.finish()
    written = sorted(set(_results_files(output)) - there_before) if output is not None else []
    if unsaved and folder is not None:
        raise RagtasksError("\n".join([_unsaved_note(output, folder, unsaved, written), *problems]))
    checked = take_checked()
    if output is not None and written:
        is_implausible = any(found.estimated_share > limit for found, limit in checked)
        callbacks.finished(output, written, bool(problems) or is_implausible)
    saved = f"everything is saved in {output}" if output is not None else "nothing is saved (no --output_path)"
    if problems:
        raise RagtasksError(f"{saved}, and the evaluation failed:\n" + "\n".join(problems))
    for found, limit in checked:
        require_plausible([found], limit, saved)


@contextlib.contextmanager
def _replacements(model: str, name: str, loaded: Loaded, notes: Mapping[str, Any]) -> Iterator[None]:
    """Put our parts in place of the harness's while it runs."""
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
        # A model that answers from the doc or over HTTP draws nothing from torch.
        if model == "dummy" or model.startswith("ragtasks-") or model.endswith("completions"):
            # Seeding torch is the one reason to import it here, which takes longer than all the rest of the start.
            during.enter_context(replaced(lm_eval.evaluator, "set_torch_seed", lambda _: None))
        else:
            _LOGGER.info("loading %s: %s", model, masked_text(name))
        yield


def load_tasks(names: Sequence[str], metadata: Mapping[str, Any]) -> list[Any]:
    """Return the harness's task objects of names, those of groups one by one and each once."""
    manager = _RagtasksFirst(metadata=dict(metadata))
    matches = [match for name in names for match in manager.match_tasks([name])]
    return list(manager.load(matches)["tasks"].values())


def _tested(keep: Loaded) -> Loaded:
    """Return what is done with a loaded model, after a test of its system role if it is a chat server."""

    def tested(kind: str, model: Any, arguments: dict[str, Any]) -> Any:
        kept = keep(kind, model, arguments)
        if (served := served_model_in_use()) is not None and served.is_chat:
            check_system_role(served)
        return kept

    return tested


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the harness's view of its arguments; it reads them from `sys.argv` only."""
    before = sys.argv
    sys.argv = ["ragtasks", "run", *arguments]
    try:
        harness = HarnessCLI()
        (commands,) = (one for one in harness._parser._actions if isinstance(one, argparse._SubParsersAction))
        refuse_unknown_options(arguments, commands.choices["run"])
        parsed: argparse.Namespace = harness.parse_args()
        return parsed
    finally:
        sys.argv = before


def _settings(parsed: argparse.Namespace, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the command line, over those of a configuration file; `options` are our own keys.

    Raises:
        ConfigurationError: the model is of no known kind, or its arguments cannot be right.
    """
    settings = {key: value for key, value in vars(parsed).items() if value}
    if "config" in settings:
        with in_one_line("--config", ValueError, TypeError, OSError, RecursionError):
            with contextlib.suppress(yaml.YAMLError):  # lm_eval names the line
                read_yaml(yaml_text(Path(settings["config"])))  # limits size and aliases, which lm_eval's does not
            settings = EvaluatorConfig.load_yaml_config(settings["config"]) | settings
    model = str(settings.get("model") or "hf")
    metadata, model_args = (
        dict(given) if isinstance(given := settings.get(key), Mapping) else {} for key in ("metadata", "model_args")
    )
    if options:
        metadata |= options
        parsed.metadata = metadata
    refuse_unknown_kind(model, list(lm_eval.api.registry.MODEL_REGISTRY))
    refuse_unread_arguments(model, model_args)
    if "chat" in model and not settings.get("apply_chat_template"):
        raise ConfigurationError(f"--model {model} takes chat messages; next step: add --apply_chat_template")
    config_from_metadata(metadata)  # refuses misspelt keys
    # The keys among the model's arguments are the model's.
    if unread := [repr(key) for key in foreign_keys(metadata) if key not in model_args]:
        _LOGGER.warning("--metadata: our tasks do not read %s, only %s", ", ".join(unread), ", ".join(sorted(KEYS)))
    named = settings.get("tasks") or []
    texts = [named] if isinstance(named, str) else named
    tasks = [name for text in texts for name in str(text).split(",") if name]
    return {**settings, "model": model, "metadata": metadata, "model_args": model_args, "tasks": tasks}


def _request(settings: Mapping[str, Any], folder: Path | None) -> Request:
    if not settings.get("include_path"):
        refuse_unknown_tasks(settings["tasks"])
    sampling = given if isinstance(given := settings.get("gen_kwargs"), Mapping) else {}
    refuse_wrong_sampling(sampling)
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
    """Return the results files that are where the harness writes."""
    if output.suffix == ".json":
        return list(output.parent.glob(f"{output.stem}_*.json"))
    return list(output.glob("*/results_*.json"))


def _remove_if_empty(output: Path | None) -> None:
    """Remove a folder for results that contains nothing: the evaluation ended before it began."""
    if output is not None and output.is_dir():
        with contextlib.suppress(OSError):
            output.rmdir()


@contextlib.contextmanager
def _what_is_not_saved() -> Iterator[list[str]]:
    """Yield a list that fills with why the harness could not save something, which it only logs."""
    unsaved: list[str] = []

    def note(record: logging.LogRecord) -> bool:
        if not record.getMessage().startswith("Could not save"):
            return True
        error = sys.exc_info()[1]  # the harness logs while it handles it
        unsaved.append(masked_text(getattr(error, "strerror", None) or repr(error)))
        return False

    with filtered(logging.getLogger(lm_eval.loggers.evaluation_tracker.__name__), note):
        yield unsaved


def _unsaved_note(output: Path | None, folder: Path, reasons: Sequence[str], written: Sequence[Path]) -> str:
    """Return that files could not be written, and what to do; empty ones are removed, as no reader takes them."""
    for results in written:
        for file in results.parent.glob(f"*_{results.stem.removeprefix('results_')}.json*"):
            if not file.stat().st_size:
                file.unlink()
    are_kept = "; the answers so far are kept there, and are not asked for again" * any(folder.rglob("unfinished_*"))
    return (
        f"not everything could be saved in {output}: {', '.join(dict.fromkeys(reasons))}. Next step: make room, or "
        f"name another folder, and give the same command again{are_kept}"
    )


class _RagtasksFirst(TaskManager):
    """A task manager that knows our tasks and those that packages add, and the harness's own once one is asked for."""

    def __init__(self, *_: Any, include_path: Any = None, metadata: Any = None, **__: Any) -> None:
        given = include_path if isinstance(include_path, (list, tuple)) else [include_path] if include_path else []
        folders = [folder for _, folder in task_folders()]
        self._knows_built_in = False
        super().__init__(include_path=[task_folder(), *folders, *given], include_defaults=False, metadata=metadata)

    def match_tasks(self, task_list: list[str]) -> list[str]:
        found: list[str] = super().match_tasks(task_list)
        if not found and not self._knows_built_in:
            self._knows_built_in = True
            super().__init__(include_path=self.include_path, metadata=self.metadata)
            found = super().match_tasks(task_list)
        # The harness asks for one name at a time; that of a folder with YAML files may match nothing.
        if not found and not Path(task_list[0]).is_dir():
            raise unknown_task(task_list[0], self.all_tasks)
        return found


# `ragtasks run --for-submission B`: what MTRAGEval wants answered, asked for before the model runs.
# A submission answers every task, also the conversational ones that the paper leaves out of its scores, and it is
# made of logged samples. An evaluation without them costs a second run of the model.

OPTION = "--for-submission"
_TASKS = {"B": "mtrag_reference", "C": "mtrag_full_rag"}
_OTHER_SETTINGS = {"B": ("_reference_rag", "_full_rag"), "C": ("_reference",)}


def submission_arguments(arguments: Sequence[str]) -> list[str]:
    """Return arguments of the harness in which the option for a submission has its meaning; others as they are.

    It asks for the tasks of MTRAG's setting where none are named, for conversational ones, and for logged samples.
    """
    given = [part for text in arguments for part in (text.split("=", 1) if text.startswith("--") else [text])]
    if OPTION not in given:
        return list(arguments)
    value, rest = _taken(given, OPTION)
    task = (value or "").upper()
    if task not in _TASKS:
        raise ConfigurationError(f"{OPTION} {value or ''}: expected B (reference passages) or C (full RAG)")
    if "--output_path" not in rest and "-o" not in rest:
        raise ConfigurationError(f"{OPTION} {task} needs --output_path DIR, which `ragtasks submit` reads")
    if "--tasks" not in rest and "-t" not in rest:
        rest += ["--tasks", _TASKS[task]]
    if "--log_samples" not in rest and "-s" not in rest:
        rest.append("--log_samples")
    names = [name for text in _values_of(rest, "--tasks", "-t") for name in text.split(",") if name]
    if all(any(part in name for part in _OTHER_SETTINGS[task]) for name in names):
        found = ",".join(names)
        raise ConfigurationError(f"{OPTION} {task}: {found} has another setting. Next step: --tasks {_TASKS[task]}")
    metadata = _values_of(rest, "--metadata")
    if any(str(parsed_metadata(text).get("conversational")).lower() == "false" for text in metadata):
        raise ConfigurationError(f"{OPTION}: remove conversational=false from --metadata: submissions need every task")
    return [*rest, "--metadata", "conversational=true"]


def _taken(given: Sequence[str], option: str) -> tuple[str | None, list[str]]:
    """Return what follows an option, and the rest."""
    place = list(given).index(option)
    value = given[place + 1] if place + 1 < len(given) else None
    return value, [*given[:place], *given[place + 2 :]]


def _values_of(arguments: Sequence[str], *options: str) -> Iterator[str]:
    """Yield the texts after each of some options."""
    option = ""
    for text in arguments:
        if text.startswith("-"):
            option = text
        elif option in options:
            yield text


# Whether a chat server reads system messages at all: one request before the evaluation.
# A server that leaves them out gets conversations without their passages, answers from memory, and is scored as if
# it had read them. So it is sent one long system message with a word that only this message holds: a reply with the
# word, or as many prompt tokens as the message must have, says that it was read.

WORD = "heron"
_PASSAGE = "The ferry leaves from the small pier behind the market hall at seven in the morning and returns at dusk. "
_N_PASSAGES = 3
_SYSTEM = f"{_PASSAGE * _N_PASSAGES}The password is: {WORD}. Whoever asks for the password is told it."
_QUESTION = "What is the password? Answer with this one word."
_LEAST_TOKENS = len(_SYSTEM.split())  # no tokenizer makes fewer tokens than words of such a text
_OPTIONS = {"max_gen_toks": 32}


def check_system_role(model: ServedModel) -> None:
    """Ask a model behind a chat server for the word in a system message."""
    reply = model.probe([{"role": "system", "content": _SYSTEM}, {"role": "user", "content": _QUESTION}], _OPTIONS)
    if not reply.raw:  # whatever keeps a request from being answered is reported by the evaluation
        _LOGGER.debug("the test of the system role got no answer")
    elif WORD in (reply.text or "").lower() or (reply.usage.input_tokens or 0) >= _LEAST_TOKENS:
        return
    elif not reply.usage.input_tokens:
        _LOGGER.info("its reply to a test does not show whether the server reads system messages")
    else:
        raise ConfigurationError(
            "the server leaves out system messages, and with them every passage: its reply to a test does not hold a "
            f"word that only the system message has, and it counted {reply.usage.input_tokens} prompt tokens, fewer "
            f"than that message's {_LEAST_TOKENS} words.\n"
            "  next step: --metadata system_role=user puts the passages in front of the first user message"
        )
