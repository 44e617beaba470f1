"""Our harness tasks: the folder of their YAML files, and their names by benchmark and setting, without the harness."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import added_benchmark_names, benchmark_names
from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.records import Setting

TASKS_GROUP = "ragtasks.tasks"
"""Entry points whose value is the import path of a folder with harness task YAMLs."""
_PACKAGE = Path(__file__).absolute().parents[1]  # not resolved: some installers link single files into a cache


def task_folder() -> Path:
    """Return the folder that holds our harness task YAMLs: the path for lm_eval's `--include_path`.

    A checkout comes first: an editable install copies the YAMLs into the package once, and that copy ages.
    """
    checkout, installed = _PACKAGE.parent, _PACKAGE / "task_yamls"
    # Beside an installed package any `task_yamls` belongs to somebody else.
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
    """Yield (name, folder) for each folder of harness task YAMLs that another package adds; nothing is imported.

    A folder that is not there is left out: it may not keep anybody from their own tasks.
    """
    for entry in sorted(entry_points(group=TASKS_GROUP), key=lambda entry: entry.name):
        package, *inside = entry.value.split(".")
        spec = find_spec(package)
        for place in (spec.submodule_search_locations if spec else None) or ():
            folder = Path(place).joinpath(*inside)
            if folder.is_dir():
                yield entry.name, folder


def _files() -> dict[str, Path]:
    """Return the files of our harness tasks and groups, and of those that other packages add, by their names."""
    folders = [task_folder(), *(folder for _, folder in task_folders())]
    return {
        path.stem: path
        for folder in folders
        for path in sorted(folder.rglob("*.yaml"))
        if not path.stem.startswith("_")
    }


@dataclass(frozen=True, slots=True)
class HarnessTask:
    """A harness task, or a group of some, as its YAML defines it."""

    name: str
    """Its name after `--tasks`."""
    folder: str
    """Folder of the YAML, named as the benchmark."""
    members: tuple[str, ...]
    """The tasks of a group; empty for a harness task."""


def harness_tasks() -> dict[str, HarnessTask]:
    """Return name -> harness task or group, of ours and of other packages; lm_eval is not imported."""
    return {
        name: HarnessTask(name, path.parent.name, tuple(content["task"]) if "group" in content else ())
        for path in _files().values()
        if isinstance(name := (content := _content(path)).get("group", content.get("task")), str)
    }


def own_names() -> frozenset[str]:
    """Return the names of our harness tasks and groups, and of those that other packages add: each its file's."""
    return frozenset(_files())


@dataclass(frozen=True, slots=True)
class Part:
    """What a harness task asks: one setting of one benchmark."""

    benchmark: str
    setting: Setting
    suite: str | None
    """Suite that it names in the place of the benchmark's own."""


def parts_of(names: Sequence[str]) -> list[Part]:
    """Return what harness tasks and groups of ours ask, each once; names of others say nothing here."""
    files, found = _files(), dict[Part, None]()
    for name in names:
        for known in sorted(fnmatch.filter(files, name)):
            found.update(dict.fromkeys(_parts(known, files)))
    return list(found)


def _parts(name: str, files: Mapping[str, Path]) -> Iterator[Part]:
    content = _content(files[name])
    members = content.get("task")
    if isinstance(members, list):
        for member in members:
            if isinstance(member, str) and member in files:
                yield from _parts(member, files)
        return
    options = content.get("dataset_kwargs")
    if isinstance(options, dict) and {"benchmark", "setting"} <= options.keys():
        yield Part(options["benchmark"], Setting(options["setting"]), options.get("suite"))


@cache
def _content(path: Path) -> dict[str, Any]:
    """Return a YAML file with what it includes; the harness's `!function` tags are left alone."""
    import yaml

    own = yaml.load(path.read_text("utf-8"), yaml.BaseLoader) or {}
    included = own.pop("include", None)
    return {**(_content((path.parent / included).resolve()) if included else {}), **own}


def tasks_of(benchmark: str, settings: Sequence[Setting] = ()) -> list[str]:
    """Return the harness tasks of a benchmark in some settings; in all that it has where none is named.

    Raises:
        ConfigurationError: it has no harness task in one of them.
    """
    names = own_names()
    in_setting = {setting: f"{benchmark}_{setting.value}" for setting in Setting}
    in_setting |= {setting: f"{benchmark}_{word}" for setting, word in _OTHER_WORDS.get(benchmark, {}).items()}
    known = {setting: name for setting, name in in_setting.items() if name in names}
    if not settings and benchmark in names:
        return [benchmark]
    missing = [setting.value for setting in settings if setting not in known]
    if benchmark not in (there := {*benchmark_names(), *added_benchmark_names()}) and not known:
        raise ConfigurationError(f"unknown benchmark {benchmark!r}: {close_matches(benchmark, there)}")
    if missing or not known:
        tasks = [name for name in names if name.startswith(benchmark)]
        hint = f"its harness tasks: {', '.join(sorted(tasks))}" if tasks else close_matches(benchmark, names)
        where = f" in setting {', '.join(missing)}" if missing else ""
        raise ConfigurationError(f"benchmark {benchmark} has no harness task{where}. Next step: name `tasks`; {hint}")
    # Searching costs several requests a task: nobody gets it who did not name it.
    return [known[setting] for setting in settings or known if settings or setting is not Setting.AGENTIC]


def own_tasks_of(benchmark: str, settings: Sequence[Setting]) -> list[str]:
    """Return the same for a look at what answers are judged by; [] where there is no harness task of them."""
    try:
        return tasks_of(benchmark, settings)
    except ConfigurationError:
        return []


_OTHER_WORDS = {"multihop_rag": {Setting.REFERENCE: "gold", Setting.FULL_RAG: "retrieved"}}
