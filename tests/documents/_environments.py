"""Virtual environments that hold exactly what an install line brings, made in a second and without a network.

`pip install 'ragtasks[judge]'` brings the wheel, what it requires with that extra, what those require, and no more.
The wheel is built here and unpacked; the rest is links to the distributions of the environment that runs the tests.
So what an extra forgot to ask for cannot be imported, and no metadata of it can be found.
"""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import Distribution, PathDistribution, distribution, distributions
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
OURS = "ragtasks"


def build_wheel(folder: Path) -> Path:
    """Return the wheel of this checkout, built without a network."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def closure(wheel: Distribution, extras: Iterable[str]) -> set[str]:
    """Return the names of all distributions that an installation of the wheel with some extras brings, without its own.

    Raises:
        PackageNotFoundError: one of them is not in the environment that runs the tests.
    """
    seen: set[tuple[str, str]] = set()
    waiting = [(OURS, extra) for extra in ("", *extras)]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) not in seen:
            seen.add((name, extra))
            found = wheel if name == OURS else distribution(name)
            waiting += [
                (canonicalize_name(item.name), more) for item in _asked(found, extra) for more in ("", *item.extras)
            ]
    return {name for name, _ in seen} - {OURS}


def _asked(found: Distribution, extra: str) -> Iterator[Requirement]:
    """Yield what a distribution asks for in one of its extras, or always, where that is the empty text."""
    for line in found.requires or []:
        item = Requirement(line)
        if item.marker is None or item.marker.evaluate({"extra": extra}):
            yield item


def make_environment(folder: Path, wheel: Path, extras: Iterable[str]) -> Path:
    """Return the folder of the programs of a new virtual environment with a wheel and some of its extras."""
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (ours,) = (PathDistribution(path) for path in site.glob(f"{OURS}-*.dist-info"))
    names = closure(ours, extras)
    for name in sorted(names):
        for entry in _entries(name):
            _link(site, entry, names)
    for found in [ours, *map(distribution, sorted(names))]:
        for script in found.entry_points.select(group="console_scripts"):
            _write_program(folder / "bin" / script.name, script.module, script.attr)
    return folder / "bin"


def _link(site: Path, entry: str, names: set[str]) -> None:
    """Link one name of site-packages whole where all of it belongs to distributions that are wanted, else by file."""
    owners = _owners()[entry]
    if set(owners) <= names:
        if not (site / entry).exists():
            (site / entry).symlink_to(next(iter(owners.values())) / entry)
        return
    for name in set(owners) & names:
        for file in _files(name):
            if file.parts[0] == entry and not (site / file).exists():
                (site / file).parent.mkdir(parents=True, exist_ok=True)
                (site / file).symlink_to(owners[name] / file)


@cache
def _owners() -> dict[str, dict[str, Path]]:
    """Return each first name below site-packages with the distributions that have files there, and its folder."""
    found: dict[str, dict[str, Path]] = {}
    for item in distributions():
        name = canonicalize_name(item.metadata["Name"])
        for entry in _entries(name):
            found.setdefault(entry, {})[name] = Path(str(item.locate_file("")))
    return found


@cache
def _entries(name: str) -> frozenset[str]:
    return frozenset(file.parts[0] for file in _files(name))


@cache
def _files(name: str) -> tuple[PurePosixPath, ...]:
    """Return the files of a distribution in site-packages; programs stand outside of it."""
    return tuple(file for file in distribution(name).files or [] if file.parts[0] not in {"..", "__pycache__"})


def _write_program(path: Path, module: str, attribute: str) -> None:
    """Write what pip writes: guarded, as a process that this one starts imports the file again."""
    code = f"import sys\nfrom {module} import {attribute}\nif __name__ == '__main__':\n    sys.exit({attribute}())\n"
    path.write_text(f"#!{path.parent / 'python'}\n{code}", encoding="utf-8")
    path.chmod(0o755)
