"""What stands in the place of names of the harness for as long as it runs, its environment report among them."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any

from lm_eval.loggers.utils import get_commit_from_path


@contextlib.contextmanager
def replaced(module: Any, name: str, value: Any) -> Iterator[None]:
    """Put something in the place of a name that the harness looks up while it runs."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def add_environment(results: dict[str, Any]) -> None:
    """Add what the harness's `add_env_info` adds, under its keys, without importing torch and starting pip for it."""
    packages = _packages()
    machine = [
        f"Python version: {sys.version}",
        f"OS: {platform.platform()}",
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
    # What an interrupted installation leaves has no metadata; of two with one name the first is imported.
    whole = [each for each in distributions() if each.read_text("METADATA")]
    return {each.name: each.version for each in reversed(whole)}


def _accelerators() -> Iterator[str]:
    """Yield what torch runs on, where a model or an encoder has imported it."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    yield f"CUDA of torch: {torch.version.cuda}"
    if torch.cuda.is_available():
        yield from (f"GPU: {torch.cuda.get_device_name(number)}" for number in range(torch.cuda.device_count()))
