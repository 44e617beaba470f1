"""`ragtasks run`: the harness's own command line, with our models known and only our tasks indexed.

The harness's code does the work, so that every one of its options means the same here. One thing is put in its place
while it runs: its task manager, which reads 14,000 YAML files at each start, is told to read ours first and its own
only where a name is asked for that we do not have.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import lm_eval.tasks
from lm_eval._cli import HarnessCLI
from lm_eval.config.evaluate_config import EvaluatorConfig
from lm_eval.tasks import TaskManager
from lm_eval.utils import setup_logging

from ragtasks.errors import ConfigurationError
from ragtasks.harness import models
from ragtasks.harness.link import task_folder


def run_harness(arguments: Sequence[str]) -> None:
    """Run the harness with its own arguments, as after `lm_eval run`.

    Raises:
        ConfigurationError: a chat endpoint without `--apply_chat_template`.
        RagtasksError: as the tasks that are run.
        SystemExit: the harness's own refusal of its arguments.
    """
    assert models.__all__  # imported for the names that it registers
    setup_logging()
    parsed = _parse(arguments)
    _refuse_plain_text_for_chat(parsed)
    with _own_tasks_first():
        parsed.func(parsed)


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
    given = {key: value for key, value in vars(parsed).items() if value}
    settings = EvaluatorConfig.load_yaml_config(given["config"]) | given if "config" in given else given
    model = str(settings.get("model", ""))
    if "chat" in model and not settings.get("apply_chat_template"):
        raise ConfigurationError(f"--model {model} takes chat messages; next step: add --apply_chat_template")


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
def _own_tasks_first() -> Iterator[None]:
    """Let the harness make `_OwnTasksFirst` where it makes a task manager."""
    lm_eval.tasks.TaskManager = _OwnTasksFirst
    try:
        yield
    finally:
        lm_eval.tasks.TaskManager = TaskManager


__all__ = ["run_harness"]
