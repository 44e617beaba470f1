"""`ragtasks run`: the harness's own command line, with our models known and only our tasks indexed.

The harness's code does the work, so that every one of its options means the same here. Two things are put in its place
while it runs. Its task manager, which reads 14,000 YAML files at each start, reads ours first and its own only where a
name is asked for that we do not have. And torch is not imported for its seed alone.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import lm_eval.evaluator
import lm_eval.tasks
from lm_eval._cli import HarnessCLI
from lm_eval.config.evaluate_config import EvaluatorConfig
from lm_eval.tasks import TaskManager
from lm_eval.utils import setup_logging

from ragtasks.errors import ConfigurationError, JudgeError
from ragtasks.harness import models
from ragtasks.harness.link import task_folder
from ragtasks.harness.scoring import take_problems


def run_harness(arguments: Sequence[str]) -> None:
    """Run the harness with its own arguments, as after `lm_eval run`.

    Raises:
        ConfigurationError: a chat endpoint without `--apply_chat_template`.
        RagtasksError: as the tasks that are run.
        JudgeError: judges gave too few verdicts; raised after everything is printed and saved.
        SystemExit: the harness's own refusal of its arguments.
    """
    assert models.__all__  # imported for the names that it registers
    setup_logging()
    parsed = _parse(arguments)
    _refuse_plain_text_for_chat(parsed)
    model = str(_settings(parsed).get("model", ""))
    with _replaced(lm_eval.tasks, "TaskManager", _OwnTasksFirst):
        if _is_free_of_torch(model):
            # Seeding torch is the one reason to import it here, which takes longer than all the rest of the start.
            with _replaced(lm_eval.evaluator, "set_torch_seed", lambda _: None):
                parsed.func(parsed)
        else:
            parsed.func(parsed)
    problems = take_problems()
    if problems:
        raise JudgeError("everything is saved, and the evaluation failed:\n" + "\n".join(problems))


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the harness's view of its arguments; it reads them from `sys.argv` only."""
    before = sys.argv
    sys.argv = ["ragtasks", "run", *arguments]
    try:
        parsed: argparse.Namespace = HarnessCLI().parse_args()
        return parsed
    finally:
        sys.argv = before


def _refuse_plain_text_for_chat(parsed: argparse.Namespace) -> None:
    """Refuse a chat model without the flag that makes the harness send it messages, wherever both were given."""
    settings = _settings(parsed)
    model = str(settings.get("model", ""))
    if "chat" in model and not settings.get("apply_chat_template"):
        raise ConfigurationError(f"--model {model} takes chat messages; next step: add --apply_chat_template")


def _settings(parsed: argparse.Namespace) -> dict[str, Any]:
    """Return what was given on the command line, over what a configuration file gives."""
    given = {key: value for key, value in vars(parsed).items() if value}
    return EvaluatorConfig.load_yaml_config(given["config"]) | given if "config" in given else given


def _is_free_of_torch(model: str) -> bool:
    """Return whether a model answers from the doc or over HTTP, so that it draws nothing from torch."""
    return model == "dummy" or model.startswith("ragtasks-") or model.endswith("completions")


class _OwnTasksFirst(TaskManager):
    """A task manager that knows our tasks, and the harness's own once a name is asked for that we do not have."""

    def __init__(self, *_: Any, include_path: Any = None, metadata: Any = None, **__: Any) -> None:
        given = include_path if isinstance(include_path, (list, tuple)) else [include_path] if include_path else []
        self._knows_built_in = False
        super().__init__(include_path=[task_folder(), *given], include_defaults=False, metadata=metadata)

    def match_tasks(self, task_list: list[str]) -> list[str]:
        found: list[str] = super().match_tasks(task_list)
        if found or self._knows_built_in:
            return found
        self._knows_built_in = True
        super().__init__(include_path=self.include_path, metadata=self.metadata)
        return list(super().match_tasks(task_list))


@contextlib.contextmanager
def _replaced(module: Any, name: str, value: Any) -> Iterator[None]:
    """Put something in the place of a name that the harness looks up while it runs."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


__all__ = ["run_harness"]
