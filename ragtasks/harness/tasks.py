"""Names of our harness tasks by benchmark and setting, read from the YAML files without the harness."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.harness.link import task_folder
from ragtasks.plugins import task_folders
from ragtasks.records import Setting


@cache
def own_names() -> frozenset[str]:
    """Return the names of our harness tasks and groups, and of those that other packages add: each its file's."""
    folders = [task_folder(), *(folder for _, folder in task_folders())]
    return frozenset(
        path.stem for folder in folders for path in folder.rglob("*.yaml") if not path.stem.startswith("_")
    )


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
    if missing or not known:
        tasks = [name for name in names if name.startswith(benchmark)]
        hint = f"its harness tasks: {', '.join(sorted(tasks))}" if tasks else close_matches(benchmark, names)
        where = f" in setting {', '.join(missing)}" if missing else ""
        raise ConfigurationError(f"benchmark {benchmark} has no harness task{where}. Next step: name `tasks`; {hint}")
    return [known[setting] for setting in settings or known]


_OTHER_WORDS = {"multihop_rag": {Setting.REFERENCE: "gold", Setting.FULL_RAG: "retrieved"}}
