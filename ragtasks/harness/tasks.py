"""Harness tasks of ragtasks: the folder of their YAML files, and names by benchmark and setting, without lm_eval."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import added_benchmark_names, benchmark_names
from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.plugins import entries_of
from ragtasks.records import Setting

TASKS_GROUP = "ragtasks.tasks"
"""Entry points whose value is the import path of a folder with harness task YAMLs."""
_PACKAGE = Path(__file__).absolute().parents[1]  # not resolved: some installers link single files into a cache


def task_folder() -> Path:
    """Return the folder of our harness task YAMLs, the path for lm_eval's `--include_path`.

    A checkout takes precedence: an editable install copies the YAMLs into the package only once.
    """
    checkout, installed = _PACKAGE.parent, _PACKAGE / "task_yamls"
    # Next to an installed package, a folder `task_yamls` belongs to another project.
    if (checkout / "pyproject.toml").is_file() and (checkout / "task_yamls").is_dir():
        return checkout / "task_yamls"
    if installed.is_dir():
        return installed
    raise ConfigurationError(
        "the harness task YAMLs of ragtasks",
        where=str(_PACKAGE),
        expected=f"{checkout / 'task_yamls'} (a checkout) or {installed} (an install)",
        found="neither folder",
        next_step="install ragtasks again, from its wheel or a checkout",
    )


def task_folders() -> Iterator[tuple[str, Path]]:
    """Yield (name, folder) for each folder of harness task YAMLs of another package, without imports.

    Missing folders are skipped, so that they do not affect other tasks.
    """
    for entry in sorted(entries_of(TASKS_GROUP), key=lambda entry: entry.name):
        package, *inside = entry.value.split(".")
        spec = find_spec(package)
        for location in (spec.submodule_search_locations if spec else None) or ():
            folder = Path(location).joinpath(*inside)
            if folder.is_dir():
                yield entry.name, folder


def _files() -> dict[str, Path]:
    """Return name -> file of our harness tasks and groups, and of those of other packages."""
    folders = [task_folder(), *(folder for _, folder in task_folders())]
    return {
        path.stem: path
        for folder in folders
        for path in sorted(folder.rglob("*.yaml"))
        if not path.stem.startswith("_")
    }


@dataclass(frozen=True, slots=True)
class HarnessTask:
    """A harness task or a group, as its YAML defines it."""

    name: str
    """Name for `--tasks`."""
    folder: str
    """Folder of the YAML, with the name of the benchmark."""
    members: tuple[str, ...]
    """The tasks of a group; empty for a harness task."""


def harness_tasks() -> dict[str, HarnessTask]:
    """Return name -> harness task or group, of ragtasks and other packages, without importing lm_eval."""
    return {
        name: HarnessTask(name, path.parent.name, tuple(content["task"]) if "group" in content else ())
        for path in _files().values()
        if isinstance(name := (content := _content(path)).get("group", content.get("task")), str)
    }


def own_names() -> frozenset[str]:
    """Return the names of our harness tasks and groups, and of those of other packages.

    Each is the name of its file.
    """
    return frozenset(_files())


@dataclass(frozen=True, slots=True)
class TaskSetting:
    """One setting of one benchmark, as a harness task selects it."""

    benchmark: str
    setting: Setting
    suite: str | None
    """Suite of the task, if it differs from the benchmark's own."""


def task_settings(names: Sequence[str]) -> list[TaskSetting]:
    """Return the settings of our harness tasks and groups, each once. Other names are ignored."""
    files, settings = _files(), dict[TaskSetting, None]()
    for name in names:
        for match in sorted(fnmatch.filter(files, name)):
            settings.update(dict.fromkeys(_settings_in(match, files)))
    return list(settings)


def _settings_in(name: str, files: Mapping[str, Path]) -> Iterator[TaskSetting]:
    content = _content(files[name])
    members = content.get("task")
    if isinstance(members, list):
        for member in members:
            if isinstance(member, str) and member in files:
                yield from _settings_in(member, files)
        return
    options = content.get("dataset_kwargs")
    if isinstance(options, dict) and {"benchmark", "setting"} <= options.keys():
        yield TaskSetting(options["benchmark"], Setting(options["setting"]), options.get("suite"))


@cache
def _content(path: Path) -> dict[str, Any]:
    """Return a YAML file with its includes; `!function` tags are ignored."""
    import yaml

    own = yaml.load(path.read_text("utf-8"), yaml.BaseLoader) or {}
    included = own.pop("include", None)
    return {**(_content((path.parent / included).resolve()) if included else {}), **own}


def tasks_of(benchmark: str, settings: Sequence[Setting] = ()) -> list[str]:
    """Return the harness tasks of a benchmark in the given settings, or in all except agentic.

    Raises:
        ConfigurationError: if the benchmark has no harness task in one of the settings.
    """
    names = own_names()
    in_setting = {setting: f"{benchmark}_{setting.value}" for setting in Setting}
    in_setting |= {setting: f"{benchmark}_{word}" for setting, word in _OTHER_SUFFIXES.get(benchmark, {}).items()}
    by_setting = {setting: name for setting, name in in_setting.items() if name in names}
    if not settings and benchmark in names:
        return [benchmark]
    missing = [setting.value for setting in settings if setting not in by_setting]
    if benchmark not in (benchmarks := {*benchmark_names(), *added_benchmark_names()}) and not by_setting:
        raise ConfigurationError(f"unknown benchmark {benchmark!r}: {close_matches(benchmark, benchmarks)}")
    if missing or not by_setting:
        tasks = [name for name in names if name.startswith(benchmark)]
        hint = f"its harness tasks: {', '.join(sorted(tasks))}" if tasks else close_matches(benchmark, names)
        in_settings = f" in setting {', '.join(missing)}" if missing else ""
        raise ConfigurationError(
            f"benchmark {benchmark} has no harness task{in_settings}. Next step: name `tasks`; {hint}"
        )
    # Agentic tasks cost several requests each, so they are selected only by name.
    return [by_setting[setting] for setting in settings or by_setting if settings or setting is not Setting.AGENTIC]


def own_tasks_of(benchmark: str, settings: Sequence[Setting]) -> list[str]:
    """Return the harness tasks of a benchmark in the given settings; empty if `tasks_of` finds none."""
    try:
        return tasks_of(benchmark, settings)
    except ConfigurationError:
        return []


_OTHER_SUFFIXES = {"multihop_rag": {Setting.REFERENCE: "gold", Setting.FULL_RAG: "retrieved"}}
