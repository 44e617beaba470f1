"""Links the harness tasks of ragtasks into the stock `lm_eval`, unlinks and checks them, without importing lm_eval."""

from __future__ import annotations

import csv
import io
import logging
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec
from pathlib import Path

import yaml

from ragtasks.errors import ConfigurationError
from ragtasks.files import atomic_file
from ragtasks.harness.tasks import task_folder, task_folders

# lm_eval has no plugin discovery: it searches its own tasks folder and one `--include_path`. `link` writes a stub for
# each of our task YAMLs below `<lm_eval>/tasks/ragtasks/`, which includes the YAML by absolute path. Only the path in a
# stub can become outdated, and no file of the harness is changed. lm_eval is not imported, because that takes seconds
# and `unlink` must work if the import fails.

HARNESS = "'lm-eval>=0.4.12,<0.4.14'"
"""Tested versions of lm_eval, as a quoted requirement."""
_WITHOUT_LINK = 'use lm_eval ... --include_path "$(ragtasks tasks path)"'


class LinkState(str, Enum):
    """State of the stubs in the harness's tasks folder."""

    NOT_LINKED = "not linked"
    HERE = "linked to here"
    ELSEWHERE = "linked elsewhere"
    """Every stub works, and at least one includes another copy of ragtasks."""
    STALE = "stale"
    """A stub is missing, damaged, superfluous, or includes a missing file. `link` fixes it."""


@dataclass(frozen=True, slots=True)
class LinkReport:
    """Changes of `link` or `unlink`, as sorted absolute paths of stubs."""

    folder: Path
    """Folder of the stubs, which `unlink` removes with them."""
    written: tuple[Path, ...] = ()
    """New or rewritten stubs."""
    kept: tuple[Path, ...] = ()
    removed: tuple[Path, ...] = ()
    """Stubs of harness tasks that no longer exist; for `unlink`, all stubs."""


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """Result of `link_state`."""

    state: LinkState
    folder: Path
    targets: tuple[Path, ...] = ()
    """The included files, existing or not."""


def link(*, harness_folder: Path | None = None, tasks: Path | None = None) -> LinkReport:
    """Write stubs so that the stock `lm_eval` finds our harness tasks, and return the changes.

    A second call writes nothing. Stubs of removed harness tasks are deleted.

    Raises:
        ConfigurationError: if a file without our mark is in the way; then nothing is changed.
    """
    harness = _tasks_folder(harness_folder)
    folder = harness / STUB_FOLDER
    planned = planned_stubs(tasks, folder)
    with _clear_errors(folder, _WITHOUT_LINK):
        present = present_stubs(folder)
        _reject_foreign_files(folder, planned, present)
        written = [stub for stub, text in planned.items() if present.get(stub) != text]
        removed = sorted(present.keys() - planned.keys())
        remove(folder, removed)
        enter_in_record(harness, planned)
        for stub in written:
            stub.parent.mkdir(parents=True, exist_ok=True)
            write_whole(stub, planned[stub].encode())
    kept = planned.keys() - set(written)
    return LinkReport(folder, tuple(written), tuple(sorted(kept)), tuple(removed))


def unlink(*, harness_folder: Path | None = None) -> LinkReport:
    """Remove all stubs and return their paths. The harness's install then contains no file of ragtasks.

    Files without our mark and their folders remain. Without stubs, nothing is changed.
    """
    harness = _tasks_folder(harness_folder)
    folder = harness / STUB_FOLDER
    with _clear_errors(folder, "run `ragtasks tasks link --remove` as a user with write permission"):
        stubs = sorted(present_stubs(folder))
        remove(folder, [*stubs, *(path for path in _files(folder) if path.suffix == ".part")])  # left by killed writes
        enter_in_record(harness, ())
    return LinkReport(folder, removed=tuple(stubs))


def link_state(*, harness_folder: Path | None = None, tasks: Path | None = None) -> LinkStatus:
    """Return the state of the link and its targets, without changes."""
    folder = _tasks_folder(harness_folder) / STUB_FOLDER
    homes = [home.resolve() for home in ([tasks] if tasks else [task_folder(), *(path for _, path in task_folders())])]
    planned = {stub: _real_path(stub_target(text)) for stub, text in planned_stubs(tasks, folder).items()}
    with _clear_errors(folder, "run as a user with read permission"):
        texts = present_stubs(folder)
    present = {stub: _real_path(stub_target(text)) for stub, text in sorted(texts.items())}
    targets = tuple(target for target in present.values() if target is not None)
    if not present:
        state = LinkState.NOT_LINKED
    elif present == planned:
        state = LinkState.HERE
    elif all(target and target.is_file() for target in present.values()) and any(
        not any(target.is_relative_to(home) for home in homes) for target in targets
    ):
        state = LinkState.ELSEWHERE
    else:
        state = LinkState.STALE
    return LinkStatus(state, folder, targets)


def _tasks_folder(folder: Path | None) -> Path:
    """Return the given tasks folder, or that of the importable lm_eval."""
    return harness_tasks_folder() if folder is None else folder.absolute()


def _real_path(path: Path | None) -> Path | None:
    """Return a path with its folder resolved.

    The file itself is not resolved, because some installers link single files into a cache.
    """
    return None if path is None else path.parent.resolve() / path.name


def _reject_foreign_files(folder: Path, planned: Mapping[Path, str], present: Mapping[Path, str]) -> None:
    """Reject foreign files at the paths of stubs or their folders."""
    parents = {parent for stub in planned for parent in stub.parents if parent.is_relative_to(folder)}
    blocked = {path for path in parents if path.is_symlink() or (path.exists() and not path.is_dir())}
    blocked |= {stub for stub in planned if stub not in present and os.path.lexists(stub)}
    if blocked:
        raise ConfigurationError(
            "linking the harness tasks",
            where=str(folder),
            expected="only our own stubs",
            found=", ".join(map(str, sorted(blocked))),
            next_step=f"move these away, or {_WITHOUT_LINK}",
        )


@contextmanager
def _clear_errors(folder: Path, next_step: str) -> Iterator[None]:
    """Convert an OSError to a ConfigurationError with the folder and a next step."""
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            "the stubs for lm_eval",
            where=str(folder),
            expected="a readable and writable folder",
            found=str(error),
            next_step=next_step,
        ) from error


# The expected stubs: one for each YAML of a harness task or group, of ragtasks and of other packages.

_LOGGER = logging.getLogger(__name__)
_ADDED = "added"
"""Folder of the stubs for tasks of other packages."""


def planned_stubs(tasks: Path | None, folder: Path) -> dict[Path, str]:
    """Return stub path -> text for every YAML below `tasks`, or of ragtasks and all packages if it is None.

    An invalid package gets a warning and no stubs.
    """
    planned = _stubs_of(tasks or task_folder(), folder)
    for name, added in () if tasks else task_folders():
        try:
            planned |= _stubs_of(added, folder / _ADDED / name)
        except ConfigurationError as error:
            _LOGGER.warning("the harness tasks of the package %r are skipped. %s", name, error)
    return planned


def _stubs_of(tasks: Path, folder: Path) -> dict[Path, str]:
    """Return stub path -> text for each YAML below `tasks` that defines a harness task or a group, sorted."""
    planned: dict[Path, str] = {}
    problems: list[str] = []
    for path in sorted(tasks.absolute().rglob("*.yaml")):
        relative = path.relative_to(tasks.absolute())
        if path.name.startswith("_") or any(part.startswith(".") for part in relative.parts):
            continue
        try:
            # The base loader ignores the harness's `!function` tags.
            content = yaml.load(path.read_text("utf-8"), yaml.BaseLoader)
            if isinstance(content, dict) and content.keys() & {"task", "group"}:
                planned[folder / relative] = stub_text(path)
        except (yaml.YAMLError, UnicodeError) as error:
            problems.append(f"{relative}: {' '.join(str(error).split())}")
    # lm_eval skips an invalid YAML silently, and a folder without YAMLs would make `link` remove every stub.
    if problems or not planned:
        raise ConfigurationError(
            "harness task YAMLs",
            where=str(tasks),
            expected="YAML in UTF-8, under a path in UTF-8, with a top-level `task` or `group`",
            found="; ".join(problems) or "no such file",
            next_step="fix these files, or reinstall ragtasks",
        )
    return planned


# Stub files in the harness's tasks folder, and the installer's record of them. A stub has a mark and one line,
# `include: <absolute path>`. Only files with the mark are rewritten or deleted.
#
# If lm_eval was installed from a wheel, the stubs are also entered in the installer's file list
# (`lm_eval-*.dist-info/RECORD`). Otherwise, uninstalling lm_eval would leave a folder `lm_eval/tasks/ragtasks` without
# `__init__.py`. Python treats this folder as a namespace package that shadows a later editable install, and `import
# lm_eval` returns an empty module.

MARK = "# Written by `ragtasks tasks link`"
STUB_FOLDER = "ragtasks"


def stub_text(target: Path) -> str:
    """Return the content of a stub.

    Raises:
        UnicodeEncodeError: if YAML cannot represent the path.
    """
    str(target).encode()
    quoted = yaml.safe_dump(str(target), default_style='"', width=float("inf"), allow_unicode=True)
    return f"{MARK}, rewritten by it, removed by its --remove.\ninclude: {quoted}"


def stub_target(text: str) -> Path | None:
    """Return the path that a stub includes, or None for a damaged stub."""
    try:
        return Path(yaml.safe_load(text)["include"])
    except (yaml.YAMLError, KeyError, TypeError, ValueError):
        return None


def _files(folder: Path) -> Iterator[Path]:
    """Yield the regular files below `folder`, without following symbolic links."""
    if folder.is_symlink():
        return
    for parent, _, names in os.walk(folder):
        yield from (path for name in names if not (path := Path(parent, name)).is_symlink())


def present_stubs(folder: Path) -> dict[Path, str]:
    """Return path -> text of the files below `folder` with our mark."""
    texts = {path: path.read_bytes().decode(errors="replace") for path in _files(folder) if path.suffix == ".yaml"}
    return {path: text for path, text in texts.items() if text.startswith(MARK)}


def remove(folder: Path, paths: Collection[Path]) -> None:
    """Delete `paths` and every folder that is then empty, including `folder`."""
    for path in paths:
        path.unlink(missing_ok=True)
    if folder.is_symlink():
        return
    for parent, _, _ in os.walk(folder, topdown=False):
        if not any(Path(parent).iterdir()):
            Path(parent).rmdir()


def enter_in_record(harness: Path, stubs: Collection[Path]) -> None:
    """Set the rows of our stubs in the installer's file list, leaving other bytes unchanged.

    Our rows come first, so removing them restores the file. They have neither hash nor size, unlike an installer's
    rows.
    """
    site = harness.parent.parent
    rows = io.StringIO()
    csv.writer(rows, lineterminator="\n").writerows([s.relative_to(site).as_posix(), "", ""] for s in stubs)
    ours = f"{(harness / STUB_FOLDER).relative_to(site).as_posix()}/"
    for record in site.glob("lm_eval-*.dist-info/RECORD"):
        before = record.read_bytes()
        lines = before.decode().splitlines(keepends=True)
        other_lines = [
            line for line in lines if not (line.lstrip('"').startswith(ours) and line.rstrip().endswith(",,"))
        ]
        after = (rows.getvalue() + "".join(other_lines)).encode()
        if after != before:
            write_whole(record, after)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically, with the mode of the previous file or of the umask.

    A temporary file from `tempfile` would be readable only by its owner, and lm_eval skips unreadable files.
    """
    with atomic_file(path) as file:
        if path.exists():
            Path(file.name).chmod(path.stat().st_mode & 0o7777)
        file.write(content)


# The harness's own tasks folder, where links are written.


def harness_tasks_folder() -> Path:
    """Return the tasks folder of the lm_eval that `import lm_eval` would load, without importing it.

    Raises:
        ConfigurationError: if no usable lm_eval is installed.
    """
    spec = find_spec("lm_eval")
    if spec is None:
        raise _harness_error("no module lm_eval", f"pip install {HARNESS}")
    if spec.origin is None:
        folders = ", ".join(spec.submodule_search_locations or ())
        next_step = f"delete the leftovers of an earlier install ({folders}), then pip install {HARNESS}"
        raise _harness_error(f"a folder without __init__.py: {folders}", next_step)
    folder = Path(spec.origin).absolute().parent / "tasks"
    if not folder.is_dir():
        raise _harness_error(f"no folder {folder}", f"pip install --force-reinstall --no-deps {HARNESS}")
    return folder


def _harness_error(found: str, next_step: str) -> ConfigurationError:
    """Return the error for an unusable lm_eval."""
    return ConfigurationError(
        "the harness's tasks folder",
        where="import lm_eval",
        expected="an installed lm_eval with a folder `tasks`",
        found=found,
        next_step=next_step,
    )
