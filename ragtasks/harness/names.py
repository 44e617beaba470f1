"""Checks names of harness tasks and model types without importing lm_eval.

Importing lm_eval takes a second, and its index of 14,000 YAML files takes six. A misspelt name is reported before both.
Only names that certainly do not exist are rejected. lm_eval checks the others.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import fnmatch
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ragtasks.errors import ConfigurationError, near_names
from ragtasks.harness.link import harness_tasks_folder
from ragtasks.harness.tasks import own_names, task_folders
from ragtasks.plugins import entries_of

_NEAR = 0.85  # minimum similarity of a misspelt name of ours
_NOT_YAML = (".py", ".pyc", ".md", ".sh", ".json", ".tsv", ".txt")
_NAME = re.compile(rb"^(?:task|group|tag): *[\"']?([\w./:+-]+)", re.MULTILINE)


def reject_unknown_names(arguments: Sequence[str]) -> None:
    """Reject model types and tasks in the arguments of `lm_eval run` that certainly do not exist.

    Tasks are not checked if a folder or a configuration file can add some.
    """
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument("--model", "-M")
    parser.add_argument("--tasks", "-t", nargs="+", default=[])
    parser.add_argument("--include_path")
    parser.add_argument("--config", "-C")
    try:
        options, _ = parser.parse_known_args(list(arguments))
    except argparse.ArgumentError:  # lm_eval's parser reports it
        return
    if options.model is not None:
        reject_unknown_model_type(options.model, model_types())
    if options.include_path is None and options.config is None:
        # argparse treats an unknown option with a space in it, such as --metadata={...}, as one more task.
        tasks = [text for text in options.tasks if not text.startswith("-")]
        reject_unknown_tasks([name for text in tasks for name in text.split(",") if name])


def reject_unknown_model_type(name: str, candidates: Sequence[str]) -> None:
    """Reject an unknown model type, with similar names."""
    if name not in candidates:
        if name.startswith("openai/"):
            step = f"--model openai-chat-completions --model_args model={name.removeprefix('openai/')}"
            raise ConfigurationError(
                f"--model {name}: not a model type of lm_eval. Next step: {step} --apply_chat_template"
            )
        example = f"--model hf --model_args pretrained={name}"
        hint = nearest(
            name, candidates, f"`ragtasks run --help-all`, which lists all; weights of the hub are {example}"
        )
        raise ConfigurationError(f"--model {name}: no such model type. Next step: {hint}")


def model_types() -> list[str]:
    """Return the model types of lm_eval's `MODEL_MAPPING`, of entry points, and of registered models."""
    tree = ast.parse((harness_tasks_folder().parent / "models" / "__init__.py").read_text("utf-8"))
    mappings = [
        ast.literal_eval(statement.value)
        for statement in tree.body
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "MODEL_MAPPING"
    ]
    added = [entry.name for entry in entries_of("lm_eval.models")]
    # A script that imports lm_eval can register a model and then call the command.
    registry = sys.modules.get("lm_eval.api.registry")
    registered = list(registry.model_registry) if registry is not None else []
    return list(dict.fromkeys([*(name for mapping in mappings for name in mapping), *added, *registered]))


def reject_unknown_tasks(names: Sequence[str]) -> None:
    """Reject a task that is nearly one of ours, or that no task file mentions."""
    ours = own_names()
    for name in names:
        if name in ours or fnmatch.filter(ours, name) or Path(name).exists():
            continue
        if near := difflib.get_close_matches(name, ours, n=3, cutoff=_NEAR):
            raise unknown_task(name, near)
        if not any(sign in name for sign in "*?["):
            _reject_unmentioned(name)


def _reject_unmentioned(name: str) -> None:
    mention = re.compile(rb"(?<!\w)" + re.escape(name.encode()) + rb"(?!\w)")
    names = set(own_names())
    for text in _task_texts():
        if mention.search(text):
            return
        names.update(match.decode() for match in _NAME.findall(text))
    raise unknown_task(name, sorted(names))


def unknown_task(name: str, names: Sequence[str]) -> ConfigurationError:
    """Return the error for an unknown task, with similar names."""
    return ConfigurationError(f"Tasks not found: {name}. Next step: {nearest(name, names, '`lm_eval ls tasks`')}")


def nearest(name: str, candidates: Sequence[str], otherwise: str) -> str:
    """Return a hint with similar names, or with the list to consult."""
    return near_names(name, candidates) or f"see {otherwise}"


def _task_texts() -> Iterator[bytes]:
    """Yield the content of files that can name a task, of lm_eval and other packages.

    Included files may have any suffix.
    """
    for root in (harness_tasks_folder(), *(folder for _, folder in task_folders())):
        for folder, _, files in os.walk(root):
            for file in files:
                if not file.endswith(_NOT_YAML):
                    yield Path(folder, file).read_bytes()
