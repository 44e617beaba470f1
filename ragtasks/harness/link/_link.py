"""Stubs that let the stock `lm_eval` find our harness tasks without a flag.

lm_eval has no plugin discovery: it walks its own tasks folder and one `--include_path`. `link` writes, for each
of our harness task YAMLs, a stub that includes it by absolute path, below `<lm_eval>/tasks/ragtasks/`. The stub holds
nothing that could go stale but the path, and no file of the harness is touched.

lm_eval itself is never imported here: that takes seconds, and `unlink` has to work where it cannot be imported.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ragtasks.errors import ConfigurationError, clear_error
from ragtasks.harness.link._folders import harness_tasks_folder, task_folder
from ragtasks.harness.link._planned import planned_stubs
from ragtasks.harness.link._stubs import (
    STUB_FOLDER,
    enter_in_record,
    interrupted_writes,
    present_stubs,
    remove,
    stub_target,
    write_whole,
)
from ragtasks.plugins import task_folders

_WITHOUT_LINK = 'use lm_eval ... --include_path "$(ragtasks path)"'


class LinkState(str, Enum):
    """What the stubs in the harness's tasks folder say."""

    NOT_LINKED = "not linked"
    HERE = "linked to here"
    ELSEWHERE = "linked elsewhere"
    """Every stub works, and at least one leads to another copy of ragtasks."""
    STALE = "stale"
    """A stub is missing, damaged, left over, or leads to a file that is gone; `link` fixes it."""


@dataclass(frozen=True, slots=True)
class LinkReport:
    """What `link` or `unlink` did, as sorted absolute paths of stubs."""

    folder: Path
    """The folder of the stubs, which `unlink` removes with them."""
    written: tuple[Path, ...] = ()
    """Stubs that are new or were rewritten."""
    kept: tuple[Path, ...] = ()
    """Stubs that were right already."""
    removed: tuple[Path, ...] = ()
    """Stubs of harness tasks that no longer exist; for `unlink`, all of them."""


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """What `link_state` found."""

    state: LinkState
    """The verdict."""
    folder: Path
    """Where stubs are looked for."""
    targets: tuple[Path, ...] = ()
    """The files that the stubs include, whether or not these exist."""


def link(*, harness_folder: Path | None = None, tasks: Path | None = None) -> LinkReport:
    """Return what was written so that the stock `lm_eval` finds our harness tasks.

    A second call writes nothing. Stubs of harness tasks that are gone are removed. Nothing is changed if any file
    without our mark is in the way.

    Args:
        harness_folder: a tasks folder of lm_eval; by default that of the lm_eval that imports here.
        tasks: a folder of harness task YAMLs; by default ours, and those of packages that add some.

    Raises:
        ConfigurationError: no lm_eval, no harness tasks, a YAML that cannot be read, a foreign file in the way, or
            no permission to write.
    """
    harness = _harness(harness_folder)
    folder = harness / STUB_FOLDER
    planned = planned_stubs(tasks, folder)
    with _explained_refusal(folder, _WITHOUT_LINK):
        present = present_stubs(folder)
        _refuse_foreign(folder, planned, present)
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
    """Return which stubs were removed; nothing of ragtasks is left in the harness's install afterwards.

    Files without our mark stay, and so do the folders that hold them. Where nothing is linked, nothing happens.

    Args:
        harness_folder: a tasks folder of lm_eval; by default that of the lm_eval that imports here.

    Raises:
        ConfigurationError: no lm_eval, or no permission to delete.
    """
    harness = _harness(harness_folder)
    folder = harness / STUB_FOLDER
    with _explained_refusal(folder, "run `ragtasks unlink` as the user who may write there"):
        stubs = sorted(present_stubs(folder))
        remove(folder, [*stubs, *interrupted_writes(folder)])
        enter_in_record(harness, ())
    return LinkReport(folder, removed=tuple(stubs))


def link_state(*, harness_folder: Path | None = None, tasks: Path | None = None) -> LinkStatus:
    """Return whether, and to what, the harness is linked; changes nothing.

    Args:
        harness_folder: as for `link`.
        tasks: as for `link`.

    Raises:
        ConfigurationError: no lm_eval, no harness tasks, or a YAML that cannot be read.
    """
    folder = _harness(harness_folder) / STUB_FOLDER
    homes = [home.resolve() for home in ([tasks] if tasks else [task_folder(), *(path for _, path in task_folders())])]
    planned = {stub: _real(stub_target(text)) for stub, text in planned_stubs(tasks, folder).items()}
    with _explained_refusal(folder, "run as a user who may read there"):
        texts = present_stubs(folder)
    present = {stub: _real(stub_target(text)) for stub, text in sorted(texts.items())}
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


def _harness(folder: Path | None) -> Path:
    """Return the harness's tasks folder: the one asked for, or that of the lm_eval that imports here."""
    return harness_tasks_folder() if folder is None else folder.absolute()


def _real(path: Path | None) -> Path | None:
    """Return a path with its folder resolved; the file stays, as some installers link single files into a cache."""
    return None if path is None else path.parent.resolve() / path.name


def _refuse_foreign(folder: Path, planned: Mapping[Path, str], present: Mapping[Path, str]) -> None:
    """Raise ConfigurationError that names whatever is not ours and stands where a stub or its folder belongs."""
    parents = {parent for stub in planned for parent in stub.parents if parent.is_relative_to(folder)}
    blocked = {path for path in parents if path.is_symlink() or (path.exists() and not path.is_dir())}
    blocked |= {stub for stub in planned if stub not in present and os.path.lexists(stub)}
    if blocked:
        raise ConfigurationError(
            clear_error(
                "linking the harness tasks",
                where=str(folder),
                expected="no file there but our own stubs",
                found=", ".join(map(str, sorted(blocked))),
                next_step=f"move these away, or {_WITHOUT_LINK}",
            )
        )


@contextmanager
def _explained_refusal(folder: Path, next_step: str) -> Iterator[None]:
    """Turn what the file system refuses into a ConfigurationError with the folder and the way out."""
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            clear_error(
                "the stubs for lm_eval",
                where=str(folder),
                expected="a folder that may be read and written",
                found=str(error),
                next_step=next_step,
            )
        ) from error


__all__ = ["LinkReport", "LinkState", "LinkStatus", "link", "link_state", "unlink"]
