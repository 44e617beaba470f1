"""Stub files in the harness's tasks folder, and the installer's record of them.

A stub is a mark and one line, `include: <absolute path>`. Only files with the mark are ever rewritten or deleted.

Where lm_eval was installed from a wheel, the stubs are also entered into the installer's list of its files
(`lm_eval-*.dist-info/RECORD`). Without that, uninstalling lm_eval leaves a folder `lm_eval/tasks/ragtasks` without any
`__init__.py`; Python takes it for a namespace package, and that one shadows an editable install of lm_eval made later:
`import lm_eval` then yields an empty module.
"""

from __future__ import annotations

import csv
import io
import os
import secrets
from collections.abc import Collection, Iterator
from pathlib import Path

import yaml

from ragtasks.files import written_aside

MARK = "# Written by `ragtasks link`, rewritten by it, removed by `ragtasks unlink`."
STUB_FOLDER = "ragtasks"
_PART_SUFFIX = ".ragtasks-part"


def stub_text(target: Path) -> str:
    """Return the content of a stub; raises UnicodeEncodeError for a path that YAML cannot hold."""
    str(target).encode()
    quoted = yaml.safe_dump(str(target), default_style='"', width=float("inf"), allow_unicode=True)
    return f"{MARK}\ninclude: {quoted}"


def stub_target(text: str) -> Path | None:
    """Return the path that a stub includes, or None for a stub that was tampered with."""
    try:
        return Path(yaml.safe_load(text)["include"])
    except (yaml.YAMLError, KeyError, TypeError, ValueError):
        return None


def _files(folder: Path) -> Iterator[Path]:
    """Yield the regular files below `folder`, never through a symbolic link."""
    if folder.is_symlink():
        return
    for parent, _, names in os.walk(folder):
        yield from (path for name in names if not (path := Path(parent, name)).is_symlink())


def interrupted_writes(folder: Path) -> list[Path]:
    """Return the temporary files below `folder` that a killed `write_whole` left."""
    return [path for path in _files(folder) if path.name.endswith(_PART_SUFFIX)]


def present_stubs(folder: Path) -> dict[Path, str]:
    """Return path -> text of the files below `folder` that carry our mark."""
    texts = {path: path.read_bytes().decode(errors="replace") for path in _files(folder) if path.suffix == ".yaml"}
    return {path: text for path, text in texts.items() if text.startswith(MARK + "\n")}


def remove(folder: Path, paths: Collection[Path]) -> None:
    """Delete `paths` and every folder, `folder` included, that is empty then."""
    for path in paths:
        path.unlink(missing_ok=True)
    if folder.is_symlink():
        return
    for parent, _, _ in os.walk(folder, topdown=False):
        if not any(Path(parent).iterdir()):
            Path(parent).rmdir()


def enter_in_record(harness: Path, stubs: Collection[Path]) -> None:
    """Make the installer's list of the harness's files name exactly `stubs` of ours, other bytes untouched.

    Our rows stand first, so that removing them restores the file. They have neither hash nor size, which tells them
    from rows that an installer wrote.
    """
    site = harness.parent.parent
    rows = io.StringIO()
    csv.writer(rows, lineterminator="\n").writerows([s.relative_to(site).as_posix(), "", ""] for s in stubs)
    ours = f"{(harness / STUB_FOLDER).relative_to(site).as_posix()}/"
    for record in site.glob("lm_eval-*.dist-info/RECORD"):
        before = record.read_bytes()
        lines = before.decode().splitlines(keepends=True)
        others = [x for x in lines if not (x.lstrip('"').startswith(ours) and x.rstrip().endswith(",,"))]
        after = (rows.getvalue() + "".join(others)).encode()
        if after != before:
            write_whole(record, after)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file at once or not at all; the mode is that of the file before, else what the umask leaves.

    A temporary file from `tempfile` would be readable by its owner only, and lm_eval skips what it cannot read.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}{_PART_SUFFIX}")
    with written_aside(path, part) as file:
        if path.exists():
            part.chmod(path.stat().st_mode & 0o7777)
        file.write(content)
