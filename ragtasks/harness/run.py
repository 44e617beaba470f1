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
    if "chat" in str(parsed.model) and not getattr(parsed, "apply_chat_template", False):
        raise ConfigurationError(f"--model {parsed.model} takes chat messages; next step: add --apply_chat_template")
    with _own_tasks_first(_names(parsed.tasks)):
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


def _names(tasks: str | Sequence[str] | None) -> list[str]:
    """Return the task names asked for, however they were given."""
    given = [tasks] if isinstance(tasks, str) else list(tasks or [])
    return [name.strip() for text in given for name in text.split(",") if name.strip()]


@contextlib.contextmanager
def _own_tasks_first(names: Sequence[str]) -> Iterator[None]:
    """Let the harness make a task manager that knows our tasks, and its own only where `names` need them."""

    class OwnTasksFirst(TaskManager):
        def __init__(self, *_: Any, include_path: Any = None, metadata: Any = None, **__: Any) -> None:
            given = include_path if isinstance(include_path, (list, tuple)) else [include_path] if include_path else []
            paths = [task_folder(), *given]
            super().__init__(include_path=paths, include_defaults=False, metadata=metadata)
            if any(not name.endswith(".yaml") and not self.match_tasks([name]) for name in names):
                super().__init__(include_path=paths, metadata=metadata)

    lm_eval.tasks.TaskManager = OwnTasksFirst
    try:
        yield
    finally:
        lm_eval.tasks.TaskManager = TaskManager


__all__ = ["run_harness"]
