"""The stubs that there should be: one for each YAML of a harness task or group, of ours and of other packages."""

from __future__ import annotations

import logging
from pathlib import Path

import yaml

from ragtasks.errors import ConfigurationError, clear_error
from ragtasks.harness.link._folders import task_folder
from ragtasks.harness.link._stubs import (
    stub_text,
)
from ragtasks.plugins import task_folders

_LOGGER = logging.getLogger(__name__)
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_ADDED = "added"
"""Folder of the stubs for tasks of other packages."""


def planned_stubs(tasks: Path | None, folder: Path) -> dict[Path, str]:
    """Return stub path -> text for every YAML of a folder; None: of ours and of the packages that add some.

    What another package has wrong is its own business: a warning, and none of its tasks.
    """
    planned = _stubs_of(tasks or task_folder(), folder)
    for name, added in () if tasks else task_folders():
        try:
            planned |= _stubs_of(added, folder / _ADDED / name)
        except ConfigurationError as error:
            _LOGGER.warning("the harness tasks that a package adds as %r are left out. %s", name, error)
    return planned


def _stubs_of(tasks: Path, folder: Path) -> dict[Path, str]:
    """Return stub path -> text for each YAML below `tasks` that defines a harness task or a group, sorted."""
    planned: dict[Path, str] = {}
    violations: list[str] = []
    for path in sorted(tasks.absolute().rglob("*.yaml")):
        relative = path.relative_to(tasks.absolute())
        if path.name.startswith("_") or any(part.startswith(".") for part in relative.parts):
            continue
        try:
            if _top_level_keys(path) & {"task", "group"}:
                planned[folder / relative] = stub_text(path)
        except (yaml.YAMLError, UnicodeError) as error:
            violations.append(f"{relative}: {' '.join(str(error).split())}")
    # lm_eval skips a broken YAML without a word; a folder without any would make `link` remove every stub.
    if violations or not planned:
        raise ConfigurationError(
            clear_error(
                "harness task YAMLs",
                where=str(tasks),
                expected="YAML in UTF-8, under a path in UTF-8, with a top-level `task` or `group`",
                found="; ".join(violations) or "no such file",
                next_step="fix these files, or reinstall ragtasks",
            )
        )
    return planned


def _top_level_keys(path: Path) -> set[str]:
    """Return the top-level keys of a YAML file, with its `!function` tags unresolved."""
    node = yaml.compose(path.read_text(encoding="utf-8"), Loader=_LOADER)
    return {key.value for key, _ in node.value} if isinstance(node, yaml.MappingNode) else set()


__all__ = ["planned_stubs"]
