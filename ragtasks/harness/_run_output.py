"""Output of `ragtasks run`: one line per stage, instead of the harness's log of twenty lines per task.

`-v` or `LMEVAL_LOG_LEVEL` restores the harness's log and progress bars.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any

import lm_eval._cli.run
import lm_eval.api.task
import lm_eval.tasks
import lm_eval.utils
from lm_eval.loggers.utils import get_commit_from_path
from lm_eval.utils import make_table, setup_logging

from ragtasks.harness.link import STUB_FOLDER

_VERBOSE = "-v"
_LEVELS = frozenset({"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"})
_LOGGER = logging.getLogger(__name__)
_HARNESS_LOGGER = logging.getLogger("lm_eval")
_INDEX_LOGGER = logging.getLogger("lm_eval.tasks._index")
_SUPPRESSED = {
    "lm_eval.models.api_models": (
        "Cannot determine EOS string",  # our tasks name their stop strings
        "Exception:RuntimeError('Session is closed')",  # once per open request, after Ctrl-C
        "Exception:CancelledError()",
    ),
    "lm_eval.evaluator": ("generation_kwargs: ",),  # repeats the user's arguments
    "lm_eval.config.evaluate_config": ("--limit SHOULD ONLY BE USED FOR TESTING",),  # the conclusion states the limit
}
"""Harness logger -> beginnings of messages to suppress."""
_STUBS = Path(lm_eval.tasks.__file__).parent / STUB_FOLDER


def split_verbose(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """Return the arguments without a `-v` that has no level, and whether the harness's log is enabled."""
    kept: list[str] = []
    verbose = False
    for argument, following in itertools.zip_longest(arguments, arguments[1:], fillvalue=""):
        is_verbose = argument in {_VERBOSE, "--verbosity"}
        verbose = verbose or is_verbose
        if argument != _VERBOSE or following.upper() in _LEVELS:
            kept.append(argument)
    return kept, verbose


@contextlib.contextmanager
def report_stages(*, verbose: bool, with_tables: bool = True) -> Iterator[None]:
    """Reduce the harness's log to warnings and print the log of ragtasks, unless the harness's log is enabled.

    Without tables, the harness's results are not printed, at any log level.
    """
    before = _HARNESS_LOGGER.level
    setup_logging(logging.INFO if verbose else logging.WARNING)  # the environment variable takes precedence
    for handler in _HARNESS_LOGGER.handlers:
        if type(handler) is logging.StreamHandler:
            # The handler exists once per process, and `setStream` would flush a stream that may be closed.
            handler.stream = sys.stderr
    with contextlib.ExitStack() as stack:
        stack.callback(_HARNESS_LOGGER.setLevel, before)
        if not with_tables:
            stack.enter_context(_no_tables())
        if _HARNESS_LOGGER.level <= logging.INFO:
            yield
            return
        stack.enter_context(_log_lines())
        stack.enter_context(filtered(_INDEX_LOGGER, _is_no_stub_warning))
        for name, starts in _SUPPRESSED.items():
            stack.enter_context(filtered(logging.getLogger(name), partial(_is_not_suppressed, starts)))
        stack.enter_context(replaced(lm_eval.api.task, "tqdm", partial(lm_eval.api.task.tqdm, disable=True)))
        if with_tables:
            stack.enter_context(replaced(lm_eval.utils, "make_table", _table_of_values))
        yield


@contextlib.contextmanager
def _no_tables() -> Iterator[None]:
    """Suppress the harness's tables and the line above them."""
    commands: Any = lm_eval._cli.run

    def put(*texts: object, **options: Any) -> None:
        if texts != ("",) and "), gen_kwargs: (" not in str(texts[0] if texts else ""):
            print(*texts, **options)  # noqa: T201 (the harness's own output, such as --show_config)

    with replaced(lm_eval.utils, "make_table", lambda *_: ""):
        commands.print = put
        try:
            yield
        finally:
            del commands.print


@contextlib.contextmanager
def _log_lines() -> Iterator[None]:
    """Print the log messages of ragtasks."""
    logger, handler = logging.getLogger("ragtasks"), logging.StreamHandler()
    before = logger.level
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)


@contextlib.contextmanager
def filtered(logger: logging.Logger, passes: Callable[[logging.LogRecord], bool]) -> Iterator[None]:
    logger.addFilter(passes)
    try:
        yield
    finally:
        logger.removeFilter(passes)


def _is_no_stub_warning(record: logging.LogRecord) -> bool:
    """Return False for the message that a stub of `tasks link` and its included file have the same name."""
    paths = record.args[1:] if isinstance(record.args, tuple) else ()
    return not any(_STUBS in Path(str(path)).parents for path in paths)


def _is_not_suppressed(starts: tuple[str, ...], record: logging.LogRecord) -> bool:
    return not record.getMessage().strip().startswith(starts)


def _table_of_values(results: Mapping[str, Any], column: str = "results", *arguments: Any) -> str:
    """Return the harness's table without metrics that have no value; their names are logged."""
    keys = {key for row in results[column].values() for key in row}
    without = {key for key in keys if all(_is_missing(row.get(key)) for row in results[column].values())}
    rows = {
        name: {key: value for key, value in row.items() if key not in without} for name, row in results[column].items()
    }
    table: str = make_table({**results, column: rows}, column, *arguments)
    names = sorted({key.partition(",")[0] for key in without if "_stderr," not in key})
    if names and column == "results":
        _LOGGER.info("without any value, so not in the tables: %s", ", ".join(names))
    return table


def _is_missing(value: Any) -> bool:
    return value is None or value == "N/A" or (isinstance(value, float) and math.isnan(value))


# Replacements for harness functions during a run, including its environment report.


@contextlib.contextmanager
def replaced(module: Any, name: str, value: Any) -> Iterator[None]:
    """Replace an attribute of a module while the block runs."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def git_commit() -> str | None:
    """Return the commit of the working directory, None outside a repository."""
    try:
        # The harness's own function lets git print an error outside a repository.
        described = subprocess.run(["git", "describe", "--always"], capture_output=True, text=True, check=True)
    except (subprocess.CalledProcessError, OSError):
        return get_commit_from_path(Path.cwd())  # type: ignore[no-any-return]
    return described.stdout.strip()


def add_environment(results: dict[str, Any], notes: Mapping[str, Any] | None = None) -> None:
    """Add the keys of the harness's `add_env_info`, without importing torch or starting pip."""
    results.update(notes or {})
    packages = _packages()
    machine = [
        f"Python version: {sys.version}",
        f"OS: {platform.system()} {platform.release()}",  # `platform.platform` starts `uname`
        f"CPU: {platform.machine()}, {os.cpu_count()} cores",
        *_accelerators(),
    ]
    results.update(
        pretty_env_info="\n".join([*machine, "", *(f"{name}=={number}" for name, number in sorted(packages.items()))]),
        transformers_version=packages.get("transformers", "N/A"),
        lm_eval_version=version("lm_eval"),
        upper_git_hash=get_commit_from_path(Path.cwd() / ".."),
    )


@cache
def _packages() -> dict[str, str]:
    # Leftovers of an interrupted installation have no metadata. Of two packages with one name, the first is imported.
    complete = [package for package in distributions() if package.read_text("METADATA")]
    return {package.name: package.version for package in reversed(complete)}


def _accelerators() -> Iterator[str]:
    """Yield the CUDA version and the GPUs, if torch is already imported."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    yield f"CUDA of torch: {torch.version.cuda}"
    if torch.cuda.is_available():
        yield from (f"GPU: {torch.cuda.get_device_name(number)}" for number in range(torch.cuda.device_count()))
