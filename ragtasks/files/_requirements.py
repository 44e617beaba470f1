"""Requirements on files: writable folders, disk space, model weights."""

from __future__ import annotations

import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

from ragtasks.errors import ConfigurationError
from ragtasks.files._untrusted import is_cached
from ragtasks.requirements import Requirement

_GIGABYTE = 1e9
_HUB_SECONDS = 5.0


def writable_folder(folder: Path, part: str) -> Requirement:
    """Return the requirement that a folder exists or can be created, and is writable."""

    def check() -> str:
        existing = folder if folder.exists() else _nearest_existing(folder)
        problem = f"{existing} is a file, and a folder is needed" if not existing.is_dir() else ""
        if not problem and not os.access(existing, os.W_OK | os.X_OK):
            problem = f"{existing} cannot be written to"
        if problem:
            raise ConfigurationError(f"{problem}. Next step: name another folder, or change its permissions")
        return f"{folder} can be written to"

    return Requirement("folder", part, check)


def writable_file(file: Path, part: str) -> Requirement:
    """Return the requirement that a file can be written or overwritten."""

    def check() -> str:
        if file.is_dir():
            raise ConfigurationError(f"{part}: {file} is a folder. Next step: name a file in it")
        return writable_folder(file.parent, part).check()

    return Requirement("folder", part, check)


def disk_space(folder: Path, part: str, n_bytes: Callable[[], float]) -> Requirement:
    """Return the requirement that the disk of a folder has room for an estimated number of bytes."""

    def check() -> str:
        existing = _nearest_existing(folder)
        needed, free = n_bytes(), shutil.disk_usage(existing).free
        sizes = f"{existing} has {_size(free)} left, and {part} will take about {_size(needed)}"
        if free < needed:
            raise ConfigurationError(f"disk: {sizes}. Next step: free some space, or name another folder by `output`")
        return sizes

    return Requirement("disk", part, check)


def _nearest_existing(path: Path) -> Path:
    """Return the nearest existing folder or file on the way to a path."""
    absolute = path.expanduser().absolute()
    return next(ancestor for ancestor in (absolute, *absolute.parents) if ancestor.exists())


def _size(n_bytes: float) -> str:
    return f"{n_bytes / _GIGABYTE:.2f} GB"


def weights_of(name: str, part: str, instead: str = "") -> Requirement:
    """Return the requirement that weights are in a folder or in the hub's cache, or that the hub is reachable.

    `instead` is an alternative that is appended to the next step of the error.
    """

    def check() -> str:
        if Path(name).is_dir() or is_cached(name):
            return f"{name} is on this machine"
        if problem := _hub_problem(name):
            raise ConfigurationError(
                f"{part}: {name} is in no folder here and not in the local cache, and {problem}. Next step: "
                f"`hf download {name}` with network access{instead}"
            )
        return f"{name} is on the hub"

    return Requirement("weights", part, check)


def _hub_problem(name: str) -> str:
    """Return why a model cannot be downloaded, or "" if it can. The hub's own library retries for half a minute."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    request = urllib.request.Request(f"{constants.ENDPOINT}/api/models/{name}", method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=_HUB_SECONDS):
            return ""
    except urllib.error.HTTPError as error:
        return f"the hub returned {error.code}"
    except (OSError, HTTPException, ValueError):
        return "the hub is not reachable"
